########## Generated Model Code ###########
from typing import *
from pathlib import Path
import torch
import torch.utils.checkpoint as ckpt
import nnscaler
import nnscaler.flags
import _operator
from numpy import inf
import builtins

runtime_version = '0.8'


import nnscaler.graph.function.wrapnn

class GenModel(nnscaler.runtime.module.ParallelModule):
    use_scheduler = False
    nmicros_per_scheduler_step = 1
    rank = 2
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('layers_0_weight_98', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_98', 7, True, 'layers.0.weight', (16, 16), (slice(8, 12, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_1_weight_52', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_52', 11, True, 'layers.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_2_weight_142', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_142', 15, True, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(8, 12, None)), 1)
        
        self.register_parameter('layers_3_weight_162', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_162', 19, True, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(8, 12, None)), 1)
        
        self.register_parameter('layers_4_weight_178', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_178', 23, True, 'layers.4.weight', (16, 16), (slice(8, 12, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_222', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_222', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(8, 12, None)), 1)
        
        self.register_parameter('layers_7_weight_238', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_238', 35, True, 'layers.7.weight', (16, 16), (slice(8, 12, None), slice(0, 16, None)), 1)
        
        
        self.wreducer322 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer322.add_param(self.layers_1_weight_52)
        self.wreducer322.add_param(self.layers_5_weight_60)
        self.add_reducer(self.wreducer322)
        
        self._post_init(init_params)
    
    def segment391(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_102 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_98, bias=None)
        del getitem_49
        linear_118 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_102, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_102
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_122 = torch.nn.functional.linear(linear_118, self.layers_1_weight_52, bias=None)
        del linear_118
        linear_1_138 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_122, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_1_122
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_146 = torch.nn.functional.linear(linear_1_138, self.layers_2_weight_142, bias=None)
        del linear_1_138
        linear_2_158 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_2_146, dim=1, ranks=[0, 1, 2, 3])
        del linear_2_146
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_166 = torch.nn.functional.linear(linear_2_158, self.layers_3_weight_162, bias=None)
        del linear_2_158
        linear_3_57 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_3_166, ranks=[0, 1, 2, 3])
        del linear_3_166
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_182 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_178, bias=None)
        del linear_3_57
        linear_4_198 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_182, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_4_182
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_202 = torch.nn.functional.linear(linear_4_198, self.layers_5_weight_60, bias=None)
        del linear_4_198
        linear_5_218 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_5_202, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_5_202
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_226 = torch.nn.functional.linear(linear_5_218, self.layers_6_weight_222, bias=None)
        del linear_5_218
        linear_6_63 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_6_226, ranks=[0, 1, 2, 3])
        del linear_6_226
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_242 = torch.nn.functional.linear(linear_6_63, self.layers_7_weight_238, bias=None)
        del linear_6_63
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_258 = torch.sigmoid(linear_7_242)
        del linear_7_242
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        sigmoid_66 = nnscaler.runtime.adapter.nn.allgather_split(sigmoid_258, dim=1, ranks=[0, 1, 2, 3])
        del sigmoid_258
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del getitem_1_67, sigmoid_66
        return binary_cross_entropy_48
    
    def reducer322(self):
        self.wreducer322.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_75):
    _ = None
    model.zero_grad()
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment391', model.segment391, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment391', (), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer322, *(), requires_grad=False)
    return binary_cross_entropy_48


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment391', model.segment391, *(data_74, ), requires_grad=False)
    return binary_cross_entropy_48
