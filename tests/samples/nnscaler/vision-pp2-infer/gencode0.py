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
         
        self.register_buffer('patch_weight_108', torch.empty((16, 12), dtype=torch.float32), persistent=True)
        self.add_full_map('patch_weight_108', 6, False, 'patch.weight', (16, 12), (slice(0, 16, None), slice(0, 12, None)), 1)
        
        self.register_buffer('patch_bias_109', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('patch_bias_109', 8, False, 'patch.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('norms_0_weight_111', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('norms_0_weight_111', 14, False, 'norms.0.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('norms_0_bias_112', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('norms_0_bias_112', 16, False, 'norms.0.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('tokens_0_weight_115', torch.empty((8, 8), dtype=torch.float32), persistent=True)
        self.add_full_map('tokens_0_weight_115', 22, False, 'tokens.0.weight', (8, 8), (slice(0, 8, None), slice(0, 8, None)), 1)
        
        self.register_buffer('tokens_0_bias_116', torch.empty((8,), dtype=torch.float32), persistent=True)
        self.add_full_map('tokens_0_bias_116', 24, False, 'tokens.0.bias', (8,), (slice(0, 8, None),), 1)
        
        self.register_buffer('norms_1_weight_121', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('norms_1_weight_121', 36, False, 'norms.1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('norms_1_bias_122', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('norms_1_bias_122', 38, False, 'norms.1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('channels_0_weight_124', torch.empty((16, 16), dtype=torch.float32), persistent=True)
        self.add_full_map('channels_0_weight_124', 42, False, 'channels.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_buffer('channels_0_bias_125', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('channels_0_bias_125', 44, False, 'channels.0.bias', (16,), (slice(0, 16, None),), 1)
        
        
        self._post_init(init_params)
    
    def segment34(self, data_157):
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        getitem_107 = _operator.getitem(data_157, 'patches')
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        linear_110 = torch.nn.functional.linear(getitem_107, self.patch_weight_108, self.patch_bias_109)
        del getitem_107
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_161, linear_162 = nnscaler.runtime.function.multiref(linear_110, times=2)
        del linear_110
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_113 = nnscaler.runtime.function.layer_norm(linear_161, self.norms_0_weight_111, self.norms_0_bias_112, normalized_shape=(16,), eps=1e-05)
        del linear_161
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_114 = torch.transpose(layer_norm_113, dim0=1, dim1=2)
        del layer_norm_113
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        linear_1_117 = torch.nn.functional.linear(transpose_114, self.tokens_0_weight_115, self.tokens_0_bias_116)
        del transpose_114
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_1_118 = torch.transpose(linear_1_117, dim0=1, dim1=2)
        del linear_1_117
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        gelu_119 = torch.nn.functional.gelu(transpose_1_118, approximate='none')
        del transpose_1_118
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        add_120 = torch.add(linear_162, gelu_119, alpha=1)
        del linear_162, gelu_119
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_165, add_166 = nnscaler.runtime.function.multiref(add_120, times=2)
        del add_120
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_1_123 = nnscaler.runtime.function.layer_norm(add_165, self.norms_1_weight_121, self.norms_1_bias_122, normalized_shape=(16,), eps=1e-05)
        del add_165
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_2_126 = torch.nn.functional.linear(layer_norm_1_123, self.channels_0_weight_124, self.channels_0_bias_125)
        del layer_norm_1_123
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_1_127 = torch.nn.functional.gelu(linear_2_126, approximate='none')
        del linear_2_126
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_1_128 = torch.add(add_166, gelu_1_127, alpha=1)
        del add_166, gelu_1_127
        return add_1_128
    
    def adapter50(self, add_1_128):
        _ = nnscaler.runtime.adapter.move(add_1_128, shape=(4, 8, 16), dtype=torch.float32, src=0, dst=1)
        return 
    
    def adapter54(self):
        cross_entropy_106 = nnscaler.runtime.adapter.move((), shape=(), dtype=torch.float32, src=1, dst=0)
        return cross_entropy_106
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_158):
    _ = None
    nnscaler.flags.RuntimeFlag.skip_zero_grad = False
    model.zero_grad()
    data_157 = next(*(dataloader_158, ))
    add_1_128 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(data_157, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter50, *(add_1_128, ), requires_grad=False)
    del add_1_128
    data_177 = next(*(dataloader_158, ))
    add_1_180 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(data_177, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter50, *(add_1_180, ), requires_grad=False)
    del add_1_180
    data_184 = next(*(dataloader_158, ))
    add_1_187 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(data_184, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter50, *(add_1_187, ), requires_grad=False)
    del add_1_187
    data_195 = next(*(dataloader_158, ))
    add_1_198 = nnscaler.runtime.executor.fexecute('segment34', model.segment34, *(data_195, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter50, *(add_1_198, ), requires_grad=False)
    del add_1_198
    cross_entropy_106 = nnscaler.runtime.executor.aexecute(model.adapter54, *(), requires_grad=False)
    cross_entropy_191 = nnscaler.runtime.executor.aexecute(model.adapter54, *(), requires_grad=False)
    cross_entropy_202 = nnscaler.runtime.executor.aexecute(model.adapter54, *(), requires_grad=False)
    cross_entropy_209 = nnscaler.runtime.executor.aexecute(model.adapter54, *(), requires_grad=False)
    return cross_entropy_106, cross_entropy_191, cross_entropy_202, cross_entropy_209


_infer_step = _train_step
