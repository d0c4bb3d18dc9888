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
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('layers_0_weight_50', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_50', 7, True, 'layers.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_1_weight_52', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_52', 11, True, 'layers.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self._post_init(init_params)
    
    def segment31(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_51 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_50, bias=None)
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_53 = torch.nn.functional.linear(linear_51, self.layers_1_weight_52, bias=None)
        del linear_51
        return linear_1_53
    
    def adapter92(self, linear_1_53):
        _ = nnscaler.runtime.adapter.move(linear_1_53, shape=(4, 16), dtype=torch.float32, src=0, dst=1)
        return 
    
    def adapter98(self):
        glinear_1_81 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=1, dst=0)
        return glinear_1_81
    
    def adapter81(self):
        binary_cross_entropy_48 = nnscaler.runtime.adapter.broadcast((), shape=(), dtype=torch.float32, src=3, ranks=[0, 1, 2, 3])
        return binary_cross_entropy_48
    
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
    linear_1_53 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter92, *(linear_1_53, ), requires_grad=False)
    data_108 = next(*(dataloader_75, ))
    linear_1_112 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_108, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter92, *(linear_1_112, ), requires_grad=False)
    data_121 = next(*(dataloader_75, ))
    linear_1_125 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_121, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter92, *(linear_1_125, ), requires_grad=False)
    data_148 = next(*(dataloader_75, ))
    linear_1_152 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_148, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter92, *(linear_1_152, ), requires_grad=False)
    glinear_1_81 = nnscaler.runtime.executor.aexecute(model.adapter98, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment31', (), (linear_1_53, ), (glinear_1_81, ))
    del linear_1_53, glinear_1_81
    glinear_1_113 = nnscaler.runtime.executor.aexecute(model.adapter98, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment31', (), (linear_1_112, ), (glinear_1_113, ))
    del linear_1_112, glinear_1_113
    glinear_1_126 = nnscaler.runtime.executor.aexecute(model.adapter98, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment31', (), (linear_1_125, ), (glinear_1_126, ))
    del linear_1_125, glinear_1_126
    glinear_1_153 = nnscaler.runtime.executor.aexecute(model.adapter98, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    _ = nnscaler.runtime.executor.backward('segment31', (), (linear_1_152, ), (glinear_1_153, ))
    del linear_1_152, glinear_1_153
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=True)
    binary_cross_entropy_211 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=True)
    binary_cross_entropy_241 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=True)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=True)
    return binary_cross_entropy_48, binary_cross_entropy_211, binary_cross_entropy_241, binary_cross_entropy_257


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    linear_1_53 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_74, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter92, *(linear_1_53, ), requires_grad=False)
    data_108 = next(*(dataloader_75, ))
    linear_1_112 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_108, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter92, *(linear_1_112, ), requires_grad=False)
    data_121 = next(*(dataloader_75, ))
    linear_1_125 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_121, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter92, *(linear_1_125, ), requires_grad=False)
    data_148 = next(*(dataloader_75, ))
    linear_1_152 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_148, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter92, *(linear_1_152, ), requires_grad=False)
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_211 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_241 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_211, binary_cross_entropy_241, binary_cross_entropy_257
