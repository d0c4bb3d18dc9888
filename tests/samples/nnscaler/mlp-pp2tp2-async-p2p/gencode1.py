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
    rank = 1
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
         
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
        
        
        self.wreducer261 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer261.add_param(self.layers_0_weight_50)
        self.wreducer261.add_param(self.layers_1_weight_52)
        self.wreducer261.add_param(self.layers_2_weight_54)
        self.wreducer261.add_param(self.layers_3_weight_56)
        self.wreducer261.add_param(self.layers_4_weight_58)
        self.add_reducer(self.wreducer261)
        
        self._post_init(init_params)
    
    def segment27(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        getitem_101 = nnscaler.runtime.adapter.chunk(getitem_49, dim=0, ranks=[0, 1])
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_103 = torch.nn.functional.linear(getitem_101, self.layers_0_weight_50, bias=None)
        del getitem_101
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_111 = torch.nn.functional.linear(linear_103, self.layers_1_weight_52, bias=None)
        del linear_103
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_117 = torch.nn.functional.linear(linear_1_111, self.layers_2_weight_54, bias=None)
        del linear_1_111
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_123 = torch.nn.functional.linear(linear_2_117, self.layers_3_weight_56, bias=None)
        del linear_2_117
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_129 = torch.nn.functional.linear(linear_3_123, self.layers_4_weight_58, bias=None)
        del linear_3_123
        linear_4_59 = nnscaler.runtime.adapter.nn.allgather_split(linear_4_129, dim=0, ranks=[0, 1])
        del linear_4_129
        return linear_4_59
    
    def adapter131(self, linear_4_59):
        linear_4_161 = nnscaler.runtime.adapter.chunk(linear_4_59, dim=1, ranks=[0, 1], async_op=True)
        _ = nnscaler.runtime.adapter.move(linear_4_161, shape=(4, 8), dtype=torch.float32, src=1, dst=3, async_op=True)
        return 
    
    def adapter142(self):
        glinear_4_165 = nnscaler.runtime.adapter.move((), shape=(4, 8), dtype=torch.float32, src=3, dst=1, async_op=True)
        glinear_4_87 = nnscaler.runtime.adapter.all_gather(glinear_4_165, dim=1, ranks=[0, 1], async_op=True)
        return glinear_4_87
    
    def adapter95(self):
        binary_cross_entropy_48 = nnscaler.runtime.adapter.move((), shape=(), dtype=torch.float32, src=3, dst=1, async_op=True)
        return binary_cross_entropy_48
    
    def reducer261(self):
        self.wreducer261.sync_grads()
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
    _ = nnscaler.runtime.executor.aexecute(model.adapter131, *(linear_4_59, ), requires_grad=False)
    data_166 = next(*(dataloader_75, ))
    linear_4_171 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_166, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter131, *(linear_4_171, ), requires_grad=False)
    glinear_4_87 = nnscaler.runtime.executor.aexecute(model.adapter142, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment27', (), (linear_4_59, ), (glinear_4_87, ))
    del linear_4_59, glinear_4_87
    data_197 = next(*(dataloader_75, ))
    linear_4_202 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_197, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter131, *(linear_4_202, ), requires_grad=False)
    glinear_4_172 = nnscaler.runtime.executor.aexecute(model.adapter142, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment27', (), (linear_4_171, ), (glinear_4_172, ))
    del linear_4_171, glinear_4_172
    data_228 = next(*(dataloader_75, ))
    linear_4_233 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_228, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter131, *(linear_4_233, ), requires_grad=False)
    glinear_4_203 = nnscaler.runtime.executor.aexecute(model.adapter142, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment27', (), (linear_4_202, ), (glinear_4_203, ))
    del linear_4_202, glinear_4_203
    glinear_4_234 = nnscaler.runtime.executor.aexecute(model.adapter142, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    _ = nnscaler.runtime.executor.backward('segment27', (), (linear_4_233, ), (glinear_4_234, ))
    del linear_4_233, glinear_4_234
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter95, *(), requires_grad=True)
    binary_cross_entropy_193 = nnscaler.runtime.executor.aexecute(model.adapter95, *(), requires_grad=True)
    binary_cross_entropy_224 = nnscaler.runtime.executor.aexecute(model.adapter95, *(), requires_grad=True)
    binary_cross_entropy_255 = nnscaler.runtime.executor.aexecute(model.adapter95, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer261, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_193, binary_cross_entropy_224, binary_cross_entropy_255


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    linear_4_59 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_74, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter131, *(linear_4_59, ), requires_grad=False)
    data_166 = next(*(dataloader_75, ))
    linear_4_171 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_166, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter131, *(linear_4_171, ), requires_grad=False)
    data_197 = next(*(dataloader_75, ))
    linear_4_202 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_197, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter131, *(linear_4_202, ), requires_grad=False)
    data_228 = next(*(dataloader_75, ))
    linear_4_233 = nnscaler.runtime.executor.fexecute('segment27', model.segment27, *(data_228, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter131, *(linear_4_233, ), requires_grad=False)
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter95, *(), requires_grad=False)
    binary_cross_entropy_193 = nnscaler.runtime.executor.aexecute(model.adapter95, *(), requires_grad=False)
    binary_cross_entropy_224 = nnscaler.runtime.executor.aexecute(model.adapter95, *(), requires_grad=False)
    binary_cross_entropy_255 = nnscaler.runtime.executor.aexecute(model.adapter95, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_193, binary_cross_entropy_224, binary_cross_entropy_255
