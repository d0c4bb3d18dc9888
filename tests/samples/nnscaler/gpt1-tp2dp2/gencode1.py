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
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
         
        self.register_parameter('tok_weight_147', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_147', 4, True, 'tok.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_buffer('position_149', torch.empty((8,), dtype=torch.int64), persistent=True)
        self.add_full_map('position_149', 8, False, 'position', (8,), (slice(0, 8, None),), 1)
        
        self.register_parameter('pos_weight_294', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('pos_weight_294', 9, True, 'pos.weight', (8, 16), (slice(4, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_ln1_weight_153', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln1_weight_153', 24, True, 'blocks.0.ln1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln1_bias_154', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln1_bias_154', 26, True, 'blocks.0.ln1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_qkv_weight_324', torch.nn.Parameter(torch.empty((24, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_qkv_weight_324', 30, True, 'blocks.0.qkv.weight', (48, 16), (slice(24, 48, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_qkv_bias_326', torch.nn.Parameter(torch.empty((24,), dtype=torch.float32)))
        self.add_full_map('blocks_0_qkv_bias_326', 32, True, 'blocks.0.qkv.bias', (48,), (slice(24, 48, None),), 1)
        
        self.register_parameter('blocks_0_proj_weight_176', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_proj_weight_176', 81, True, 'blocks.0.proj.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_proj_bias_177', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_proj_bias_177', 83, True, 'blocks.0.proj.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln2_weight_180', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln2_weight_180', 91, True, 'blocks.0.ln2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln2_bias_181', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln2_bias_181', 93, True, 'blocks.0.ln2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_fc1_weight_496', torch.nn.Parameter(torch.empty((32, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc1_weight_496', 97, True, 'blocks.0.fc1.weight', (64, 16), (slice(32, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_fc1_bias_498', torch.nn.Parameter(torch.empty((32,), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc1_bias_498', 99, True, 'blocks.0.fc1.bias', (64,), (slice(32, 64, None),), 1)
        
        self.register_parameter('blocks_0_fc2_weight_514', torch.nn.Parameter(torch.empty((8, 64), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc2_weight_514', 105, True, 'blocks.0.fc2.weight', (16, 64), (slice(8, 16, None), slice(0, 64, None)), 1)
        
        self.register_parameter('blocks_0_fc2_bias_516', torch.nn.Parameter(torch.empty((8,), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc2_bias_516', 107, True, 'blocks.0.fc2.bias', (16,), (slice(8, 16, None),), 1)
        
        self.register_parameter('lnf_weight_191', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('lnf_weight_191', 115, True, 'lnf.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('lnf_bias_192', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('lnf_bias_192', 117, True, 'lnf.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_548', torch.nn.Parameter(torch.empty((32, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_548', 121, True, 'head.weight', (64, 16), (slice(32, 64, None), slice(0, 16, None)), 1)
        
        
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
        
        self.wreducer728 = nnscaler.runtime.adapter.Reducer(ranks=[1, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer728.add_param(self.pos_weight_294)
        self.wreducer728.add_param(self.blocks_0_qkv_weight_324)
        self.wreducer728.add_param(self.blocks_0_qkv_bias_326)
        self.wreducer728.add_param(self.blocks_0_fc1_weight_496)
        self.wreducer728.add_param(self.blocks_0_fc1_bias_498)
        self.wreducer728.add_param(self.blocks_0_fc2_weight_514)
        self.wreducer728.add_param(self.blocks_0_fc2_bias_516)
        self.wreducer728.add_param(self.head_weight_548)
        self.add_reducer(self.wreducer728)
        
        self._post_init(init_params)
    
    def segment725(self, data_203):
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        getitem_146 = _operator.getitem(data_203, 'ids')
        getitem_286 = nnscaler.runtime.adapter.chunk(getitem_146, dim=0, ranks=[0, 1])
        del getitem_146
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        embedding_288 = nnscaler.runtime.function.embedding(getitem_286, self.tok_weight_147, padding_idx=None, start=0, stop=64)
        del getitem_286
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        embedding_1_296 = nnscaler.runtime.function.embedding(self.position_149, self.pos_weight_294, padding_idx=None, start=4, stop=8)
        embedding_300 = nnscaler.runtime.adapter.nn.alltoall_alltoall(embedding_288, idim=0, odim=2, ranks=[0, 1])
        del embedding_288
        embedding_1_302 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1_296, dim=1, ranks=[0, 1])
        del embedding_1_296
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        add_304 = torch.add(embedding_300, embedding_1_302, alpha=1)
        del embedding_300, embedding_1_302
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_572, add_573, add_472 = nnscaler.runtime.function.multiref(add_304, times=3)
        del add_304
        add_265 = nnscaler.runtime.adapter.all_gather(add_572, dim=2, ranks=[0, 1])
        del add_572
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getattr_1_135 = builtins.getattr(add_265, 'shape')
        del add_265
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_1_136 = _operator.getitem(getattr_1_135, 0)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_2_137 = _operator.getitem(getattr_1_135, 1)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_3_138 = _operator.getitem(getattr_1_135, 2)
        add_312 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_573, idim=2, odim=1, ranks=[0, 1])
        del add_573
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        layer_norm_314 = nnscaler.runtime.function.layer_norm(add_312, self.blocks_0_ln1_weight_153, self.blocks_0_ln1_bias_154, normalized_shape=(16,), eps=1e-05)
        del add_312
        layer_norm_155 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_314, dim=1, ranks=[0, 1])
        del layer_norm_314
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        linear_328 = torch.nn.functional.linear(layer_norm_155, self.blocks_0_qkv_weight_324, self.blocks_0_qkv_bias_326)
        del layer_norm_155
        linear_338 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_328, idim=2, odim=0, ranks=[0, 1])
        del linear_328
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        chunk_340, chunk_342, chunk_344 = torch.chunk(linear_338, chunks=3, dim=-1)
        del linear_338
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_139 = _operator.floordiv(getitem_3_138, 2)
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_354 = torch.Tensor.view(chunk_340, size=(1, getitem_2_137, 2, floordiv_139))
        del chunk_340
        view_358 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_354, idim=0, odim=2, ranks=[0, 1])
        del view_354
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_360 = torch.transpose(view_358, dim0=1, dim1=2)
        del view_358
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_1_140 = _operator.floordiv(getitem_3_138, 2)
        chunk_366 = nnscaler.runtime.adapter.nn.alltoall_alltoall(chunk_342, idim=0, odim=1, ranks=[0, 1])
        del chunk_342
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_1_368 = torch.Tensor.view(chunk_366, size=(getitem_1_136, 4, 2, floordiv_1_140))
        del chunk_366
        view_1_374 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_1_368, idim=1, odim=0, ranks=[0, 1])
        del view_1_368
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_1_376 = torch.transpose(view_1_374, dim0=1, dim1=2)
        del view_1_374
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_2_141 = _operator.floordiv(getitem_3_138, 2)
        chunk_382 = nnscaler.runtime.adapter.nn.alltoall_alltoall(chunk_344, idim=0, odim=1, ranks=[0, 1])
        del chunk_344
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_2_384 = torch.Tensor.view(chunk_382, size=(getitem_1_136, 4, 2, floordiv_2_141))
        del chunk_382
        view_2_390 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_2_384, idim=1, odim=3, ranks=[0, 1])
        del view_2_384
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_2_392 = torch.transpose(view_2_390, dim0=1, dim1=2)
        del view_2_390
        transpose_1_398 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_1_376, idim=0, odim=3, ranks=[0, 1])
        del transpose_1_376
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        transpose_3_400 = torch.transpose(transpose_1_398, dim0=-2, dim1=-1)
        del transpose_1_398
        transpose_163 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_360, dim=1, ranks=[0, 1])
        del transpose_360
        transpose_3_406 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_3_400, idim=2, odim=3, ranks=[0, 1])
        del transpose_3_400
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        matmul_408 = torch.matmul(transpose_163, transpose_3_406)
        del transpose_163, transpose_3_406
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        floordiv_3_142 = _operator.floordiv(getitem_3_138, 2)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        pow_1_143 = _operator.pow(floordiv_3_142, 0.5)
        matmul_416 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_408, idim=3, odim=2, ranks=[0, 1])
        del matmul_408
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        truediv_418 = torch.div(matmul_416, pow_1_143, rounding_mode=None)
        del matmul_416
        truediv_424 = nnscaler.runtime.adapter.nn.alltoall_alltoall(truediv_418, idim=2, odim=0, ranks=[0, 1])
        del truediv_418
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        softmax_426 = torch.softmax(truediv_424, dim=-1, _stacklevel=3, dtype=None)
        del truediv_424
        transpose_2_432 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_2_392, idim=3, odim=0, ranks=[0, 1])
        del transpose_2_392
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        matmul_1_434 = torch.matmul(softmax_426, transpose_2_432)
        del softmax_426, transpose_2_432
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        transpose_4_440 = torch.transpose(matmul_1_434, dim0=1, dim1=2)
        del matmul_1_434
        transpose_4_444 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_4_440, idim=0, odim=3, ranks=[0, 1])
        del transpose_4_440
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        contiguous_446 = torch.Tensor.contiguous(transpose_4_444)
        del transpose_4_444
        contiguous_452 = nnscaler.runtime.adapter.nn.alltoall_alltoall(contiguous_446, idim=3, odim=2, ranks=[0, 1])
        del contiguous_446
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        view_3_454 = torch.Tensor.view(contiguous_452, size=(getitem_1_136, getitem_2_137, 8))
        del contiguous_452
        view_3_460 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_3_454, idim=2, odim=0, ranks=[0, 1])
        del view_3_454
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        linear_1_462 = torch.nn.functional.linear(view_3_460, self.blocks_0_proj_weight_176, self.blocks_0_proj_bias_177)
        del view_3_460
        linear_1_474 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_462, idim=0, odim=2, ranks=[0, 1])
        del linear_1_462
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        add_1_476 = torch.add(add_472, linear_1_474, alpha=1)
        del add_472, linear_1_474
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_1_579, add_1_581 = nnscaler.runtime.function.multiref(add_1_476, times=2)
        del add_1_476
        add_1_484 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_579, idim=2, odim=0, ranks=[0, 1])
        del add_1_579
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        layer_norm_1_486 = nnscaler.runtime.function.layer_norm(add_1_484, self.blocks_0_ln2_weight_180, self.blocks_0_ln2_bias_181, normalized_shape=(16,), eps=1e-05)
        del add_1_484
        layer_norm_1_182 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_1_486, dim=0, ranks=[0, 1])
        del layer_norm_1_486
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_2_500 = torch.nn.functional.linear(layer_norm_1_182, self.blocks_0_fc1_weight_496, self.blocks_0_fc1_bias_498)
        del layer_norm_1_182
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        gelu_510 = torch.nn.functional.gelu(linear_2_500, approximate='none')
        del linear_2_500
        gelu_186 = nnscaler.runtime.adapter.nn.allgather_reducescatter(gelu_510, dim=2, ranks=[0, 1])
        del gelu_510
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_3_518 = torch.nn.functional.linear(gelu_186, self.blocks_0_fc2_weight_514, self.blocks_0_fc2_bias_516)
        del gelu_186
        linear_3_530 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_3_518, idim=2, odim=1, ranks=[0, 1])
        del linear_3_518
        add_1_528 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_581, idim=2, odim=1, ranks=[0, 1])
        del add_1_581
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        add_2_532 = torch.add(add_1_528, linear_3_530, alpha=1)
        del linear_3_530, add_1_528
        # File "models.py", line 70, in forward,  logits = self.head(self.lnf(x))
        layer_norm_2_540 = nnscaler.runtime.function.layer_norm(add_2_532, self.lnf_weight_191, self.lnf_bias_192, normalized_shape=(16,), eps=1e-05)
        del add_2_532
        layer_norm_2_193 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_2_540, dim=1, ranks=[0, 1])
        del layer_norm_2_540
        # File "models.py", line 70, in forward,  logits = self.head(self.lnf(x))
        linear_4_550 = torch.nn.functional.linear(layer_norm_2_193, self.head_weight_548, bias=None)
        del layer_norm_2_193
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_4_584, linear_4_562 = nnscaler.runtime.function.multiref(linear_4_550, times=2)
        del linear_4_550
        # File "models.py", line 71, in forward,  labels = data["labels"].view(-1)
        getitem_7_196 = _operator.getitem(data_203, 'labels')
        getitem_7_558 = nnscaler.runtime.adapter.chunk(getitem_7_196, dim=0, ranks=[0, 1])
        del getitem_7_196
        # File "models.py", line 71, in forward,  labels = data["labels"].view(-1)
        view_4_560 = torch.Tensor.view(getitem_7_558, size=(-1,))
        del getitem_7_558
        linear_4_282 = nnscaler.runtime.adapter.all_gather(linear_4_584, dim=2, ranks=[0, 1])
        del linear_4_584
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_144 = torch.Tensor.size(linear_4_282, dim=-1)
        del linear_4_282
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_5_564 = torch.Tensor.view(linear_4_562, size=(-1, 32))
        del linear_4_562
        view_4_197 = nnscaler.runtime.adapter.all_gather(view_4_560, dim=0, ranks=[0, 1])
        del view_4_560
        view_5_198 = nnscaler.runtime.adapter.nn.allgather_split(view_5_564, dim=1, ranks=[0, 1])
        del view_5_564
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_145 = torch.nn.functional.cross_entropy(view_5_198, view_4_197, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_4_197, view_5_198
        return cross_entropy_145
    
    def reducer604(self):
        self.wreducer604.sync_grads()
        return 
    
    def reducer728(self):
        self.wreducer728.sync_grads()
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
    cross_entropy_145 = nnscaler.runtime.executor.fexecute('segment725', model.segment725, *(data_203, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment725', (), (cross_entropy_145, ), (None, ))
    cross_entropy_145 = cross_entropy_145.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer604, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.reducer728, *(), requires_grad=False)
    return cross_entropy_145


def _infer_step(model, dataloader_204):
    _ = None
    data_203 = next(*(dataloader_204, ))
    cross_entropy_145 = nnscaler.runtime.executor.fexecute('segment725', model.segment725, *(data_203, ), requires_grad=False)
    return cross_entropy_145
