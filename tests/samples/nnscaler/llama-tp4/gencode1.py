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
         
        self.register_parameter('tok_weight_595', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_595', 4, True, 'tok.weight', (64, 16), (slice(16, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_norm1_weight_675', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('blocks_0_norm1_weight_675', 21, True, 'blocks.0.norm1.weight', (16,), (slice(4, 8, None),), 1)
        
        self.register_parameter('blocks_0_q_weight_242', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_q_weight_242', 25, True, 'blocks.0.q.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_k_weight_246', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_k_weight_246', 33, True, 'blocks.0.k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_v_weight_783', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_v_weight_783', 41, True, 'blocks.0.v.weight', (16, 16), (slice(4, 8, None), slice(0, 16, None)), 1)
        
        self.register_buffer('mask_257', torch.empty((8, 8), dtype=torch.float32), persistent=True)
        self.add_full_map('mask_257', 8, False, 'mask', (8, 8), (slice(0, 8, None), slice(0, 8, None)), 1)
        
        self.register_parameter('blocks_0_o_weight_263', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_o_weight_263', 65, True, 'blocks.0.o.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_norm2_weight_271', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_norm2_weight_271', 81, True, 'blocks.0.norm2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_gate_weight_273', torch.nn.Parameter(torch.empty((32, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_gate_weight_273', 85, True, 'blocks.0.gate.weight', (32, 16), (slice(0, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_up_weight_276', torch.nn.Parameter(torch.empty((32, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_up_weight_276', 91, True, 'blocks.0.up.weight', (32, 16), (slice(0, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_down_weight_1111', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('blocks_0_down_weight_1111', 97, True, 'blocks.0.down.weight', (16, 32), (slice(0, 16, None), slice(8, 16, None)), 1)
        
        self.register_parameter('blocks_1_norm1_weight_1219', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm1_weight_1219', 116, True, 'blocks.1.norm1.weight', (16,), (slice(4, 8, None),), 1)
        
        self.register_parameter('blocks_1_q_weight_1239', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_q_weight_1239', 120, True, 'blocks.1.q.weight', (16, 16), (slice(0, 16, None), slice(4, 8, None)), 1)
        
        self.register_parameter('blocks_1_k_weight_1283', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_k_weight_1283', 128, True, 'blocks.1.k.weight', (16, 16), (slice(0, 16, None), slice(4, 8, None)), 1)
        
        self.register_parameter('blocks_1_v_weight_1323', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_v_weight_1323', 136, True, 'blocks.1.v.weight', (16, 16), (slice(4, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_o_weight_1471', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_o_weight_1471', 160, True, 'blocks.1.o.weight', (16, 16), (slice(0, 16, None), slice(4, 8, None)), 1)
        
        self.register_parameter('blocks_1_norm2_weight_317', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm2_weight_317', 176, True, 'blocks.1.norm2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_gate_weight_1579', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_gate_weight_1579', 180, True, 'blocks.1.gate.weight', (32, 16), (slice(8, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_up_weight_1619', torch.nn.Parameter(torch.empty((32, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_up_weight_1619', 186, True, 'blocks.1.up.weight', (32, 16), (slice(0, 32, None), slice(4, 8, None)), 1)
        
        self.register_parameter('blocks_1_down_weight_325', torch.nn.Parameter(torch.empty((16, 32), dtype=torch.float32)))
        self.add_full_map('blocks_1_down_weight_325', 192, True, 'blocks.1.down.weight', (16, 32), (slice(0, 16, None), slice(0, 32, None)), 1)
        
        self.register_parameter('norm_weight_333', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_weight_333', 208, True, 'norm.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_1779', torch.nn.Parameter(torch.empty((64, 4), dtype=torch.float32)))
        self.add_full_map('head_weight_1779', 212, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(4, 8, None)), 1)
        
        
        self.wreducer2976 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer2976.add_param(self.blocks_0_q_weight_242)
        self.wreducer2976.add_param(self.blocks_0_k_weight_246)
        self.wreducer2976.add_param(self.blocks_0_o_weight_263)
        self.wreducer2976.add_param(self.blocks_0_norm2_weight_271)
        self.wreducer2976.add_param(self.blocks_0_gate_weight_273)
        self.wreducer2976.add_param(self.blocks_0_up_weight_276)
        self.wreducer2976.add_param(self.blocks_1_norm2_weight_317)
        self.wreducer2976.add_param(self.blocks_1_down_weight_325)
        self.wreducer2976.add_param(self.norm_weight_333)
        self.add_reducer(self.wreducer2976)
        
        self._post_init(init_params)
    
    def segment3391(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_599 = nnscaler.runtime.function.embedding(getitem_232, self.tok_weight_595, padding_idx=None, start=16, stop=32)
        del getitem_232
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1815, embedding_1816, embedding_1817, embedding_1818, embedding_1819 = nnscaler.runtime.function.multiref(embedding_599, times=5)
        del embedding_599
        embedding_485 = nnscaler.runtime.adapter.all_reduce(embedding_1815, ranks=[0, 1, 2, 3])
        del embedding_1815
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        embedding_486 = nnscaler.runtime.adapter.all_reduce(embedding_1816, ranks=[0, 1, 2, 3])
        del embedding_1816
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        embedding_607 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1817, dim=2, ranks=[0, 1, 2, 3])
        del embedding_1817
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_611 = torch.pow(embedding_607, 2)
        del embedding_607
        pow_1_623 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_1_611, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_1_611
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_627 = torch.mean(pow_1_623, dim=(2,), keepdim=True)
        del pow_1_623
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_639 = torch.add(mean_627, 1e-06, alpha=1)
        del mean_627
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_647 = torch.rsqrt(add_639)
        del add_639
        embedding_655 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1818, dim=1, ranks=[0, 1, 2, 3])
        del embedding_1818
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_659 = torch.mul(embedding_655, rsqrt_647)
        del rsqrt_647, embedding_655
        mul_671 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_659, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_659
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_679 = torch.mul(mul_671, self.blocks_0_norm1_weight_675)
        del mul_671
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_1836, mul_1_1838, mul_1_1840 = nnscaler.runtime.function.multiref(mul_1_679, times=3)
        del mul_1_679
        mul_1_695 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1836, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_1_1836
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_699 = torch.nn.functional.linear(mul_1_695, self.blocks_0_q_weight_242, bias=None)
        del mul_1_695
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_715 = torch.Tensor.view(linear_699, size=(size_226, 2, 2, 8))
        del linear_699
        view_723 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_715, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_715
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_727 = torch.transpose(view_723, dim0=1, dim1=2)
        del view_723
        mul_1_739 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1838, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_1_1838
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_743 = torch.nn.functional.linear(mul_1_739, self.blocks_0_k_weight_246, bias=None)
        del mul_1_739
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_759 = torch.Tensor.view(linear_1_743, size=(size_226, 2, 2, 8))
        del linear_1_743
        view_1_767 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_1_759, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_1_759
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_771 = torch.transpose(view_1_767, dim0=1, dim1=2)
        del view_1_767
        mul_1_505 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_1_1840, dim=2, ranks=[0, 1, 2, 3])
        del mul_1_1840
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_787 = torch.nn.functional.linear(mul_1_505, self.blocks_0_v_weight_783, bias=None)
        del mul_1_505
        linear_2_803 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_787, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_2_787
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_807 = torch.Tensor.view(linear_2_803, size=(size_226, 2, 2, 8))
        del linear_2_803
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_819 = torch.transpose(view_2_807, dim0=1, dim1=2)
        del view_2_807
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_827 = torch.transpose(transpose_1_771, dim0=-2, dim1=-1)
        del transpose_1_771
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_835 = torch.matmul(transpose_727, transpose_3_827)
        del transpose_727, transpose_3_827
        matmul_839 = nnscaler.runtime.adapter.nn.reducescatter_allgather(matmul_835, dim=3, ranks=[0, 1, 2, 3])
        del matmul_835
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_843 = torch.mul(matmul_839, 0.3535533905932738)
        del matmul_839
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        mask_855 = nnscaler.runtime.adapter.chunk(mask_495, dim=1, ranks=[0, 1, 2, 3])
        del mask_495
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_859 = torch.add(mul_2_843, mask_855, alpha=1)
        del mul_2_843, mask_855
        add_1_867 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_859, idim=3, odim=2, ranks=[0, 1, 2, 3])
        del add_1_859
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_871 = torch.softmax(add_1_867, dim=-1, _stacklevel=3, dtype=None)
        del add_1_867
        transpose_2_253 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_2_819, dim=2, ranks=[0, 1, 2, 3])
        del transpose_2_819
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_883 = torch.matmul(softmax_871, transpose_2_253)
        del softmax_871, transpose_2_253
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_895 = torch.transpose(matmul_1_883, dim0=1, dim1=2)
        del matmul_1_883
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_903 = torch.Tensor.reshape(transpose_4_895, shape=(size_226, 2, 16))
        del transpose_4_895
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_911 = torch.nn.functional.linear(reshape_903, self.blocks_0_o_weight_263, bias=None)
        del reshape_903
        linear_3_927 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_3_911, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del linear_3_911
        embedding_923 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1819, dim=2, ranks=[0, 1, 2, 3])
        del embedding_1819
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_931 = torch.add(embedding_923, linear_3_927, alpha=1)
        del linear_3_927, embedding_923
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_947, add_2_995, add_2_1127 = nnscaler.runtime.function.multiref(add_2_931, times=3)
        del add_2_931
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_951 = torch.pow(add_2_947, 2)
        del add_2_947
        pow_2_963 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_2_951, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_2_951
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_967 = torch.mean(pow_2_963, dim=(2,), keepdim=True)
        del pow_2_963
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_979 = torch.add(mean_1_967, 1e-06, alpha=1)
        del mean_1_967
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_987 = torch.rsqrt(add_3_979)
        del add_3_979
        rsqrt_1_269 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_1_987, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_1_987
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_999 = torch.mul(add_2_995, rsqrt_1_269)
        del add_2_995, rsqrt_1_269
        mul_3_1015 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_3_999, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_3_999
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_1019 = torch.mul(mul_3_1015, self.blocks_0_norm2_weight_271)
        del mul_3_1015
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_1035, mul_4_1071 = nnscaler.runtime.function.multiref(mul_4_1019, times=2)
        del mul_4_1019
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_1039 = torch.nn.functional.linear(mul_4_1035, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_1035
        linear_4_1055 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_1039, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del linear_4_1039
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1059 = torch.nn.functional.silu(linear_4_1055, inplace=False)
        del linear_4_1055
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_1075 = torch.nn.functional.linear(mul_4_1071, self.blocks_0_up_weight_276, bias=None)
        del mul_4_1071
        silu_1091 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1059, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del silu_1059
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_1095 = torch.mul(silu_1091, linear_5_1075)
        del linear_5_1075, silu_1091
        mul_5_1107 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_5_1095, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_5_1095
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_1115 = torch.nn.functional.linear(mul_5_1107, self.blocks_0_down_weight_1111, bias=None)
        del mul_5_1107
        linear_6_1131 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_6_1115, dim=2, ranks=[0, 1, 2, 3])
        del linear_6_1115
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_1135 = torch.add(add_2_1127, linear_6_1131, alpha=1)
        del add_2_1127, linear_6_1131
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_1858, add_4_1859, add_4_1151, add_4_1199, add_4_1860 = nnscaler.runtime.function.multiref(add_4_1135, times=5)
        del add_4_1135
        add_4_539 = nnscaler.runtime.adapter.all_gather(add_4_1858, dim=2, ranks=[0, 1, 2, 3])
        del add_4_1858
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        add_4_540 = nnscaler.runtime.adapter.all_gather(add_4_1859, dim=2, ranks=[0, 1, 2, 3])
        del add_4_1859
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_1155 = torch.pow(add_4_1151, 2)
        del add_4_1151
        pow_3_1167 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_3_1155, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_3_1155
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_1171 = torch.mean(pow_3_1167, dim=(2,), keepdim=True)
        del pow_3_1167
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_1183 = torch.add(mean_2_1171, 1e-06, alpha=1)
        del mean_2_1171
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_1191 = torch.rsqrt(add_5_1183)
        del add_5_1183
        rsqrt_2_285 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_2_1191, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_2_1191
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_1203 = torch.mul(add_4_1199, rsqrt_2_285)
        del add_4_1199, rsqrt_2_285
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_1223 = torch.mul(mul_6_1203, self.blocks_1_norm1_weight_1219)
        del mul_6_1203
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_1235, mul_7_1279, mul_7_1872 = nnscaler.runtime.function.multiref(mul_7_1223, times=3)
        del mul_7_1223
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_1243 = torch.nn.functional.linear(mul_7_1235, self.blocks_1_q_weight_1239, bias=None)
        del mul_7_1235
        linear_7_1255 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_7_1243, dim=1, ranks=[0, 1, 2, 3])
        del linear_7_1243
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_1259 = torch.Tensor.view(linear_7_1255, size=(size_2_228, 2, 2, 8))
        del linear_7_1255
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_1271 = torch.transpose(view_3_1259, dim0=1, dim1=2)
        del view_3_1259
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_1287 = torch.nn.functional.linear(mul_7_1279, self.blocks_1_k_weight_1283, bias=None)
        del mul_7_1279
        linear_8_1299 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_8_1287, dim=1, ranks=[0, 1, 2, 3])
        del linear_8_1287
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_1303 = torch.Tensor.view(linear_8_1299, size=(size_2_228, 2, 2, 8))
        del linear_8_1299
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_1315 = torch.transpose(view_4_1303, dim0=1, dim1=2)
        del view_4_1303
        mul_7_555 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_7_1872, dim=2, ranks=[0, 1, 2, 3])
        del mul_7_1872
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_1327 = torch.nn.functional.linear(mul_7_555, self.blocks_1_v_weight_1323, bias=None)
        del mul_7_555
        linear_9_1343 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_9_1327, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_9_1327
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_1347 = torch.Tensor.view(linear_9_1343, size=(size_2_228, 2, 2, 8))
        del linear_9_1343
        view_5_1359 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_5_1347, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_5_1347
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_1363 = torch.transpose(view_5_1359, dim0=1, dim1=2)
        del view_5_1359
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_1375 = torch.transpose(transpose_6_1315, dim0=-2, dim1=-1)
        del transpose_6_1315
        transpose_8_301 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_8_1375, dim=3, ranks=[0, 1, 2, 3])
        del transpose_8_1375
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_1383 = torch.matmul(transpose_5_1271, transpose_8_301)
        del transpose_5_1271, transpose_8_301
        matmul_2_1395 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_2_1383, idim=2, odim=3, ranks=[0, 1, 2, 3])
        del matmul_2_1383
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_1399 = torch.mul(matmul_2_1395, 0.3535533905932738)
        del matmul_2_1395
        mask_1411 = nnscaler.runtime.adapter.chunk(mask_496, dim=1, ranks=[0, 1, 2, 3])
        del mask_496
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_1415 = torch.add(mul_8_1399, mask_1411, alpha=1)
        del mul_8_1399, mask_1411
        add_6_1423 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_6_1415, idim=3, odim=2, ranks=[0, 1, 2, 3])
        del add_6_1415
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_1427 = torch.softmax(add_6_1423, dim=-1, _stacklevel=3, dtype=None)
        del add_6_1423
        transpose_7_300 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_7_1363, dim=3, ranks=[0, 1, 2, 3])
        del transpose_7_1363
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_1439 = torch.matmul(softmax_1_1427, transpose_7_300)
        del softmax_1_1427, transpose_7_300
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_1451 = torch.transpose(matmul_3_1439, dim0=1, dim1=2)
        del matmul_3_1439
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_1459 = torch.Tensor.reshape(transpose_9_1451, shape=(size_2_228, 2, 16))
        del transpose_9_1451
        reshape_1_1467 = nnscaler.runtime.adapter.nn.alltoall_alltoall(reshape_1_1459, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del reshape_1_1459
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_1475 = torch.nn.functional.linear(reshape_1_1467, self.blocks_1_o_weight_1471, bias=None)
        del reshape_1_1467
        add_4_1487 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_4_1860, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del add_4_1860
        linear_10_1491 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_10_1475, dim=1, ranks=[0, 1, 2, 3])
        del linear_10_1475
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_1495 = torch.add(add_4_1487, linear_10_1491, alpha=1)
        del add_4_1487, linear_10_1491
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_1511, add_7_1551, add_7_1679 = nnscaler.runtime.function.multiref(add_7_1495, times=3)
        del add_7_1495
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_1515 = torch.pow(add_7_1511, 2)
        del add_7_1511
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_1527 = torch.mean(pow_4_1515, dim=(2,), keepdim=True)
        del pow_4_1515
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_1535 = torch.add(mean_3_1527, 1e-06, alpha=1)
        del mean_3_1527
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_1543 = torch.rsqrt(add_8_1535)
        del add_8_1535
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_1555 = torch.mul(add_7_1551, rsqrt_3_1543)
        del add_7_1551, rsqrt_3_1543
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_1567 = torch.mul(mul_9_1555, self.blocks_1_norm2_weight_317)
        del mul_9_1555
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_1882, mul_10_1884 = nnscaler.runtime.function.multiref(mul_10_1567, times=2)
        del mul_10_1567
        mul_10_575 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_10_1882, dim=1, ranks=[0, 1, 2, 3])
        del mul_10_1882
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1583 = torch.nn.functional.linear(mul_10_575, self.blocks_1_gate_weight_1579, bias=None)
        del mul_10_575
        linear_11_1599 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_11_1583, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_11_1583
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1603 = torch.nn.functional.silu(linear_11_1599, inplace=False)
        del linear_11_1599
        mul_10_1615 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_10_1884, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_10_1884
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1623 = torch.nn.functional.linear(mul_10_1615, self.blocks_1_up_weight_1619, bias=None)
        del mul_10_1615
        silu_1_1635 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1_1603, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del silu_1_1603
        linear_12_1639 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_12_1623, dim=2, ranks=[0, 1, 2, 3])
        del linear_12_1623
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1643 = torch.mul(silu_1_1635, linear_12_1639)
        del silu_1_1635, linear_12_1639
        mul_11_1659 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_11_1643, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_11_1643
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1663 = torch.nn.functional.linear(mul_11_1659, self.blocks_1_down_weight_325, bias=None)
        del mul_11_1659
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_1683 = torch.add(add_7_1679, linear_13_1663, alpha=1)
        del add_7_1679, linear_13_1663
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_1695, add_9_1896 = nnscaler.runtime.function.multiref(add_9_1683, times=2)
        del add_9_1683
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_1699 = torch.pow(add_9_1695, 2)
        del add_9_1695
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_1711 = torch.mean(pow_5_1699, dim=(2,), keepdim=True)
        del pow_5_1699
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_1719 = torch.add(mean_4_1711, 1e-06, alpha=1)
        del mean_4_1711
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_1727 = torch.rsqrt(add_10_1719)
        del add_10_1719
        add_9_1735 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_9_1896, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del add_9_1896
        rsqrt_4_331 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_4_1727, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_4_1727
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_1739 = torch.mul(add_9_1735, rsqrt_4_331)
        del add_9_1735, rsqrt_4_331
        mul_12_1755 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_12_1739, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_12_1739
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_1759 = torch.mul(mul_12_1755, self.norm_weight_333)
        del mul_12_1755
        mul_13_1775 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_13_1759, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_13_1759
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_1783 = torch.nn.functional.linear(mul_13_1775, self.head_weight_1779, bias=None)
        del mul_13_1775
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_1904, linear_14_1905 = nnscaler.runtime.function.multiref(linear_14_1783, times=2)
        del linear_14_1783
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_338 = torch.Tensor.view(getitem_1_337, size=(-1,))
        del getitem_1_337
        linear_14_591 = nnscaler.runtime.adapter.all_reduce(linear_14_1904, ranks=[0, 1, 2, 3])
        del linear_14_1904
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        linear_14_1795 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_14_1905, dim=2, ranks=[0, 1, 2, 3])
        del linear_14_1905
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_1799 = torch.Tensor.view(linear_14_1795, size=(-1, 16))
        del linear_14_1795
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_1799, dim=1, ranks=[0, 1, 2, 3])
        del view_7_1799
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_231 = torch.nn.functional.cross_entropy(view_7_339, view_6_338, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_6_338, view_7_339
        return cross_entropy_231
    
    def reducer2976(self):
        self.wreducer2976.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_345):
    _ = None
    model.zero_grad()
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3391', model.segment3391, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment3391', (), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer2976, *(), requires_grad=False)
    return cross_entropy_231


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3391', model.segment3391, *(data_344, ), requires_grad=False)
    return cross_entropy_231
