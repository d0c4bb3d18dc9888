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
    rank = 1
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
         
        self.register_parameter('layers_0_weight_97', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_97', 7, True, 'layers.0.weight', (16, 16), (slice(8, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_1_weight_52', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_52', 11, True, 'layers.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_2_weight_119', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_119', 15, True, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(8, 16, None)), 1)
        
        self.register_parameter('layers_3_weight_129', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_129', 19, True, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(8, 16, None)), 1)
        
        self.register_parameter('layers_4_weight_137', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_137', 23, True, 'layers.4.weight', (16, 16), (slice(8, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_159', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_159', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(8, 16, None)), 1)
        
        self.register_parameter('layers_7_weight_167', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_167', 35, True, 'layers.7.weight', (16, 16), (slice(8, 16, None), slice(0, 16, None)), 1)
        
        
        self.wreducer170 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer170.add_param(self.layers_1_weight_52)
        self.wreducer170.add_param(self.layers_5_weight_60)
        self.add_reducer(self.wreducer170)
        
        self.wreducer208 = nnscaler.runtime.adapter.Reducer(ranks=[1, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer208.add_param(self.layers_0_weight_97)
        self.wreducer208.add_param(self.layers_2_weight_119)
        self.wreducer208.add_param(self.layers_3_weight_129)
        self.wreducer208.add_param(self.layers_4_weight_137)
        self.wreducer208.add_param(self.layers_6_weight_159)
        self.wreducer208.add_param(self.layers_7_weight_167)
        self.add_reducer(self.wreducer208)
        
        self._post_init(init_params)
    
    def segment205(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_99 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_97, bias=None)
        del getitem_49
        linear_107 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_99, idim=1, odim=0, ranks=[0, 1])
        del linear_99
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_109 = torch.nn.functional.linear(linear_107, self.layers_1_weight_52, bias=None)
        del linear_107
        linear_1_117 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_109, idim=0, odim=1, ranks=[0, 1])
        del linear_1_109
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_121 = torch.nn.functional.linear(linear_1_117, self.layers_2_weight_119, bias=None)
        del linear_1_117
        linear_2_127 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_2_121, dim=1, ranks=[0, 1])
        del linear_2_121
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_131 = torch.nn.functional.linear(linear_2_127, self.layers_3_weight_129, bias=None)
        del linear_2_127
        linear_3_57 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_3_131, ranks=[0, 1])
        del linear_3_131
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_139 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_137, bias=None)
        del linear_3_57
        linear_4_147 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_139, idim=1, odim=0, ranks=[0, 1])
        del linear_4_139
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_149 = torch.nn.functional.linear(linear_4_147, self.layers_5_weight_60, bias=None)
        del linear_4_147
        linear_5_157 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_5_149, idim=0, odim=1, ranks=[0, 1])
        del linear_5_149
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_161 = torch.nn.functional.linear(linear_5_157, self.layers_6_weight_159, bias=None)
        del linear_5_157
        linear_6_63 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_6_161, ranks=[0, 1])
        del linear_6_161
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_169 = torch.nn.functional.linear(linear_6_63, self.layers_7_weight_167, bias=None)
        del linear_6_63
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_177 = torch.sigmoid(linear_7_169)
        del linear_7_169
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        sigmoid_66 = nnscaler.runtime.adapter.nn.allgather_split(sigmoid_177, dim=1, ranks=[0, 1])
        del sigmoid_177
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del getitem_1_67, sigmoid_66
        return binary_cross_entropy_48
    
    def reducer170(self):
        self.wreducer170.sync_grads()
        return 
    
    def reducer208(self):
        self.wreducer208.sync_grads()
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
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment205', model.segment205, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment205', (), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer170, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.reducer208, *(), requires_grad=False)
    return binary_cross_entropy_48


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment205', model.segment205, *(data_74, ), requires_grad=False)
    return binary_cross_entropy_48
