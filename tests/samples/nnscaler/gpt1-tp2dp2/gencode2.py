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
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
         
        self.register_parameter('tok_weight_147', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_147', 4, True, 'tok.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_buffer('position_149', torch.empty((8,), dtype=torch.int64), persistent=True)
        self.add_full_map('position_149', 8, False, 'position', (8,), (slice(0, 8, None),), 1)
        
        self.register_parameter('pos_weight_293', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('pos_weight_293', 9, True, 'pos.weight', (8, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_ln1_weight_153', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln1_weight_153', 24, True, 'blocks.0.ln1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln1_bias_154', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln1_bias_154', 26, True, 'blocks.0.ln1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_qkv_weight_323', torch.nn.Parameter(torch.empty((24, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_qkv_weight_323', 30, True, 'blocks.0.qkv.weight', (48, 16), (slice(0, 24, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_qkv_bias_325', torch.nn.Parameter(torch.empty((24,), dtype=torch.float32)))
        self.add_full_map('blocks_0_qkv_bias_325', 32, True, 'blocks.0.qkv.bias', (48,), (slice(0, 24, None),), 1)
        
        self.register_parameter('blocks_0_proj_weight_176', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_proj_weight_176', 81, True, 'blocks.0.proj.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_proj_bias_177', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_proj_bias_177', 83, True, 'blocks.0.proj.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln2_weight_180', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln2_weight_180', 91, True, 'blocks.0.ln2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln2_bias_181', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln2_bias_181', 93, True, 'blocks.0.ln2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_fc1_weight_495', torch.nn.Parameter(torch.empty((32, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc1_weight_495', 97, True, 'blocks.0.fc1.weight', (64, 16), (slice(0, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_fc1_bias_497', torch.nn.Parameter(torch.empty((32,), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc1_bias_497', 99, True, 'blocks.0.fc1.bias', (64,), (slice(0, 32, None),), 1)
        
        self.register_parameter('blocks_0_fc2_weight_513', torch.nn.Parameter(torch.empty((8, 64), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc2_weight_513', 105, True, 'blocks.0.fc2.weight', (16, 64), (slice(0, 8, None), slice(0, 64, None)), 1)
        
        self.register_parameter('blocks_0_fc2_bias_515', torch.nn.Parameter(torch.empty((8,), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc2_bias_515', 107, True, 'blocks.0.fc2.bias', (16,), (slice(0, 8, None),), 1)
        
        self.register_parameter('lnf_weight_191', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('lnf_weight_191', 115, True, 'lnf.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('lnf_bias_192', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('lnf_bias_192', 117, True, 'lnf.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_547', torch.nn.Parameter(torch.empty((32, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_547', 121, True, 'head.weight', (64, 16), (slice(0, 32, None), slice(0, 16, None)), 1)
        
        
        self.wreducer604 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer604.add_param(self.tok_weight_147)
        self.wreducer604.add_param(self.blocks_0_ln1_weight_153)
        self.wreducer604.add_param(self.blocks_0_ln1_bias_154)
        self.wreducer604.add_param(self.blocks_0_proj_weight_176)
        self.wreducer604.add_param(self.blocks_0_proj_bias_177)
        self.wreducer604.add_param(self.blocks_0_ln2_weight_180)
        self.wreducer604.add_param(self.blocks_0_ln2_bias_181)
        self.wreducer604.add_param(self.lnf_weight_191)
        self.wreducer604.add_param(self.lnf_bias_192)
        self.add_reducer(self.wreducer604)
        
        self.wreducer727 = nnscaler.runtime.adapter.Reducer(ranks=[0, 2], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer727.add_param(self.pos_weight_293)
        self.wreducer727.add_param(self.blocks_0_qkv_weight_323)
        self.wreducer727.add_param(self.blocks_0_qkv_bias_325)
        self.wreducer727.add_param(self.blocks_0_fc1_weight_495)
        self.wreducer727.add_param(self.blocks_0_fc1_bias_497)
        self.wreducer727.add_param(self.blocks_0_fc2_weight_513)
        self.wreducer727.add_param(self.blocks_0_fc2_bias_515)
        self.wreducer727.add_param(self.head_weight_547)
        self.add_reducer(self.wreducer727)
        
        self._post_init(init_params)
    
    def segment723(self, data_203):
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        getitem_146 = _operator.getitem(data_203, 'ids')
        getitem_285 = nnscaler.runtime.adapter.chunk(getitem_146, dim=0, ranks=[2, 3])
        del getitem_146
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        embedding_287 = nnscaler.runtime.function.embedding(getitem_285, self.tok_weight_147, padding_idx=None, start=0, stop=64)
        del getitem_285
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        embedding_1_295 = nnscaler.runtime.function.embedding(self.position_149, self.pos_weight_293, padding_idx=None, start=0, stop=4)
        embedding_299 = nnscaler.runtime.adapter.nn.alltoall_alltoall(embedding_287, idim=0, odim=2, ranks=[2, 3])
        del embedding_287
        embedding_1_301 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1_295, dim=1, ranks=[2, 3])
        del embedding_1_295
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        add_303 = torch.add(embedding_299, embedding_1_301, alpha=1)
        del embedding_299, embedding_1_301
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_569, add_570, add_471 = nnscaler.runtime.function.multiref(add_303, times=3)
        del add_303
        add_265 = nnscaler.runtime.adapter.all_gather(add_569, dim=2, ranks=[2, 3])
        del add_569
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getattr_1_135 = builtins.getattr(add_265, 'shape')
        del add_265
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_1_136 = _operator.getitem(getattr_1_135, 0)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_2_137 = _operator.getitem(getattr_1_135, 1)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_3_138 = _operator.getitem(getattr_1_135, 2)
        add_311 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_570, idim=2, odim=1, ranks=[2, 3])
        del add_570
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        layer_norm_313 = nnscaler.runtime.function.layer_norm(add_311, self.blocks_0_ln1_weight_153, self.blocks_0_ln1_bias_154, normalized_shape=(16,), eps=1e-05)
        del add_311
        layer_norm_155 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_313, dim=1, ranks=[2, 3])
        del layer_norm_313
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        linear_327 = torch.nn.functional.linear(layer_norm_155, self.blocks_0_qkv_weight_323, self.blocks_0_qkv_bias_325)
        del layer_norm_155
        linear_337 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_327, idim=2, odim=0, ranks=[2, 3])
        del linear_327
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        chunk_339, chunk_341, chunk_343 = torch.chunk(linear_337, chunks=3, dim=-1)
        del linear_337
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_139 = _operator.floordiv(getitem_3_138, 2)
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_353 = torch.Tensor.view(chunk_339, size=(1, getitem_2_137, 2, floordiv_139))
        del chunk_339
        view_357 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_353, idim=0, odim=2, ranks=[2, 3])
        del view_353
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_359 = torch.transpose(view_357, dim0=1, dim1=2)
        del view_357
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_1_140 = _operator.floordiv(getitem_3_138, 2)
        chunk_365 = nnscaler.runtime.adapter.nn.alltoall_alltoall(chunk_341, idim=0, odim=1, ranks=[2, 3])
        del chunk_341
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_1_367 = torch.Tensor.view(chunk_365, size=(getitem_1_136, 4, 2, floordiv_1_140))
        del chunk_365
        view_1_373 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_1_367, idim=1, odim=0, ranks=[2, 3])
        del view_1_367
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_1_375 = torch.transpose(view_1_373, dim0=1, dim1=2)
        del view_1_373
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_2_141 = _operator.floordiv(getitem_3_138, 2)
        chunk_381 = nnscaler.runtime.adapter.nn.alltoall_alltoall(chunk_343, idim=0, odim=1, ranks=[2, 3])
        del chunk_343
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_2_383 = torch.Tensor.view(chunk_381, size=(getitem_1_136, 4, 2, floordiv_2_141))
        del chunk_381
        view_2_389 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_2_383, idim=1, odim=3, ranks=[2, 3])
        del view_2_383
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_2_391 = torch.transpose(view_2_389, dim0=1, dim1=2)
        del view_2_389
        transpose_1_397 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_1_375, idim=0, odim=3, ranks=[2, 3])
        del transpose_1_375
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        transpose_3_399 = torch.transpose(transpose_1_397, dim0=-2, dim1=-1)
        del transpose_1_397
        transpose_163 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_359, dim=1, ranks=[2, 3])
        del transpose_359
        transpose_3_405 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_3_399, idim=2, odim=3, ranks=[2, 3])
        del transpose_3_399
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        matmul_407 = torch.matmul(transpose_163, transpose_3_405)
        del transpose_163, transpose_3_405
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        floordiv_3_142 = _operator.floordiv(getitem_3_138, 2)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        pow_1_143 = _operator.pow(floordiv_3_142, 0.5)
        matmul_415 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_407, idim=3, odim=2, ranks=[2, 3])
        del matmul_407
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        truediv_417 = torch.div(matmul_415, pow_1_143, rounding_mode=None)
        del matmul_415
        truediv_423 = nnscaler.runtime.adapter.nn.alltoall_alltoall(truediv_417, idim=2, odim=0, ranks=[2, 3])
        del truediv_417
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        softmax_425 = torch.softmax(truediv_423, dim=-1, _stacklevel=3, dtype=None)
        del truediv_423
        transpose_2_431 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_2_391, idim=3, odim=0, ranks=[2, 3])
        del transpose_2_391
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        matmul_1_433 = torch.matmul(softmax_425, transpose_2_431)
        del softmax_425, transpose_2_431
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        transpose_4_439 = torch.transpose(matmul_1_433, dim0=1, dim1=2)
        del matmul_1_433
        transpose_4_443 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_4_439, idim=0, odim=3, ranks=[2, 3])
        del transpose_4_439
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        contiguous_445 = torch.Tensor.contiguous(transpose_4_443)
        del transpose_4_443
        contiguous_451 = nnscaler.runtime.adapter.nn.alltoall_alltoall(contiguous_445, idim=3, odim=2, ranks=[2, 3])
        del contiguous_445
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        view_3_453 = torch.Tensor.view(contiguous_451, size=(getitem_1_136, getitem_2_137, 8))
        del contiguous_451
        view_3_459 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_3_453, idim=2, odim=0, ranks=[2, 3])
        del view_3_453
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        linear_1_461 = torch.nn.functional.linear(view_3_459, self.blocks_0_proj_weight_176, self.blocks_0_proj_bias_177)
        del view_3_459
        linear_1_473 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_461, idim=0, odim=2, ranks=[2, 3])
        del linear_1_461
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        add_1_475 = torch.add(add_471, linear_1_473, alpha=1)
        del add_471, linear_1_473
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_1_575, add_1_577 = nnscaler.runtime.function.multiref(add_1_475, times=2)
        del add_1_475
        add_1_483 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_575, idim=2, odim=0, ranks=[2, 3])
        del add_1_575
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        layer_norm_1_485 = nnscaler.runtime.function.layer_norm(add_1_483, self.blocks_0_ln2_weight_180, self.blocks_0_ln2_bias_181, normalized_shape=(16,), eps=1e-05)
        del add_1_483
        layer_norm_1_182 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_1_485, dim=0, ranks=[2, 3])
        del layer_norm_1_485
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_2_499 = torch.nn.functional.linear(layer_norm_1_182, self.blocks_0_fc1_weight_495, self.blocks_0_fc1_bias_497)
        del layer_norm_1_182
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        gelu_509 = torch.nn.functional.gelu(linear_2_499, approximate='none')
        del linear_2_499
        gelu_186 = nnscaler.runtime.adapter.nn.allgather_reducescatter(gelu_509, dim=2, ranks=[2, 3])
        del gelu_509
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_3_517 = torch.nn.functional.linear(gelu_186, self.blocks_0_fc2_weight_513, self.blocks_0_fc2_bias_515)
        del gelu_186
        linear_3_529 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_3_517, idim=2, odim=1, ranks=[2, 3])
        del linear_3_517
        add_1_527 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_577, idim=2, odim=1, ranks=[2, 3])
        del add_1_577
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        add_2_531 = torch.add(add_1_527, linear_3_529, alpha=1)
        del linear_3_529, add_1_527
        # File "models.py", line 70, in forward,  logits = self.head(self.lnf(x))
        layer_norm_2_539 = nnscaler.runtime.function.layer_norm(add_2_531, self.lnf_weight_191, self.lnf_bias_192, normalized_shape=(16,), eps=1e-05)
        del add_2_531
        layer_norm_2_193 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_2_539, dim=1, ranks=[2, 3])
        del layer_norm_2_539
        # File "models.py", line 70, in forward,  logits = self.head(self.lnf(x))
        linear_4_549 = torch.nn.functional.linear(layer_norm_2_193, self.head_weight_547, bias=None)
        del layer_norm_2_193
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_4_583, linear_4_561 = nnscaler.runtime.function.multiref(linear_4_549, times=2)
        del linear_4_549
        # File "models.py", line 71, in forward,  labels = data["labels"].view(-1)
        getitem_7_196 = _operator.getitem(data_203, 'labels')
        getitem_7_557 = nnscaler.runtime.adapter.chunk(getitem_7_196, dim=0, ranks=[2, 3])
        del getitem_7_196
        # File "models.py", line 71, in forward,  labels = data["labels"].view(-1)
        view_4_559 = torch.Tensor.view(getitem_7_557, size=(-1,))
        del getitem_7_557
        linear_4_282 = nnscaler.runtime.adapter.all_gather(linear_4_583, dim=2, ranks=[2, 3])
        del linear_4_583
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_144 = torch.Tensor.size(linear_4_282, dim=-1)
        del linear_4_282
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_5_563 = torch.Tensor.view(linear_4_561, size=(-1, 32))
        del linear_4_561
        view_4_197 = nnscaler.runtime.adapter.all_gather(view_4_559, dim=0, ranks=[2, 3])
        del view_4_559
        view_5_198 = nnscaler.runtime.adapter.nn.allgather_split(view_5_563, dim=1, ranks=[2, 3])
        del view_5_563
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_145 = torch.nn.functional.cross_entropy(view_5_198, view_4_197, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_4_197, view_5_198
        return cross_entropy_145
    
    def reducer604(self):
        self.wreducer604.sync_grads()
        return 
    
    def reducer727(self):
        self.wreducer727.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_204):
    _ = None
    model.zero_grad()
    data_203 = next(*(dataloader_204, ))
    cross_entropy_145 = nnscaler.runtime.executor.fexecute('segment723', model.segment723, *(data_203, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment723', (), (cross_entropy_145, ), (None, ))
    cross_entropy_145 = cross_entropy_145.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer604, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.reducer727, *(), requires_grad=False)
    return cross_entropy_145


def _infer_step(model, dataloader_204):
    _ = None
    data_203 = next(*(dataloader_204, ))
    cross_entropy_145 = nnscaler.runtime.executor.fexecute('segment723', model.segment723, *(data_203, ), requires_grad=False)
    return cross_entropy_145
