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
         
        self.register_parameter('layers_0_weight_95', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_95', 7, True, 'layers.0.weight', (16, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_1_weight_52', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_52', 11, True, 'layers.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_2_weight_139', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_139', 15, True, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('layers_3_weight_159', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_159', 19, True, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('layers_4_weight_175', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_175', 23, True, 'layers.4.weight', (16, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_219', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_219', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('layers_7_weight_235', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_235', 35, True, 'layers.7.weight', (16, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        
        self.wreducer321 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer321.add_param(self.layers_1_weight_52)
        self.wreducer321.add_param(self.layers_5_weight_60)
        self.add_reducer(self.wreducer321)
        
        self._post_init(init_params)
    
    def segment386(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_99 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_95, bias=None)
        del getitem_49
        linear_115 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_99, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_99
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_119 = torch.nn.functional.linear(linear_115, self.layers_1_weight_52, bias=None)
        del linear_115
        linear_1_135 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_119, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_1_119
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_143 = torch.nn.functional.linear(linear_1_135, self.layers_2_weight_139, bias=None)
        del linear_1_135
        linear_2_155 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_2_143, dim=1, ranks=[0, 1, 2, 3])
        del linear_2_143
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_163 = torch.nn.functional.linear(linear_2_155, self.layers_3_weight_159, bias=None)
        del linear_2_155
        linear_3_57 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_3_163, ranks=[0, 1, 2, 3])
        del linear_3_163
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_179 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_175, bias=None)
        del linear_3_57
        linear_4_195 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_179, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_4_179
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_199 = torch.nn.functional.linear(linear_4_195, self.layers_5_weight_60, bias=None)
        del linear_4_195
        linear_5_215 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_5_199, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_5_199
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_223 = torch.nn.functional.linear(linear_5_215, self.layers_6_weight_219, bias=None)
        del linear_5_215
        linear_6_63 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_6_223, ranks=[0, 1, 2, 3])
        del linear_6_223
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_239 = torch.nn.functional.linear(linear_6_63, self.layers_7_weight_235, bias=None)
        del linear_6_63
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_255 = torch.sigmoid(linear_7_239)
        del linear_7_239
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        sigmoid_66 = nnscaler.runtime.adapter.nn.allgather_split(sigmoid_255, dim=1, ranks=[0, 1, 2, 3])
        del sigmoid_255
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del getitem_1_67, sigmoid_66
        return binary_cross_entropy_48
    
    def reducer321(self):
        self.wreducer321.sync_grads()
        return 
    
    def _forward_impl(self, data):
        binary_cross_entropy_48 = self.segment386(data)
        return binary_cross_entropy_48
