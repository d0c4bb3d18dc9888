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
         
        self.register_buffer('layers_2_weight_54', torch.empty((16, 16), dtype=torch.float32), persistent=True)
        self.add_full_map('layers_2_weight_54', 15, False, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_buffer('layers_3_weight_56', torch.empty((16, 16), dtype=torch.float32), persistent=True)
        self.add_full_map('layers_3_weight_56', 19, False, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_buffer('layers_4_weight_58', torch.empty((16, 16), dtype=torch.float32), persistent=True)
        self.add_full_map('layers_4_weight_58', 23, False, 'layers.4.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self._post_init(init_params)
    
    def adapter46(self):
        linear_1_53 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=0, dst=1)
        return linear_1_53
    
    def segment19(self, linear_1_53):
        linear_1_77 = nnscaler.runtime.function.identity(linear_1_53)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_55 = torch.nn.functional.linear(linear_1_77, self.layers_2_weight_54, bias=None)
        del linear_1_77
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_57 = torch.nn.functional.linear(linear_2_55, self.layers_3_weight_56, bias=None)
        del linear_2_55
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_59 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_58, bias=None)
        del linear_3_57
        return linear_4_59
    
    def adapter54(self, linear_4_59):
        _ = nnscaler.runtime.adapter.move(linear_4_59, shape=(4, 16), dtype=torch.float32, src=1, dst=2)
        return 
    
    def adapter38(self):
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
    linear_1_53 = nnscaler.runtime.executor.aexecute(model.adapter46, *(), requires_grad=False)
    linear_4_59 = nnscaler.runtime.executor.fexecute('segment19', model.segment19, *(linear_1_53, ), requires_grad=False)
    del linear_1_53
    linear_1_85 = nnscaler.runtime.executor.aexecute(model.adapter46, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter54, *(linear_4_59, ), requires_grad=False)
    del linear_4_59
    linear_4_94 = nnscaler.runtime.executor.fexecute('segment19', model.segment19, *(linear_1_85, ), requires_grad=False)
    del linear_1_85
    linear_1_91 = nnscaler.runtime.executor.aexecute(model.adapter46, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter54, *(linear_4_94, ), requires_grad=False)
    del linear_4_94
    linear_4_105 = nnscaler.runtime.executor.fexecute('segment19', model.segment19, *(linear_1_91, ), requires_grad=False)
    del linear_1_91
    linear_1_102 = nnscaler.runtime.executor.aexecute(model.adapter46, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter54, *(linear_4_105, ), requires_grad=False)
    del linear_4_105
    linear_4_118 = nnscaler.runtime.executor.fexecute('segment19', model.segment19, *(linear_1_102, ), requires_grad=False)
    del linear_1_102
    _ = nnscaler.runtime.executor.aexecute(model.adapter54, *(linear_4_118, ), requires_grad=False)
    del linear_4_118
    data_99 = next(*(dataloader_75, ))
    data_88 = next(*(dataloader_75, ))
    data_82 = next(*(dataloader_75, ))
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter38, *(), requires_grad=False)
    binary_cross_entropy_125 = nnscaler.runtime.executor.aexecute(model.adapter38, *(), requires_grad=False)
    binary_cross_entropy_137 = nnscaler.runtime.executor.aexecute(model.adapter38, *(), requires_grad=False)
    binary_cross_entropy_150 = nnscaler.runtime.executor.aexecute(model.adapter38, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_125, binary_cross_entropy_137, binary_cross_entropy_150


_infer_step = _train_step
