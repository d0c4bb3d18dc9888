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
    rank = 0
    
    def __init__(self, init_params=True, *, async_op=True, max_bucket_size_bytes=2097, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
         
        self.register_parameter('layers_0_weight_50', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_50', 7, True, 'layers.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_1_weight_52', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_52', 11, True, 'layers.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_2_weight_54', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_54', 15, True, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_3_weight_56', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_56', 19, True, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_4_weight_58', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_58', 23, True, 'layers.4.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self.wreducer206 = nnscaler.runtime.adapter.Reducer(ranks=[0, 2], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer206.add_param(self.layers_0_weight_50)
        self.wreducer206.add_param(self.layers_1_weight_52)
        self.wreducer206.add_param(self.layers_2_weight_54)
        self.wreducer206.add_param(self.layers_3_weight_56)
        self.wreducer206.add_param(self.layers_4_weight_58)
        self.add_reducer(self.wreducer206)
        
        self._post_init(init_params)
    
    def segment27(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_51 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_50, bias=None)
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_53 = torch.nn.functional.linear(linear_51, self.layers_1_weight_52, bias=None)
        del linear_51
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_55 = torch.nn.functional.linear(linear_1_53, self.layers_2_weight_54, bias=None)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_57 = torch.nn.functional.linear(linear_2_55, self.layers_3_weight_56, bias=None)
        del linear_2_55
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_59 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_58, bias=None)
        del linear_3_57
        return linear_4_59
    
    def adapter62(self, linear_4_59):
        _ = nnscaler.runtime.adapter.move(linear_4_59, shape=(4, 16), dtype=torch.float32, src=0, dst=1)
        return 
    
    def adapter68(self):
        glinear_4_87 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=1, dst=0)
        return glinear_4_87
    
    def adapter49(self):
        binary_cross_entropy_48 = nnscaler.runtime.adapter.move((), shape=(), dtype=torch.float32, src=1, dst=0)
        return binary_cross_entropy_48
    
    def reducer206(self):
        self.wreducer206.sync_grads()
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
    data_74 = next(*(dataloader_75, ))
    linear_4_59 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter62, *(linear_4_59, ), requires_grad=False)
    data_100 = next(*(dataloader_75, ))
    linear_4_104 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_100, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter62, *(linear_4_104, ), requires_grad=False)
    glinear_4_87 = nnscaler.runtime.executor.aexecute(model.adapter68, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment27', (), (linear_4_59, ), (glinear_4_87, ))
    del linear_4_59, glinear_4_87
    data_123 = next(*(dataloader_75, ))
    linear_4_127 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_123, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter62, *(linear_4_127, ), requires_grad=False)
    glinear_4_105 = nnscaler.runtime.executor.aexecute(model.adapter68, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment27', (), (linear_4_104, ), (glinear_4_105, ))
    del linear_4_104, glinear_4_105
    data_146 = next(*(dataloader_75, ))
    linear_4_150 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_146, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter62, *(linear_4_150, ), requires_grad=False)
    glinear_4_128 = nnscaler.runtime.executor.aexecute(model.adapter68, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment27', (), (linear_4_127, ), (glinear_4_128, ))
    del linear_4_127, glinear_4_128
    glinear_4_151 = nnscaler.runtime.executor.aexecute(model.adapter68, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    _ = nnscaler.runtime.executor.backward('segment27', (), (linear_4_150, ), (glinear_4_151, ))
    del linear_4_150, glinear_4_151
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter49, *(), requires_grad=True)
    binary_cross_entropy_119 = nnscaler.runtime.executor.aexecute(model.adapter49, *(), requires_grad=True)
    binary_cross_entropy_142 = nnscaler.runtime.executor.aexecute(model.adapter49, *(), requires_grad=True)
    binary_cross_entropy_165 = nnscaler.runtime.executor.aexecute(model.adapter49, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer206, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_119, binary_cross_entropy_142, binary_cross_entropy_165


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    linear_4_59 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_74, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter62, *(linear_4_59, ), requires_grad=False)
    data_100 = next(*(dataloader_75, ))
    linear_4_104 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_100, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter62, *(linear_4_104, ), requires_grad=False)
    data_123 = next(*(dataloader_75, ))
    linear_4_127 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_123, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter62, *(linear_4_127, ), requires_grad=False)
    data_146 = next(*(dataloader_75, ))
    linear_4_150 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_146, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter62, *(linear_4_150, ), requires_grad=False)
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter49, *(), requires_grad=False)
    binary_cross_entropy_119 = nnscaler.runtime.executor.aexecute(model.adapter49, *(), requires_grad=False)
    binary_cross_entropy_142 = nnscaler.runtime.executor.aexecute(model.adapter49, *(), requires_grad=False)
    binary_cross_entropy_165 = nnscaler.runtime.executor.aexecute(model.adapter49, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_119, binary_cross_entropy_142, binary_cross_entropy_165
