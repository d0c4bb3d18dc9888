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
        self.init_group(ranks=[0, 1])
         
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
        
        self.register_parameter('tokens_1_weight_372', torch.nn.Parameter(torch.empty((4, 8), dtype=torch.float32)))
        self.add_full_map('tokens_1_weight_372', 62, True, 'tokens.1.weight', (8, 8), (slice(0, 4, None), slice(0, 8, None)), 1)
        
        self.register_parameter('tokens_1_bias_374', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('tokens_1_bias_374', 64, True, 'tokens.1.bias', (8,), (slice(0, 4, None),), 1)
        
        self.register_parameter('norms_3_weight_139', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_3_weight_139', 76, True, 'norms.3.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norms_3_bias_140', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norms_3_bias_140', 78, True, 'norms.3.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('channels_1_weight_418', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('channels_1_weight_418', 82, True, 'channels.1.weight', (16, 16), (slice(0, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('channels_1_bias_420', torch.nn.Parameter(torch.empty((8,), dtype=torch.float32)))
        self.add_full_map('channels_1_bias_420', 84, True, 'channels.1.bias', (16,), (slice(0, 8, None),), 1)
        
        self.register_parameter('classes_weight_456', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('classes_weight_456', 94, True, 'classes.weight', (8, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        self.register_parameter('classes_bias_458', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('classes_bias_458', 96, True, 'classes.bias', (8,), (slice(0, 4, None),), 1)
        
        
        self.wreducer469 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer469.add_param(self.patch_weight_108)
        self.wreducer469.add_param(self.patch_bias_109)
        self.wreducer469.add_param(self.norms_0_weight_111)
        self.wreducer469.add_param(self.norms_0_bias_112)
        self.wreducer469.add_param(self.tokens_0_weight_115)
        self.wreducer469.add_param(self.tokens_0_bias_116)
        self.wreducer469.add_param(self.norms_1_weight_121)
        self.wreducer469.add_param(self.norms_1_bias_122)
        self.wreducer469.add_param(self.channels_0_weight_124)
        self.wreducer469.add_param(self.channels_0_bias_125)
        self.wreducer469.add_param(self.norms_2_weight_129)
        self.wreducer469.add_param(self.norms_2_bias_130)
        self.wreducer469.add_param(self.norms_3_weight_139)
        self.wreducer469.add_param(self.norms_3_bias_140)
        self.add_reducer(self.wreducer469)
        
        self._post_init(init_params)
    
    def segment536(self, data_157):
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        getitem_107 = _operator.getitem(data_157, 'patches')
        getitem_244 = nnscaler.runtime.adapter.chunk(getitem_107, dim=1, ranks=[0, 1])
        del getitem_107
        # File "models.py", line 146, in forward,  x = self.patch(data["patches"])
        linear_246 = torch.nn.functional.linear(getitem_244, self.patch_weight_108, self.patch_bias_109)
        del getitem_244
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_256, linear_470 = nnscaler.runtime.function.multiref(linear_246, times=2)
        del linear_246
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_258 = nnscaler.runtime.function.layer_norm(linear_256, self.norms_0_weight_111, self.norms_0_bias_112, normalized_shape=(16,), eps=1e-05)
        del linear_256
        layer_norm_268 = nnscaler.runtime.adapter.nn.alltoall_alltoall(layer_norm_258, idim=1, odim=0, ranks=[0, 1])
        del layer_norm_258
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_270 = torch.transpose(layer_norm_268, dim0=1, dim1=2)
        del layer_norm_268
        transpose_276 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_270, idim=0, odim=1, ranks=[0, 1])
        del transpose_270
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        linear_1_278 = torch.nn.functional.linear(transpose_276, self.tokens_0_weight_115, self.tokens_0_bias_116)
        del transpose_276
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_1_288 = torch.transpose(linear_1_278, dim0=1, dim1=2)
        del linear_1_278
        transpose_1_292 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_1_288, idim=2, odim=1, ranks=[0, 1])
        del transpose_1_288
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        gelu_294 = torch.nn.functional.gelu(transpose_1_292, approximate='none')
        del transpose_1_292
        gelu_302 = nnscaler.runtime.adapter.nn.alltoall_alltoall(gelu_294, idim=1, odim=0, ranks=[0, 1])
        del gelu_294
        linear_300 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_470, idim=1, odim=0, ranks=[0, 1])
        del linear_470
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        add_304 = torch.add(linear_300, gelu_302, alpha=1)
        del gelu_302, linear_300
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_474, add_344 = nnscaler.runtime.function.multiref(add_304, times=2)
        del add_304
        add_312 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_474, idim=0, odim=1, ranks=[0, 1])
        del add_474
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_1_314 = nnscaler.runtime.function.layer_norm(add_312, self.norms_1_weight_121, self.norms_1_bias_122, normalized_shape=(16,), eps=1e-05)
        del add_312
        layer_norm_1_324 = nnscaler.runtime.adapter.nn.alltoall_alltoall(layer_norm_1_314, idim=1, odim=0, ranks=[0, 1])
        del layer_norm_1_314
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_2_326 = torch.nn.functional.linear(layer_norm_1_324, self.channels_0_weight_124, self.channels_0_bias_125)
        del layer_norm_1_324
        linear_2_336 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_326, idim=0, odim=2, ranks=[0, 1])
        del linear_2_326
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_1_338 = torch.nn.functional.gelu(linear_2_336, approximate='none')
        del linear_2_336
        gelu_1_346 = nnscaler.runtime.adapter.nn.alltoall_alltoall(gelu_1_338, idim=2, odim=0, ranks=[0, 1])
        del gelu_1_338
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_1_348 = torch.add(add_344, gelu_1_346, alpha=1)
        del add_344, gelu_1_346
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_1_356, add_1_398 = nnscaler.runtime.function.multiref(add_1_348, times=2)
        del add_1_348
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        layer_norm_2_358 = nnscaler.runtime.function.layer_norm(add_1_356, self.norms_2_weight_129, self.norms_2_bias_130, normalized_shape=(16,), eps=1e-05)
        del add_1_356
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_2_368 = torch.transpose(layer_norm_2_358, dim0=1, dim1=2)
        del layer_norm_2_358
        transpose_2_132 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_2_368, dim=0, ranks=[0, 1])
        del transpose_2_368
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        linear_3_376 = torch.nn.functional.linear(transpose_2_132, self.tokens_1_weight_372, self.tokens_1_bias_374)
        del transpose_2_132
        # File "models.py", line 148, in forward,  y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
        transpose_3_386 = torch.transpose(linear_3_376, dim0=1, dim1=2)
        del linear_3_376
        transpose_3_390 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_3_386, idim=1, odim=0, ranks=[0, 1])
        del transpose_3_386
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        gelu_2_392 = torch.nn.functional.gelu(transpose_3_390, approximate='none')
        del transpose_3_390
        # File "models.py", line 149, in forward,  x = x + nn.functional.gelu(y)
        add_2_400 = torch.add(add_1_398, gelu_2_392, alpha=1)
        del add_1_398, gelu_2_392
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_406, add_2_440 = nnscaler.runtime.function.multiref(add_2_400, times=2)
        del add_2_400
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        layer_norm_3_408 = nnscaler.runtime.function.layer_norm(add_2_406, self.norms_3_weight_139, self.norms_3_bias_140, normalized_shape=(16,), eps=1e-05)
        del add_2_406
        layer_norm_3_141 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_3_408, dim=0, ranks=[0, 1])
        del layer_norm_3_408
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        linear_4_422 = torch.nn.functional.linear(layer_norm_3_141, self.channels_1_weight_418, self.channels_1_bias_420)
        del layer_norm_3_141
        linear_4_432 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_422, idim=2, odim=1, ranks=[0, 1])
        del linear_4_422
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        gelu_3_434 = torch.nn.functional.gelu(linear_4_432, approximate='none')
        del linear_4_432
        gelu_3_442 = nnscaler.runtime.adapter.nn.alltoall_alltoall(gelu_3_434, idim=1, odim=0, ranks=[0, 1])
        del gelu_3_434
        # File "models.py", line 150, in forward,  x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        add_3_444 = torch.add(add_2_440, gelu_3_442, alpha=1)
        del add_2_440, gelu_3_442
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        mean_452 = torch.mean(add_3_444, dim=(1,), keepdim=False)
        del add_3_444
        mean_147 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mean_452, dim=0, ranks=[0, 1])
        del mean_452
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        linear_5_460 = torch.nn.functional.linear(mean_147, self.classes_weight_456, self.classes_bias_458)
        del mean_147
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        getitem_1_151 = _operator.getitem(data_157, 'labels')
        linear_5_150 = nnscaler.runtime.adapter.nn.allgather_split(linear_5_460, dim=1, ranks=[0, 1])
        del linear_5_460
        # File "models.py", line 151, in forward,  return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])
        cross_entropy_106 = torch.nn.functional.cross_entropy(linear_5_150, getitem_1_151, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del getitem_1_151, linear_5_150
        return cross_entropy_106
    
    def reducer469(self):
        self.wreducer469.sync_grads()
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
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment536', model.segment536, *(data_157, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment536', (), (cross_entropy_106, ), (None, ))
    cross_entropy_106 = cross_entropy_106.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer469, *(), requires_grad=False)
    return cross_entropy_106


def _infer_step(model, dataloader_158):
    _ = None
    data_157 = next(*(dataloader_158, ))
    cross_entropy_106 = nnscaler.runtime.executor.fexecute('segment536', model.segment536, *(data_157, ), requires_grad=False)
    return cross_entropy_106
