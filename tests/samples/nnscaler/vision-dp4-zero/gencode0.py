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
    use_scheduler = False
    nmicros_per_scheduler_step = 1
    rank = 0
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('patch_weight_108', torch.nn.Parameter(torch.empty((16, 12), dtype=torch.float32)))
        self.add_full_map('patch_weight_108', 6, True, 'patch.weight', (16, 12), (slice(0, 16, None), slice(0, 12, None)), 1)
        
        self.register_parameter('patch_bias_109', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('patch_bias_109', 8, True, 'patch.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norms_0_weight_111', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_0_weight_111', 14, True, 'norms.0.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norms_0_bias_112', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_0_bias_112', 16, True, 'norms.0.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('tokens_0_weight_115', torch.nn.Parameter(torch.empty((8, 8), dtype=torch.float32)))
        self.add_full_map('tokens_0_weight_115', 22, True, 'tokens.0.weight', (8, 8), (slice(0, 8, None), slice(0, 8, None)), 1)
        
        self.register_parameter('tokens_0_bias_116', torch.nn.Parameter(torch.empty((8,), dtype=torch.float32)))
        self.add_full_map('tokens_0_bias_116', 24, True, 'tokens.0.bias', (8,), (slice(0, 8, None),), 1)
        
        self.register_parameter('norms_1_weight_121', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_1_weight_121', 36, True, 'norms.1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norms_1_bias_122', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_1_bias_122', 38, True, 'norms.1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('channels_0_weight_124', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('channels_0_weight_124', 42, True, 'channels.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('channels_0_bias_125', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('channels_0_bias_125', 44, True, 'channels.0.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norms_2_weight_129', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_2_weight_129', 54, True, 'norms.2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norms_2_bias_130', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_2_bias_130', 56, True, 'norms.2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('tokens_1_weight_133', torch.nn.Parameter(torch.empty((8, 8), dtype=torch.float32)))
        self.add_full_map('tokens_1_weight_133', 62, True, 'tokens.1.weight', (8, 8), (slice(0, 8, None), slice(0, 8, None)), 1)
        
        self.register_parameter('tokens_1_bias_134', torch.nn.Parameter(torch.empty((8,), dtype=torch.float32)))
        self.add_full_map('tokens_1_bias_134', 64, True, 'tokens.1.bias', (8,), (slice(0, 8, None),), 1)
        
        self.register_parameter('norms_3_weight_139', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_3_weight_139', 76, True, 'norms.3.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norms_3_bias_140', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_3_bias_140', 78, True, 'norms.3.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('channels_1_weight_142', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('channels_1_weight_142', 82, True, 'channels.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('channels_1_bias_143', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('channels_1_bias_143', 84, True, 'channels.1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('classes_weight_148', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('classes_weight_148', 94, True, 'classes.weight', (8, 16), (slice(0, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('classes_bias_149', torch.nn.Parameter(torch.empty((8,), dtype=torch.float32)))
        self.add_full_map('classes_bias_149', 96, True, 'classes.bias', (8,), (slice(0, 8, None),), 1)
        
        
        self.wreducer165 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=True, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer165.add_param(self.patch_weight_108)
        self.wreducer165.add_param(self.patch_bias_109)
        self.wreducer165.add_param(self.norms_0_weight_111)
        self.wreducer165.add_param(self.norms_0_bias_112)
        self.wreducer165.add_param(self.tokens_0_weight_115)
        self.wreducer165.add_param(self.tokens_0_bias_116)
        self.wreducer165.add_param(self.norms_1_weight_121)
        self.wreducer165.add_param(self.norms_1_bias_122)
        self.wreducer165.add_param(self.channels_0_weight_124)
        self.wreducer165.add_param(self.channels_0_bias_125)
        self.wreducer165.add_param(self.norms_2_weight_129)
        self.wreducer165.add_param(self.norms_2_bias_130)
        self.wreducer165.add_param(self.tokens_1_weight_133)
        self.wreducer165.add_param(self.tokens_1_bias_134)
        self.wreducer165.add_param(self.norms_3_weight_139)
        self.wreducer165.add_param(self.norms_3_bias_140)
        self.wreducer165.add_param(self.channels_1_weight_142)
        self.wreducer165.add_param(self.channels_1_bias_143)
        self.wreducer165.add_param(self.classes_weight_148)
        self.wreducer165.add_param(self.classes_bias_149)
        self.add_reducer(self.wreducer165)
        
        self._post_init(init_params)
    
    def segment163(self, data_157):
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        getitem_107 = _operator.getitem(data_157, 'patches')
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        linear_110 = torch.nn.functional.linear(getitem_107, self.patch_weight_108, self.patch_bias_109)
        del getitem_107
        # created at IRAdapterGener:local_consumer_multiref
        linear_214, linear_218 = nnscaler.runtime.function.multiref(linear_110, times=2)
        del linear_110
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_113 = nnscaler.runtime.function.layer_norm(linear_214, self.norms_0_weight_111, self.norms_0_bias_112, normalized_shape=(16,), eps=1e-05)
        del linear_214
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
        add_120 = torch.add(linear_218, gelu_119, alpha=1)
        del linear_218, gelu_119
        # created at IRAdapterGener:local_consumer_multiref
        add_222, add_226 = nnscaler.runtime.function.multiref(add_120, times=2)
        del add_120
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_1_123 = nnscaler.runtime.function.layer_norm(add_222, self.norms_1_weight_121, self.norms_1_bias_122, normalized_shape=(16,), eps=1e-05)
        del add_222
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_2_126 = torch.nn.functional.linear(layer_norm_1_123, self.channels_0_weight_124, self.channels_0_bias_125)
        del layer_norm_1_123
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_1_127 = torch.nn.functional.gelu(linear_2_126, approximate='none')
        del linear_2_126
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_1_128 = torch.add(add_226, gelu_1_127, alpha=1)
        del add_226, gelu_1_127
        # created at IRAdapterGener:local_consumer_multiref
        add_1_230, add_1_234 = nnscaler.runtime.function.multiref(add_1_128, times=2)
        del add_1_128
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_2_131 = nnscaler.runtime.function.layer_norm(add_1_230, self.norms_2_weight_129, self.norms_2_bias_130, normalized_shape=(16,), eps=1e-05)
        del add_1_230
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
        add_2_138 = torch.add(add_1_234, gelu_2_137, alpha=1)
        del add_1_234, gelu_2_137
        # created at IRAdapterGener:local_consumer_multiref
        add_2_238, add_2_242 = nnscaler.runtime.function.multiref(add_2_138, times=2)
        del add_2_138
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_3_141 = nnscaler.runtime.function.layer_norm(add_2_238, self.norms_3_weight_139, self.norms_3_bias_140, normalized_shape=(16,), eps=1e-05)
        del add_2_238
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_4_144 = torch.nn.functional.linear(layer_norm_3_141, self.channels_1_weight_142, self.channels_1_bias_143)
        del layer_norm_3_141
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_3_145 = torch.nn.functional.gelu(linear_4_144, approximate='none')
        del linear_4_144
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_3_146 = torch.add(add_2_242, gelu_3_145, alpha=1)
        del add_2_242, gelu_3_145
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
    
    def reducer165(self):
        self.wreducer165.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_158):
    _ = None
    model.zero_grad()
    data_157 = next(*(dataloader_158, ))
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment163', model.segment163, *(data_157, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment163', (), (cross_entropy_106, ), (None, ))
    cross_entropy_106 = cross_entropy_106.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer165, *(), requires_grad=False)
    return cross_entropy_106


def _infer_step(model, dataloader_158):
    _ = None
    data_157 = next(*(dataloader_158, ))
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment163', model.segment163, *(data_157, ), requires_grad=False)
    return cross_entropy_106
