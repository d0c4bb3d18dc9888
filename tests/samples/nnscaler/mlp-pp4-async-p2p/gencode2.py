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
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_62', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_62', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_7_weight_64', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_64', 35, True, 'layers.7.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self._post_init(init_params)
    
    def adapter108(self):
        linear_4_59 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=1, dst=2, async_op=True)
        return linear_4_59
    
    def segment41(self, linear_4_59):
        linear_4_102 = nnscaler.runtime.function.identity(linear_4_59)
        del linear_4_59
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_61 = torch.nn.functional.linear(linear_4_102, self.layers_5_weight_60, bias=None)
        del linear_4_102
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_63 = torch.nn.functional.linear(linear_5_61, self.layers_6_weight_62, bias=None)
        del linear_5_61
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_65 = torch.nn.functional.linear(linear_6_63, self.layers_7_weight_64, bias=None)
        del linear_6_63
        return linear_7_65
    
    def adapter64(self, linear_7_65):
        _ = nnscaler.runtime.adapter.move(linear_7_65, shape=(4, 16), dtype=torch.float32, src=2, dst=3, async_op=True)
        return 
    
    def adapter70(self):
        glinear_7_93 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=3, dst=2, async_op=True)
        return glinear_7_93
    
    def adapter114(self, glinear_4_87):
        _ = nnscaler.runtime.adapter.move(glinear_4_87, shape=(4, 16), dtype=torch.float32, src=2, dst=1, async_op=True)
        return 
    
    def adapter81(self):
        binary_cross_entropy_48 = nnscaler.runtime.adapter.broadcast((), shape=(), dtype=torch.float32, src=3, ranks=[0, 1, 2, 3], async_op=True)
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
    linear_4_59 = nnscaler.runtime.executor.aexecute(model.adapter108, *(), requires_grad=True)
    linear_7_65 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_59, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_65, ), requires_grad=False)
    linear_4_125 = nnscaler.runtime.executor.aexecute(model.adapter108, *(), requires_grad=True)
    linear_7_146 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_125, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_146, ), requires_grad=False)
    glinear_7_93 = nnscaler.runtime.executor.aexecute(model.adapter70, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_87 = nnscaler.runtime.executor.backward('segment41', (linear_4_59, ), (linear_7_65, ), (glinear_7_93, ))
    del linear_7_65, glinear_7_93
    linear_4_167 = nnscaler.runtime.executor.aexecute(model.adapter108, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter114, *(glinear_4_87, ), requires_grad=False)
    del linear_4_59, glinear_4_87
    linear_7_197 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_167, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_197, ), requires_grad=False)
    glinear_7_147 = nnscaler.runtime.executor.aexecute(model.adapter70, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_126 = nnscaler.runtime.executor.backward('segment41', (linear_4_125, ), (linear_7_146, ), (glinear_7_147, ))
    del linear_7_146, glinear_7_147
    linear_4_218 = nnscaler.runtime.executor.aexecute(model.adapter108, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter114, *(glinear_4_126, ), requires_grad=False)
    del linear_4_125, glinear_4_126
    linear_7_241 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_218, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_241, ), requires_grad=False)
    glinear_7_198 = nnscaler.runtime.executor.aexecute(model.adapter70, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_168 = nnscaler.runtime.executor.backward('segment41', (linear_4_167, ), (linear_7_197, ), (glinear_7_198, ))
    del linear_7_197, glinear_7_198
    _ = nnscaler.runtime.executor.aexecute(model.adapter114, *(glinear_4_168, ), requires_grad=False)
    del linear_4_167, glinear_4_168
    glinear_7_242 = nnscaler.runtime.executor.aexecute(model.adapter70, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    glinear_4_219 = nnscaler.runtime.executor.backward('segment41', (linear_4_218, ), (linear_7_241, ), (glinear_7_242, ))
    del linear_7_241, glinear_7_242
    _ = nnscaler.runtime.executor.aexecute(model.adapter114, *(glinear_4_219, ), requires_grad=False)
    del linear_4_218, glinear_4_219
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
    linear_4_59 = nnscaler.runtime.executor.aexecute(model.adapter108, *(), requires_grad=False)
    linear_7_65 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_59, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_65, ), requires_grad=False)
    linear_4_125 = nnscaler.runtime.executor.aexecute(model.adapter108, *(), requires_grad=False)
    linear_7_146 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_125, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_146, ), requires_grad=False)
    linear_4_167 = nnscaler.runtime.executor.aexecute(model.adapter108, *(), requires_grad=False)
    linear_7_197 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_167, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_197, ), requires_grad=False)
    linear_4_218 = nnscaler.runtime.executor.aexecute(model.adapter108, *(), requires_grad=False)
    linear_7_241 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_218, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_241, ), requires_grad=False)
    data_186 = next(*(dataloader_75, ))
    data_135 = next(*(dataloader_75, ))
    data_108 = next(*(dataloader_75, ))
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_176 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_227 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter81, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_176, binary_cross_entropy_227, binary_cross_entropy_257
