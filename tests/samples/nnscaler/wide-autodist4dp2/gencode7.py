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
    rank = 7
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 4])
        self.init_group(ranks=[1, 5])
        self.init_group(ranks=[2, 6])
        self.init_group(ranks=[3, 7])
        self.init_group(ranks=[0, 1, 2, 3])
        self.init_group(ranks=[4, 5, 6, 7])
         
        self.register_parameter('layers_0_weight_119', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_119', 7, True, 'layers.0.weight', (1024, 1024), (slice(768, 1024, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_1_weight_147', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_147', 11, True, 'layers.1.weight', (1024, 1024), (slice(0, 1024, None), slice(768, 1024, None)), 1)
        
        self.register_parameter('layers_2_weight_175', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_175', 15, True, 'layers.2.weight', (1024, 1024), (slice(768, 1024, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_3_weight_187', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_187', 19, True, 'layers.3.weight', (1024, 1024), (slice(0, 1024, None), slice(768, 1024, None)), 1)
        
        self.register_parameter('layers_4_weight_215', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_215', 23, True, 'layers.4.weight', (1024, 1024), (slice(768, 1024, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_5_weight_227', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_227', 27, True, 'layers.5.weight', (1024, 1024), (slice(0, 1024, None), slice(768, 1024, None)), 1)
        
        self.register_parameter('layers_6_weight_255', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_255', 31, True, 'layers.6.weight', (1024, 1024), (slice(768, 1024, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_7_weight_263', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_263', 35, True, 'layers.7.weight', (1024, 1024), (slice(0, 1024, None), slice(768, 1024, None)), 1)
        
        
        self.wreducer541 = nnscaler.runtime.adapter.Reducer(ranks=[3, 7], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer541.add_param(self.layers_0_weight_119)
        self.wreducer541.add_param(self.layers_1_weight_147)
        self.wreducer541.add_param(self.layers_2_weight_175)
        self.wreducer541.add_param(self.layers_3_weight_187)
        self.wreducer541.add_param(self.layers_4_weight_215)
        self.wreducer541.add_param(self.layers_5_weight_227)
        self.wreducer541.add_param(self.layers_6_weight_255)
        self.wreducer541.add_param(self.layers_7_weight_263)
        self.add_reducer(self.wreducer541)
        
        self._post_init(init_params)
    
    def segment536(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_123 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_119, bias=None)
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_151 = torch.nn.functional.linear(linear_123, self.layers_1_weight_147, bias=None)
        del linear_123
        linear_1_53 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_1_151, ranks=[4, 5, 6, 7])
        del linear_1_151
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_179 = torch.nn.functional.linear(linear_1_53, self.layers_2_weight_175, bias=None)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_191 = torch.nn.functional.linear(linear_2_179, self.layers_3_weight_187, bias=None)
        del linear_2_179
        linear_3_57 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_3_191, ranks=[4, 5, 6, 7])
        del linear_3_191
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_219 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_215, bias=None)
        del linear_3_57
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_231 = torch.nn.functional.linear(linear_4_219, self.layers_5_weight_227, bias=None)
        del linear_4_219
        linear_5_61 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_5_231, ranks=[4, 5, 6, 7])
        del linear_5_231
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_259 = torch.nn.functional.linear(linear_5_61, self.layers_6_weight_255, bias=None)
        del linear_5_61
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_267 = torch.nn.functional.linear(linear_6_259, self.layers_7_weight_263, bias=None)
        del linear_6_259
        linear_7_65 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_7_267, ranks=[4, 5, 6, 7])
        del linear_7_267
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_66 = torch.sigmoid(linear_7_65)
        del linear_7_65
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del sigmoid_66, getitem_1_67
        return binary_cross_entropy_48
    
    def reducer541(self):
        self.wreducer541.sync_grads()
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
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment536', model.segment536, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment536', (), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer541, *(), requires_grad=False)
    return binary_cross_entropy_48


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment536', model.segment536, *(data_74, ), requires_grad=False)
    return binary_cross_entropy_48
