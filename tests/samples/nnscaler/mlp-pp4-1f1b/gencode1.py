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
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('layers_2_weight_54', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_54', 15, True, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_3_weight_56', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_56', 19, True, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_4_weight_58', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_58', 23, True, 'layers.4.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self._post_init(init_params)
    
    def adapter92(self):
        linear_1_53 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=0, dst=1)
        return linear_1_53
    
    def segment35(self, linear_1_53):
        linear_1_98 = nnscaler.runtime.function.identity(linear_1_53)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_55 = torch.nn.functional.linear(linear_1_98, self.layers_2_weight_54, bias=None)
        del linear_1_98
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_57 = torch.nn.functional.linear(linear_2_55, self.layers_3_weight_56, bias=None)
        del linear_2_55
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_59 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_58, bias=None)
        del linear_3_57
        return linear_4_59
    
    def adapter108(self, linear_4_59):
        _ = nnscaler.runtime.adapter.move(linear_4_59, shape=(4, 16), dtype=torch.float32, src=1, dst=2)
        return 
    
    def adapter114(self):
        glinear_4_87 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=2, dst=1)
        return glinear_4_87
    
    def adapter98(self, glinear_1_81):
        _ = nnscaler.runtime.adapter.move(glinear_1_81, shape=(4, 16), dtype=torch.float32, src=1, dst=0)
        return 
    
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
    linear_1_53 = nnscaler.runtime.executor.aexecute(model.adapter92, *(), requires_grad=True)
    linear_4_59 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_53, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter108, *(linear_4_59, ), requires_grad=False)
    linear_1_112 = nnscaler.runtime.executor.aexecute(model.adapter92, *(), requires_grad=True)
    linear_4_125 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_112, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter108, *(linear_4_125, ), requires_grad=False)
    linear_1_139 = nnscaler.runtime.executor.aexecute(model.adapter92, *(), requires_grad=True)
    linear_4_167 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_139, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter108, *(linear_4_167, ), requires_grad=False)
    glinear_4_87 = nnscaler.runtime.executor.aexecute(model.adapter114, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_1_81 = nnscaler.runtime.executor.backward('segment35', (linear_1_53, ), (linear_4_59, ), (glinear_4_87, ))
    del linear_4_59, glinear_4_87
    linear_1_190 = nnscaler.runtime.executor.aexecute(model.adapter92, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter98, *(glinear_1_81, ), requires_grad=False)
    del linear_1_53, glinear_1_81
    linear_4_218 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_190, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter108, *(linear_4_218, ), requires_grad=False)
    glinear_4_126 = nnscaler.runtime.executor.aexecute(model.adapter114, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_1_113 = nnscaler.runtime.executor.backward('segment35', (linear_1_112, ), (linear_4_125, ), (glinear_4_126, ))
    del linear_4_125, glinear_4_126
    _ = nnscaler.runtime.executor.aexecute(model.adapter98, *(glinear_1_113, ), requires_grad=False)
    del linear_1_112, glinear_1_113
    glinear_4_168 = nnscaler.runtime.executor.aexecute(model.adapter114, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_1_140 = nnscaler.runtime.executor.backward('segment35', (linear_1_139, ), (linear_4_167, ), (glinear_4_168, ))
    del linear_4_167, glinear_4_168
    _ = nnscaler.runtime.executor.aexecute(model.adapter98, *(glinear_1_140, ), requires_grad=False)
    del linear_1_139, glinear_1_140
    glinear_4_219 = nnscaler.runtime.executor.aexecute(model.adapter114, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    glinear_1_191 = nnscaler.runtime.executor.backward('segment35', (linear_1_190, ), (linear_4_218, ), (glinear_4_219, ))
    del linear_4_218, glinear_4_219
    _ = nnscaler.runtime.executor.aexecute(model.adapter98, *(glinear_1_191, ), requires_grad=False)
    del linear_1_190, glinear_1_191
    data_186 = next(*(dataloader_75, ))
    data_135 = next(*(dataloader_75, ))
    data_108 = next(*(dataloader_75, ))
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=True)
    binary_cross_entropy_176 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=True)
    binary_cross_entropy_227 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=True)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=True)
    return binary_cross_entropy_48, binary_cross_entropy_176, binary_cross_entropy_227, binary_cross_entropy_257


def _infer_step(model, dataloader_75):
    _ = None
    linear_1_53 = nnscaler.runtime.executor.aexecute(model.adapter92, *(), requires_grad=False)
    linear_4_59 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_53, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter108, *(linear_4_59, ), requires_grad=False)
    linear_1_112 = nnscaler.runtime.executor.aexecute(model.adapter92, *(), requires_grad=False)
    linear_4_125 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_112, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter108, *(linear_4_125, ), requires_grad=False)
    linear_1_139 = nnscaler.runtime.executor.aexecute(model.adapter92, *(), requires_grad=False)
    linear_4_167 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_139, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter108, *(linear_4_167, ), requires_grad=False)
    linear_1_190 = nnscaler.runtime.executor.aexecute(model.adapter92, *(), requires_grad=False)
    linear_4_218 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_190, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter108, *(linear_4_218, ), requires_grad=False)
    data_186 = next(*(dataloader_75, ))
    data_135 = next(*(dataloader_75, ))
    data_108 = next(*(dataloader_75, ))
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_176 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_227 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_176, binary_cross_entropy_227, binary_cross_entropy_257
