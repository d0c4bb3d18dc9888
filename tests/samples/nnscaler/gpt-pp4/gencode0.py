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
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('tok_weight_468', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_468', 4, True, 'tok.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_buffer('position_470', torch.empty((8,), dtype=torch.int64), persistent=True)
        self.add_full_map('position_470', 8, False, 'position', (8,), (slice(0, 8, None),), 1)
        
        self.register_parameter('pos_weight_471', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('pos_weight_471', 9, True, 'pos.weight', (8, 16), (slice(0, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_ln1_weight_474', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln1_weight_474', 24, True, 'blocks.0.ln1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln1_bias_475', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln1_bias_475', 26, True, 'blocks.0.ln1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_qkv_weight_477', torch.nn.Parameter(torch.empty((48, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_qkv_weight_477', 30, True, 'blocks.0.qkv.weight', (48, 16), (slice(0, 48, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_qkv_bias_478', torch.nn.Parameter(torch.empty((48,), dtype=torch.float32)))
        self.add_full_map('blocks_0_qkv_bias_478', 32, True, 'blocks.0.qkv.bias', (48,), (slice(0, 48, None),), 1)
        
        self.register_parameter('blocks_0_proj_weight_497', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_proj_weight_497', 81, True, 'blocks.0.proj.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_proj_bias_498', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_proj_bias_498', 83, True, 'blocks.0.proj.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln2_weight_501', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln2_weight_501', 91, True, 'blocks.0.ln2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln2_bias_502', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln2_bias_502', 93, True, 'blocks.0.ln2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_fc1_weight_504', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc1_weight_504', 97, True, 'blocks.0.fc1.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_fc1_bias_505', torch.nn.Parameter(torch.empty((64,), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc1_bias_505', 99, True, 'blocks.0.fc1.bias', (64,), (slice(0, 64, None),), 1)
        
        self.register_parameter('blocks_0_fc2_weight_508', torch.nn.Parameter(torch.empty((16, 64), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc2_weight_508', 105, True, 'blocks.0.fc2.weight', (16, 64), (slice(0, 16, None), slice(0, 64, None)), 1)
        
        self.register_parameter('blocks_0_fc2_bias_509', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc2_bias_509', 107, True, 'blocks.0.fc2.bias', (16,), (slice(0, 16, None),), 1)
        
        
        self._post_init(init_params)
    
    def segment279(self, data_638):
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        getitem_467 = _operator.getitem(data_638, 'ids')
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        embedding_469 = nnscaler.runtime.function.embedding(getitem_467, self.tok_weight_468, padding_idx=None, start=0, stop=64)
        del getitem_467
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        embedding_1_472 = nnscaler.runtime.function.embedding(self.position_470, self.pos_weight_471, padding_idx=None, start=0, stop=8)
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        add_473 = torch.add(embedding_469, embedding_1_472, alpha=1)
        del embedding_469, embedding_1_472
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_826, add_827, add_828 = nnscaler.runtime.function.multiref(add_473, times=3)
        del add_473
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getattr_1_429 = builtins.getattr(add_826, 'shape')
        del add_826
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_1_430 = _operator.getitem(getattr_1_429, 0)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_2_431 = _operator.getitem(getattr_1_429, 1)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_3_432 = _operator.getitem(getattr_1_429, 2)
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        layer_norm_476 = nnscaler.runtime.function.layer_norm(add_827, self.blocks_0_ln1_weight_474, self.blocks_0_ln1_bias_475, normalized_shape=(16,), eps=1e-05)
        del add_827
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        linear_479 = torch.nn.functional.linear(layer_norm_476, self.blocks_0_qkv_weight_477, self.blocks_0_qkv_bias_478)
        del layer_norm_476
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        chunk_480, chunk_481, chunk_482 = torch.chunk(linear_479, chunks=3, dim=-1)
        del linear_479
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_433 = _operator.floordiv(getitem_3_432, 2)
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_483 = torch.Tensor.view(chunk_480, size=(getitem_1_430, getitem_2_431, 2, floordiv_433))
        del chunk_480
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_484 = torch.transpose(view_483, dim0=1, dim1=2)
        del view_483
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_1_434 = _operator.floordiv(getitem_3_432, 2)
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_1_485 = torch.Tensor.view(chunk_481, size=(getitem_1_430, getitem_2_431, 2, floordiv_1_434))
        del chunk_481
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_1_486 = torch.transpose(view_1_485, dim0=1, dim1=2)
        del view_1_485
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_2_435 = _operator.floordiv(getitem_3_432, 2)
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_2_487 = torch.Tensor.view(chunk_482, size=(getitem_1_430, getitem_2_431, 2, floordiv_2_435))
        del chunk_482
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_2_488 = torch.transpose(view_2_487, dim0=1, dim1=2)
        del view_2_487
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        transpose_3_489 = torch.transpose(transpose_1_486, dim0=-2, dim1=-1)
        del transpose_1_486
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        matmul_490 = torch.matmul(transpose_484, transpose_3_489)
        del transpose_484, transpose_3_489
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        floordiv_3_436 = _operator.floordiv(getitem_3_432, 2)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        pow_1_437 = _operator.pow(floordiv_3_436, 0.5)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        truediv_491 = torch.div(matmul_490, pow_1_437, rounding_mode=None)
        del matmul_490
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        softmax_492 = torch.softmax(truediv_491, dim=-1, _stacklevel=3, dtype=None)
        del truediv_491
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        matmul_1_493 = torch.matmul(softmax_492, transpose_2_488)
        del transpose_2_488, softmax_492
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        transpose_4_494 = torch.transpose(matmul_1_493, dim0=1, dim1=2)
        del matmul_1_493
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        contiguous_495 = torch.Tensor.contiguous(transpose_4_494)
        del transpose_4_494
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        view_3_496 = torch.Tensor.view(contiguous_495, size=(getitem_1_430, getitem_2_431, getitem_3_432))
        del contiguous_495
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        linear_1_499 = torch.nn.functional.linear(view_3_496, self.blocks_0_proj_weight_497, self.blocks_0_proj_bias_498)
        del view_3_496
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        add_1_500 = torch.add(add_828, linear_1_499, alpha=1)
        del add_828, linear_1_499
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_1_835, add_1_836 = nnscaler.runtime.function.multiref(add_1_500, times=2)
        del add_1_500
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        layer_norm_1_503 = nnscaler.runtime.function.layer_norm(add_1_835, self.blocks_0_ln2_weight_501, self.blocks_0_ln2_bias_502, normalized_shape=(16,), eps=1e-05)
        del add_1_835
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_2_506 = torch.nn.functional.linear(layer_norm_1_503, self.blocks_0_fc1_weight_504, self.blocks_0_fc1_bias_505)
        del layer_norm_1_503
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        gelu_507 = torch.nn.functional.gelu(linear_2_506, approximate='none')
        del linear_2_506
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_3_510 = torch.nn.functional.linear(gelu_507, self.blocks_0_fc2_weight_508, self.blocks_0_fc2_bias_509)
        del gelu_507
        return linear_3_510, add_1_836
    
    def adapter447(self, add_1_836):
        _ = nnscaler.runtime.adapter.move(add_1_836, shape=(2, 8, 16), dtype=torch.float32, src=0, dst=1)
        return 
    
    def adapter495(self, linear_3_510):
        _ = nnscaler.runtime.adapter.move(linear_3_510, shape=(2, 8, 16), dtype=torch.float32, src=0, dst=1)
        return 
    
    def adapter501(self):
        glinear_3_686 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=1, dst=0)
        return glinear_3_686
    
    def adapter453(self):
        gadd_1_838 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=1, dst=0)
        return gadd_1_838
    
    def adapter434(self):
        cross_entropy_466 = nnscaler.runtime.adapter.broadcast((), shape=(), dtype=torch.float32, src=3, ranks=[0, 1, 2, 3])
        return cross_entropy_466
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_639):
    _ = None
    nnscaler.flags.RuntimeFlag.skip_zero_grad = False
    model.zero_grad()
    data_638 = next(*(dataloader_639, ))
    linear_3_510, add_1_836 = nnscaler.runtime.executor.fexecute('segment279', model.segment279, *(data_638, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter447, *(add_1_836, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter495, *(linear_3_510, ), requires_grad=False)
    data_932 = next(*(dataloader_639, ))
    linear_3_936, add_1_940 = nnscaler.runtime.executor.fexecute('segment279', model.segment279, *(data_932, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter447, *(add_1_940, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter495, *(linear_3_936, ), requires_grad=False)
    data_985 = next(*(dataloader_639, ))
    linear_3_989, add_1_993 = nnscaler.runtime.executor.fexecute('segment279', model.segment279, *(data_985, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter447, *(add_1_993, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter495, *(linear_3_989, ), requires_grad=False)
    data_1086 = next(*(dataloader_639, ))
    linear_3_1090, add_1_1094 = nnscaler.runtime.executor.fexecute('segment279', model.segment279, *(data_1086, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter447, *(add_1_1094, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter495, *(linear_3_1090, ), requires_grad=False)
    glinear_3_686 = nnscaler.runtime.executor.aexecute(model.adapter501, *(), requires_grad=False)
    gadd_1_838 = nnscaler.runtime.executor.aexecute(model.adapter453, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment279', (), (linear_3_510, add_1_836, ), (glinear_3_686, gadd_1_838, ))
    del linear_3_510, add_1_836, glinear_3_686, gadd_1_838
    glinear_3_937 = nnscaler.runtime.executor.aexecute(model.adapter501, *(), requires_grad=False)
    gadd_1_941 = nnscaler.runtime.executor.aexecute(model.adapter453, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment279', (), (linear_3_936, add_1_940, ), (glinear_3_937, gadd_1_941, ))
    del linear_3_936, add_1_940, glinear_3_937, gadd_1_941
    glinear_3_990 = nnscaler.runtime.executor.aexecute(model.adapter501, *(), requires_grad=False)
    gadd_1_994 = nnscaler.runtime.executor.aexecute(model.adapter453, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment279', (), (linear_3_989, add_1_993, ), (glinear_3_990, gadd_1_994, ))
    del linear_3_989, add_1_993, glinear_3_990, gadd_1_994
    glinear_3_1091 = nnscaler.runtime.executor.aexecute(model.adapter501, *(), requires_grad=False)
    gadd_1_1095 = nnscaler.runtime.executor.aexecute(model.adapter453, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    _ = nnscaler.runtime.executor.backward('segment279', (), (linear_3_1090, add_1_1094, ), (glinear_3_1091, gadd_1_1095, ))
    del linear_3_1090, add_1_1094, glinear_3_1091, gadd_1_1095
    cross_entropy_466 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=True)
    cross_entropy_1069 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=True)
    cross_entropy_1170 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=True)
    cross_entropy_1230 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=True)
    return cross_entropy_466, cross_entropy_1069, cross_entropy_1170, cross_entropy_1230


def _infer_step(model, dataloader_639):
    _ = None
    data_638 = next(*(dataloader_639, ))
    linear_3_510, add_1_836 = nnscaler.runtime.executor.fexecute('segment279', model.segment279, *(data_638, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter447, *(add_1_836, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter495, *(linear_3_510, ), requires_grad=False)
    data_932 = next(*(dataloader_639, ))
    linear_3_936, add_1_940 = nnscaler.runtime.executor.fexecute('segment279', model.segment279, *(data_932, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter447, *(add_1_940, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter495, *(linear_3_936, ), requires_grad=False)
    data_985 = next(*(dataloader_639, ))
    linear_3_989, add_1_993 = nnscaler.runtime.executor.fexecute('segment279', model.segment279, *(data_985, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter447, *(add_1_993, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter495, *(linear_3_989, ), requires_grad=False)
    data_1086 = next(*(dataloader_639, ))
    linear_3_1090, add_1_1094 = nnscaler.runtime.executor.fexecute('segment279', model.segment279, *(data_1086, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter447, *(add_1_1094, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter495, *(linear_3_1090, ), requires_grad=False)
    cross_entropy_466 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1069 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1170 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1230 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    return cross_entropy_466, cross_entropy_1069, cross_entropy_1170, cross_entropy_1230
