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
    rank = 3
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('blocks_3_ln1_weight_588', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_3_ln1_weight_588', 318, True, 'blocks.3.ln1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_3_ln1_bias_589', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_3_ln1_bias_589', 320, True, 'blocks.3.ln1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_3_qkv_weight_591', torch.nn.Parameter(torch.empty((48, 16), dtype=torch.float32)))
        self.add_full_map('blocks_3_qkv_weight_591', 324, True, 'blocks.3.qkv.weight', (48, 16), (slice(0, 48, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_3_qkv_bias_592', torch.nn.Parameter(torch.empty((48,), dtype=torch.float32)))
        self.add_full_map('blocks_3_qkv_bias_592', 326, True, 'blocks.3.qkv.bias', (48,), (slice(0, 48, None),), 1)
        
        self.register_parameter('blocks_3_proj_weight_611', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_3_proj_weight_611', 375, True, 'blocks.3.proj.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_3_proj_bias_612', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_3_proj_bias_612', 377, True, 'blocks.3.proj.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_3_ln2_weight_615', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_3_ln2_weight_615', 385, True, 'blocks.3.ln2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_3_ln2_bias_616', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_3_ln2_bias_616', 387, True, 'blocks.3.ln2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_3_fc1_weight_618', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('blocks_3_fc1_weight_618', 391, True, 'blocks.3.fc1.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_3_fc1_bias_619', torch.nn.Parameter(torch.empty((64,), dtype=torch.float32)))
        self.add_full_map('blocks_3_fc1_bias_619', 393, True, 'blocks.3.fc1.bias', (64,), (slice(0, 64, None),), 1)
        
        self.register_parameter('blocks_3_fc2_weight_622', torch.nn.Parameter(torch.empty((16, 64), dtype=torch.float32)))
        self.add_full_map('blocks_3_fc2_weight_622', 399, True, 'blocks.3.fc2.weight', (16, 64), (slice(0, 16, None), slice(0, 64, None)), 1)
        
        self.register_parameter('blocks_3_fc2_bias_623', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_3_fc2_bias_623', 401, True, 'blocks.3.fc2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('lnf_weight_626', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('lnf_weight_626', 409, True, 'lnf.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('lnf_bias_627', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('lnf_bias_627', 411, True, 'lnf.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_629', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_629', 415, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        
        self._post_init(init_params)
    
    def adapter511(self):
        add_6_884 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=2, dst=3)
        return add_6_884
    
    def adapter527(self):
        add_6_885 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=2, dst=3)
        return add_6_885
    
    def segment371(self, getitem_19_457, getitem_20_458, getitem_21_459, data_638, add_6_884, add_6_885):
        add_6_925 = nnscaler.runtime.function.identity(add_6_885)
        del add_6_885
        add_6_921 = nnscaler.runtime.function.identity(add_6_884)
        del add_6_884
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        layer_norm_6_590 = nnscaler.runtime.function.layer_norm(add_6_921, self.blocks_3_ln1_weight_588, self.blocks_3_ln1_bias_589, normalized_shape=(16,), eps=1e-05)
        del add_6_921
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        linear_12_593 = torch.nn.functional.linear(layer_norm_6_590, self.blocks_3_qkv_weight_591, self.blocks_3_qkv_bias_592)
        del layer_norm_6_590
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        chunk_3_594, chunk_3_595, chunk_3_596 = torch.chunk(linear_12_593, chunks=3, dim=-1)
        del linear_12_593
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_12_460 = _operator.floordiv(getitem_21_459, 2)
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_12_597 = torch.Tensor.view(chunk_3_594, size=(getitem_19_457, getitem_20_458, 2, floordiv_12_460))
        del chunk_3_594
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_15_598 = torch.transpose(view_12_597, dim0=1, dim1=2)
        del view_12_597
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_13_461 = _operator.floordiv(getitem_21_459, 2)
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_13_599 = torch.Tensor.view(chunk_3_595, size=(getitem_19_457, getitem_20_458, 2, floordiv_13_461))
        del chunk_3_595
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_16_600 = torch.transpose(view_13_599, dim0=1, dim1=2)
        del view_13_599
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_14_462 = _operator.floordiv(getitem_21_459, 2)
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_14_601 = torch.Tensor.view(chunk_3_596, size=(getitem_19_457, getitem_20_458, 2, floordiv_14_462))
        del chunk_3_596
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_17_602 = torch.transpose(view_14_601, dim0=1, dim1=2)
        del view_14_601
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        transpose_18_603 = torch.transpose(transpose_16_600, dim0=-2, dim1=-1)
        del transpose_16_600
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        matmul_6_604 = torch.matmul(transpose_15_598, transpose_18_603)
        del transpose_15_598, transpose_18_603
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        floordiv_15_463 = _operator.floordiv(getitem_21_459, 2)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        pow_4_464 = _operator.pow(floordiv_15_463, 0.5)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        truediv_3_605 = torch.div(matmul_6_604, pow_4_464, rounding_mode=None)
        del matmul_6_604
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        softmax_3_606 = torch.softmax(truediv_3_605, dim=-1, _stacklevel=3, dtype=None)
        del truediv_3_605
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        matmul_7_607 = torch.matmul(softmax_3_606, transpose_17_602)
        del transpose_17_602, softmax_3_606
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        transpose_19_608 = torch.transpose(matmul_7_607, dim0=1, dim1=2)
        del matmul_7_607
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        contiguous_3_609 = torch.Tensor.contiguous(transpose_19_608)
        del transpose_19_608
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        view_15_610 = torch.Tensor.view(contiguous_3_609, size=(getitem_19_457, getitem_20_458, getitem_21_459))
        del contiguous_3_609
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        linear_13_613 = torch.nn.functional.linear(view_15_610, self.blocks_3_proj_weight_611, self.blocks_3_proj_bias_612)
        del view_15_610
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        add_7_614 = torch.add(add_6_925, linear_13_613, alpha=1)
        del add_6_925, linear_13_613
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_892, add_7_893 = nnscaler.runtime.function.multiref(add_7_614, times=2)
        del add_7_614
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        layer_norm_7_617 = nnscaler.runtime.function.layer_norm(add_7_892, self.blocks_3_ln2_weight_615, self.blocks_3_ln2_bias_616, normalized_shape=(16,), eps=1e-05)
        del add_7_892
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_14_620 = torch.nn.functional.linear(layer_norm_7_617, self.blocks_3_fc1_weight_618, self.blocks_3_fc1_bias_619)
        del layer_norm_7_617
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        gelu_3_621 = torch.nn.functional.gelu(linear_14_620, approximate='none')
        del linear_14_620
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_15_624 = torch.nn.functional.linear(gelu_3_621, self.blocks_3_fc2_weight_622, self.blocks_3_fc2_bias_623)
        del gelu_3_621
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        add_8_625 = torch.add(add_7_893, linear_15_624, alpha=1)
        del add_7_893, linear_15_624
        # File "models.py", line 70, in forward,  logits = self.head(self.lnf(x))
        layer_norm_8_628 = nnscaler.runtime.function.layer_norm(add_8_625, self.lnf_weight_626, self.lnf_bias_627, normalized_shape=(16,), eps=1e-05)
        del add_8_625
        # File "models.py", line 70, in forward,  logits = self.head(self.lnf(x))
        linear_16_630 = torch.nn.functional.linear(layer_norm_8_628, self.head_weight_629, bias=None)
        del layer_norm_8_628
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_16_900, linear_16_901 = nnscaler.runtime.function.multiref(linear_16_630, times=2)
        del linear_16_630
        # File "models.py", line 71, in forward,  labels = data["labels"].view(-1)
        getitem_25_631 = _operator.getitem(data_638, 'labels')
        # File "models.py", line 71, in forward,  labels = data["labels"].view(-1)
        view_16_632 = torch.Tensor.view(getitem_25_631, size=(-1,))
        del getitem_25_631
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_465 = torch.Tensor.size(linear_16_900, dim=-1)
        del linear_16_900
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_17_633 = torch.Tensor.view(linear_16_901, size=(-1, size_465))
        del linear_16_901
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_466 = torch.nn.functional.cross_entropy(view_17_633, view_16_632, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_16_632, view_17_633
        return cross_entropy_466
    
    def adapter533(self, gadd_6_887):
        _ = nnscaler.runtime.adapter.move(gadd_6_887, shape=(2, 8, 16), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter517(self, gadd_6_886):
        _ = nnscaler.runtime.adapter.move(gadd_6_886, shape=(2, 8, 16), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter434(self, cross_entropy_466):
        cross_entropy_466 = nnscaler.runtime.adapter.broadcast(cross_entropy_466, shape=(), dtype=torch.float32, src=3, ranks=[0, 1, 2, 3])
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
    add_6_884 = nnscaler.runtime.executor.aexecute(model.adapter511, *(), requires_grad=True)
    add_6_885 = nnscaler.runtime.executor.aexecute(model.adapter527, *(), requires_grad=True)
    data_638 = next(*(dataloader_639, ))
    cross_entropy_466 = nnscaler.runtime.executor.fexecute('segment371', model.segment371, *(getitem_19_457, getitem_20_458, getitem_21_459, data_638, add_6_884, add_6_885, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_6_886, gadd_6_887 = nnscaler.runtime.executor.backward('segment371', (add_6_884, add_6_885, ), (cross_entropy_466, ), (None, ))
    cross_entropy_466 = cross_entropy_466.detach()
    add_6_1007 = nnscaler.runtime.executor.aexecute(model.adapter511, *(), requires_grad=True)
    add_6_1011 = nnscaler.runtime.executor.aexecute(model.adapter527, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter533, *(gadd_6_887, ), requires_grad=False)
    del add_6_885, gadd_6_887
    _ = nnscaler.runtime.executor.aexecute(model.adapter517, *(gadd_6_886, ), requires_grad=False)
    del add_6_884, gadd_6_886
    data_932 = next(*(dataloader_639, ))
    cross_entropy_1069 = nnscaler.runtime.executor.fexecute('segment371', model.segment371, *(getitem_19_1002, getitem_20_1003, getitem_21_1004, data_932, add_6_1007, add_6_1011, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_6_1008, gadd_6_1012 = nnscaler.runtime.executor.backward('segment371', (add_6_1007, add_6_1011, ), (cross_entropy_1069, ), (None, ))
    cross_entropy_1069 = cross_entropy_1069.detach()
    add_6_1108 = nnscaler.runtime.executor.aexecute(model.adapter511, *(), requires_grad=True)
    add_6_1112 = nnscaler.runtime.executor.aexecute(model.adapter527, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter533, *(gadd_6_1012, ), requires_grad=False)
    del add_6_1011, gadd_6_1012
    _ = nnscaler.runtime.executor.aexecute(model.adapter517, *(gadd_6_1008, ), requires_grad=False)
    del add_6_1007, gadd_6_1008
    data_985 = next(*(dataloader_639, ))
    cross_entropy_1170 = nnscaler.runtime.executor.fexecute('segment371', model.segment371, *(getitem_19_1103, getitem_20_1104, getitem_21_1105, data_985, add_6_1108, add_6_1112, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_6_1109, gadd_6_1113 = nnscaler.runtime.executor.backward('segment371', (add_6_1108, add_6_1112, ), (cross_entropy_1170, ), (None, ))
    cross_entropy_1170 = cross_entropy_1170.detach()
    add_6_1197 = nnscaler.runtime.executor.aexecute(model.adapter511, *(), requires_grad=True)
    add_6_1201 = nnscaler.runtime.executor.aexecute(model.adapter527, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter533, *(gadd_6_1113, ), requires_grad=False)
    del add_6_1112, gadd_6_1113
    _ = nnscaler.runtime.executor.aexecute(model.adapter517, *(gadd_6_1109, ), requires_grad=False)
    del add_6_1108, gadd_6_1109
    data_1086 = next(*(dataloader_639, ))
    cross_entropy_1230 = nnscaler.runtime.executor.fexecute('segment371', model.segment371, *(getitem_19_1192, getitem_20_1193, getitem_21_1194, data_1086, add_6_1197, add_6_1201, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    gadd_6_1198, gadd_6_1202 = nnscaler.runtime.executor.backward('segment371', (add_6_1197, add_6_1201, ), (cross_entropy_1230, ), (None, ))
    cross_entropy_1230 = cross_entropy_1230.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter533, *(gadd_6_1202, ), requires_grad=False)
    del add_6_1201, gadd_6_1202
    _ = nnscaler.runtime.executor.aexecute(model.adapter517, *(gadd_6_1198, ), requires_grad=False)
    del add_6_1197, gadd_6_1198
    cross_entropy_466 = nnscaler.runtime.executor.aexecute(model.adapter434, *(cross_entropy_466, ), requires_grad=True)
    cross_entropy_1069 = nnscaler.runtime.executor.aexecute(model.adapter434, *(cross_entropy_1069, ), requires_grad=True)
    cross_entropy_1170 = nnscaler.runtime.executor.aexecute(model.adapter434, *(cross_entropy_1170, ), requires_grad=True)
    cross_entropy_1230 = nnscaler.runtime.executor.aexecute(model.adapter434, *(cross_entropy_1230, ), requires_grad=True)
    return cross_entropy_466, cross_entropy_1069, cross_entropy_1170, cross_entropy_1230


def _infer_step(model, dataloader_639):
    _ = None
    add_6_884 = nnscaler.runtime.executor.aexecute(model.adapter511, *(), requires_grad=False)
    add_6_885 = nnscaler.runtime.executor.aexecute(model.adapter527, *(), requires_grad=False)
    data_638 = next(*(dataloader_639, ))
    cross_entropy_466 = nnscaler.runtime.executor.fexecute('segment371', model.segment371, *(getitem_19_457, getitem_20_458, getitem_21_459, data_638, add_6_884, add_6_885, ), requires_grad=False)
    add_6_1007 = nnscaler.runtime.executor.aexecute(model.adapter511, *(), requires_grad=False)
    add_6_1011 = nnscaler.runtime.executor.aexecute(model.adapter527, *(), requires_grad=False)
    data_932 = next(*(dataloader_639, ))
    cross_entropy_1069 = nnscaler.runtime.executor.fexecute('segment371', model.segment371, *(getitem_19_1002, getitem_20_1003, getitem_21_1004, data_932, add_6_1007, add_6_1011, ), requires_grad=False)
    add_6_1108 = nnscaler.runtime.executor.aexecute(model.adapter511, *(), requires_grad=False)
    add_6_1112 = nnscaler.runtime.executor.aexecute(model.adapter527, *(), requires_grad=False)
    data_985 = next(*(dataloader_639, ))
    cross_entropy_1170 = nnscaler.runtime.executor.fexecute('segment371', model.segment371, *(getitem_19_1103, getitem_20_1104, getitem_21_1105, data_985, add_6_1108, add_6_1112, ), requires_grad=False)
    add_6_1197 = nnscaler.runtime.executor.aexecute(model.adapter511, *(), requires_grad=False)
    add_6_1201 = nnscaler.runtime.executor.aexecute(model.adapter527, *(), requires_grad=False)
    data_1086 = next(*(dataloader_639, ))
    cross_entropy_1230 = nnscaler.runtime.executor.fexecute('segment371', model.segment371, *(getitem_19_1192, getitem_20_1193, getitem_21_1194, data_1086, add_6_1197, add_6_1201, ), requires_grad=False)
    cross_entropy_466 = nnscaler.runtime.executor.aexecute(model.adapter434, *(cross_entropy_466, ), requires_grad=False)
    cross_entropy_1069 = nnscaler.runtime.executor.aexecute(model.adapter434, *(cross_entropy_1069, ), requires_grad=False)
    cross_entropy_1170 = nnscaler.runtime.executor.aexecute(model.adapter434, *(cross_entropy_1170, ), requires_grad=False)
    cross_entropy_1230 = nnscaler.runtime.executor.aexecute(model.adapter434, *(cross_entropy_1230, ), requires_grad=False)
    return cross_entropy_466, cross_entropy_1069, cross_entropy_1170, cross_entropy_1230
