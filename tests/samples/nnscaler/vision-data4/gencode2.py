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
    rank = 2
    
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
        
        
        self.wreducer821 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer821.add_param(self.patch_weight_108)
        self.wreducer821.add_param(self.patch_bias_109)
        self.wreducer821.add_param(self.norms_0_weight_111)
        self.wreducer821.add_param(self.norms_0_bias_112)
        self.wreducer821.add_param(self.tokens_0_weight_115)
        self.wreducer821.add_param(self.tokens_0_bias_116)
        self.wreducer821.add_param(self.norms_1_weight_121)
        self.wreducer821.add_param(self.norms_1_bias_122)
        self.wreducer821.add_param(self.channels_0_weight_124)
        self.wreducer821.add_param(self.channels_0_bias_125)
        self.wreducer821.add_param(self.norms_2_weight_129)
        self.wreducer821.add_param(self.norms_2_bias_130)
        self.wreducer821.add_param(self.tokens_1_weight_133)
        self.wreducer821.add_param(self.tokens_1_bias_134)
        self.wreducer821.add_param(self.norms_3_weight_139)
        self.wreducer821.add_param(self.norms_3_bias_140)
        self.wreducer821.add_param(self.channels_1_weight_142)
        self.wreducer821.add_param(self.channels_1_bias_143)
        self.wreducer821.add_param(self.classes_weight_148)
        self.wreducer821.add_param(self.classes_bias_149)
        self.add_reducer(self.wreducer821)
        
        self._post_init(init_params)
    
    def segment838(self, data_157):
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        getitem_107 = _operator.getitem(data_157, 'patches')
        getitem_246 = nnscaler.runtime.adapter.chunk(getitem_107, dim=0, ranks=[0, 1, 2, 3])
        del getitem_107
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        linear_250 = torch.nn.functional.linear(getitem_246, self.patch_weight_108, self.patch_bias_109)
        del getitem_246
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_270, linear_334 = nnscaler.runtime.function.multiref(linear_250, times=2)
        del linear_250
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_274 = nnscaler.runtime.function.layer_norm(linear_270, self.norms_0_weight_111, self.norms_0_bias_112, normalized_shape=(16,), eps=1e-05)
        del linear_270
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_294 = torch.transpose(layer_norm_274, dim0=1, dim1=2)
        del layer_norm_274
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        linear_1_302 = torch.nn.functional.linear(transpose_294, self.tokens_0_weight_115, self.tokens_0_bias_116)
        del transpose_294
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_1_318 = torch.transpose(linear_1_302, dim0=1, dim1=2)
        del linear_1_302
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        gelu_326 = torch.nn.functional.gelu(transpose_1_318, approximate='none')
        del transpose_1_318
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        add_338 = torch.add(linear_334, gelu_326, alpha=1)
        del linear_334, gelu_326
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_350, add_398 = nnscaler.runtime.function.multiref(add_338, times=2)
        del add_338
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_1_354 = nnscaler.runtime.function.layer_norm(add_350, self.norms_1_weight_121, self.norms_1_bias_122, normalized_shape=(16,), eps=1e-05)
        del add_350
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_2_374 = torch.nn.functional.linear(layer_norm_1_354, self.channels_0_weight_124, self.channels_0_bias_125)
        del layer_norm_1_354
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_1_390 = torch.nn.functional.gelu(linear_2_374, approximate='none')
        del linear_2_374
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_1_402 = torch.add(add_398, gelu_1_390, alpha=1)
        del add_398, gelu_1_390
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_1_414, add_1_478 = nnscaler.runtime.function.multiref(add_1_402, times=2)
        del add_1_402
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_2_418 = nnscaler.runtime.function.layer_norm(add_1_414, self.norms_2_weight_129, self.norms_2_bias_130, normalized_shape=(16,), eps=1e-05)
        del add_1_414
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_2_438 = torch.transpose(layer_norm_2_418, dim0=1, dim1=2)
        del layer_norm_2_418
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        linear_3_446 = torch.nn.functional.linear(transpose_2_438, self.tokens_1_weight_133, self.tokens_1_bias_134)
        del transpose_2_438
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_3_462 = torch.transpose(linear_3_446, dim0=1, dim1=2)
        del linear_3_446
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        gelu_2_470 = torch.nn.functional.gelu(transpose_3_462, approximate='none')
        del transpose_3_462
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        add_2_482 = torch.add(add_1_478, gelu_2_470, alpha=1)
        del add_1_478, gelu_2_470
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_494, add_2_542 = nnscaler.runtime.function.multiref(add_2_482, times=2)
        del add_2_482
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_3_498 = nnscaler.runtime.function.layer_norm(add_2_494, self.norms_3_weight_139, self.norms_3_bias_140, normalized_shape=(16,), eps=1e-05)
        del add_2_494
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_4_518 = torch.nn.functional.linear(layer_norm_3_498, self.channels_1_weight_142, self.channels_1_bias_143)
        del layer_norm_3_498
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_3_534 = torch.nn.functional.gelu(linear_4_518, approximate='none')
        del linear_4_518
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_3_546 = torch.add(add_2_542, gelu_3_534, alpha=1)
        del add_2_542, gelu_3_534
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        mean_558 = torch.mean(add_3_546, dim=(1,), keepdim=False)
        del add_3_546
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        linear_5_566 = torch.nn.functional.linear(mean_558, self.classes_weight_148, self.classes_bias_149)
        del mean_558
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        getitem_1_151 = _operator.getitem(data_157, 'labels')
        linear_5_150 = nnscaler.runtime.adapter.nn.allgather_split(linear_5_566, dim=0, ranks=[0, 1, 2, 3])
        del linear_5_566
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        cross_entropy_106 = torch.nn.functional.cross_entropy(linear_5_150, getitem_1_151, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del getitem_1_151, linear_5_150
        return cross_entropy_106
    
    def reducer821(self):
        self.wreducer821.sync_grads()
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
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment838', model.segment838, *(data_157, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment838', (), (cross_entropy_106, ), (None, ))
    cross_entropy_106 = cross_entropy_106.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer821, *(), requires_grad=False)
    return cross_entropy_106


def _infer_step(model, dataloader_158):
    _ = None
    data_157 = next(*(dataloader_158, ))
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment838', model.segment838, *(data_157, ), requires_grad=False)
    return cross_entropy_106
