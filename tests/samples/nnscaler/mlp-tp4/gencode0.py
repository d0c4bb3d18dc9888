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
    rank = 0
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('layers_0_weight_96', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_96', 7, True, 'layers.0.weight', (16, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_1_weight_52', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_52', 11, True, 'layers.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_2_weight_140', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_140', 15, True, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('layers_3_weight_160', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_160', 19, True, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('layers_4_weight_176', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_176', 23, True, 'layers.4.weight', (16, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_220', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_220', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('layers_7_weight_236', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_236', 35, True, 'layers.7.weight', (16, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        
        self.wreducer322 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer322.add_param(self.layers_1_weight_52)
        self.wreducer322.add_param(self.layers_5_weight_60)
        self.add_reducer(self.wreducer322)
        
        self._post_init(init_params)
    
    def segment387(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_100 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_96, bias=None)
        del getitem_49
        linear_116 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_100, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_100
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_120 = torch.nn.functional.linear(linear_116, self.layers_1_weight_52, bias=None)
        del linear_116
        linear_1_136 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_120, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_1_120
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_144 = torch.nn.functional.linear(linear_1_136, self.layers_2_weight_140, bias=None)
        del linear_1_136
        linear_2_156 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_2_144, dim=1, ranks=[0, 1, 2, 3])
        del linear_2_144
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_164 = torch.nn.functional.linear(linear_2_156, self.layers_3_weight_160, bias=None)
        del linear_2_156
        linear_3_57 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_3_164, ranks=[0, 1, 2, 3])
        del linear_3_164
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_180 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_176, bias=None)
        del linear_3_57
        linear_4_196 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_180, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_4_180
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_200 = torch.nn.functional.linear(linear_4_196, self.layers_5_weight_60, bias=None)
        del linear_4_196
        linear_5_216 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_5_200, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_5_200
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_224 = torch.nn.functional.linear(linear_5_216, self.layers_6_weight_220, bias=None)
        del linear_5_216
        linear_6_63 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_6_224, ranks=[0, 1, 2, 3])
        del linear_6_224
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_240 = torch.nn.functional.linear(linear_6_63, self.layers_7_weight_236, bias=None)
        del linear_6_63
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_256 = torch.sigmoid(linear_7_240)
        del linear_7_240
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        sigmoid_66 = nnscaler.runtime.adapter.nn.allgather_split(sigmoid_256, dim=1, ranks=[0, 1, 2, 3])
        del sigmoid_256
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
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment387', model.segment387, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment387', (), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer322, *(), requires_grad=False)
    return binary_cross_entropy_48


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment387', model.segment387, *(data_74, ), requires_grad=False)
    return binary_cross_entropy_48
