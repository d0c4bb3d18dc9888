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
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('blocks_1_ln1_weight_512', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_ln1_weight_512', 122, True, 'blocks.1.ln1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_ln1_bias_513', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_ln1_bias_513', 124, True, 'blocks.1.ln1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_qkv_weight_515', torch.nn.Parameter(torch.empty((48, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_qkv_weight_515', 128, True, 'blocks.1.qkv.weight', (48, 16), (slice(0, 48, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_qkv_bias_516', torch.nn.Parameter(torch.empty((48,), dtype=torch.float32)))
        self.add_full_map('blocks_1_qkv_bias_516', 130, True, 'blocks.1.qkv.bias', (48,), (slice(0, 48, None),), 1)
        
        self.register_parameter('blocks_1_proj_weight_535', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_proj_weight_535', 179, True, 'blocks.1.proj.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_proj_bias_536', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_proj_bias_536', 181, True, 'blocks.1.proj.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_ln2_weight_539', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_ln2_weight_539', 189, True, 'blocks.1.ln2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_ln2_bias_540', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_ln2_bias_540', 191, True, 'blocks.1.ln2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_fc1_weight_542', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_fc1_weight_542', 195, True, 'blocks.1.fc1.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_fc1_bias_543', torch.nn.Parameter(torch.empty((64,), dtype=torch.float32)))
        self.add_full_map('blocks_1_fc1_bias_543', 197, True, 'blocks.1.fc1.bias', (64,), (slice(0, 64, None),), 1)
        
        self.register_parameter('blocks_1_fc2_weight_546', torch.nn.Parameter(torch.empty((16, 64), dtype=torch.float32)))
        self.add_full_map('blocks_1_fc2_weight_546', 203, True, 'blocks.1.fc2.weight', (16, 64), (slice(0, 16, None), slice(0, 64, None)), 1)
        
        self.register_parameter('blocks_1_fc2_bias_547', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_fc2_bias_547', 205, True, 'blocks.1.fc2.bias', (16,), (slice(0, 16, None),), 1)
        
        
        self._post_init(init_params)
    
    def adapter447(self):
        add_1_836 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=0, dst=1)
        return add_1_836
    
    def adapter495(self):
        linear_3_510 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=0, dst=1)
        return linear_3_510
    
    def segment309(self, linear_3_510, add_1_836):
        add_1_909 = nnscaler.runtime.function.identity(add_1_836)
        del add_1_836
        linear_3_905 = nnscaler.runtime.function.identity(linear_3_510)
        del linear_3_510
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        add_2_511 = torch.add(add_1_909, linear_3_905, alpha=1)
        del add_1_909, linear_3_905
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_845, add_2_846, add_2_847 = nnscaler.runtime.function.multiref(add_2_511, times=3)
        del add_2_511
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getattr_13_438 = builtins.getattr(add_2_845, 'shape')
        del add_2_845
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_7_439 = _operator.getitem(getattr_13_438, 0)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_8_440 = _operator.getitem(getattr_13_438, 1)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_9_441 = _operator.getitem(getattr_13_438, 2)
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        layer_norm_2_514 = nnscaler.runtime.function.layer_norm(add_2_846, self.blocks_1_ln1_weight_512, self.blocks_1_ln1_bias_513, normalized_shape=(16,), eps=1e-05)
        del add_2_846
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        linear_4_517 = torch.nn.functional.linear(layer_norm_2_514, self.blocks_1_qkv_weight_515, self.blocks_1_qkv_bias_516)
        del layer_norm_2_514
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        chunk_1_518, chunk_1_519, chunk_1_520 = torch.chunk(linear_4_517, chunks=3, dim=-1)
        del linear_4_517
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_4_442 = _operator.floordiv(getitem_9_441, 2)
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_4_521 = torch.Tensor.view(chunk_1_518, size=(getitem_7_439, getitem_8_440, 2, floordiv_4_442))
        del chunk_1_518
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_5_522 = torch.transpose(view_4_521, dim0=1, dim1=2)
        del view_4_521
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_5_443 = _operator.floordiv(getitem_9_441, 2)
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_5_523 = torch.Tensor.view(chunk_1_519, size=(getitem_7_439, getitem_8_440, 2, floordiv_5_443))
        del chunk_1_519
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_6_524 = torch.transpose(view_5_523, dim0=1, dim1=2)
        del view_5_523
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_6_444 = _operator.floordiv(getitem_9_441, 2)
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_6_525 = torch.Tensor.view(chunk_1_520, size=(getitem_7_439, getitem_8_440, 2, floordiv_6_444))
        del chunk_1_520
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_7_526 = torch.transpose(view_6_525, dim0=1, dim1=2)
        del view_6_525
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        transpose_8_527 = torch.transpose(transpose_6_524, dim0=-2, dim1=-1)
        del transpose_6_524
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        matmul_2_528 = torch.matmul(transpose_5_522, transpose_8_527)
        del transpose_5_522, transpose_8_527
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        floordiv_7_445 = _operator.floordiv(getitem_9_441, 2)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        pow_2_446 = _operator.pow(floordiv_7_445, 0.5)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        truediv_1_529 = torch.div(matmul_2_528, pow_2_446, rounding_mode=None)
        del matmul_2_528
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        softmax_1_530 = torch.softmax(truediv_1_529, dim=-1, _stacklevel=3, dtype=None)
        del truediv_1_529
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        matmul_3_531 = torch.matmul(softmax_1_530, transpose_7_526)
        del transpose_7_526, softmax_1_530
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        transpose_9_532 = torch.transpose(matmul_3_531, dim0=1, dim1=2)
        del matmul_3_531
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        contiguous_1_533 = torch.Tensor.contiguous(transpose_9_532)
        del transpose_9_532
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        view_7_534 = torch.Tensor.view(contiguous_1_533, size=(getitem_7_439, getitem_8_440, getitem_9_441))
        del contiguous_1_533
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        linear_5_537 = torch.nn.functional.linear(view_7_534, self.blocks_1_proj_weight_535, self.blocks_1_proj_bias_536)
        del view_7_534
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        add_3_538 = torch.add(add_2_847, linear_5_537, alpha=1)
        del add_2_847, linear_5_537
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_3_854, add_3_855 = nnscaler.runtime.function.multiref(add_3_538, times=2)
        del add_3_538
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        layer_norm_3_541 = nnscaler.runtime.function.layer_norm(add_3_854, self.blocks_1_ln2_weight_539, self.blocks_1_ln2_bias_540, normalized_shape=(16,), eps=1e-05)
        del add_3_854
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_6_544 = torch.nn.functional.linear(layer_norm_3_541, self.blocks_1_fc1_weight_542, self.blocks_1_fc1_bias_543)
        del layer_norm_3_541
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        gelu_1_545 = torch.nn.functional.gelu(linear_6_544, approximate='none')
        del linear_6_544
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_7_548 = torch.nn.functional.linear(gelu_1_545, self.blocks_1_fc2_weight_546, self.blocks_1_fc2_bias_547)
        del gelu_1_545
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        add_4_549 = torch.add(add_3_855, linear_7_548, alpha=1)
        del add_3_855, linear_7_548
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_864, add_4_865, add_4_866 = nnscaler.runtime.function.multiref(add_4_549, times=3)
        del add_4_549
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getattr_25_447 = builtins.getattr(add_4_864, 'shape')
        del add_4_864
        return getattr_25_447, add_4_865, add_4_866
    
    def adapter463(self, add_4_865):
        _ = nnscaler.runtime.adapter.move(add_4_865, shape=(2, 8, 16), dtype=torch.float32, src=1, dst=2)
        return 
    
    def adapter479(self, add_4_866):
        _ = nnscaler.runtime.adapter.move(add_4_866, shape=(2, 8, 16), dtype=torch.float32, src=1, dst=2)
        return 
    
    def adapter485(self):
        gadd_4_868 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=2, dst=1)
        return gadd_4_868
    
    def adapter469(self):
        gadd_4_867 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=2, dst=1)
        return gadd_4_867
    
    def adapter501(self, glinear_3_686):
        _ = nnscaler.runtime.adapter.move(glinear_3_686, shape=(2, 8, 16), dtype=torch.float32, src=1, dst=0)
        return 
    
    def adapter453(self, gadd_1_838):
        _ = nnscaler.runtime.adapter.move(gadd_1_838, shape=(2, 8, 16), dtype=torch.float32, src=1, dst=0)
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
    add_1_836 = nnscaler.runtime.executor.aexecute(model.adapter447, *(), requires_grad=True)
    linear_3_510 = nnscaler.runtime.executor.aexecute(model.adapter495, *(), requires_grad=True)
    getattr_25_447, add_4_865, add_4_866 = nnscaler.runtime.executor.fexecute('segment309', model.segment309, *(linear_3_510, add_1_836, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter463, *(add_4_865, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter479, *(add_4_866, ), requires_grad=False)
    add_1_940 = nnscaler.runtime.executor.aexecute(model.adapter447, *(), requires_grad=True)
    linear_3_936 = nnscaler.runtime.executor.aexecute(model.adapter495, *(), requires_grad=True)
    getattr_25_960, add_4_963, add_4_967 = nnscaler.runtime.executor.fexecute('segment309', model.segment309, *(linear_3_936, add_1_940, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter463, *(add_4_963, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter479, *(add_4_967, ), requires_grad=False)
    add_1_993 = nnscaler.runtime.executor.aexecute(model.adapter447, *(), requires_grad=True)
    linear_3_989 = nnscaler.runtime.executor.aexecute(model.adapter495, *(), requires_grad=True)
    getattr_25_1046, add_4_1049, add_4_1053 = nnscaler.runtime.executor.fexecute('segment309', model.segment309, *(linear_3_989, add_1_993, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter463, *(add_4_1049, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter479, *(add_4_1053, ), requires_grad=False)
    gadd_4_868 = nnscaler.runtime.executor.aexecute(model.adapter485, *(), requires_grad=False)
    gadd_4_867 = nnscaler.runtime.executor.aexecute(model.adapter469, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_3_686, gadd_1_838 = nnscaler.runtime.executor.backward('segment309', (linear_3_510, add_1_836, ), (add_4_865, add_4_866, ), (gadd_4_867, gadd_4_868, ))
    del add_4_865, add_4_866, gadd_4_868, gadd_4_867
    add_1_1094 = nnscaler.runtime.executor.aexecute(model.adapter447, *(), requires_grad=True)
    linear_3_1090 = nnscaler.runtime.executor.aexecute(model.adapter495, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter501, *(glinear_3_686, ), requires_grad=False)
    del linear_3_510, glinear_3_686
    _ = nnscaler.runtime.executor.aexecute(model.adapter453, *(gadd_1_838, ), requires_grad=False)
    del add_1_836, gadd_1_838
    getattr_25_1147, add_4_1150, add_4_1154 = nnscaler.runtime.executor.fexecute('segment309', model.segment309, *(linear_3_1090, add_1_1094, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter463, *(add_4_1150, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter479, *(add_4_1154, ), requires_grad=False)
    gadd_4_968 = nnscaler.runtime.executor.aexecute(model.adapter485, *(), requires_grad=False)
    gadd_4_964 = nnscaler.runtime.executor.aexecute(model.adapter469, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_3_937, gadd_1_941 = nnscaler.runtime.executor.backward('segment309', (linear_3_936, add_1_940, ), (add_4_963, add_4_967, ), (gadd_4_964, gadd_4_968, ))
    del add_4_963, add_4_967, gadd_4_968, gadd_4_964
    _ = nnscaler.runtime.executor.aexecute(model.adapter501, *(glinear_3_937, ), requires_grad=False)
    del linear_3_936, glinear_3_937
    _ = nnscaler.runtime.executor.aexecute(model.adapter453, *(gadd_1_941, ), requires_grad=False)
    del add_1_940, gadd_1_941
    gadd_4_1054 = nnscaler.runtime.executor.aexecute(model.adapter485, *(), requires_grad=False)
    gadd_4_1050 = nnscaler.runtime.executor.aexecute(model.adapter469, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_3_990, gadd_1_994 = nnscaler.runtime.executor.backward('segment309', (linear_3_989, add_1_993, ), (add_4_1049, add_4_1053, ), (gadd_4_1050, gadd_4_1054, ))
    del add_4_1049, add_4_1053, gadd_4_1054, gadd_4_1050
    _ = nnscaler.runtime.executor.aexecute(model.adapter501, *(glinear_3_990, ), requires_grad=False)
    del linear_3_989, glinear_3_990
    _ = nnscaler.runtime.executor.aexecute(model.adapter453, *(gadd_1_994, ), requires_grad=False)
    del add_1_993, gadd_1_994
    gadd_4_1155 = nnscaler.runtime.executor.aexecute(model.adapter485, *(), requires_grad=False)
    gadd_4_1151 = nnscaler.runtime.executor.aexecute(model.adapter469, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    glinear_3_1091, gadd_1_1095 = nnscaler.runtime.executor.backward('segment309', (linear_3_1090, add_1_1094, ), (add_4_1150, add_4_1154, ), (gadd_4_1151, gadd_4_1155, ))
    del add_4_1150, add_4_1154, gadd_4_1155, gadd_4_1151
    _ = nnscaler.runtime.executor.aexecute(model.adapter501, *(glinear_3_1091, ), requires_grad=False)
    del linear_3_1090, glinear_3_1091
    _ = nnscaler.runtime.executor.aexecute(model.adapter453, *(gadd_1_1095, ), requires_grad=False)
    del add_1_1094, gadd_1_1095
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
    add_1_836 = nnscaler.runtime.executor.aexecute(model.adapter447, *(), requires_grad=False)
    linear_3_510 = nnscaler.runtime.executor.aexecute(model.adapter495, *(), requires_grad=False)
    getattr_25_447, add_4_865, add_4_866 = nnscaler.runtime.executor.fexecute('segment309', model.segment309, *(linear_3_510, add_1_836, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter463, *(add_4_865, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter479, *(add_4_866, ), requires_grad=False)
    add_1_940 = nnscaler.runtime.executor.aexecute(model.adapter447, *(), requires_grad=False)
    linear_3_936 = nnscaler.runtime.executor.aexecute(model.adapter495, *(), requires_grad=False)
    getattr_25_960, add_4_963, add_4_967 = nnscaler.runtime.executor.fexecute('segment309', model.segment309, *(linear_3_936, add_1_940, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter463, *(add_4_963, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter479, *(add_4_967, ), requires_grad=False)
    add_1_993 = nnscaler.runtime.executor.aexecute(model.adapter447, *(), requires_grad=False)
    linear_3_989 = nnscaler.runtime.executor.aexecute(model.adapter495, *(), requires_grad=False)
    getattr_25_1046, add_4_1049, add_4_1053 = nnscaler.runtime.executor.fexecute('segment309', model.segment309, *(linear_3_989, add_1_993, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter463, *(add_4_1049, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter479, *(add_4_1053, ), requires_grad=False)
    add_1_1094 = nnscaler.runtime.executor.aexecute(model.adapter447, *(), requires_grad=False)
    linear_3_1090 = nnscaler.runtime.executor.aexecute(model.adapter495, *(), requires_grad=False)
    getattr_25_1147, add_4_1150, add_4_1154 = nnscaler.runtime.executor.fexecute('segment309', model.segment309, *(linear_3_1090, add_1_1094, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter463, *(add_4_1150, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter479, *(add_4_1154, ), requires_grad=False)
    data_1086 = next(*(dataloader_639, ))
    data_985 = next(*(dataloader_639, ))
    data_932 = next(*(dataloader_639, ))
    data_638 = next(*(dataloader_639, ))
    cross_entropy_466 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1069 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1170 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    cross_entropy_1230 = nnscaler.runtime.executor.aexecute(model.adapter434, *(), requires_grad=False)
    return cross_entropy_466, cross_entropy_1069, cross_entropy_1170, cross_entropy_1230
