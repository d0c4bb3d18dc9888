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
    rank = 2
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('tok_weight_596', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_596', 4, True, 'tok.weight', (64, 16), (slice(32, 48, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_norm1_weight_676', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('blocks_0_norm1_weight_676', 21, True, 'blocks.0.norm1.weight', (16,), (slice(8, 12, None),), 1)
        
        self.register_parameter('blocks_0_q_weight_242', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_q_weight_242', 25, True, 'blocks.0.q.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_k_weight_246', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_k_weight_246', 33, True, 'blocks.0.k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_v_weight_784', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_v_weight_784', 41, True, 'blocks.0.v.weight', (16, 16), (slice(8, 12, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('blocks_0_down_weight_1112', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('blocks_0_down_weight_1112', 97, True, 'blocks.0.down.weight', (16, 32), (slice(0, 16, None), slice(16, 24, None)), 1)
        
        self.register_parameter('blocks_1_norm1_weight_1220', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm1_weight_1220', 116, True, 'blocks.1.norm1.weight', (16,), (slice(8, 12, None),), 1)
        
        self.register_parameter('blocks_1_q_weight_1240', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_q_weight_1240', 120, True, 'blocks.1.q.weight', (16, 16), (slice(0, 16, None), slice(8, 12, None)), 1)
        
        self.register_parameter('blocks_1_k_weight_1284', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_k_weight_1284', 128, True, 'blocks.1.k.weight', (16, 16), (slice(0, 16, None), slice(8, 12, None)), 1)
        
        self.register_parameter('blocks_1_v_weight_1324', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_v_weight_1324', 136, True, 'blocks.1.v.weight', (16, 16), (slice(8, 12, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_o_weight_1472', torch.nn.Parameter(torch.empty((16, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_o_weight_1472', 160, True, 'blocks.1.o.weight', (16, 16), (slice(0, 16, None), slice(8, 12, None)), 1)
        
        self.register_parameter('blocks_1_norm2_weight_317', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm2_weight_317', 176, True, 'blocks.1.norm2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_gate_weight_1580', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_gate_weight_1580', 180, True, 'blocks.1.gate.weight', (32, 16), (slice(16, 24, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_up_weight_1620', torch.nn.Parameter(torch.empty((32, 4), dtype=torch.float32)))
        self.add_full_map('blocks_1_up_weight_1620', 186, True, 'blocks.1.up.weight', (32, 16), (slice(0, 32, None), slice(8, 12, None)), 1)
        
        self.register_parameter('blocks_1_down_weight_325', torch.nn.Parameter(torch.empty((16, 32), dtype=torch.float32)))
        self.add_full_map('blocks_1_down_weight_325', 192, True, 'blocks.1.down.weight', (16, 32), (slice(0, 16, None), slice(0, 32, None)), 1)
        
        self.register_parameter('norm_weight_333', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_weight_333', 208, True, 'norm.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_1780', torch.nn.Parameter(torch.empty((64, 4), dtype=torch.float32)))
        self.add_full_map('head_weight_1780', 212, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(8, 12, None)), 1)
        
        
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
    
    def segment3393(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_600 = nnscaler.runtime.function.embedding(getitem_232, self.tok_weight_596, padding_idx=None, start=32, stop=48)
        del getitem_232
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1820, embedding_1821, embedding_1822, embedding_1823, embedding_1824 = nnscaler.runtime.function.multiref(embedding_600, times=5)
        del embedding_600
        embedding_485 = nnscaler.runtime.adapter.all_reduce(embedding_1820, ranks=[0, 1, 2, 3])
        del embedding_1820
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        embedding_486 = nnscaler.runtime.adapter.all_reduce(embedding_1821, ranks=[0, 1, 2, 3])
        del embedding_1821
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        embedding_608 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1822, dim=2, ranks=[0, 1, 2, 3])
        del embedding_1822
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_612 = torch.pow(embedding_608, 2)
        del embedding_608
        pow_1_624 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_1_612, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_1_612
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_628 = torch.mean(pow_1_624, dim=(2,), keepdim=True)
        del pow_1_624
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_640 = torch.add(mean_628, 1e-06, alpha=1)
        del mean_628
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_648 = torch.rsqrt(add_640)
        del add_640
        embedding_656 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1823, dim=1, ranks=[0, 1, 2, 3])
        del embedding_1823
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_660 = torch.mul(embedding_656, rsqrt_648)
        del rsqrt_648, embedding_656
        mul_672 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_660, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_660
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_680 = torch.mul(mul_672, self.blocks_0_norm1_weight_676)
        del mul_672
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_1842, mul_1_1844, mul_1_1846 = nnscaler.runtime.function.multiref(mul_1_680, times=3)
        del mul_1_680
        mul_1_696 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1842, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_1_1842
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_700 = torch.nn.functional.linear(mul_1_696, self.blocks_0_q_weight_242, bias=None)
        del mul_1_696
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_716 = torch.Tensor.view(linear_700, size=(size_226, 2, 2, 8))
        del linear_700
        view_724 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_716, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_716
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_728 = torch.transpose(view_724, dim0=1, dim1=2)
        del view_724
        mul_1_740 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1844, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_1_1844
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_744 = torch.nn.functional.linear(mul_1_740, self.blocks_0_k_weight_246, bias=None)
        del mul_1_740
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_760 = torch.Tensor.view(linear_1_744, size=(size_226, 2, 2, 8))
        del linear_1_744
        view_1_768 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_1_760, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_1_760
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_772 = torch.transpose(view_1_768, dim0=1, dim1=2)
        del view_1_768
        mul_1_505 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_1_1846, dim=2, ranks=[0, 1, 2, 3])
        del mul_1_1846
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_788 = torch.nn.functional.linear(mul_1_505, self.blocks_0_v_weight_784, bias=None)
        del mul_1_505
        linear_2_804 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_788, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_2_788
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_808 = torch.Tensor.view(linear_2_804, size=(size_226, 2, 2, 8))
        del linear_2_804
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_820 = torch.transpose(view_2_808, dim0=1, dim1=2)
        del view_2_808
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_828 = torch.transpose(transpose_1_772, dim0=-2, dim1=-1)
        del transpose_1_772
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_836 = torch.matmul(transpose_728, transpose_3_828)
        del transpose_728, transpose_3_828
        matmul_840 = nnscaler.runtime.adapter.nn.reducescatter_allgather(matmul_836, dim=3, ranks=[0, 1, 2, 3])
        del matmul_836
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_844 = torch.mul(matmul_840, 0.3535533905932738)
        del matmul_840
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        mask_856 = nnscaler.runtime.adapter.chunk(mask_495, dim=1, ranks=[0, 1, 2, 3])
        del mask_495
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_860 = torch.add(mul_2_844, mask_856, alpha=1)
        del mul_2_844, mask_856
        add_1_868 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_860, idim=3, odim=2, ranks=[0, 1, 2, 3])
        del add_1_860
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_872 = torch.softmax(add_1_868, dim=-1, _stacklevel=3, dtype=None)
        del add_1_868
        transpose_2_253 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_2_820, dim=2, ranks=[0, 1, 2, 3])
        del transpose_2_820
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_884 = torch.matmul(softmax_872, transpose_2_253)
        del softmax_872, transpose_2_253
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_896 = torch.transpose(matmul_1_884, dim0=1, dim1=2)
        del matmul_1_884
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_904 = torch.Tensor.reshape(transpose_4_896, shape=(size_226, 2, 16))
        del transpose_4_896
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_912 = torch.nn.functional.linear(reshape_904, self.blocks_0_o_weight_263, bias=None)
        del reshape_904
        linear_3_928 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_3_912, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del linear_3_912
        embedding_924 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1824, dim=2, ranks=[0, 1, 2, 3])
        del embedding_1824
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_932 = torch.add(embedding_924, linear_3_928, alpha=1)
        del linear_3_928, embedding_924
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_948, add_2_996, add_2_1128 = nnscaler.runtime.function.multiref(add_2_932, times=3)
        del add_2_932
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_952 = torch.pow(add_2_948, 2)
        del add_2_948
        pow_2_964 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_2_952, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_2_952
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_968 = torch.mean(pow_2_964, dim=(2,), keepdim=True)
        del pow_2_964
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_980 = torch.add(mean_1_968, 1e-06, alpha=1)
        del mean_1_968
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_988 = torch.rsqrt(add_3_980)
        del add_3_980
        rsqrt_1_269 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_1_988, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_1_988
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_1000 = torch.mul(add_2_996, rsqrt_1_269)
        del add_2_996, rsqrt_1_269
        mul_3_1016 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_3_1000, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_3_1000
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_1020 = torch.mul(mul_3_1016, self.blocks_0_norm2_weight_271)
        del mul_3_1016
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_1036, mul_4_1072 = nnscaler.runtime.function.multiref(mul_4_1020, times=2)
        del mul_4_1020
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_1040 = torch.nn.functional.linear(mul_4_1036, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_1036
        linear_4_1056 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_1040, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del linear_4_1040
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1060 = torch.nn.functional.silu(linear_4_1056, inplace=False)
        del linear_4_1056
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_1076 = torch.nn.functional.linear(mul_4_1072, self.blocks_0_up_weight_276, bias=None)
        del mul_4_1072
        silu_1092 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1060, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del silu_1060
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_1096 = torch.mul(silu_1092, linear_5_1076)
        del linear_5_1076, silu_1092
        mul_5_1108 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_5_1096, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_5_1096
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_1116 = torch.nn.functional.linear(mul_5_1108, self.blocks_0_down_weight_1112, bias=None)
        del mul_5_1108
        linear_6_1132 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_6_1116, dim=2, ranks=[0, 1, 2, 3])
        del linear_6_1116
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_1136 = torch.add(add_2_1128, linear_6_1132, alpha=1)
        del add_2_1128, linear_6_1132
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_1862, add_4_1863, add_4_1152, add_4_1200, add_4_1864 = nnscaler.runtime.function.multiref(add_4_1136, times=5)
        del add_4_1136
        add_4_539 = nnscaler.runtime.adapter.all_gather(add_4_1862, dim=2, ranks=[0, 1, 2, 3])
        del add_4_1862
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        add_4_540 = nnscaler.runtime.adapter.all_gather(add_4_1863, dim=2, ranks=[0, 1, 2, 3])
        del add_4_1863
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_1156 = torch.pow(add_4_1152, 2)
        del add_4_1152
        pow_3_1168 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_3_1156, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del pow_3_1156
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_1172 = torch.mean(pow_3_1168, dim=(2,), keepdim=True)
        del pow_3_1168
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_1184 = torch.add(mean_2_1172, 1e-06, alpha=1)
        del mean_2_1172
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_1192 = torch.rsqrt(add_5_1184)
        del add_5_1184
        rsqrt_2_285 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_2_1192, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_2_1192
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_1204 = torch.mul(add_4_1200, rsqrt_2_285)
        del add_4_1200, rsqrt_2_285
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_1224 = torch.mul(mul_6_1204, self.blocks_1_norm1_weight_1220)
        del mul_6_1204
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_1236, mul_7_1280, mul_7_1874 = nnscaler.runtime.function.multiref(mul_7_1224, times=3)
        del mul_7_1224
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_1244 = torch.nn.functional.linear(mul_7_1236, self.blocks_1_q_weight_1240, bias=None)
        del mul_7_1236
        linear_7_1256 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_7_1244, dim=1, ranks=[0, 1, 2, 3])
        del linear_7_1244
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_1260 = torch.Tensor.view(linear_7_1256, size=(size_2_228, 2, 2, 8))
        del linear_7_1256
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_1272 = torch.transpose(view_3_1260, dim0=1, dim1=2)
        del view_3_1260
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_1288 = torch.nn.functional.linear(mul_7_1280, self.blocks_1_k_weight_1284, bias=None)
        del mul_7_1280
        linear_8_1300 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_8_1288, dim=1, ranks=[0, 1, 2, 3])
        del linear_8_1288
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_1304 = torch.Tensor.view(linear_8_1300, size=(size_2_228, 2, 2, 8))
        del linear_8_1300
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_1316 = torch.transpose(view_4_1304, dim0=1, dim1=2)
        del view_4_1304
        mul_7_555 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_7_1874, dim=2, ranks=[0, 1, 2, 3])
        del mul_7_1874
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_1328 = torch.nn.functional.linear(mul_7_555, self.blocks_1_v_weight_1324, bias=None)
        del mul_7_555
        linear_9_1344 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_9_1328, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_9_1328
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_1348 = torch.Tensor.view(linear_9_1344, size=(size_2_228, 2, 2, 8))
        del linear_9_1344
        view_5_1360 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_5_1348, idim=1, odim=3, ranks=[0, 1, 2, 3])
        del view_5_1348
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_1364 = torch.transpose(view_5_1360, dim0=1, dim1=2)
        del view_5_1360
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_1376 = torch.transpose(transpose_6_1316, dim0=-2, dim1=-1)
        del transpose_6_1316
        transpose_8_301 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_8_1376, dim=3, ranks=[0, 1, 2, 3])
        del transpose_8_1376
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_1384 = torch.matmul(transpose_5_1272, transpose_8_301)
        del transpose_5_1272, transpose_8_301
        matmul_2_1396 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_2_1384, idim=2, odim=3, ranks=[0, 1, 2, 3])
        del matmul_2_1384
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_1400 = torch.mul(matmul_2_1396, 0.3535533905932738)
        del matmul_2_1396
        mask_1412 = nnscaler.runtime.adapter.chunk(mask_496, dim=1, ranks=[0, 1, 2, 3])
        del mask_496
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_1416 = torch.add(mul_8_1400, mask_1412, alpha=1)
        del mul_8_1400, mask_1412
        add_6_1424 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_6_1416, idim=3, odim=2, ranks=[0, 1, 2, 3])
        del add_6_1416
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_1428 = torch.softmax(add_6_1424, dim=-1, _stacklevel=3, dtype=None)
        del add_6_1424
        transpose_7_300 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_7_1364, dim=3, ranks=[0, 1, 2, 3])
        del transpose_7_1364
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_1440 = torch.matmul(softmax_1_1428, transpose_7_300)
        del softmax_1_1428, transpose_7_300
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_1452 = torch.transpose(matmul_3_1440, dim0=1, dim1=2)
        del matmul_3_1440
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_1460 = torch.Tensor.reshape(transpose_9_1452, shape=(size_2_228, 2, 16))
        del transpose_9_1452
        reshape_1_1468 = nnscaler.runtime.adapter.nn.alltoall_alltoall(reshape_1_1460, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del reshape_1_1460
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_1476 = torch.nn.functional.linear(reshape_1_1468, self.blocks_1_o_weight_1472, bias=None)
        del reshape_1_1468
        add_4_1488 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_4_1864, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del add_4_1864
        linear_10_1492 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_10_1476, dim=1, ranks=[0, 1, 2, 3])
        del linear_10_1476
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_1496 = torch.add(add_4_1488, linear_10_1492, alpha=1)
        del add_4_1488, linear_10_1492
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_1512, add_7_1552, add_7_1680 = nnscaler.runtime.function.multiref(add_7_1496, times=3)
        del add_7_1496
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_1516 = torch.pow(add_7_1512, 2)
        del add_7_1512
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_1528 = torch.mean(pow_4_1516, dim=(2,), keepdim=True)
        del pow_4_1516
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_1536 = torch.add(mean_3_1528, 1e-06, alpha=1)
        del mean_3_1528
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_1544 = torch.rsqrt(add_8_1536)
        del add_8_1536
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_1556 = torch.mul(add_7_1552, rsqrt_3_1544)
        del add_7_1552, rsqrt_3_1544
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_1568 = torch.mul(mul_9_1556, self.blocks_1_norm2_weight_317)
        del mul_9_1556
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_1886, mul_10_1888 = nnscaler.runtime.function.multiref(mul_10_1568, times=2)
        del mul_10_1568
        mul_10_575 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_10_1886, dim=1, ranks=[0, 1, 2, 3])
        del mul_10_1886
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1584 = torch.nn.functional.linear(mul_10_575, self.blocks_1_gate_weight_1580, bias=None)
        del mul_10_575
        linear_11_1600 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_11_1584, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del linear_11_1584
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1604 = torch.nn.functional.silu(linear_11_1600, inplace=False)
        del linear_11_1600
        mul_10_1616 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_10_1888, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_10_1888
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1624 = torch.nn.functional.linear(mul_10_1616, self.blocks_1_up_weight_1620, bias=None)
        del mul_10_1616
        silu_1_1636 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1_1604, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del silu_1_1604
        linear_12_1640 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_12_1624, dim=2, ranks=[0, 1, 2, 3])
        del linear_12_1624
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1644 = torch.mul(silu_1_1636, linear_12_1640)
        del silu_1_1636, linear_12_1640
        mul_11_1660 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_11_1644, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_11_1644
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1664 = torch.nn.functional.linear(mul_11_1660, self.blocks_1_down_weight_325, bias=None)
        del mul_11_1660
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_1684 = torch.add(add_7_1680, linear_13_1664, alpha=1)
        del add_7_1680, linear_13_1664
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_1696, add_9_1898 = nnscaler.runtime.function.multiref(add_9_1684, times=2)
        del add_9_1684
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_1700 = torch.pow(add_9_1696, 2)
        del add_9_1696
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_1712 = torch.mean(pow_5_1700, dim=(2,), keepdim=True)
        del pow_5_1700
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_1720 = torch.add(mean_4_1712, 1e-06, alpha=1)
        del mean_4_1712
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_1728 = torch.rsqrt(add_10_1720)
        del add_10_1720
        add_9_1736 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_9_1898, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del add_9_1898
        rsqrt_4_331 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_4_1728, dim=1, ranks=[0, 1, 2, 3])
        del rsqrt_4_1728
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_1740 = torch.mul(add_9_1736, rsqrt_4_331)
        del add_9_1736, rsqrt_4_331
        mul_12_1756 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_12_1740, idim=2, odim=1, ranks=[0, 1, 2, 3])
        del mul_12_1740
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_1760 = torch.mul(mul_12_1756, self.norm_weight_333)
        del mul_12_1756
        mul_13_1776 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_13_1760, idim=1, odim=2, ranks=[0, 1, 2, 3])
        del mul_13_1760
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_1784 = torch.nn.functional.linear(mul_13_1776, self.head_weight_1780, bias=None)
        del mul_13_1776
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_1906, linear_14_1907 = nnscaler.runtime.function.multiref(linear_14_1784, times=2)
        del linear_14_1784
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_338 = torch.Tensor.view(getitem_1_337, size=(-1,))
        del getitem_1_337
        linear_14_591 = nnscaler.runtime.adapter.all_reduce(linear_14_1906, ranks=[0, 1, 2, 3])
        del linear_14_1906
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        linear_14_1796 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_14_1907, dim=2, ranks=[0, 1, 2, 3])
        del linear_14_1907
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_1800 = torch.Tensor.view(linear_14_1796, size=(-1, 16))
        del linear_14_1796
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_1800, dim=1, ranks=[0, 1, 2, 3])
        del view_7_1800
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
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3393', model.segment3393, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment3393', (), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer2976, *(), requires_grad=False)
    return cross_entropy_231


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3393', model.segment3393, *(data_344, ), requires_grad=False)
    return cross_entropy_231
