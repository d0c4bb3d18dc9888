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
        self.init_group(ranks=[0, 4])
        self.init_group(ranks=[1, 5])
        self.init_group(ranks=[2, 6])
        self.init_group(ranks=[3, 7])
        self.init_group(ranks=[0, 1, 2, 3])
        self.init_group(ranks=[4, 5, 6, 7])
         
        self.register_parameter('layers_0_weight_116', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_116', 7, True, 'layers.0.weight', (1024, 1024), (slice(0, 256, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_1_weight_144', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_144', 11, True, 'layers.1.weight', (1024, 1024), (slice(0, 1024, None), slice(0, 256, None)), 1)
        
        self.register_parameter('layers_2_weight_172', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_172', 15, True, 'layers.2.weight', (1024, 1024), (slice(0, 256, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_3_weight_184', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_184', 19, True, 'layers.3.weight', (1024, 1024), (slice(0, 1024, None), slice(0, 256, None)), 1)
        
        self.register_parameter('layers_4_weight_212', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_212', 23, True, 'layers.4.weight', (1024, 1024), (slice(0, 256, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_5_weight_224', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_224', 27, True, 'layers.5.weight', (1024, 1024), (slice(0, 1024, None), slice(0, 256, None)), 1)
        
        self.register_parameter('layers_6_weight_252', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_252', 31, True, 'layers.6.weight', (1024, 1024), (slice(0, 256, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_7_weight_260', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_260', 35, True, 'layers.7.weight', (1024, 1024), (slice(0, 1024, None), slice(0, 256, None)), 1)
        
        
        self.wreducer538 = nnscaler.runtime.adapter.Reducer(ranks=[0, 4], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer538.add_param(self.layers_0_weight_116)
        self.wreducer538.add_param(self.layers_1_weight_144)
        self.wreducer538.add_param(self.layers_2_weight_172)
        self.wreducer538.add_param(self.layers_3_weight_184)
        self.wreducer538.add_param(self.layers_4_weight_212)
        self.wreducer538.add_param(self.layers_5_weight_224)
        self.wreducer538.add_param(self.layers_6_weight_252)
        self.wreducer538.add_param(self.layers_7_weight_260)
        self.add_reducer(self.wreducer538)
        
        self._post_init(init_params)
    
    def segment530(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_120 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_116, bias=None)
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_148 = torch.nn.functional.linear(linear_120, self.layers_1_weight_144, bias=None)
        del linear_120
        linear_1_53 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_1_148, ranks=[0, 1, 2, 3])
        del linear_1_148
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_176 = torch.nn.functional.linear(linear_1_53, self.layers_2_weight_172, bias=None)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_188 = torch.nn.functional.linear(linear_2_176, self.layers_3_weight_184, bias=None)
        del linear_2_176
        linear_3_57 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_3_188, ranks=[0, 1, 2, 3])
        del linear_3_188
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_216 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_212, bias=None)
        del linear_3_57
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_228 = torch.nn.functional.linear(linear_4_216, self.layers_5_weight_224, bias=None)
        del linear_4_216
        linear_5_61 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_5_228, ranks=[0, 1, 2, 3])
        del linear_5_228
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_256 = torch.nn.functional.linear(linear_5_61, self.layers_6_weight_252, bias=None)
        del linear_5_61
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_264 = torch.nn.functional.linear(linear_6_256, self.layers_7_weight_260, bias=None)
        del linear_6_256
        linear_7_65 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_7_264, ranks=[0, 1, 2, 3])
        del linear_7_264
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_66 = torch.sigmoid(linear_7_65)
        del linear_7_65
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del sigmoid_66, getitem_1_67
        return binary_cross_entropy_48
    
    def reducer538(self):
        self.wreducer538.sync_grads()
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
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment530', model.segment530, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment530', (), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer538, *(), requires_grad=False)
    return binary_cross_entropy_48


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment530', model.segment530, *(data_74, ), requires_grad=False)
    return binary_cross_entropy_48
