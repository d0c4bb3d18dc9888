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
        self.init_group(ranks=[0, 4])
        self.init_group(ranks=[1, 5])
        self.init_group(ranks=[2, 6])
        self.init_group(ranks=[3, 7])
        self.init_group(ranks=[0, 1, 2, 3])
        self.init_group(ranks=[4, 5, 6, 7])
         
        self.register_parameter('layers_0_weight_117', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_117', 7, True, 'layers.0.weight', (1024, 1024), (slice(256, 512, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_1_weight_145', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_145', 11, True, 'layers.1.weight', (1024, 1024), (slice(0, 1024, None), slice(256, 512, None)), 1)
        
        self.register_parameter('layers_2_weight_173', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_173', 15, True, 'layers.2.weight', (1024, 1024), (slice(256, 512, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_3_weight_185', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_185', 19, True, 'layers.3.weight', (1024, 1024), (slice(0, 1024, None), slice(256, 512, None)), 1)
        
        self.register_parameter('layers_4_weight_213', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_213', 23, True, 'layers.4.weight', (1024, 1024), (slice(256, 512, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_5_weight_225', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_225', 27, True, 'layers.5.weight', (1024, 1024), (slice(0, 1024, None), slice(256, 512, None)), 1)
        
        self.register_parameter('layers_6_weight_253', torch.nn.Parameter(torch.empty((256, 1024), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_253', 31, True, 'layers.6.weight', (1024, 1024), (slice(256, 512, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_7_weight_261', torch.nn.Parameter(torch.empty((1024, 256), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_261', 35, True, 'layers.7.weight', (1024, 1024), (slice(0, 1024, None), slice(256, 512, None)), 1)
        
        
        self.wreducer539 = nnscaler.runtime.adapter.Reducer(ranks=[1, 5], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer539.add_param(self.layers_0_weight_117)
        self.wreducer539.add_param(self.layers_1_weight_145)
        self.wreducer539.add_param(self.layers_2_weight_173)
        self.wreducer539.add_param(self.layers_3_weight_185)
        self.wreducer539.add_param(self.layers_4_weight_213)
        self.wreducer539.add_param(self.layers_5_weight_225)
        self.wreducer539.add_param(self.layers_6_weight_253)
        self.wreducer539.add_param(self.layers_7_weight_261)
        self.add_reducer(self.wreducer539)
        
        self._post_init(init_params)
    
    def segment532(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_121 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_117, bias=None)
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_149 = torch.nn.functional.linear(linear_121, self.layers_1_weight_145, bias=None)
        del linear_121
        linear_1_53 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_1_149, ranks=[0, 1, 2, 3])
        del linear_1_149
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_177 = torch.nn.functional.linear(linear_1_53, self.layers_2_weight_173, bias=None)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_189 = torch.nn.functional.linear(linear_2_177, self.layers_3_weight_185, bias=None)
        del linear_2_177
        linear_3_57 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_3_189, ranks=[0, 1, 2, 3])
        del linear_3_189
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_217 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_213, bias=None)
        del linear_3_57
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_229 = torch.nn.functional.linear(linear_4_217, self.layers_5_weight_225, bias=None)
        del linear_4_217
        linear_5_61 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_5_229, ranks=[0, 1, 2, 3])
        del linear_5_229
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_257 = torch.nn.functional.linear(linear_5_61, self.layers_6_weight_253, bias=None)
        del linear_5_61
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_265 = torch.nn.functional.linear(linear_6_257, self.layers_7_weight_261, bias=None)
        del linear_6_257
        linear_7_65 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_7_265, ranks=[0, 1, 2, 3])
        del linear_7_265
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_66 = torch.sigmoid(linear_7_65)
        del linear_7_65
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del sigmoid_66, getitem_1_67
        return binary_cross_entropy_48
    
    def reducer539(self):
        self.wreducer539.sync_grads()
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
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment532', model.segment532, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment532', (), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer539, *(), requires_grad=False)
    return binary_cross_entropy_48


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment532', model.segment532, *(data_74, ), requires_grad=False)
    return binary_cross_entropy_48
