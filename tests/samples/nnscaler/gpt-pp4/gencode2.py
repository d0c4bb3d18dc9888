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
    rank = 2
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('blocks_2_ln1_weight_550', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_2_ln1_weight_550', 220, True, 'blocks.2.ln1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_2_ln1_bias_551', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_2_ln1_bias_551', 222, True, 'blocks.2.ln1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_2_qkv_weight_553', torch.nn.Parameter(torch.empty((48, 16), dtype=torch.float32)))
        self.add_full_map('blocks_2_qkv_weight_553', 226, True, 'blocks.2.qkv.weight', (48, 16), (slice(0, 48, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_2_qkv_bias_554', torch.nn.Parameter(torch.empty((48,), dtype=torch.float32)))
        self.add_full_map('blocks_2_qkv_bias_554', 228, True, 'blocks.2.qkv.bias', (48,), (slice(0, 48, None),), 1)
        
        self.register_parameter('blocks_2_proj_weight_573', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_2_proj_weight_573', 277, True, 'blocks.2.proj.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_2_proj_bias_574', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_2_proj_bias_574', 279, True, 'blocks.2.proj.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_2_ln2_weight_577', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_2_ln2_weight_577', 287, True, 'blocks.2.ln2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_2_ln2_bias_578', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_2_ln2_bias_578', 289, True, 'blocks.2.ln2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_2_fc1_weight_580', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('blocks_2_fc1_weight_580', 293, True, 'blocks.2.fc1.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_2_fc1_bias_581', torch.nn.Parameter(torch.empty((64,), dtype=torch.float32)))
        self.add_full_map('blocks_2_fc1_bias_581', 295, True, 'blocks.2.fc1.bias', (64,), (slice(0, 64, None),), 1)
        
        self.register_parameter('blocks_2_fc2_weight_584', torch.nn.Parameter(torch.empty((16, 64), dtype=torch.float32)))
        self.add_full_map('blocks_2_fc2_weight_584', 301, True, 'blocks.2.fc2.weight', (16, 64), (slice(0, 16, None), slice(0, 64, None)), 1)
        
        self.register_parameter('blocks_2_fc2_bias_585', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_2_fc2_bias_585', 303, True, 'blocks.2.fc2.bias', (16,), (slice(0, 16, None),), 1)
        
        
        self._post_init(init_params)
    
    def adapter463(self):
        add_4_865 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=1, dst=2)
        return add_4_865
    
    def adapter479(self):
        add_4_866 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=1, dst=2)
        return add_4_866
    
    def segment341(self, getattr_25_447, add_4_865, add_4_866):
        add_4_917 = nnscaler.runtime.function.identity(add_4_866)
        del add_4_866
        add_4_913 = nnscaler.runtime.function.identity(add_4_865)
        del add_4_865
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_13_448 = _operator.getitem(getattr_25_447, 0)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_14_449 = _operator.getitem(getattr_25_447, 1)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_15_450 = _operator.getitem(getattr_25_447, 2)
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        layer_norm_4_552 = nnscaler.runtime.function.layer_norm(add_4_913, self.blocks_2_ln1_weight_550, self.blocks_2_ln1_bias_551, normalized_shape=(16,), eps=1e-05)
        del add_4_913
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        linear_8_555 = torch.nn.functional.linear(layer_norm_4_552, self.blocks_2_qkv_weight_553, self.blocks_2_qkv_bias_554)
        del layer_norm_4_552
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        chunk_2_556, chunk_2_557, chunk_2_558 = torch.chunk(linear_8_555, chunks=3, dim=-1)
        del linear_8_555
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_8_451 = _operator.floordiv(getitem_15_450, 2)
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_8_559 = torch.Tensor.view(chunk_2_556, size=(getitem_13_448, getitem_14_449, 2, floordiv_8_451))
        del chunk_2_556
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_10_560 = torch.transpose(view_8_559, dim0=1, dim1=2)
        del view_8_559
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_9_452 = _operator.floordiv(getitem_15_450, 2)
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_9_561 = torch.Tensor.view(chunk_2_557, size=(getitem_13_448, getitem_14_449, 2, floordiv_9_452))
        del chunk_2_557
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_11_562 = torch.transpose(view_9_561, dim0=1, dim1=2)
        del view_9_561
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_10_453 = _operator.floordiv(getitem_15_450, 2)
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_10_563 = torch.Tensor.view(chunk_2_558, size=(getitem_13_448, getitem_14_449, 2, floordiv_10_453))
        del chunk_2_558
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_12_564 = torch.transpose(view_10_563, dim0=1, dim1=2)
        del view_10_563
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        transpose_13_565 = torch.transpose(transpose_11_562, dim0=-2, dim1=-1)
        del transpose_11_562
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        matmul_4_566 = torch.matmul(transpose_10_560, transpose_13_565)
        del transpose_10_560, transpose_13_565
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        floordiv_11_454 = _operator.floordiv(getitem_15_450, 2)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        pow_3_455 = _operator.pow(floordiv_11_454, 0.5)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        truediv_2_567 = torch.div(matmul_4_566, pow_3_455, rounding_mode=None)
        del matmul_4_566
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        softmax_2_568 = torch.softmax(truediv_2_567, dim=-1, _stacklevel=3, dtype=None)
        del truediv_2_567
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        matmul_5_569 = torch.matmul(softmax_2_568, transpose_12_564)
        del transpose_12_564, softmax_2_568
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        transpose_14_570 = torch.transpose(matmul_5_569, dim0=1, dim1=2)
        del matmul_5_569
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        contiguous_2_571 = torch.Tensor.contiguous(transpose_14_570)
        del transpose_14_570
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        view_11_572 = torch.Tensor.view(contiguous_2_571, size=(getitem_13_448, getitem_14_449, getitem_15_450))
        del contiguous_2_571
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        linear_9_575 = torch.nn.functional.linear(view_11_572, self.blocks_2_proj_weight_573, self.blocks_2_proj_bias_574)
        del view_11_572
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        add_5_576 = torch.add(add_4_917, linear_9_575, alpha=1)
        del add_4_917, linear_9_575
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_5_873, add_5_874 = nnscaler.runtime.function.multiref(add_5_576, times=2)
        del add_5_576
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        layer_norm_5_579 = nnscaler.runtime.function.layer_norm(add_5_873, self.blocks_2_ln2_weight_577, self.blocks_2_ln2_bias_578, normalized_shape=(16,), eps=1e-05)
        del add_5_873
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_10_582 = torch.nn.functional.linear(layer_norm_5_579, self.blocks_2_fc1_weight_580, self.blocks_2_fc1_bias_581)
        del layer_norm_5_579
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        gelu_2_583 = torch.nn.functional.gelu(linear_10_582, approximate='none')
        del linear_10_582
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_11_586 = torch.nn.functional.linear(gelu_2_583, self.blocks_2_fc2_weight_584, self.blocks_2_fc2_bias_585)
        del gelu_2_583
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        add_6_587 = torch.add(add_5_874, linear_11_586, alpha=1)
        del add_5_874, linear_11_586
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_6_883, add_6_884, add_6_885 = nnscaler.runtime.function.multiref(add_6_587, times=3)
        del add_6_587
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getattr_37_456 = builtins.getattr(add_6_883, 'shape')
        del add_6_883
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_19_457 = _operator.getitem(getattr_37_456, 0)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_20_458 = _operator.getitem(getattr_37_456, 1)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_21_459 = _operator.getitem(getattr_37_456, 2)
        return getitem_19_457, getitem_20_458, getitem_21_459, add_6_884, add_6_885
    
    def adapter511(self, add_6_884):
        _ = nnscaler.runtime.adapter.move(add_6_884, shape=(2, 8, 16), dtype=torch.float32, src=2, dst=3)
        return 
    
    def adapter527(self, add_6_885):
        _ = nnscaler.runtime.adapter.move(add_6_885, shape=(2, 8, 16), dtype=torch.float32, src=2, dst=3)
        return 
    
    def adapter533(self):
        gadd_6_887 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=3, dst=2)
        return gadd_6_887
    
    def adapter517(self):
        gadd_6_886 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=3, dst=2)
        return gadd_6_886
    
    def adapter485(self, gadd_4_868):
        _ = nnscaler.runtime.adapter.move(gadd_4_868, shape=(2, 8, 16), dtype=torch.float32, src=2, dst=1)
        return 
    
    def adapter469(self, gadd_4_867):
        _ = nnscaler.runtime.adapter.move(gadd_4_867, shape=(2, 8, 16), dtype=torch.float32, src=2, dst=1)
        return 
    
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
    add_4_865 = nnscaler.runtime.executor.aexecute(model.adapter463, *(), requires_grad=True)
    add_4_866 = nnscaler.runtime.executor.aexecute(model.adapter479, *(), requires_grad=True)
    getitem_19_457, getitem_20_458, getitem_21_459, add_6_884, add_6_885 = nnscaler.runtime.executor.fexecute('segment341', model.segment341, *(getattr_25_447, add_4_865, add_4_866, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter511, *(add_6_884, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter527, *(add_6_885, ), requires_grad=False)
    add_4_963 = nnscaler.runtime.executor.aexecute(model.adapter463, *(), requires_grad=True)
    add_4_967 = nnscaler.runtime.executor.aexecute(model.adapter479, *(), requires_grad=True)
    getitem_19_1002, getitem_20_1003, getitem_21_1004, add_6_1007, add_6_1011 = nnscaler.runtime.executor.fexecute('segment341', model.segment341, *(getattr_25_960, add_4_963, add_4_967, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter511, *(add_6_1007, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter527, *(add_6_1011, ), requires_grad=False)
    gadd_6_887 = nnscaler.runtime.executor.aexecute(model.adapter533, *(), requires_grad=False)
    gadd_6_886 = nnscaler.runtime.executor.aexecute(model.adapter517, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_4_867, gadd_4_868 = nnscaler.runtime.executor.backward('segment341', (add_4_865, add_4_866, ), (add_6_884, add_6_885, ), (gadd_6_886, gadd_6_887, ))
    del add_6_884, add_6_885, gadd_6_887, gadd_6_886
    add_4_1049 = nnscaler.runtime.executor.aexecute(model.adapter463, *(), requires_grad=True)
    add_4_1053 = nnscaler.runtime.executor.aexecute(model.adapter479, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter485, *(gadd_4_868, ), requires_grad=False)
    del add_4_866, gadd_4_868
    _ = nnscaler.runtime.executor.aexecute(model.adapter469, *(gadd_4_867, ), requires_grad=False)
    del add_4_865, gadd_4_867
    getitem_19_1103, getitem_20_1104, getitem_21_1105, add_6_1108, add_6_1112 = nnscaler.runtime.executor.fexecute('segment341', model.segment341, *(getattr_25_1046, add_4_1049, add_4_1053, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter511, *(add_6_1108, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter527, *(add_6_1112, ), requires_grad=False)
    gadd_6_1012 = nnscaler.runtime.executor.aexecute(model.adapter533, *(), requires_grad=False)
    gadd_6_1008 = nnscaler.runtime.executor.aexecute(model.adapter517, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_4_964, gadd_4_968 = nnscaler.runtime.executor.backward('segment341', (add_4_963, add_4_967, ), (add_6_1007, add_6_1011, ), (gadd_6_1008, gadd_6_1012, ))
    del add_6_1007, add_6_1011, gadd_6_1012, gadd_6_1008
    add_4_1150 = nnscaler.runtime.executor.aexecute(model.adapter463, *(), requires_grad=True)
    add_4_1154 = nnscaler.runtime.executor.aexecute(model.adapter479, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter485, *(gadd_4_968, ), requires_grad=False)
    del add_4_967, gadd_4_968
    _ = nnscaler.runtime.executor.aexecute(model.adapter469, *(gadd_4_964, ), requires_grad=False)
    del add_4_963, gadd_4_964
    getitem_19_1192, getitem_20_1193, getitem_21_1194, add_6_1197, add_6_1201 = nnscaler.runtime.executor.fexecute('segment341', model.segment341, *(getattr_25_1147, add_4_1150, add_4_1154, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter511, *(add_6_1197, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter527, *(add_6_1201, ), requires_grad=False)
    gadd_6_1113 = nnscaler.runtime.executor.aexecute(model.adapter533, *(), requires_grad=False)
    gadd_6_1109 = nnscaler.runtime.executor.aexecute(model.adapter517, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_4_1050, gadd_4_1054 = nnscaler.runtime.executor.backward('segment341', (add_4_1049, add_4_1053, ), (add_6_1108, add_6_1112, ), (gadd_6_1109, gadd_6_1113, ))
    del add_6_1108, add_6_1112, gadd_6_1113, gadd_6_1109
    _ = nnscaler.runtime.executor.aexecute(model.adapter485, *(gadd_4_1054, ), requires_grad=False)
    del add_4_1053, gadd_4_1054
    _ = nnscaler.runtime.executor.aexecute(model.adapter469, *(gadd_4_1050, ), requires_grad=False)
    del add_4_1049, gadd_4_1050
    gadd_6_1202 = nnscaler.runtime.executor.aexecute(model.adapter533, *(), requires_grad=False)
    gadd_6_1198 = nnscaler.runtime.executor.aexecute(model.adapter517, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    gadd_4_1151, gadd_4_1155 = nnscaler.runtime.executor.backward('segment341', (add_4_1150, add_4_1154, ), (add_6_1197, add_6_1201, ), (gadd_6_1198, gadd_6_1202, ))
    del add_6_1197, add_6_1201, gadd_6_1202, gadd_6_1198
    _ = nnscaler.runtime.executor.aexecute(model.adapter485, *(gadd_4_1155, ), requires_grad=False)
    del add_4_1154, gadd_4_1155
    _ = nnscaler.runtime.executor.aexecute(model.adapter469, *(gadd_4_1151, ), requires_grad=False)
    del add_4_1150, gadd_4_1151
    data_1086 = next(*(dataloader_639, ))
    data_985 = next(*(dataloader_639, ))
    data_932 = next(*(dataloader_639, ))
    data_638 = next(*(dataloader_639, ))
    cross_entropy_466 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=True)
    cross_entropy_1069 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=True)
    cross_entropy_1170 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=True)
    cross_entropy_1230 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=True)
    return cross_entropy_466, cross_entropy_1069, cross_entropy_1170, cross_entropy_1230


def _infer_step(model, dataloader_639):
    _ = None
    add_4_865 = nnscaler.runtime.executor.aexecute(model.adapter463, *(), requires_grad=False)
    add_4_866 = nnscaler.runtime.executor.aexecute(model.adapter479, *(), requires_grad=False)
    getitem_19_457, getitem_20_458, getitem_21_459, add_6_884, add_6_885 = nnscaler.runtime.executor.fexecute('segment341', model.segment341, *(getattr_25_447, add_4_865, add_4_866, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter511, *(add_6_884, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter527, *(add_6_885, ), requires_grad=False)
    add_4_963 = nnscaler.runtime.executor.aexecute(model.adapter463, *(), requires_grad=False)
    add_4_967 = nnscaler.runtime.executor.aexecute(model.adapter479, *(), requires_grad=False)
    getitem_19_1002, getitem_20_1003, getitem_21_1004, add_6_1007, add_6_1011 = nnscaler.runtime.executor.fexecute('segment341', model.segment341, *(getattr_25_960, add_4_963, add_4_967, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter511, *(add_6_1007, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter527, *(add_6_1011, ), requires_grad=False)
    add_4_1049 = nnscaler.runtime.executor.aexecute(model.adapter463, *(), requires_grad=False)
    add_4_1053 = nnscaler.runtime.executor.aexecute(model.adapter479, *(), requires_grad=False)
    getitem_19_1103, getitem_20_1104, getitem_21_1105, add_6_1108, add_6_1112 = nnscaler.runtime.executor.fexecute('segment341', model.segment341, *(getattr_25_1046, add_4_1049, add_4_1053, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter511, *(add_6_1108, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter527, *(add_6_1112, ), requires_grad=False)
    add_4_1150 = nnscaler.runtime.executor.aexecute(model.adapter463, *(), requires_grad=False)
    add_4_1154 = nnscaler.runtime.executor.aexecute(model.adapter479, *(), requires_grad=False)
    getitem_19_1192, getitem_20_1193, getitem_21_1194, add_6_1197, add_6_1201 = nnscaler.runtime.executor.fexecute('segment341', model.segment341, *(getattr_25_1147, add_4_1150, add_4_1154, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter511, *(add_6_1197, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter527, *(add_6_1201, ), requires_grad=False)
    data_1086 = next(*(dataloader_639, ))
    data_985 = next(*(dataloader_639, ))
    data_932 = next(*(dataloader_639, ))
    data_638 = next(*(dataloader_639, ))
    cross_entropy_466 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1069 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1170 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1230 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    return cross_entropy_466, cross_entropy_1069, cross_entropy_1170, cross_entropy_1230
