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
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
         
        self.register_parameter('blocks_1_norm1_weight_287', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm1_weight_287', 116, True, 'blocks.1.norm1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_q_weight_289', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_q_weight_289', 120, True, 'blocks.1.q.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_k_weight_293', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_k_weight_293', 128, True, 'blocks.1.k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_v_weight_297', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_v_weight_297', 136, True, 'blocks.1.v.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_o_weight_309', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_o_weight_309', 160, True, 'blocks.1.o.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_norm2_weight_317', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm2_weight_317', 176, True, 'blocks.1.norm2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_gate_weight_319', torch.nn.Parameter(torch.empty((32, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_gate_weight_319', 180, True, 'blocks.1.gate.weight', (32, 16), (slice(0, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_up_weight_322', torch.nn.Parameter(torch.empty((32, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_up_weight_322', 186, True, 'blocks.1.up.weight', (32, 16), (slice(0, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_down_weight_325', torch.nn.Parameter(torch.empty((16, 32), dtype=torch.float32)))
        self.add_full_map('blocks_1_down_weight_325', 192, True, 'blocks.1.down.weight', (16, 32), (slice(0, 16, None), slice(0, 32, None)), 1)
        
        self.register_parameter('norm_weight_333', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_weight_333', 208, True, 'norm.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_335', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_335', 212, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        
        self.wreducer1882 = nnscaler.runtime.adapter.Reducer(ranks=[2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer1882.add_param(self.blocks_1_norm1_weight_287)
        self.wreducer1882.add_param(self.blocks_1_q_weight_289)
        self.wreducer1882.add_param(self.blocks_1_k_weight_293)
        self.wreducer1882.add_param(self.blocks_1_v_weight_297)
        self.wreducer1882.add_param(self.blocks_1_o_weight_309)
        self.wreducer1882.add_param(self.blocks_1_norm2_weight_317)
        self.wreducer1882.add_param(self.blocks_1_gate_weight_319)
        self.wreducer1882.add_param(self.blocks_1_up_weight_322)
        self.wreducer1882.add_param(self.blocks_1_down_weight_325)
        self.wreducer1882.add_param(self.norm_weight_333)
        self.wreducer1882.add_param(self.head_weight_335)
        self.add_reducer(self.wreducer1882)
        
        self._post_init(init_params)
    
    def adapter731(self):
        add_5_1129 = nnscaler.runtime.adapter.move((), shape=(2, 4, 1), dtype=torch.float32, src=0, dst=2)
        add_5_284 = nnscaler.runtime.adapter.all_gather(add_5_1129, dim=1, ranks=[2, 3])
        return add_5_284
    
    def adapter773(self):
        mask_1135 = nnscaler.runtime.adapter.move((), shape=(8, 4), dtype=torch.float32, src=0, dst=2)
        mask_496 = nnscaler.runtime.adapter.all_gather(mask_1135, dim=1, ranks=[2, 3])
        return mask_496
    
    def adapter812(self):
        add_4_1139 = nnscaler.runtime.adapter.move((), shape=(2, 8, 8), dtype=torch.float32, src=0, dst=2)
        add_4_543 = nnscaler.runtime.adapter.all_gather(add_4_1139, dim=2, ranks=[2, 3])
        return add_4_543
    
    def adapter842(self):
        add_4_1147 = nnscaler.runtime.adapter.move((), shape=(2, 8, 8), dtype=torch.float32, src=0, dst=2)
        add_4_542 = nnscaler.runtime.adapter.all_gather(add_4_1147, dim=2, ranks=[2, 3])
        return add_4_542
    
    def segment255(self, add_5_284, size_2_228, size_3_229, data_344, mask_496, add_4_542, add_4_543):
        mask_847 = nnscaler.runtime.adapter.chunk(mask_496, dim=0, ranks=[2, 3])
        del mask_496
        mask_849 = nnscaler.runtime.function.identity(mask_847)
        del mask_847
        add_4_851 = nnscaler.runtime.adapter.nn.split_allgather(add_4_543, dim=0, ranks=[2, 3])
        del add_4_543
        add_4_853 = nnscaler.runtime.function.identity(add_4_851)
        del add_4_851
        add_4_859 = nnscaler.runtime.adapter.nn.split_allgather(add_4_542, dim=0, ranks=[2, 3])
        del add_4_542
        add_4_861 = nnscaler.runtime.function.identity(add_4_859)
        del add_4_859
        add_5_843 = nnscaler.runtime.adapter.nn.split_allgather(add_5_284, dim=0, ranks=[2, 3])
        del add_5_284
        add_5_867 = nnscaler.runtime.function.identity(add_5_843)
        del add_5_843
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_871 = torch.rsqrt(add_5_867)
        del add_5_867
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_875 = torch.mul(add_4_861, rsqrt_2_871)
        del add_4_861, rsqrt_2_871
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_879 = torch.mul(mul_6_875, self.blocks_1_norm1_weight_287)
        del mul_6_875
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_885, mul_7_903, mul_7_921 = nnscaler.runtime.function.multiref(mul_7_879, times=3)
        del mul_7_879
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_887 = torch.nn.functional.linear(mul_7_885, self.blocks_1_q_weight_289, bias=None)
        del mul_7_885
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_895 = torch.Tensor.view(linear_7_887, size=(1, size_3_229, 2, 8))
        del linear_7_887
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_899 = torch.transpose(view_3_895, dim0=1, dim1=2)
        del view_3_895
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_905 = torch.nn.functional.linear(mul_7_903, self.blocks_1_k_weight_293, bias=None)
        del mul_7_903
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_913 = torch.Tensor.view(linear_8_905, size=(1, size_3_229, 2, 8))
        del linear_8_905
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_917 = torch.transpose(view_4_913, dim0=1, dim1=2)
        del view_4_913
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_923 = torch.nn.functional.linear(mul_7_921, self.blocks_1_v_weight_297, bias=None)
        del mul_7_921
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_931 = torch.Tensor.view(linear_9_923, size=(1, size_3_229, 2, 8))
        del linear_9_923
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_935 = torch.transpose(view_5_931, dim0=1, dim1=2)
        del view_5_931
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_939 = torch.transpose(transpose_6_917, dim0=-2, dim1=-1)
        del transpose_6_917
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_943 = torch.matmul(transpose_5_899, transpose_8_939)
        del transpose_5_899, transpose_8_939
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_947 = torch.mul(matmul_2_943, 0.3535533905932738)
        del matmul_2_943
        mask_607 = nnscaler.runtime.adapter.all_gather(mask_849, dim=0, ranks=[2, 3])
        del mask_849
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_951 = torch.add(mul_8_947, mask_607, alpha=1)
        del mul_8_947, mask_607
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_955 = torch.softmax(add_6_951, dim=-1, _stacklevel=3, dtype=None)
        del add_6_951
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_959 = torch.matmul(softmax_1_955, transpose_7_935)
        del transpose_7_935, softmax_1_955
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_963 = torch.transpose(matmul_3_959, dim0=1, dim1=2)
        del matmul_3_959
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_967 = torch.Tensor.reshape(transpose_9_963, shape=(1, size_3_229, 16))
        del transpose_9_963
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_971 = torch.nn.functional.linear(reshape_1_967, self.blocks_1_o_weight_309, bias=None)
        del reshape_1_967
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_977 = torch.add(add_4_853, linear_10_971, alpha=1)
        del add_4_853, linear_10_971
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_981, add_7_1001, add_7_1049 = nnscaler.runtime.function.multiref(add_7_977, times=3)
        del add_7_977
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_983 = torch.pow(add_7_981, 2)
        del add_7_981
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_989 = torch.mean(pow_4_983, dim=(2,), keepdim=True)
        del pow_4_983
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_993 = torch.add(mean_3_989, 1e-06, alpha=1)
        del mean_3_989
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_997 = torch.rsqrt(add_8_993)
        del add_8_993
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_1003 = torch.mul(add_7_1001, rsqrt_3_997)
        del add_7_1001, rsqrt_3_997
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_1009 = torch.mul(mul_9_1003, self.blocks_1_norm2_weight_317)
        del mul_9_1003
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_1015, mul_10_1029 = nnscaler.runtime.function.multiref(mul_10_1009, times=2)
        del mul_10_1009
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1017 = torch.nn.functional.linear(mul_10_1015, self.blocks_1_gate_weight_319, bias=None)
        del mul_10_1015
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1025 = torch.nn.functional.silu(linear_11_1017, inplace=False)
        del linear_11_1017
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1031 = torch.nn.functional.linear(mul_10_1029, self.blocks_1_up_weight_322, bias=None)
        del mul_10_1029
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1039 = torch.mul(silu_1_1025, linear_12_1031)
        del silu_1_1025, linear_12_1031
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1043 = torch.nn.functional.linear(mul_11_1039, self.blocks_1_down_weight_325, bias=None)
        del mul_11_1039
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_1051 = torch.add(add_7_1049, linear_13_1043, alpha=1)
        del add_7_1049, linear_13_1043
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_1057, add_9_1077 = nnscaler.runtime.function.multiref(add_9_1051, times=2)
        del add_9_1051
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_1059 = torch.pow(add_9_1057, 2)
        del add_9_1057
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_1065 = torch.mean(pow_5_1059, dim=(2,), keepdim=True)
        del pow_5_1059
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_1069 = torch.add(mean_4_1065, 1e-06, alpha=1)
        del mean_4_1065
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_1073 = torch.rsqrt(add_10_1069)
        del add_10_1069
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_1079 = torch.mul(add_9_1077, rsqrt_4_1073)
        del add_9_1077, rsqrt_4_1073
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_1085 = torch.mul(mul_12_1079, self.norm_weight_333)
        del mul_12_1079
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_1091 = torch.nn.functional.linear(mul_13_1085, self.head_weight_335, bias=None)
        del mul_13_1085
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_1125, linear_14_1101 = nnscaler.runtime.function.multiref(linear_14_1091, times=2)
        del linear_14_1091
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        getitem_1_1097 = nnscaler.runtime.adapter.chunk(getitem_1_337, dim=0, ranks=[2, 3])
        del getitem_1_337
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_1099 = torch.Tensor.view(getitem_1_1097, size=(-1,))
        del getitem_1_1097
        linear_14_591 = nnscaler.runtime.adapter.all_gather(linear_14_1125, dim=0, ranks=[2, 3])
        del linear_14_1125
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_1103 = torch.Tensor.view(linear_14_1101, size=(-1, size_4_230))
        del linear_14_1101
        view_6_338 = nnscaler.runtime.adapter.all_gather(view_6_1099, dim=0, ranks=[2, 3])
        del view_6_1099
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_1103, dim=0, ranks=[2, 3])
        del view_7_1103
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_231 = torch.nn.functional.cross_entropy(view_7_339, view_6_338, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_6_338, view_7_339
        return cross_entropy_231
    
    def adapter853(self, gadd_4_545):
        gadd_4_1149 = nnscaler.runtime.adapter.chunk(gadd_4_545, dim=2, ranks=[2, 3])
        _ = nnscaler.runtime.adapter.move(gadd_4_1149, shape=(2, 8, 8), dtype=torch.float32, src=2, dst=0)
        return 
    
    def adapter823(self, gadd_4_546):
        gadd_4_1145 = nnscaler.runtime.adapter.chunk(gadd_4_546, dim=2, ranks=[2, 3])
        _ = nnscaler.runtime.adapter.move(gadd_4_1145, shape=(2, 8, 8), dtype=torch.float32, src=2, dst=0)
        return 
    
    def adapter742(self, gadd_5_411):
        gadd_5_1133 = nnscaler.runtime.adapter.chunk(gadd_5_411, dim=1, ranks=[2, 3])
        _ = nnscaler.runtime.adapter.move(gadd_5_1133, shape=(2, 4, 1), dtype=torch.float32, src=2, dst=0)
        return 
    
    def adapter866(self, cross_entropy_231):
        _ = nnscaler.runtime.adapter.move(cross_entropy_231, shape=(), dtype=torch.float32, src=2, dst=0)
        return cross_entropy_231
    
    def reducer1882(self):
        self.wreducer1882.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_345):
    _ = None
    nnscaler.flags.RuntimeFlag.skip_zero_grad = False
    model.zero_grad()
    add_5_284 = nnscaler.runtime.executor.aexecute(model.adapter731, *(), requires_grad=True)
    mask_496 = nnscaler.runtime.executor.aexecute(model.adapter773, *(), requires_grad=False)
    add_4_543 = nnscaler.runtime.executor.aexecute(model.adapter812, *(), requires_grad=True)
    add_4_542 = nnscaler.runtime.executor.aexecute(model.adapter842, *(), requires_grad=True)
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_284, size_2_228, size_3_229, data_344, mask_496, add_4_542, add_4_543, ), requires_grad=True)
    del mask_496
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_5_411, gadd_4_545, gadd_4_546 = nnscaler.runtime.executor.backward('segment255', (add_5_284, add_4_542, add_4_543, ), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    add_5_1172 = nnscaler.runtime.executor.aexecute(model.adapter731, *(), requires_grad=True)
    mask_1177 = nnscaler.runtime.executor.aexecute(model.adapter773, *(), requires_grad=False)
    add_4_1184 = nnscaler.runtime.executor.aexecute(model.adapter812, *(), requires_grad=True)
    add_4_1180 = nnscaler.runtime.executor.aexecute(model.adapter842, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter853, *(gadd_4_545, ), requires_grad=False)
    del add_4_542, gadd_4_545
    _ = nnscaler.runtime.executor.aexecute(model.adapter823, *(gadd_4_546, ), requires_grad=False)
    del add_4_543, gadd_4_546
    _ = nnscaler.runtime.executor.aexecute(model.adapter742, *(gadd_5_411, ), requires_grad=False)
    del add_5_284, gadd_5_411
    data_1167 = next(*(dataloader_345, ))
    cross_entropy_1243 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_1172, size_2_1174, size_3_1175, data_1167, mask_1177, add_4_1180, add_4_1184, ), requires_grad=True)
    del mask_1177
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_5_1173, gadd_4_1181, gadd_4_1185 = nnscaler.runtime.executor.backward('segment255', (add_5_1172, add_4_1180, add_4_1184, ), (cross_entropy_1243, ), (None, ))
    cross_entropy_1243 = cross_entropy_1243.detach()
    add_5_1254 = nnscaler.runtime.executor.aexecute(model.adapter731, *(), requires_grad=True)
    mask_1259 = nnscaler.runtime.executor.aexecute(model.adapter773, *(), requires_grad=False)
    add_4_1266 = nnscaler.runtime.executor.aexecute(model.adapter812, *(), requires_grad=True)
    add_4_1262 = nnscaler.runtime.executor.aexecute(model.adapter842, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter853, *(gadd_4_1181, ), requires_grad=False)
    del add_4_1180, gadd_4_1181
    _ = nnscaler.runtime.executor.aexecute(model.adapter823, *(gadd_4_1185, ), requires_grad=False)
    del add_4_1184, gadd_4_1185
    _ = nnscaler.runtime.executor.aexecute(model.adapter742, *(gadd_5_1173, ), requires_grad=False)
    del add_5_1172, gadd_5_1173
    data_1249 = next(*(dataloader_345, ))
    cross_entropy_1325 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_1254, size_2_1256, size_3_1257, data_1249, mask_1259, add_4_1262, add_4_1266, ), requires_grad=True)
    del mask_1259
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_5_1255, gadd_4_1263, gadd_4_1267 = nnscaler.runtime.executor.backward('segment255', (add_5_1254, add_4_1262, add_4_1266, ), (cross_entropy_1325, ), (None, ))
    cross_entropy_1325 = cross_entropy_1325.detach()
    add_5_1336 = nnscaler.runtime.executor.aexecute(model.adapter731, *(), requires_grad=True)
    mask_1341 = nnscaler.runtime.executor.aexecute(model.adapter773, *(), requires_grad=False)
    add_4_1348 = nnscaler.runtime.executor.aexecute(model.adapter812, *(), requires_grad=True)
    add_4_1344 = nnscaler.runtime.executor.aexecute(model.adapter842, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter853, *(gadd_4_1263, ), requires_grad=False)
    del add_4_1262, gadd_4_1263
    _ = nnscaler.runtime.executor.aexecute(model.adapter823, *(gadd_4_1267, ), requires_grad=False)
    del add_4_1266, gadd_4_1267
    _ = nnscaler.runtime.executor.aexecute(model.adapter742, *(gadd_5_1255, ), requires_grad=False)
    del add_5_1254, gadd_5_1255
    data_1331 = next(*(dataloader_345, ))
    cross_entropy_1407 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_1336, size_2_1338, size_3_1339, data_1331, mask_1341, add_4_1344, add_4_1348, ), requires_grad=True)
    del mask_1341
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    gadd_5_1337, gadd_4_1345, gadd_4_1349 = nnscaler.runtime.executor.backward('segment255', (add_5_1336, add_4_1344, add_4_1348, ), (cross_entropy_1407, ), (None, ))
    cross_entropy_1407 = cross_entropy_1407.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter853, *(gadd_4_1345, ), requires_grad=False)
    del add_4_1344, gadd_4_1345
    _ = nnscaler.runtime.executor.aexecute(model.adapter823, *(gadd_4_1349, ), requires_grad=False)
    del add_4_1348, gadd_4_1349
    _ = nnscaler.runtime.executor.aexecute(model.adapter742, *(gadd_5_1337, ), requires_grad=False)
    del add_5_1336, gadd_5_1337
    cross_entropy_231 = nnscaler.runtime.executor.aexecute(model.adapter866, *(cross_entropy_231, ), requires_grad=True)
    cross_entropy_1243 = nnscaler.runtime.executor.aexecute(model.adapter866, *(cross_entropy_1243, ), requires_grad=True)
    cross_entropy_1325 = nnscaler.runtime.executor.aexecute(model.adapter866, *(cross_entropy_1325, ), requires_grad=True)
    cross_entropy_1407 = nnscaler.runtime.executor.aexecute(model.adapter866, *(cross_entropy_1407, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer1882, *(), requires_grad=False)
    return cross_entropy_231, cross_entropy_1243, cross_entropy_1325, cross_entropy_1407


def _infer_step(model, dataloader_345):
    _ = None
    add_5_284 = nnscaler.runtime.executor.aexecute(model.adapter731, *(), requires_grad=False)
    mask_496 = nnscaler.runtime.executor.aexecute(model.adapter773, *(), requires_grad=False)
    add_4_543 = nnscaler.runtime.executor.aexecute(model.adapter812, *(), requires_grad=False)
    add_4_542 = nnscaler.runtime.executor.aexecute(model.adapter842, *(), requires_grad=False)
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_284, size_2_228, size_3_229, data_344, mask_496, add_4_542, add_4_543, ), requires_grad=False)
    del mask_496
    add_5_1172 = nnscaler.runtime.executor.aexecute(model.adapter731, *(), requires_grad=False)
    mask_1177 = nnscaler.runtime.executor.aexecute(model.adapter773, *(), requires_grad=False)
    add_4_1184 = nnscaler.runtime.executor.aexecute(model.adapter812, *(), requires_grad=False)
    add_4_1180 = nnscaler.runtime.executor.aexecute(model.adapter842, *(), requires_grad=False)
    data_1167 = next(*(dataloader_345, ))
    cross_entropy_1243 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_1172, size_2_1174, size_3_1175, data_1167, mask_1177, add_4_1180, add_4_1184, ), requires_grad=False)
    del mask_1177
    add_5_1254 = nnscaler.runtime.executor.aexecute(model.adapter731, *(), requires_grad=False)
    mask_1259 = nnscaler.runtime.executor.aexecute(model.adapter773, *(), requires_grad=False)
    add_4_1266 = nnscaler.runtime.executor.aexecute(model.adapter812, *(), requires_grad=False)
    add_4_1262 = nnscaler.runtime.executor.aexecute(model.adapter842, *(), requires_grad=False)
    data_1249 = next(*(dataloader_345, ))
    cross_entropy_1325 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_1254, size_2_1256, size_3_1257, data_1249, mask_1259, add_4_1262, add_4_1266, ), requires_grad=False)
    del mask_1259
    add_5_1336 = nnscaler.runtime.executor.aexecute(model.adapter731, *(), requires_grad=False)
    mask_1341 = nnscaler.runtime.executor.aexecute(model.adapter773, *(), requires_grad=False)
    add_4_1348 = nnscaler.runtime.executor.aexecute(model.adapter812, *(), requires_grad=False)
    add_4_1344 = nnscaler.runtime.executor.aexecute(model.adapter842, *(), requires_grad=False)
    data_1331 = next(*(dataloader_345, ))
    cross_entropy_1407 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_1336, size_2_1338, size_3_1339, data_1331, mask_1341, add_4_1344, add_4_1348, ), requires_grad=False)
    del mask_1341
    cross_entropy_231 = nnscaler.runtime.executor.aexecute(model.adapter866, *(cross_entropy_231, ), requires_grad=False)
    cross_entropy_1243 = nnscaler.runtime.executor.aexecute(model.adapter866, *(cross_entropy_1243, ), requires_grad=False)
    cross_entropy_1325 = nnscaler.runtime.executor.aexecute(model.adapter866, *(cross_entropy_1325, ), requires_grad=False)
    cross_entropy_1407 = nnscaler.runtime.executor.aexecute(model.adapter866, *(cross_entropy_1407, ), requires_grad=False)
    return cross_entropy_231, cross_entropy_1243, cross_entropy_1325, cross_entropy_1407
