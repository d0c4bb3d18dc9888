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
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('tok_weight_594', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_594', 4, True, 'tok.weight', (64, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_norm1_weight_674', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('blocks_0_norm1_weight_674', 21, True, 'blocks.0.norm1.weight', (16,), (slice(0, 4, None),), 1)
        
        self.register_parameter('blocks_0_q_weight_242', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_q_weight_242', 25, True, 'blocks.0.q.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_k_weight_246', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_k_weight_246', 33, True, 'blocks.0.k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_v_weight_782', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_v_weight_782', 41, True, 'blocks.0.v.weight', (16, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('blocks_0_down_weight_1110', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('blocks_0_down_weight_1110', 97, True, 'blocks.0.down.weight', (16, 32), (slice(0, 16, None), slice(0, 8, None)), 1)
        
        self.register_parameter('blocks_1_norm1_weight_1218', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm1_weight_1218', 116, True, 'blocks.1.norm1.weight', (16,), (slice(0, 4, None),), 1)
        
        self.register_parameter('blocks_1_q_weight_1238', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_q_weight_1238', 120, True, 'blocks.1.q.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('blocks_1_k_weight_1282', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_k_weight_1282', 128, True, 'blocks.1.k.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('blocks_1_v_weight_1322', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_v_weight_1322', 136, True, 'blocks.1.v.weight', (16, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_o_weight_1470', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_o_weight_1470', 160, True, 'blocks.1.o.weight', (16, 16), (slice(0, 16, None), slice(0, 4, None)), 1)
        
        self.register_parameter('blocks_1_norm2_weight_317', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm2_weight_317', 176, True, 'blocks.1.norm2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_gate_weight_1578', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_gate_weight_1578', 180, True, 'blocks.1.gate.weight', (32, 16), (slice(0, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_up_weight_1618', torch.nn.Parameter(torch.empty((32, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_up_weight_1618', 186, True, 'blocks.1.up.weight', (32, 16), (slice(0, 32, None), slice(0, 4, None)), 1)
        
        self.register_parameter('blocks_1_down_weight_325', torch.nn.Parameter(torch.empty((16, 32), dtype=torch.float32)))
        self.add_full_map('blocks_1_down_weight_325', 192, True, 'blocks.1.down.weight', (16, 32), (slice(0, 16, None), slice(0, 32, None)), 1)
        
        self.register_parameter('norm_weight_333', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_weight_333', 208, True, 'norm.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_1778', torch.nn.Parameter(torch.empty((64, 4), dtype=torch.float32)))
        self.add_full_map('head_weight_1778', 212, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(0, 4, None)), 1)
        
        
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
    
    def segment3389(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_598 = nnscaler.runtime.function.embedding(getitem_232, self.tok_weight_594, padding_idx=None, start=0, stop=16)
        del getitem_232
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1810, embedding_1811, embedding_1812, embedding_1813, embedding_1814 = nnscaler.runtime.function.multiref(embedding_598, times=5)
        del embedding_598
        embedding_485 = nnscaler.runtime.adapter.all_reduce(embedding_1810, ranks=[0, 1, 2, 3])
        del embedding_1810
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        embedding_486 = nnscaler.runtime.adapter.all_reduce(embedding_1811, ranks=[0, 1, 2, 3])
        del embedding_1811
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        embedding_606 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1812, dim=2, ranks=[0, 1, 2, 3])
        del embedding_1812
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_610 = torch.pow(embedding_606, 2)
        del embedding_606
        pow_1_622 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_1_610, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_1_610
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_626 = torch.mean(pow_1_622, dim=(2,), keepdim=True)
        del pow_1_622
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_638 = torch.add(mean_626, 1e-06, alpha=1)
        del mean_626
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_646 = torch.rsqrt(add_638)
        del add_638
        embedding_654 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1813, dim=1, ranks=[0, 1, 2, 3])
        del embedding_1813
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_658 = torch.mul(embedding_654, rsqrt_646)
        del rsqrt_646, embedding_654
        mul_670 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_658, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_658
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_678 = torch.mul(mul_670, self.blocks_0_norm1_weight_674)
        del mul_670
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_1830, mul_1_1832, mul_1_1834 = nnscaler.runtime.function.multiref(mul_1_678, times=3)
        del mul_1_678
        mul_1_694 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1830, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_1_1830
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_698 = torch.nn.functional.linear(mul_1_694, self.blocks_0_q_weight_242, bias=None)
        del mul_1_694
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_714 = torch.Tensor.view(linear_698, size=(size_226, 2, 2, 8))
        del linear_698
        view_722 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_714, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_714
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_726 = torch.transpose(view_722, dim0=1, dim1=2)
        del view_722
        mul_1_738 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1832, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_1_1832
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_742 = torch.nn.functional.linear(mul_1_738, self.blocks_0_k_weight_246, bias=None)
        del mul_1_738
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_758 = torch.Tensor.view(linear_1_742, size=(size_226, 2, 2, 8))
        del linear_1_742
        view_1_766 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_1_758, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_1_758
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_770 = torch.transpose(view_1_766, dim0=1, dim1=2)
        del view_1_766
        mul_1_505 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_1_1834, dim=2, ranks=[0, 1, 2, 3])
        del mul_1_1834
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_786 = torch.nn.functional.linear(mul_1_505, self.blocks_0_v_weight_782, bias=None)
        del mul_1_505
        linear_2_802 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_786, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_2_786
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_806 = torch.Tensor.view(linear_2_802, size=(size_226, 2, 2, 8))
        del linear_2_802
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_818 = torch.transpose(view_2_806, dim0=1, dim1=2)
        del view_2_806
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_826 = torch.transpose(transpose_1_770, dim0=-2, dim1=-1)
        del transpose_1_770
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_834 = torch.matmul(transpose_726, transpose_3_826)
        del transpose_726, transpose_3_826
        matmul_838 = nnscaler.runtime.adapter.nn.reducescatter_allgather(matmul_834, dim=3, ranks=[0, 1, 2, 3])
        del matmul_834
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_842 = torch.mul(matmul_838, 0.3535533905932738)
        del matmul_838
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        mask_854 = nnscaler.runtime.adapter.chunk(mask_495, dim=1, ranks=[0, 1, 2, 3])
        del mask_495
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_858 = torch.add(mul_2_842, mask_854, alpha=1)
        del mul_2_842, mask_854
        add_1_866 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_858, idim=3, odim=2, ranks=[0, 1, 2, 3])
        del add_1_858
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_870 = torch.softmax(add_1_866, dim=-1, _stacklevel=3, dtype=None)
        del add_1_866
        transpose_2_253 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_2_818, dim=2, ranks=[0, 1, 2, 3])
        del transpose_2_818
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_882 = torch.matmul(softmax_870, transpose_2_253)
        del softmax_870, transpose_2_253
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_894 = torch.transpose(matmul_1_882, dim0=1, dim1=2)
        del matmul_1_882
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_902 = torch.Tensor.reshape(transpose_4_894, shape=(size_226, 2, 16))
        del transpose_4_894
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_910 = torch.nn.functional.linear(reshape_902, self.blocks_0_o_weight_263, bias=None)
        del reshape_902
        linear_3_926 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_3_910, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del linear_3_910
        embedding_922 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1814, dim=2, ranks=[0, 1, 2, 3])
        del embedding_1814
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_930 = torch.add(embedding_922, linear_3_926, alpha=1)
        del linear_3_926, embedding_922
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_946, add_2_994, add_2_1126 = nnscaler.runtime.function.multiref(add_2_930, times=3)
        del add_2_930
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_950 = torch.pow(add_2_946, 2)
        del add_2_946
        pow_2_962 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_2_950, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_2_950
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_966 = torch.mean(pow_2_962, dim=(2,), keepdim=True)
        del pow_2_962
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_978 = torch.add(mean_1_966, 1e-06, alpha=1)
        del mean_1_966
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_986 = torch.rsqrt(add_3_978)
        del add_3_978
        rsqrt_1_269 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_1_986, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_1_986
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_998 = torch.mul(add_2_994, rsqrt_1_269)
        del add_2_994, rsqrt_1_269
        mul_3_1014 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_3_998, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_3_998
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_1018 = torch.mul(mul_3_1014, self.blocks_0_norm2_weight_271)
        del mul_3_1014
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_1034, mul_4_1070 = nnscaler.runtime.function.multiref(mul_4_1018, times=2)
        del mul_4_1018
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_1038 = torch.nn.functional.linear(mul_4_1034, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_1034
        linear_4_1054 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_1038, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del linear_4_1038
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1058 = torch.nn.functional.silu(linear_4_1054, inplace=False)
        del linear_4_1054
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_1074 = torch.nn.functional.linear(mul_4_1070, self.blocks_0_up_weight_276, bias=None)
        del mul_4_1070
        silu_1090 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1058, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del silu_1058
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_1094 = torch.mul(silu_1090, linear_5_1074)
        del linear_5_1074, silu_1090
        mul_5_1106 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_5_1094, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_5_1094
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_1114 = torch.nn.functional.linear(mul_5_1106, self.blocks_0_down_weight_1110, bias=None)
        del mul_5_1106
        linear_6_1130 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_6_1114, dim=2, ranks=[0, 1, 2, 3])
        del linear_6_1114
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_1134 = torch.add(add_2_1126, linear_6_1130, alpha=1)
        del add_2_1126, linear_6_1130
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_1854, add_4_1855, add_4_1150, add_4_1198, add_4_1856 = nnscaler.runtime.function.multiref(add_4_1134, times=5)
        del add_4_1134
        add_4_539 = nnscaler.runtime.adapter.all_gather(add_4_1854, dim=2, ranks=[0, 1, 2, 3])
        del add_4_1854
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        add_4_540 = nnscaler.runtime.adapter.all_gather(add_4_1855, dim=2, ranks=[0, 1, 2, 3])
        del add_4_1855
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_1154 = torch.pow(add_4_1150, 2)
        del add_4_1150
        pow_3_1166 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_3_1154, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_3_1154
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_1170 = torch.mean(pow_3_1166, dim=(2,), keepdim=True)
        del pow_3_1166
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_1182 = torch.add(mean_2_1170, 1e-06, alpha=1)
        del mean_2_1170
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_1190 = torch.rsqrt(add_5_1182)
        del add_5_1182
        rsqrt_2_285 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_2_1190, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_2_1190
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_1202 = torch.mul(add_4_1198, rsqrt_2_285)
        del add_4_1198, rsqrt_2_285
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_1222 = torch.mul(mul_6_1202, self.blocks_1_norm1_weight_1218)
        del mul_6_1202
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_1234, mul_7_1278, mul_7_1870 = nnscaler.runtime.function.multiref(mul_7_1222, times=3)
        del mul_7_1222
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_1242 = torch.nn.functional.linear(mul_7_1234, self.blocks_1_q_weight_1238, bias=None)
        del mul_7_1234
        linear_7_1254 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_7_1242, dim=1, ranks=[0, 1, 2, 3])
        del linear_7_1242
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_1258 = torch.Tensor.view(linear_7_1254, size=(size_2_228, 2, 2, 8))
        del linear_7_1254
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_1270 = torch.transpose(view_3_1258, dim0=1, dim1=2)
        del view_3_1258
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_1286 = torch.nn.functional.linear(mul_7_1278, self.blocks_1_k_weight_1282, bias=None)
        del mul_7_1278
        linear_8_1298 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_8_1286, dim=1, ranks=[0, 1, 2, 3])
        del linear_8_1286
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_1302 = torch.Tensor.view(linear_8_1298, size=(size_2_228, 2, 2, 8))
        del linear_8_1298
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_1314 = torch.transpose(view_4_1302, dim0=1, dim1=2)
        del view_4_1302
        mul_7_555 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_7_1870, dim=2, ranks=[0, 1, 2, 3])
        del mul_7_1870
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_1326 = torch.nn.functional.linear(mul_7_555, self.blocks_1_v_weight_1322, bias=None)
        del mul_7_555
        linear_9_1342 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_9_1326, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_9_1326
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_1346 = torch.Tensor.view(linear_9_1342, size=(size_2_228, 2, 2, 8))
        del linear_9_1342
        view_5_1358 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_5_1346, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_5_1346
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_1362 = torch.transpose(view_5_1358, dim0=1, dim1=2)
        del view_5_1358
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_1374 = torch.transpose(transpose_6_1314, dim0=-2, dim1=-1)
        del transpose_6_1314
        transpose_8_301 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_8_1374, dim=3, ranks=[0, 1, 2, 3])
        del transpose_8_1374
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_1382 = torch.matmul(transpose_5_1270, transpose_8_301)
        del transpose_5_1270, transpose_8_301
        matmul_2_1394 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_2_1382, idim=2, odim=3, ranks=[0, 1, 2, 3])
        del matmul_2_1382
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_1398 = torch.mul(matmul_2_1394, 0.3535533905932738)
        del matmul_2_1394
        mask_1410 = nnscaler.runtime.adapter.chunk(mask_496, dim=1, ranks=[0, 1, 2, 3])
        del mask_496
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_1414 = torch.add(mul_8_1398, mask_1410, alpha=1)
        del mul_8_1398, mask_1410
        add_6_1422 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_6_1414, idim=3, odim=2, ranks=[0, 1, 2, 3])
        del add_6_1414
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_1426 = torch.softmax(add_6_1422, dim=-1, _stacklevel=3, dtype=None)
        del add_6_1422
        transpose_7_300 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_7_1362, dim=3, ranks=[0, 1, 2, 3])
        del transpose_7_1362
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_1438 = torch.matmul(softmax_1_1426, transpose_7_300)
        del softmax_1_1426, transpose_7_300
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_1450 = torch.transpose(matmul_3_1438, dim0=1, dim1=2)
        del matmul_3_1438
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_1458 = torch.Tensor.reshape(transpose_9_1450, shape=(size_2_228, 2, 16))
        del transpose_9_1450
        reshape_1_1466 = nnscaler.runtime.adapter.nn.alltoall_alltoall(reshape_1_1458, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del reshape_1_1458
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_1474 = torch.nn.functional.linear(reshape_1_1466, self.blocks_1_o_weight_1470, bias=None)
        del reshape_1_1466
        add_4_1486 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_4_1856, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del add_4_1856
        linear_10_1490 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_10_1474, dim=1, ranks=[0, 1, 2, 3])
        del linear_10_1474
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_1494 = torch.add(add_4_1486, linear_10_1490, alpha=1)
        del add_4_1486, linear_10_1490
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_1510, add_7_1550, add_7_1678 = nnscaler.runtime.function.multiref(add_7_1494, times=3)
        del add_7_1494
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_1514 = torch.pow(add_7_1510, 2)
        del add_7_1510
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_1526 = torch.mean(pow_4_1514, dim=(2,), keepdim=True)
        del pow_4_1514
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_1534 = torch.add(mean_3_1526, 1e-06, alpha=1)
        del mean_3_1526
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_1542 = torch.rsqrt(add_8_1534)
        del add_8_1534
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_1554 = torch.mul(add_7_1550, rsqrt_3_1542)
        del add_7_1550, rsqrt_3_1542
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_1566 = torch.mul(mul_9_1554, self.blocks_1_norm2_weight_317)
        del mul_9_1554
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_1878, mul_10_1880 = nnscaler.runtime.function.multiref(mul_10_1566, times=2)
        del mul_10_1566
        mul_10_575 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_10_1878, dim=1, ranks=[0, 1, 2, 3])
        del mul_10_1878
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1582 = torch.nn.functional.linear(mul_10_575, self.blocks_1_gate_weight_1578, bias=None)
        del mul_10_575
        linear_11_1598 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_11_1582, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_11_1582
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1602 = torch.nn.functional.silu(linear_11_1598, inplace=False)
        del linear_11_1598
        mul_10_1614 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_10_1880, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_10_1880
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1622 = torch.nn.functional.linear(mul_10_1614, self.blocks_1_up_weight_1618, bias=None)
        del mul_10_1614
        silu_1_1634 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1_1602, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del silu_1_1602
        linear_12_1638 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_12_1622, dim=2, ranks=[0, 1, 2, 3])
        del linear_12_1622
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1642 = torch.mul(silu_1_1634, linear_12_1638)
        del silu_1_1634, linear_12_1638
        mul_11_1658 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_11_1642, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_11_1642
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1662 = torch.nn.functional.linear(mul_11_1658, self.blocks_1_down_weight_325, bias=None)
        del mul_11_1658
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_1682 = torch.add(add_7_1678, linear_13_1662, alpha=1)
        del add_7_1678, linear_13_1662
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_1694, add_9_1894 = nnscaler.runtime.function.multiref(add_9_1682, times=2)
        del add_9_1682
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_1698 = torch.pow(add_9_1694, 2)
        del add_9_1694
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_1710 = torch.mean(pow_5_1698, dim=(2,), keepdim=True)
        del pow_5_1698
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_1718 = torch.add(mean_4_1710, 1e-06, alpha=1)
        del mean_4_1710
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_1726 = torch.rsqrt(add_10_1718)
        del add_10_1718
        add_9_1734 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_9_1894, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del add_9_1894
        rsqrt_4_331 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_4_1726, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_4_1726
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_1738 = torch.mul(add_9_1734, rsqrt_4_331)
        del add_9_1734, rsqrt_4_331
        mul_12_1754 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_12_1738, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_12_1738
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_1758 = torch.mul(mul_12_1754, self.norm_weight_333)
        del mul_12_1754
        mul_13_1774 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_13_1758, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_13_1758
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_1782 = torch.nn.functional.linear(mul_13_1774, self.head_weight_1778, bias=None)
        del mul_13_1774
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_1902, linear_14_1903 = nnscaler.runtime.function.multiref(linear_14_1782, times=2)
        del linear_14_1782
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_338 = torch.Tensor.view(getitem_1_337, size=(-1,))
        del getitem_1_337
        linear_14_591 = nnscaler.runtime.adapter.all_reduce(linear_14_1902, ranks=[0, 1, 2, 3])
        del linear_14_1902
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        linear_14_1794 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_14_1903, dim=2, ranks=[0, 1, 2, 3])
        del linear_14_1903
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_1798 = torch.Tensor.view(linear_14_1794, size=(-1, 16))
        del linear_14_1794
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_1798, dim=1, ranks=[0, 1, 2, 3])
        del view_7_1798
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
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3389', model.segment3389, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment3389', (), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer2976, *(), requires_grad=False)
    return cross_entropy_231


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3389', model.segment3389, *(data_344, ), requires_grad=False)
    return cross_entropy_231
