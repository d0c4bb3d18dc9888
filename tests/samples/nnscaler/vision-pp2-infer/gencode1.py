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
         
        self.register_buffer('norms_2_weight_129', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('norms_2_weight_129', 54, False, 'norms.2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('norms_2_bias_130', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('norms_2_bias_130', 56, False, 'norms.2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('tokens_1_weight_133', torch.empty((8, 8), dtype=torch.float32), persistent=True)
        self.add_full_map('tokens_1_weight_133', 62, False, 'tokens.1.weight', (8, 8), (slice(0, 8, None), slice(0, 8, None)), 1)
        
        self.register_buffer('tokens_1_bias_134', torch.empty((8,), dtype=torch.float32), persistent=True)
        self.add_full_map('tokens_1_bias_134', 64, False, 'tokens.1.bias', (8,), (slice(0, 8, None),), 1)
        
        self.register_buffer('norms_3_weight_139', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('norms_3_weight_139', 76, False, 'norms.3.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('norms_3_bias_140', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('norms_3_bias_140', 78, False, 'norms.3.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('channels_1_weight_142', torch.empty((16, 16), dtype=torch.float32), persistent=True)
        self.add_full_map('channels_1_weight_142', 82, False, 'channels.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_buffer('channels_1_bias_143', torch.empty((16,), dtype=torch.float32), persistent=True)
        self.add_full_map('channels_1_bias_143', 84, False, 'channels.1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_buffer('classes_weight_148', torch.empty((8, 16), dtype=torch.float32), persistent=True)
        self.add_full_map('classes_weight_148', 94, False, 'classes.weight', (8, 16), (slice(0, 8, None), slice(0, 16, None)), 1)
        
        self.register_buffer('classes_bias_149', torch.empty((8,), dtype=torch.float32), persistent=True)
        self.add_full_map('classes_bias_149', 96, False, 'classes.bias', (8,), (slice(0, 8, None),), 1)
        
        
        self._post_init(init_params)
    
    def adapter50(self):
        add_1_128 = nnscaler.runtime.adapter.move((), shape=(4, 8, 16), dtype=torch.float32, src=0, dst=1)
        return add_1_128
    
    def segment35(self, add_1_128, data_157):
        add_1_176 = nnscaler.runtime.function.identity(add_1_128)
        del add_1_128
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_1_169, add_1_170 = nnscaler.runtime.function.multiref(add_1_176, times=2)
        del add_1_176
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_2_131 = nnscaler.runtime.function.layer_norm(add_1_169, self.norms_2_weight_129, self.norms_2_bias_130, normalized_shape=(16,), eps=1e-05)
        del add_1_169
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_2_132 = torch.transpose(layer_norm_2_131, dim0=1, dim1=2)
        del layer_norm_2_131
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        linear_3_135 = torch.nn.functional.linear(transpose_2_132, self.tokens_1_weight_133, self.tokens_1_bias_134)
        del transpose_2_132
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_3_136 = torch.transpose(linear_3_135, dim0=1, dim1=2)
        del linear_3_135
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        gelu_2_137 = torch.nn.functional.gelu(transpose_3_136, approximate='none')
        del transpose_3_136
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        add_2_138 = torch.add(add_1_170, gelu_2_137, alpha=1)
        del add_1_170, gelu_2_137
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_173, add_2_174 = nnscaler.runtime.function.multiref(add_2_138, times=2)
        del add_2_138
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_3_141 = nnscaler.runtime.function.layer_norm(add_2_173, self.norms_3_weight_139, self.norms_3_bias_140, normalized_shape=(16,), eps=1e-05)
        del add_2_173
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_4_144 = torch.nn.functional.linear(layer_norm_3_141, self.channels_1_weight_142, self.channels_1_bias_143)
        del layer_norm_3_141
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_3_145 = torch.nn.functional.gelu(linear_4_144, approximate='none')
        del linear_4_144
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_3_146 = torch.add(add_2_174, gelu_3_145, alpha=1)
        del add_2_174, gelu_3_145
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        mean_147 = torch.mean(add_3_146, dim=(1,), keepdim=False)
        del add_3_146
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        linear_5_150 = torch.nn.functional.linear(mean_147, self.classes_weight_148, self.classes_bias_149)
        del mean_147
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        getitem_1_151 = _operator.getitem(data_157, 'labels')
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        cross_entropy_106 = torch.nn.functional.cross_entropy(linear_5_150, getitem_1_151, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del linear_5_150, getitem_1_151
        return cross_entropy_106
    
    def adapter54(self, cross_entropy_106):
        _ = nnscaler.runtime.adapter.move(cross_entropy_106, shape=(), dtype=torch.float32, src=1, dst=0)
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
    add_1_128 = nnscaler.runtime.executor.aexecute(model.adapter50, *(), requires_grad=False)
    data_157 = next(*(dataloader_158, ))
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(add_1_128, data_157, ), requires_grad=False)
    del add_1_128
    add_1_180 = nnscaler.runtime.executor.aexecute(model.adapter50, *(), requires_grad=False)
    data_177 = next(*(dataloader_158, ))
    cross_entropy_191 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(add_1_180, data_177, ), requires_grad=False)
    del add_1_180
    add_1_187 = nnscaler.runtime.executor.aexecute(model.adapter50, *(), requires_grad=False)
    data_184 = next(*(dataloader_158, ))
    cross_entropy_202 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(add_1_187, data_184, ), requires_grad=False)
    del add_1_187
    add_1_198 = nnscaler.runtime.executor.aexecute(model.adapter50, *(), requires_grad=False)
    data_195 = next(*(dataloader_158, ))
    cross_entropy_209 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(add_1_198, data_195, ), requires_grad=False)
    del add_1_198
    cross_entropy_106 = nnscaler.runtime.executor.aexecute(model.adapter54, *(cross_entropy_106, ), requires_grad=False)
    cross_entropy_191 = nnscaler.runtime.executor.aexecute(model.adapter54, *(cross_entropy_191, ), requires_grad=False)
    cross_entropy_202 = nnscaler.runtime.executor.aexecute(model.adapter54, *(cross_entropy_202, ), requires_grad=False)
    cross_entropy_209 = nnscaler.runtime.executor.aexecute(model.adapter54, *(cross_entropy_209, ), requires_grad=False)
    return cross_entropy_106, cross_entropy_191, cross_entropy_202, cross_entropy_209


_infer_step = _train_step
