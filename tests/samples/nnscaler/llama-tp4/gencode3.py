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
    rank = 3
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('tok_weight_597', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_597', 4, True, 'tok.weight', (64, 16), (slice(48, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_norm1_weight_677', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('blocks_0_norm1_weight_677', 21, True, 'blocks.0.norm1.weight', (16,), (slice(12, 16, None),), 1)
        
        self.register_parameter('blocks_0_q_weight_242', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_q_weight_242', 25, True, 'blocks.0.q.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_k_weight_246', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_k_weight_246', 33, True, 'blocks.0.k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_v_weight_785', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_v_weight_785', 41, True, 'blocks.0.v.weight', (16, 16), (slice(12, 16, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('blocks_0_down_weight_1113', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('blocks_0_down_weight_1113', 97, True, 'blocks.0.down.weight', (16, 32), (slice(0, 16, None), slice(24, 32, None)), 1)
        
        self.register_parameter('blocks_1_norm1_weight_1221', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm1_weight_1221', 116, True, 'blocks.1.norm1.weight', (16,), (slice(12, 16, None),), 1)
        
        self.register_parameter('blocks_1_q_weight_1241', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_q_weight_1241', 120, True, 'blocks.1.q.weight', (16, 16), (slice(0, 16, None), slice(12, 16, None)), 1)
        
        self.register_parameter('blocks_1_k_weight_1285', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_k_weight_1285', 128, True, 'blocks.1.k.weight', (16, 16), (slice(0, 16, None), slice(12, 16, None)), 1)
        
        self.register_parameter('blocks_1_v_weight_1325', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_v_weight_1325', 136, True, 'blocks.1.v.weight', (16, 16), (slice(12, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_o_weight_1473', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_o_weight_1473', 160, True, 'blocks.1.o.weight', (16, 16), (slice(0, 16, None), slice(12, 16, None)), 1)
        
        self.register_parameter('blocks_1_norm2_weight_317', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm2_weight_317', 176, True, 'blocks.1.norm2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_gate_weight_1581', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_gate_weight_1581', 180, True, 'blocks.1.gate.weight', (32, 16), (slice(24, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_up_weight_1621', torch.nn.Parameter(torch.empty((32, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_up_weight_1621', 186, True, 'blocks.1.up.weight', (32, 16), (slice(0, 32, None), slice(12, 16, None)), 1)
        
        self.register_parameter('blocks_1_down_weight_325', torch.nn.Parameter(torch.empty((16, 32), dtype=torch.float32)))
        self.add_full_map('blocks_1_down_weight_325', 192, True, 'blocks.1.down.weight', (16, 32), (slice(0, 16, None), slice(0, 32, None)), 1)
        
        self.register_parameter('norm_weight_333', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_weight_333', 208, True, 'norm.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_1781', torch.nn.Parameter(torch.empty((64, 4), dtype=torch.float32)))
        self.add_full_map('head_weight_1781', 212, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(12, 16, None)), 1)
        
        
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
    
    def segment3395(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_601 = nnscaler.runtime.function.embedding(getitem_232, self.tok_weight_597, padding_idx=None, start=48, stop=64)
        del getitem_232
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1825, embedding_1826, embedding_1827, embedding_1828, embedding_1829 = nnscaler.runtime.function.multiref(embedding_601, times=5)
        del embedding_601
        embedding_485 = nnscaler.runtime.adapter.all_reduce(embedding_1825, ranks=[0, 1, 2, 3])
        del embedding_1825
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        embedding_486 = nnscaler.runtime.adapter.all_reduce(embedding_1826, ranks=[0, 1, 2, 3])
        del embedding_1826
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        embedding_609 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1827, dim=2, ranks=[0, 1, 2, 3])
        del embedding_1827
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_613 = torch.pow(embedding_609, 2)
        del embedding_609
        pow_1_625 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_1_613, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_1_613
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_629 = torch.mean(pow_1_625, dim=(2,), keepdim=True)
        del pow_1_625
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_641 = torch.add(mean_629, 1e-06, alpha=1)
        del mean_629
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_649 = torch.rsqrt(add_641)
        del add_641
        embedding_657 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1828, dim=1, ranks=[0, 1, 2, 3])
        del embedding_1828
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_661 = torch.mul(embedding_657, rsqrt_649)
        del rsqrt_649, embedding_657
        mul_673 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_661, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_661
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_681 = torch.mul(mul_673, self.blocks_0_norm1_weight_677)
        del mul_673
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_1848, mul_1_1850, mul_1_1852 = nnscaler.runtime.function.multiref(mul_1_681, times=3)
        del mul_1_681
        mul_1_697 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1848, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_1_1848
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_701 = torch.nn.functional.linear(mul_1_697, self.blocks_0_q_weight_242, bias=None)
        del mul_1_697
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_717 = torch.Tensor.view(linear_701, size=(size_226, 2, 2, 8))
        del linear_701
        view_725 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_717, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_717
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_729 = torch.transpose(view_725, dim0=1, dim1=2)
        del view_725
        mul_1_741 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1850, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_1_1850
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_745 = torch.nn.functional.linear(mul_1_741, self.blocks_0_k_weight_246, bias=None)
        del mul_1_741
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_761 = torch.Tensor.view(linear_1_745, size=(size_226, 2, 2, 8))
        del linear_1_745
        view_1_769 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_1_761, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_1_761
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_773 = torch.transpose(view_1_769, dim0=1, dim1=2)
        del view_1_769
        mul_1_505 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_1_1852, dim=2, ranks=[0, 1, 2, 3])
        del mul_1_1852
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_789 = torch.nn.functional.linear(mul_1_505, self.blocks_0_v_weight_785, bias=None)
        del mul_1_505
        linear_2_805 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_789, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_2_789
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_809 = torch.Tensor.view(linear_2_805, size=(size_226, 2, 2, 8))
        del linear_2_805
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_821 = torch.transpose(view_2_809, dim0=1, dim1=2)
        del view_2_809
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_829 = torch.transpose(transpose_1_773, dim0=-2, dim1=-1)
        del transpose_1_773
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_837 = torch.matmul(transpose_729, transpose_3_829)
        del transpose_729, transpose_3_829
        matmul_841 = nnscaler.runtime.adapter.nn.reducescatter_allgather(matmul_837, dim=3, ranks=[0, 1, 2, 3])
        del matmul_837
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_845 = torch.mul(matmul_841, 0.3535533905932738)
        del matmul_841
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        mask_857 = nnscaler.runtime.adapter.chunk(mask_495, dim=1, ranks=[0, 1, 2, 3])
        del mask_495
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_861 = torch.add(mul_2_845, mask_857, alpha=1)
        del mul_2_845, mask_857
        add_1_869 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_861, idim=3, odim=2, ranks=[0, 1, 2, 3])
        del add_1_861
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_873 = torch.softmax(add_1_869, dim=-1, _stacklevel=3, dtype=None)
        del add_1_869
        transpose_2_253 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_2_821, dim=2, ranks=[0, 1, 2, 3])
        del transpose_2_821
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_885 = torch.matmul(softmax_873, transpose_2_253)
        del softmax_873, transpose_2_253
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_897 = torch.transpose(matmul_1_885, dim0=1, dim1=2)
        del matmul_1_885
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_905 = torch.Tensor.reshape(transpose_4_897, shape=(size_226, 2, 16))
        del transpose_4_897
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_913 = torch.nn.functional.linear(reshape_905, self.blocks_0_o_weight_263, bias=None)
        del reshape_905
        linear_3_929 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_3_913, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del linear_3_913
        embedding_925 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1829, dim=2, ranks=[0, 1, 2, 3])
        del embedding_1829
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_933 = torch.add(embedding_925, linear_3_929, alpha=1)
        del linear_3_929, embedding_925
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_949, add_2_997, add_2_1129 = nnscaler.runtime.function.multiref(add_2_933, times=3)
        del add_2_933
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_953 = torch.pow(add_2_949, 2)
        del add_2_949
        pow_2_965 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_2_953, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_2_953
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_969 = torch.mean(pow_2_965, dim=(2,), keepdim=True)
        del pow_2_965
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_981 = torch.add(mean_1_969, 1e-06, alpha=1)
        del mean_1_969
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_989 = torch.rsqrt(add_3_981)
        del add_3_981
        rsqrt_1_269 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_1_989, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_1_989
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_1001 = torch.mul(add_2_997, rsqrt_1_269)
        del add_2_997, rsqrt_1_269
        mul_3_1017 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_3_1001, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_3_1001
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_1021 = torch.mul(mul_3_1017, self.blocks_0_norm2_weight_271)
        del mul_3_1017
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_1037, mul_4_1073 = nnscaler.runtime.function.multiref(mul_4_1021, times=2)
        del mul_4_1021
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_1041 = torch.nn.functional.linear(mul_4_1037, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_1037
        linear_4_1057 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_1041, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del linear_4_1041
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1061 = torch.nn.functional.silu(linear_4_1057, inplace=False)
        del linear_4_1057
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_1077 = torch.nn.functional.linear(mul_4_1073, self.blocks_0_up_weight_276, bias=None)
        del mul_4_1073
        silu_1093 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1061, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del silu_1061
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_1097 = torch.mul(silu_1093, linear_5_1077)
        del linear_5_1077, silu_1093
        mul_5_1109 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_5_1097, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_5_1097
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_1117 = torch.nn.functional.linear(mul_5_1109, self.blocks_0_down_weight_1113, bias=None)
        del mul_5_1109
        linear_6_1133 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_6_1117, dim=2, ranks=[0, 1, 2, 3])
        del linear_6_1117
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_1137 = torch.add(add_2_1129, linear_6_1133, alpha=1)
        del add_2_1129, linear_6_1133
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_1866, add_4_1867, add_4_1153, add_4_1201, add_4_1868 = nnscaler.runtime.function.multiref(add_4_1137, times=5)
        del add_4_1137
        add_4_539 = nnscaler.runtime.adapter.all_gather(add_4_1866, dim=2, ranks=[0, 1, 2, 3])
        del add_4_1866
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        add_4_540 = nnscaler.runtime.adapter.all_gather(add_4_1867, dim=2, ranks=[0, 1, 2, 3])
        del add_4_1867
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_1157 = torch.pow(add_4_1153, 2)
        del add_4_1153
        pow_3_1169 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_3_1157, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_3_1157
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_1173 = torch.mean(pow_3_1169, dim=(2,), keepdim=True)
        del pow_3_1169
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_1185 = torch.add(mean_2_1173, 1e-06, alpha=1)
        del mean_2_1173
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_1193 = torch.rsqrt(add_5_1185)
        del add_5_1185
        rsqrt_2_285 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_2_1193, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_2_1193
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_1205 = torch.mul(add_4_1201, rsqrt_2_285)
        del add_4_1201, rsqrt_2_285
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_1225 = torch.mul(mul_6_1205, self.blocks_1_norm1_weight_1221)
        del mul_6_1205
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_1237, mul_7_1281, mul_7_1876 = nnscaler.runtime.function.multiref(mul_7_1225, times=3)
        del mul_7_1225
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_1245 = torch.nn.functional.linear(mul_7_1237, self.blocks_1_q_weight_1241, bias=None)
        del mul_7_1237
        linear_7_1257 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_7_1245, dim=1, ranks=[0, 1, 2, 3])
        del linear_7_1245
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_1261 = torch.Tensor.view(linear_7_1257, size=(size_2_228, 2, 2, 8))
        del linear_7_1257
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_1273 = torch.transpose(view_3_1261, dim0=1, dim1=2)
        del view_3_1261
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_1289 = torch.nn.functional.linear(mul_7_1281, self.blocks_1_k_weight_1285, bias=None)
        del mul_7_1281
        linear_8_1301 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_8_1289, dim=1, ranks=[0, 1, 2, 3])
        del linear_8_1289
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_1305 = torch.Tensor.view(linear_8_1301, size=(size_2_228, 2, 2, 8))
        del linear_8_1301
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_1317 = torch.transpose(view_4_1305, dim0=1, dim1=2)
        del view_4_1305
        mul_7_555 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_7_1876, dim=2, ranks=[0, 1, 2, 3])
        del mul_7_1876
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_1329 = torch.nn.functional.linear(mul_7_555, self.blocks_1_v_weight_1325, bias=None)
        del mul_7_555
        linear_9_1345 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_9_1329, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_9_1329
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_1349 = torch.Tensor.view(linear_9_1345, size=(size_2_228, 2, 2, 8))
        del linear_9_1345
        view_5_1361 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_5_1349, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_5_1349
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_1365 = torch.transpose(view_5_1361, dim0=1, dim1=2)
        del view_5_1361
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_1377 = torch.transpose(transpose_6_1317, dim0=-2, dim1=-1)
        del transpose_6_1317
        transpose_8_301 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_8_1377, dim=3, ranks=[0, 1, 2, 3])
        del transpose_8_1377
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_1385 = torch.matmul(transpose_5_1273, transpose_8_301)
        del transpose_5_1273, transpose_8_301
        matmul_2_1397 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_2_1385, idim=2, odim=3, ranks=[0, 1, 2, 3])
        del matmul_2_1385
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_1401 = torch.mul(matmul_2_1397, 0.3535533905932738)
        del matmul_2_1397
        mask_1413 = nnscaler.runtime.adapter.chunk(mask_496, dim=1, ranks=[0, 1, 2, 3])
        del mask_496
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_1417 = torch.add(mul_8_1401, mask_1413, alpha=1)
        del mul_8_1401, mask_1413
        add_6_1425 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_6_1417, idim=3, odim=2, ranks=[0, 1, 2, 3])
        del add_6_1417
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_1429 = torch.softmax(add_6_1425, dim=-1, _stacklevel=3, dtype=None)
        del add_6_1425
        transpose_7_300 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_7_1365, dim=3, ranks=[0, 1, 2, 3])
        del transpose_7_1365
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_1441 = torch.matmul(softmax_1_1429, transpose_7_300)
        del softmax_1_1429, transpose_7_300
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_1453 = torch.transpose(matmul_3_1441, dim0=1, dim1=2)
        del matmul_3_1441
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_1461 = torch.Tensor.reshape(transpose_9_1453, shape=(size_2_228, 2, 16))
        del transpose_9_1453
        reshape_1_1469 = nnscaler.runtime.adapter.nn.alltoall_alltoall(reshape_1_1461, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del reshape_1_1461
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_1477 = torch.nn.functional.linear(reshape_1_1469, self.blocks_1_o_weight_1473, bias=None)
        del reshape_1_1469
        add_4_1489 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_4_1868, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del add_4_1868
        linear_10_1493 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_10_1477, dim=1, ranks=[0, 1, 2, 3])
        del linear_10_1477
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_1497 = torch.add(add_4_1489, linear_10_1493, alpha=1)
        del add_4_1489, linear_10_1493
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_1513, add_7_1553, add_7_1681 = nnscaler.runtime.function.multiref(add_7_1497, times=3)
        del add_7_1497
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_1517 = torch.pow(add_7_1513, 2)
        del add_7_1513
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_1529 = torch.mean(pow_4_1517, dim=(2,), keepdim=True)
        del pow_4_1517
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_1537 = torch.add(mean_3_1529, 1e-06, alpha=1)
        del mean_3_1529
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_1545 = torch.rsqrt(add_8_1537)
        del add_8_1537
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_1557 = torch.mul(add_7_1553, rsqrt_3_1545)
        del add_7_1553, rsqrt_3_1545
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_1569 = torch.mul(mul_9_1557, self.blocks_1_norm2_weight_317)
        del mul_9_1557
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_1890, mul_10_1892 = nnscaler.runtime.function.multiref(mul_10_1569, times=2)
        del mul_10_1569
        mul_10_575 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_10_1890, dim=1, ranks=[0, 1, 2, 3])
        del mul_10_1890
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1585 = torch.nn.functional.linear(mul_10_575, self.blocks_1_gate_weight_1581, bias=None)
        del mul_10_575
        linear_11_1601 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_11_1585, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_11_1585
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1605 = torch.nn.functional.silu(linear_11_1601, inplace=False)
        del linear_11_1601
        mul_10_1617 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_10_1892, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_10_1892
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1625 = torch.nn.functional.linear(mul_10_1617, self.blocks_1_up_weight_1621, bias=None)
        del mul_10_1617
        silu_1_1637 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1_1605, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del silu_1_1605
        linear_12_1641 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_12_1625, dim=2, ranks=[0, 1, 2, 3])
        del linear_12_1625
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1645 = torch.mul(silu_1_1637, linear_12_1641)
        del silu_1_1637, linear_12_1641
        mul_11_1661 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_11_1645, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_11_1645
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1665 = torch.nn.functional.linear(mul_11_1661, self.blocks_1_down_weight_325, bias=None)
        del mul_11_1661
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_1685 = torch.add(add_7_1681, linear_13_1665, alpha=1)
        del add_7_1681, linear_13_1665
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_1697, add_9_1900 = nnscaler.runtime.function.multiref(add_9_1685, times=2)
        del add_9_1685
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_1701 = torch.pow(add_9_1697, 2)
        del add_9_1697
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_1713 = torch.mean(pow_5_1701, dim=(2,), keepdim=True)
        del pow_5_1701
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_1721 = torch.add(mean_4_1713, 1e-06, alpha=1)
        del mean_4_1713
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_1729 = torch.rsqrt(add_10_1721)
        del add_10_1721
        add_9_1737 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_9_1900, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del add_9_1900
        rsqrt_4_331 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_4_1729, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_4_1729
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_1741 = torch.mul(add_9_1737, rsqrt_4_331)
        del add_9_1737, rsqrt_4_331
        mul_12_1757 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_12_1741, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_12_1741
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_1761 = torch.mul(mul_12_1757, self.norm_weight_333)
        del mul_12_1757
        mul_13_1777 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_13_1761, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_13_1761
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_1785 = torch.nn.functional.linear(mul_13_1777, self.head_weight_1781, bias=None)
        del mul_13_1777
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_1908, linear_14_1909 = nnscaler.runtime.function.multiref(linear_14_1785, times=2)
        del linear_14_1785
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_338 = torch.Tensor.view(getitem_1_337, size=(-1,))
        del getitem_1_337
        linear_14_591 = nnscaler.runtime.adapter.all_reduce(linear_14_1908, ranks=[0, 1, 2, 3])
        del linear_14_1908
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        linear_14_1797 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_14_1909, dim=2, ranks=[0, 1, 2, 3])
        del linear_14_1909
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_1801 = torch.Tensor.view(linear_14_1797, size=(-1, 16))
        del linear_14_1797
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_1801, dim=1, ranks=[0, 1, 2, 3])
        del view_7_1801
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
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3395', model.segment3395, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment3395', (), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer2976, *(), requires_grad=False)
    return cross_entropy_231


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3395', model.segment3395, *(data_344, ), requires_grad=False)
    return cross_entropy_231
