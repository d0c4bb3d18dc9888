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
        add_5_1130 = nnscaler.runtime.adapter.move((), shape=(2, 4, 1), dtype=torch.float32, src=1, dst=3)
        add_5_284 = nnscaler.runtime.adapter.all_gather(add_5_1130, dim=1, ranks=[2, 3])
        return add_5_284
    
    def adapter773(self):
        mask_1136 = nnscaler.runtime.adapter.move((), shape=(8, 4), dtype=torch.float32, src=1, dst=3)
        mask_496 = nnscaler.runtime.adapter.all_gather(mask_1136, dim=1, ranks=[2, 3])
        return mask_496
    
    def adapter812(self):
        add_4_1140 = nnscaler.runtime.adapter.move((), shape=(2, 8, 8), dtype=torch.float32, src=1, dst=3)
        add_4_543 = nnscaler.runtime.adapter.all_gather(add_4_1140, dim=2, ranks=[2, 3])
        return add_4_543
    
    def adapter842(self):
        add_4_1148 = nnscaler.runtime.adapter.move((), shape=(2, 8, 8), dtype=torch.float32, src=1, dst=3)
        add_4_542 = nnscaler.runtime.adapter.all_gather(add_4_1148, dim=2, ranks=[2, 3])
        return add_4_542
    
    def segment255(self, add_5_284, size_2_228, size_3_229, data_344, mask_496, add_4_542, add_4_543):
        mask_848 = nnscaler.runtime.adapter.chunk(mask_496, dim=0, ranks=[2, 3])
        del mask_496
        mask_850 = nnscaler.runtime.function.identity(mask_848)
        del mask_848
        add_4_852 = nnscaler.runtime.adapter.nn.split_allgather(add_4_543, dim=0, ranks=[2, 3])
        del add_4_543
        add_4_854 = nnscaler.runtime.function.identity(add_4_852)
        del add_4_852
        add_4_860 = nnscaler.runtime.adapter.nn.split_allgather(add_4_542, dim=0, ranks=[2, 3])
        del add_4_542
        add_4_862 = nnscaler.runtime.function.identity(add_4_860)
        del add_4_860
        add_5_844 = nnscaler.runtime.adapter.nn.split_allgather(add_5_284, dim=0, ranks=[2, 3])
        del add_5_284
        add_5_868 = nnscaler.runtime.function.identity(add_5_844)
        del add_5_844
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_872 = torch.rsqrt(add_5_868)
        del add_5_868
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_876 = torch.mul(add_4_862, rsqrt_2_872)
        del add_4_862, rsqrt_2_872
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_880 = torch.mul(mul_6_876, self.blocks_1_norm1_weight_287)
        del mul_6_876
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_886, mul_7_904, mul_7_922 = nnscaler.runtime.function.multiref(mul_7_880, times=3)
        del mul_7_880
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_888 = torch.nn.functional.linear(mul_7_886, self.blocks_1_q_weight_289, bias=None)
        del mul_7_886
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_896 = torch.Tensor.view(linear_7_888, size=(1, size_3_229, 2, 8))
        del linear_7_888
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_900 = torch.transpose(view_3_896, dim0=1, dim1=2)
        del view_3_896
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_906 = torch.nn.functional.linear(mul_7_904, self.blocks_1_k_weight_293, bias=None)
        del mul_7_904
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_914 = torch.Tensor.view(linear_8_906, size=(1, size_3_229, 2, 8))
        del linear_8_906
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_918 = torch.transpose(view_4_914, dim0=1, dim1=2)
        del view_4_914
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_924 = torch.nn.functional.linear(mul_7_922, self.blocks_1_v_weight_297, bias=None)
        del mul_7_922
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_932 = torch.Tensor.view(linear_9_924, size=(1, size_3_229, 2, 8))
        del linear_9_924
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_936 = torch.transpose(view_5_932, dim0=1, dim1=2)
        del view_5_932
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_940 = torch.transpose(transpose_6_918, dim0=-2, dim1=-1)
        del transpose_6_918
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_944 = torch.matmul(transpose_5_900, transpose_8_940)
        del transpose_5_900, transpose_8_940
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_948 = torch.mul(matmul_2_944, 0.3535533905932738)
        del matmul_2_944
        mask_607 = nnscaler.runtime.adapter.all_gather(mask_850, dim=0, ranks=[2, 3])
        del mask_850
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_952 = torch.add(mul_8_948, mask_607, alpha=1)
        del mul_8_948, mask_607
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_956 = torch.softmax(add_6_952, dim=-1, _stacklevel=3, dtype=None)
        del add_6_952
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_960 = torch.matmul(softmax_1_956, transpose_7_936)
        del transpose_7_936, softmax_1_956
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_964 = torch.transpose(matmul_3_960, dim0=1, dim1=2)
        del matmul_3_960
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_968 = torch.Tensor.reshape(transpose_9_964, shape=(1, size_3_229, 16))
        del transpose_9_964
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_972 = torch.nn.functional.linear(reshape_1_968, self.blocks_1_o_weight_309, bias=None)
        del reshape_1_968
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_978 = torch.add(add_4_854, linear_10_972, alpha=1)
        del add_4_854, linear_10_972
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_982, add_7_1002, add_7_1050 = nnscaler.runtime.function.multiref(add_7_978, times=3)
        del add_7_978
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_984 = torch.pow(add_7_982, 2)
        del add_7_982
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_990 = torch.mean(pow_4_984, dim=(2,), keepdim=True)
        del pow_4_984
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_994 = torch.add(mean_3_990, 1e-06, alpha=1)
        del mean_3_990
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_998 = torch.rsqrt(add_8_994)
        del add_8_994
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_1004 = torch.mul(add_7_1002, rsqrt_3_998)
        del add_7_1002, rsqrt_3_998
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_1010 = torch.mul(mul_9_1004, self.blocks_1_norm2_weight_317)
        del mul_9_1004
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_1016, mul_10_1030 = nnscaler.runtime.function.multiref(mul_10_1010, times=2)
        del mul_10_1010
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1018 = torch.nn.functional.linear(mul_10_1016, self.blocks_1_gate_weight_319, bias=None)
        del mul_10_1016
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1026 = torch.nn.functional.silu(linear_11_1018, inplace=False)
        del linear_11_1018
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1032 = torch.nn.functional.linear(mul_10_1030, self.blocks_1_up_weight_322, bias=None)
        del mul_10_1030
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1040 = torch.mul(silu_1_1026, linear_12_1032)
        del silu_1_1026, linear_12_1032
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1044 = torch.nn.functional.linear(mul_11_1040, self.blocks_1_down_weight_325, bias=None)
        del mul_11_1040
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_1052 = torch.add(add_7_1050, linear_13_1044, alpha=1)
        del add_7_1050, linear_13_1044
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_1058, add_9_1078 = nnscaler.runtime.function.multiref(add_9_1052, times=2)
        del add_9_1052
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_1060 = torch.pow(add_9_1058, 2)
        del add_9_1058
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_1066 = torch.mean(pow_5_1060, dim=(2,), keepdim=True)
        del pow_5_1060
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_1070 = torch.add(mean_4_1066, 1e-06, alpha=1)
        del mean_4_1066
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_1074 = torch.rsqrt(add_10_1070)
        del add_10_1070
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_1080 = torch.mul(add_9_1078, rsqrt_4_1074)
        del add_9_1078, rsqrt_4_1074
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_1086 = torch.mul(mul_12_1080, self.norm_weight_333)
        del mul_12_1080
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_1092 = torch.nn.functional.linear(mul_13_1086, self.head_weight_335, bias=None)
        del mul_13_1086
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_1127, linear_14_1102 = nnscaler.runtime.function.multiref(linear_14_1092, times=2)
        del linear_14_1092
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        getitem_1_1098 = nnscaler.runtime.adapter.chunk(getitem_1_337, dim=0, ranks=[2, 3])
        del getitem_1_337
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_1100 = torch.Tensor.view(getitem_1_1098, size=(-1,))
        del getitem_1_1098
        linear_14_591 = nnscaler.runtime.adapter.all_gather(linear_14_1127, dim=0, ranks=[2, 3])
        del linear_14_1127
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_1104 = torch.Tensor.view(linear_14_1102, size=(-1, size_4_230))
        del linear_14_1102
        view_6_338 = nnscaler.runtime.adapter.all_gather(view_6_1100, dim=0, ranks=[2, 3])
        del view_6_1100
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_1104, dim=0, ranks=[2, 3])
        del view_7_1104
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_231 = torch.nn.functional.cross_entropy(view_7_339, view_6_338, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_6_338, view_7_339
        return cross_entropy_231
    
    def adapter853(self, gadd_4_545):
        gadd_4_1150 = nnscaler.runtime.adapter.chunk(gadd_4_545, dim=2, ranks=[2, 3])
        _ = nnscaler.runtime.adapter.move(gadd_4_1150, shape=(2, 8, 8), dtype=torch.float32, src=3, dst=1)
        return 
    
    def adapter823(self, gadd_4_546):
        gadd_4_1146 = nnscaler.runtime.adapter.chunk(gadd_4_546, dim=2, ranks=[2, 3])
        _ = nnscaler.runtime.adapter.move(gadd_4_1146, shape=(2, 8, 8), dtype=torch.float32, src=3, dst=1)
        return 
    
    def adapter742(self, gadd_5_411):
        gadd_5_1134 = nnscaler.runtime.adapter.chunk(gadd_5_411, dim=1, ranks=[2, 3])
        _ = nnscaler.runtime.adapter.move(gadd_5_1134, shape=(2, 4, 1), dtype=torch.float32, src=3, dst=1)
        return 
    
    def adapter866(self, cross_entropy_231):
        _ = nnscaler.runtime.adapter.move(cross_entropy_231, shape=(), dtype=torch.float32, src=3, dst=1)
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
