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
    rank = 1
    
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
    
    def segment836(self, data_157):
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        getitem_107 = _operator.getitem(data_157, 'patches')
        getitem_245 = nnscaler.runtime.adapter.chunk(getitem_107, dim=0, ranks=[0, 1, 2, 3])
        del getitem_107
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        linear_249 = torch.nn.functional.linear(getitem_245, self.patch_weight_108, self.patch_bias_109)
        del getitem_245
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_269, linear_333 = nnscaler.runtime.function.multiref(linear_249, times=2)
        del linear_249
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_273 = nnscaler.runtime.function.layer_norm(linear_269, self.norms_0_weight_111, self.norms_0_bias_112, normalized_shape=(16,), eps=1e-05)
        del linear_269
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_293 = torch.transpose(layer_norm_273, dim0=1, dim1=2)
        del layer_norm_273
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        linear_1_301 = torch.nn.functional.linear(transpose_293, self.tokens_0_weight_115, self.tokens_0_bias_116)
        del transpose_293
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_1_317 = torch.transpose(linear_1_301, dim0=1, dim1=2)
        del linear_1_301
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        gelu_325 = torch.nn.functional.gelu(transpose_1_317, approximate='none')
        del transpose_1_317
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        add_337 = torch.add(linear_333, gelu_325, alpha=1)
        del linear_333, gelu_325
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_349, add_397 = nnscaler.runtime.function.multiref(add_337, times=2)
        del add_337
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_1_353 = nnscaler.runtime.function.layer_norm(add_349, self.norms_1_weight_121, self.norms_1_bias_122, normalized_shape=(16,), eps=1e-05)
        del add_349
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_2_373 = torch.nn.functional.linear(layer_norm_1_353, self.channels_0_weight_124, self.channels_0_bias_125)
        del layer_norm_1_353
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_1_389 = torch.nn.functional.gelu(linear_2_373, approximate='none')
        del linear_2_373
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_1_401 = torch.add(add_397, gelu_1_389, alpha=1)
        del add_397, gelu_1_389
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_1_413, add_1_477 = nnscaler.runtime.function.multiref(add_1_401, times=2)
        del add_1_401
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_2_417 = nnscaler.runtime.function.layer_norm(add_1_413, self.norms_2_weight_129, self.norms_2_bias_130, normalized_shape=(16,), eps=1e-05)
        del add_1_413
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_2_437 = torch.transpose(layer_norm_2_417, dim0=1, dim1=2)
        del layer_norm_2_417
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        linear_3_445 = torch.nn.functional.linear(transpose_2_437, self.tokens_1_weight_133, self.tokens_1_bias_134)
        del transpose_2_437
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_3_461 = torch.transpose(linear_3_445, dim0=1, dim1=2)
        del linear_3_445
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        gelu_2_469 = torch.nn.functional.gelu(transpose_3_461, approximate='none')
        del transpose_3_461
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        add_2_481 = torch.add(add_1_477, gelu_2_469, alpha=1)
        del add_1_477, gelu_2_469
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_493, add_2_541 = nnscaler.runtime.function.multiref(add_2_481, times=2)
        del add_2_481
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_3_497 = nnscaler.runtime.function.layer_norm(add_2_493, self.norms_3_weight_139, self.norms_3_bias_140, normalized_shape=(16,), eps=1e-05)
        del add_2_493
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_4_517 = torch.nn.functional.linear(layer_norm_3_497, self.channels_1_weight_142, self.channels_1_bias_143)
        del layer_norm_3_497
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_3_533 = torch.nn.functional.gelu(linear_4_517, approximate='none')
        del linear_4_517
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_3_545 = torch.add(add_2_541, gelu_3_533, alpha=1)
        del add_2_541, gelu_3_533
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        mean_557 = torch.mean(add_3_545, dim=(1,), keepdim=False)
        del add_3_545
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        linear_5_565 = torch.nn.functional.linear(mean_557, self.classes_weight_148, self.classes_bias_149)
        del mean_557
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        getitem_1_151 = _operator.getitem(data_157, 'labels')
        linear_5_150 = nnscaler.runtime.adapter.nn.allgather_split(linear_5_565, dim=0, ranks=[0, 1, 2, 3])
        del linear_5_565
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
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment836', model.segment836, *(data_157, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment836', (), (cross_entropy_106, ), (None, ))
    cross_entropy_106 = cross_entropy_106.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer821, *(), requires_grad=False)
    return cross_entropy_106


def _infer_step(model, dataloader_158):
    _ = None
    data_157 = next(*(dataloader_158, ))
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment836', model.segment836, *(data_157, ), requires_grad=False)
    return cross_entropy_106
