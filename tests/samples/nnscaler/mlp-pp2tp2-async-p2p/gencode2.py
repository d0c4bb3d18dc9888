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
    rank = 2
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
         
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_62', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_62', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_7_weight_64', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_64', 35, True, 'layers.7.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self.wreducer262 = nnscaler.runtime.adapter.Reducer(ranks=[2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer262.add_param(self.layers_5_weight_60)
        self.wreducer262.add_param(self.layers_6_weight_62)
        self.wreducer262.add_param(self.layers_7_weight_64)
        self.add_reducer(self.wreducer262)
        
        self._post_init(init_params)
    
    def adapter131(self):
        linear_4_160 = nnscaler.runtime.adapter.move((), shape=(4, 8), dtype=torch.float32, src=0, dst=2, async_op=True)
        linear_4_59 = nnscaler.runtime.adapter.all_gather(linear_4_160, dim=1, ranks=[2, 3], async_op=True)
        return linear_4_59
    
    def segment34(self, linear_4_59, data_74):
        linear_4_128 = nnscaler.runtime.adapter.nn.split_allgather(linear_4_59, dim=0, ranks=[2, 3])
        del linear_4_59
        linear_4_134 = nnscaler.runtime.function.identity(linear_4_128)
        del linear_4_128
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_138 = torch.nn.functional.linear(linear_4_134, self.layers_5_weight_60, bias=None)
        del linear_4_134
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_144 = torch.nn.functional.linear(linear_5_138, self.layers_6_weight_62, bias=None)
        del linear_5_138
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_150 = torch.nn.functional.linear(linear_6_144, self.layers_7_weight_64, bias=None)
        del linear_6_144
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_156 = torch.sigmoid(linear_7_150)
        del linear_7_150
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        sigmoid_66 = nnscaler.runtime.adapter.nn.allgather_split(sigmoid_156, dim=0, ranks=[2, 3])
        del sigmoid_156
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del getitem_1_67, sigmoid_66
        return binary_cross_entropy_48
    
    def adapter142(self, glinear_4_87):
        glinear_4_164 = nnscaler.runtime.adapter.chunk(glinear_4_87, dim=1, ranks=[2, 3], async_op=True)
        _ = nnscaler.runtime.adapter.move(glinear_4_164, shape=(4, 8), dtype=torch.float32, src=2, dst=0, async_op=True)
        return 
    
    def adapter95(self, binary_cross_entropy_48):
        _ = nnscaler.runtime.adapter.move(binary_cross_entropy_48, shape=(), dtype=torch.float32, src=2, dst=0, async_op=True)
        return binary_cross_entropy_48
    
    def reducer262(self):
        self.wreducer262.sync_grads()
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
    linear_4_59 = nnscaler.runtime.executor.aexecute(model.adapter131, *(), requires_grad=True)
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_59, data_74, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_87 = nnscaler.runtime.executor.backward('segment34', (linear_4_59, ), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    linear_4_171 = nnscaler.runtime.executor.aexecute(model.adapter131, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter142, *(glinear_4_87, ), requires_grad=False)
    del linear_4_59, glinear_4_87
    data_166 = next(*(dataloader_75, ))
    binary_cross_entropy_193 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_171, data_166, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_172 = nnscaler.runtime.executor.backward('segment34', (linear_4_171, ), (binary_cross_entropy_193, ), (None, ))
    binary_cross_entropy_193 = binary_cross_entropy_193.detach()
    linear_4_202 = nnscaler.runtime.executor.aexecute(model.adapter131, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter142, *(glinear_4_172, ), requires_grad=False)
    del linear_4_171, glinear_4_172
    data_197 = next(*(dataloader_75, ))
    binary_cross_entropy_224 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_202, data_197, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_203 = nnscaler.runtime.executor.backward('segment34', (linear_4_202, ), (binary_cross_entropy_224, ), (None, ))
    binary_cross_entropy_224 = binary_cross_entropy_224.detach()
    linear_4_233 = nnscaler.runtime.executor.aexecute(model.adapter131, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter142, *(glinear_4_203, ), requires_grad=False)
    del linear_4_202, glinear_4_203
    data_228 = next(*(dataloader_75, ))
    binary_cross_entropy_255 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_233, data_228, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    glinear_4_234 = nnscaler.runtime.executor.backward('segment34', (linear_4_233, ), (binary_cross_entropy_255, ), (None, ))
    binary_cross_entropy_255 = binary_cross_entropy_255.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter142, *(glinear_4_234, ), requires_grad=False)
    del linear_4_233, glinear_4_234
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter95, *(binary_cross_entropy_48, ), requires_grad=True)
    binary_cross_entropy_193 = nnscaler.runtime.executor.aexecute(model.adapter95, *(binary_cross_entropy_193, ), requires_grad=True)
    binary_cross_entropy_224 = nnscaler.runtime.executor.aexecute(model.adapter95, *(binary_cross_entropy_224, ), requires_grad=True)
    binary_cross_entropy_255 = nnscaler.runtime.executor.aexecute(model.adapter95, *(binary_cross_entropy_255, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer262, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_193, binary_cross_entropy_224, binary_cross_entropy_255


def _infer_step(model, dataloader_75):
    _ = None
    linear_4_59 = nnscaler.runtime.executor.aexecute(model.adapter131, *(), requires_grad=False)
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_59, data_74, ), requires_grad=False)
    linear_4_171 = nnscaler.runtime.executor.aexecute(model.adapter131, *(), requires_grad=False)
    data_166 = next(*(dataloader_75, ))
    binary_cross_entropy_193 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_171, data_166, ), requires_grad=False)
    linear_4_202 = nnscaler.runtime.executor.aexecute(model.adapter131, *(), requires_grad=False)
    data_197 = next(*(dataloader_75, ))
    binary_cross_entropy_224 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_202, data_197, ), requires_grad=False)
    linear_4_233 = nnscaler.runtime.executor.aexecute(model.adapter131, *(), requires_grad=False)
    data_228 = next(*(dataloader_75, ))
    binary_cross_entropy_255 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(linear_4_233, data_228, ), requires_grad=False)
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter95, *(binary_cross_entropy_48, ), requires_grad=False)
    binary_cross_entropy_193 = nnscaler.runtime.executor.aexecute(model.adapter95, *(binary_cross_entropy_193, ), requires_grad=False)
    binary_cross_entropy_224 = nnscaler.runtime.executor.aexecute(model.adapter95, *(binary_cross_entropy_224, ), requires_grad=False)
    binary_cross_entropy_255 = nnscaler.runtime.executor.aexecute(model.adapter95, *(binary_cross_entropy_255, ), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_193, binary_cross_entropy_224, binary_cross_entropy_255
