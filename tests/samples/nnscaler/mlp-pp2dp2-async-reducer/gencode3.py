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
    use_scheduler = True
    nmicros_per_scheduler_step = 4
    rank = 3
    
    def __init__(self, init_params=True, *, async_op=True, max_bucket_size_bytes=2097, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
         
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_62', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_62', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_7_weight_64', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_64', 35, True, 'layers.7.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self.wreducer207 = nnscaler.runtime.adapter.Reducer(ranks=[1, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer207.add_param(self.layers_5_weight_60)
        self.wreducer207.add_param(self.layers_6_weight_62)
        self.wreducer207.add_param(self.layers_7_weight_64)
        self.add_reducer(self.wreducer207)
        
        self._post_init(init_params)
    
    def adapter62(self):
        linear_4_59 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=2, dst=3)
        return linear_4_59
    
    def segment34(self, linear_4_59, data_74):
        linear_4_98 = nnscaler.runtime.function.identity(linear_4_59)
        del linear_4_59
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_61 = torch.nn.functional.linear(linear_4_98, self.layers_5_weight_60, bias=None)
        del linear_4_98
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_63 = torch.nn.functional.linear(linear_5_61, self.layers_6_weight_62, bias=None)
        del linear_5_61
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_65 = torch.nn.functional.linear(linear_6_63, self.layers_7_weight_64, bias=None)
        del linear_6_63
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_66 = torch.sigmoid(linear_7_65)
        del linear_7_65
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del sigmoid_66, getitem_1_67
        return binary_cross_entropy_48
    
    def adapter68(self, glinear_4_87):
        _ = nnscaler.runtime.adapter.move(glinear_4_87, shape=(4, 16), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter49(self, binary_cross_entropy_48):
        _ = nnscaler.runtime.adapter.move(binary_cross_entropy_48, shape=(), dtype=torch.float32, src=3, dst=2)
        return binary_cross_entropy_48
    
    def reducer207(self):
        self.wreducer207.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_75):
    _ = None
    nnscaler.flags.RuntimeFlag.skip_zero_grad = False
    model.zero_grad()
    linear_4_59 = nnscaler.runtime.executor.aexecute(model.adapter62, *(), requires_grad=True)
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_59, data_74, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_87 = nnscaler.runtime.executor.backward('segment34', (linear_4_59, ), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    linear_4_104 = nnscaler.runtime.executor.aexecute(model.adapter62, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter68, *(glinear_4_87, ), requires_grad=False)
    del linear_4_59, glinear_4_87
    data_100 = next(*(dataloader_75, ))
    binary_cross_entropy_119 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_104, data_100, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_105 = nnscaler.runtime.executor.backward('segment34', (linear_4_104, ), (binary_cross_entropy_119, ), (None, ))
    binary_cross_entropy_119 = binary_cross_entropy_119.detach()
    linear_4_127 = nnscaler.runtime.executor.aexecute(model.adapter62, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter68, *(glinear_4_105, ), requires_grad=False)
    del linear_4_104, glinear_4_105
    data_123 = next(*(dataloader_75, ))
    binary_cross_entropy_142 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_127, data_123, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_128 = nnscaler.runtime.executor.backward('segment34', (linear_4_127, ), (binary_cross_entropy_142, ), (None, ))
    binary_cross_entropy_142 = binary_cross_entropy_142.detach()
    linear_4_150 = nnscaler.runtime.executor.aexecute(model.adapter62, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter68, *(glinear_4_128, ), requires_grad=False)
    del linear_4_127, glinear_4_128
    data_146 = next(*(dataloader_75, ))
    binary_cross_entropy_165 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_150, data_146, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    glinear_4_151 = nnscaler.runtime.executor.backward('segment34', (linear_4_150, ), (binary_cross_entropy_165, ), (None, ))
    binary_cross_entropy_165 = binary_cross_entropy_165.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter68, *(glinear_4_151, ), requires_grad=False)
    del linear_4_150, glinear_4_151
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter49, *(binary_cross_entropy_48, ), requires_grad=True)
    binary_cross_entropy_119 = nnscaler.runtime.executor.aexecute(model.adapter49, *(binary_cross_entropy_119, ), requires_grad=True)
    binary_cross_entropy_142 = nnscaler.runtime.executor.aexecute(model.adapter49, *(binary_cross_entropy_142, ), requires_grad=True)
    binary_cross_entropy_165 = nnscaler.runtime.executor.aexecute(model.adapter49, *(binary_cross_entropy_165, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer207, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_119, binary_cross_entropy_142, binary_cross_entropy_165


def _infer_step(model, dataloader_75):
    _ = None
    linear_4_59 = nnscaler.runtime.executor.aexecute(model.adapter62, *(), requires_grad=False)
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_59, data_74, ), requires_grad=False)
    linear_4_104 = nnscaler.runtime.executor.aexecute(model.adapter62, *(), requires_grad=False)
    data_100 = next(*(dataloader_75, ))
    binary_cross_entropy_119 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_104, data_100, ), requires_grad=False)
    linear_4_127 = nnscaler.runtime.executor.aexecute(model.adapter62, *(), requires_grad=False)
    data_123 = next(*(dataloader_75, ))
    binary_cross_entropy_142 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_127, data_123, ), requires_grad=False)
    linear_4_150 = nnscaler.runtime.executor.aexecute(model.adapter62, *(), requires_grad=False)
    data_146 = next(*(dataloader_75, ))
    binary_cross_entropy_165 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_150, data_146, ), requires_grad=False)
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter49, *(binary_cross_entropy_48, ), requires_grad=False)
    binary_cross_entropy_119 = nnscaler.runtime.executor.aexecute(model.adapter49, *(binary_cross_entropy_119, ), requires_grad=False)
    binary_cross_entropy_142 = nnscaler.runtime.executor.aexecute(model.adapter49, *(binary_cross_entropy_142, ), requires_grad=False)
    binary_cross_entropy_165 = nnscaler.runtime.executor.aexecute(model.adapter49, *(binary_cross_entropy_165, ), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_119, binary_cross_entropy_142, binary_cross_entropy_165
