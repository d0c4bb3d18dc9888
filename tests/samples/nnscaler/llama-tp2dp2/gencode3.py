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
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
         
        self.register_parameter('tok_weight_233', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_233', 4, True, 'tok.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_norm1_weight_240', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_norm1_weight_240', 21, True, 'blocks.0.norm1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_q_weight_242', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_q_weight_242', 25, True, 'blocks.0.q.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_k_weight_246', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_k_weight_246', 33, True, 'blocks.0.k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_v_weight_693', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_v_weight_693', 41, True, 'blocks.0.v.weight', (16, 16), (slice(8, 16, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('blocks_0_down_weight_897', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_down_weight_897', 97, True, 'blocks.0.down.weight', (16, 32), (slice(0, 16, None), slice(16, 32, None)), 1)
        
        self.register_parameter('blocks_1_norm1_weight_959', torch.nn.Parameter(torch.empty((8,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm1_weight_959', 116, True, 'blocks.1.norm1.weight', (16,), (slice(8, 16, None),), 1)
        
        self.register_parameter('blocks_1_q_weight_971', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('blocks_1_q_weight_971', 120, True, 'blocks.1.q.weight', (16, 16), (slice(0, 16, None), slice(8, 16, None)), 1)
        
        self.register_parameter('blocks_1_k_weight_293', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_k_weight_293', 128, True, 'blocks.1.k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_v_weight_1021', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_v_weight_1021', 136, True, 'blocks.1.v.weight', (16, 16), (slice(8, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_o_weight_1105', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('blocks_1_o_weight_1105', 160, True, 'blocks.1.o.weight', (16, 16), (slice(0, 16, None), slice(8, 16, None)), 1)
        
        self.register_parameter('blocks_1_norm2_weight_317', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm2_weight_317', 176, True, 'blocks.1.norm2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_gate_weight_1169', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_gate_weight_1169', 180, True, 'blocks.1.gate.weight', (32, 16), (slice(16, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_up_weight_1189', torch.nn.Parameter(torch.empty((32, 8), dtype=torch.float32)))
        self.add_full_map('blocks_1_up_weight_1189', 186, True, 'blocks.1.up.weight', (32, 16), (slice(0, 32, None), slice(8, 16, None)), 1)
        
        self.register_parameter('blocks_1_down_weight_325', torch.nn.Parameter(torch.empty((16, 32), dtype=torch.float32)))
        self.add_full_map('blocks_1_down_weight_325', 192, True, 'blocks.1.down.weight', (16, 32), (slice(0, 16, None), slice(0, 32, None)), 1)
        
        self.register_parameter('norm_weight_333', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_weight_333', 208, True, 'norm.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_1273', torch.nn.Parameter(torch.empty((64, 8), dtype=torch.float32)))
        self.add_full_map('head_weight_1273', 212, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(8, 16, None)), 1)
        
        
        self.wreducer1648 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer1648.add_param(self.tok_weight_233)
        self.wreducer1648.add_param(self.blocks_0_norm1_weight_240)
        self.wreducer1648.add_param(self.blocks_0_q_weight_242)
        self.wreducer1648.add_param(self.blocks_0_k_weight_246)
        self.wreducer1648.add_param(self.blocks_0_o_weight_263)
        self.wreducer1648.add_param(self.blocks_0_norm2_weight_271)
        self.wreducer1648.add_param(self.blocks_0_gate_weight_273)
        self.wreducer1648.add_param(self.blocks_0_up_weight_276)
        self.wreducer1648.add_param(self.blocks_1_k_weight_293)
        self.wreducer1648.add_param(self.blocks_1_norm2_weight_317)
        self.wreducer1648.add_param(self.blocks_1_down_weight_325)
        self.wreducer1648.add_param(self.norm_weight_333)
        self.add_reducer(self.wreducer1648)
        
        self.wreducer1972 = nnscaler.runtime.adapter.Reducer(ranks=[1, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer1972.add_param(self.blocks_0_v_weight_693)
        self.wreducer1972.add_param(self.blocks_0_down_weight_897)
        self.wreducer1972.add_param(self.blocks_1_norm1_weight_959)
        self.wreducer1972.add_param(self.blocks_1_q_weight_971)
        self.wreducer1972.add_param(self.blocks_1_v_weight_1021)
        self.wreducer1972.add_param(self.blocks_1_o_weight_1105)
        self.wreducer1972.add_param(self.blocks_1_gate_weight_1169)
        self.wreducer1972.add_param(self.blocks_1_up_weight_1189)
        self.wreducer1972.add_param(self.head_weight_1273)
        self.add_reducer(self.wreducer1972)
        
        self._post_init(init_params)
    
    def segment1969(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        getitem_595 = nnscaler.runtime.adapter.chunk(getitem_232, dim=0, ranks=[2, 3])
        del getitem_232
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_597 = nnscaler.runtime.function.embedding(getitem_595, self.tok_weight_233, padding_idx=None, start=0, stop=64)
        del getitem_595
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1296, embedding_1297, embedding_603, embedding_1298, embedding_791 = nnscaler.runtime.function.multiref(embedding_597, times=5)
        del embedding_597
        embedding_485 = nnscaler.runtime.adapter.all_gather(embedding_1296, dim=0, ranks=[2, 3])
        del embedding_1296
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        embedding_486 = nnscaler.runtime.adapter.all_gather(embedding_1297, dim=0, ranks=[2, 3])
        del embedding_1297
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_605 = torch.pow(embedding_603, 2)
        del embedding_603
        pow_1_611 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_1_605, idim=0, odim=1, ranks=[2, 3])
        del pow_1_605
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_613 = torch.mean(pow_1_611, dim=(2,), keepdim=True)
        del pow_1_611
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_619 = torch.add(mean_613, 1e-06, alpha=1)
        del mean_613
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_623 = torch.rsqrt(add_619)
        del add_619
        embedding_627 = nnscaler.runtime.adapter.nn.alltoall_alltoall(embedding_1298, idim=0, odim=1, ranks=[2, 3])
        del embedding_1298
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_629 = torch.mul(embedding_627, rsqrt_623)
        del rsqrt_623, embedding_627
        mul_635 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_629, idim=1, odim=0, ranks=[2, 3])
        del mul_629
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_637 = torch.mul(mul_635, self.blocks_0_norm1_weight_240)
        del mul_635
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_1306, mul_1_1308, mul_1_1310 = nnscaler.runtime.function.multiref(mul_1_637, times=3)
        del mul_1_637
        mul_1_645 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1306, idim=0, odim=1, ranks=[2, 3])
        del mul_1_1306
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_647 = torch.nn.functional.linear(mul_1_645, self.blocks_0_q_weight_242, bias=None)
        del mul_1_645
        linear_655 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_647, idim=1, odim=2, ranks=[2, 3])
        del linear_647
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_657 = torch.Tensor.view(linear_655, size=(size_226, size_1_227, 1, 8))
        del linear_655
        view_663 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_657, idim=2, odim=3, ranks=[2, 3])
        del view_657
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_665 = torch.transpose(view_663, dim0=1, dim1=2)
        del view_663
        mul_1_671 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1308, idim=0, odim=1, ranks=[2, 3])
        del mul_1_1308
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_673 = torch.nn.functional.linear(mul_1_671, self.blocks_0_k_weight_246, bias=None)
        del mul_1_671
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_681 = torch.Tensor.view(linear_1_673, size=(size_226, 4, 2, 8))
        del linear_1_673
        view_1_685 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_1_681, idim=1, odim=0, ranks=[2, 3])
        del view_1_681
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_687 = torch.transpose(view_1_685, dim0=1, dim1=2)
        del view_1_685
        mul_1_505 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_1_1310, dim=0, ranks=[2, 3])
        del mul_1_1310
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_695 = torch.nn.functional.linear(mul_1_505, self.blocks_0_v_weight_693, bias=None)
        del mul_1_505
        linear_2_703 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_695, idim=2, odim=1, ranks=[2, 3])
        del linear_2_695
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_705 = torch.Tensor.view(linear_2_703, size=(size_226, 4, 2, 8))
        del linear_2_703
        view_2_711 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_2_705, idim=1, odim=0, ranks=[2, 3])
        del view_2_705
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_713 = torch.transpose(view_2_711, dim0=1, dim1=2)
        del view_2_711
        transpose_1_719 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_1_687, idim=0, odim=3, ranks=[2, 3])
        del transpose_1_687
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_721 = torch.transpose(transpose_1_719, dim0=-2, dim1=-1)
        del transpose_1_719
        transpose_727 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_665, idim=3, odim=1, ranks=[2, 3])
        del transpose_665
        transpose_3_729 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_3_721, idim=2, odim=1, ranks=[2, 3])
        del transpose_3_721
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_731 = torch.matmul(transpose_727, transpose_3_729)
        del transpose_727, transpose_3_729
        matmul_739 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_731, idim=1, odim=0, ranks=[2, 3])
        del matmul_731
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_741 = torch.mul(matmul_739, 0.3535533905932738)
        del matmul_739
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        mul_2_747 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_2_741, idim=0, odim=1, ranks=[2, 3])
        del mul_2_741
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_749 = torch.add(mul_2_747, mask_495, alpha=1)
        del mask_495, mul_2_747
        add_1_755 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_749, idim=1, odim=2, ranks=[2, 3])
        del add_1_749
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_757 = torch.softmax(add_1_755, dim=-1, _stacklevel=3, dtype=None)
        del add_1_755
        transpose_2_253 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_2_713, dim=0, ranks=[2, 3])
        del transpose_2_713
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_763 = torch.matmul(softmax_757, transpose_2_253)
        del softmax_757, transpose_2_253
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_769 = torch.transpose(matmul_1_763, dim0=1, dim1=2)
        del matmul_1_763
        transpose_4_773 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_4_769, idim=1, odim=0, ranks=[2, 3])
        del transpose_4_769
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_775 = torch.Tensor.reshape(transpose_4_773, shape=(1, size_1_227, 16))
        del transpose_4_773
        reshape_781 = nnscaler.runtime.adapter.nn.alltoall_alltoall(reshape_775, idim=0, odim=1, ranks=[2, 3])
        del reshape_775
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_783 = torch.nn.functional.linear(reshape_781, self.blocks_0_o_weight_263, bias=None)
        del reshape_781
        linear_3_793 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_3_783, idim=1, odim=0, ranks=[2, 3])
        del linear_3_783
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_795 = torch.add(embedding_791, linear_3_793, alpha=1)
        del embedding_791, linear_3_793
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_1318, add_2_1320, add_2_1322 = nnscaler.runtime.function.multiref(add_2_795, times=3)
        del add_2_795
        add_2_803 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_2_1318, idim=0, odim=2, ranks=[2, 3])
        del add_2_1318
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_805 = torch.pow(add_2_803, 2)
        del add_2_803
        pow_2_811 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_2_805, idim=2, odim=0, ranks=[2, 3])
        del pow_2_805
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_813 = torch.mean(pow_2_811, dim=(2,), keepdim=True)
        del pow_2_811
        mean_1_819 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mean_1_813, idim=0, odim=1, ranks=[2, 3])
        del mean_1_813
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_821 = torch.add(mean_1_819, 1e-06, alpha=1)
        del mean_1_819
        add_3_827 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_3_821, idim=1, odim=0, ranks=[2, 3])
        del add_3_821
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_829 = torch.rsqrt(add_3_827)
        del add_3_827
        rsqrt_1_269 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_1_829, dim=0, ranks=[2, 3])
        del rsqrt_1_829
        add_2_835 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_2_1320, idim=0, odim=2, ranks=[2, 3])
        del add_2_1320
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_837 = torch.mul(add_2_835, rsqrt_1_269)
        del rsqrt_1_269, add_2_835
        mul_3_845 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_3_837, idim=2, odim=1, ranks=[2, 3])
        del mul_3_837
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_847 = torch.mul(mul_3_845, self.blocks_0_norm2_weight_271)
        del mul_3_845
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_855, mul_4_1326 = nnscaler.runtime.function.multiref(mul_4_847, times=2)
        del mul_4_847
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_857 = torch.nn.functional.linear(mul_4_855, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_855
        linear_4_865 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_857, idim=1, odim=2, ranks=[2, 3])
        del linear_4_857
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_867 = torch.nn.functional.silu(linear_4_865, inplace=False)
        del linear_4_865
        mul_4_873 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_4_1326, idim=1, odim=0, ranks=[2, 3])
        del mul_4_1326
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_875 = torch.nn.functional.linear(mul_4_873, self.blocks_0_up_weight_276, bias=None)
        del mul_4_873
        silu_883 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_867, idim=2, odim=1, ranks=[2, 3])
        del silu_867
        linear_5_885 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_5_875, idim=0, odim=1, ranks=[2, 3])
        del linear_5_875
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_887 = torch.mul(silu_883, linear_5_885)
        del silu_883, linear_5_885
        mul_5_895 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_5_887, idim=1, odim=2, ranks=[2, 3])
        del mul_5_887
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_899 = torch.nn.functional.linear(mul_5_895, self.blocks_0_down_weight_897, bias=None)
        del mul_5_895
        add_2_905 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_2_1322, idim=0, odim=2, ranks=[2, 3])
        del add_2_1322
        linear_6_907 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_6_899, dim=2, ranks=[2, 3])
        del linear_6_899
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_909 = torch.add(add_2_905, linear_6_907, alpha=1)
        del add_2_905, linear_6_907
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_1334, add_4_1335, add_4_917, add_4_1336, add_4_1338 = nnscaler.runtime.function.multiref(add_4_909, times=5)
        del add_4_909
        add_4_539 = nnscaler.runtime.adapter.all_gather(add_4_1334, dim=2, ranks=[2, 3])
        del add_4_1334
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        add_4_540 = nnscaler.runtime.adapter.all_gather(add_4_1335, dim=2, ranks=[2, 3])
        del add_4_1335
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_919 = torch.pow(add_4_917, 2)
        del add_4_917
        pow_3_925 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_3_919, idim=2, odim=0, ranks=[2, 3])
        del pow_3_919
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_927 = torch.mean(pow_3_925, dim=(2,), keepdim=True)
        del pow_3_925
        mean_2_933 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mean_2_927, idim=0, odim=1, ranks=[2, 3])
        del mean_2_927
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_935 = torch.add(mean_2_933, 1e-06, alpha=1)
        del mean_2_933
        add_5_941 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_5_935, idim=1, odim=0, ranks=[2, 3])
        del add_5_935
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_943 = torch.rsqrt(add_5_941)
        del add_5_941
        add_4_949 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_4_1336, idim=2, odim=0, ranks=[2, 3])
        del add_4_1336
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_951 = torch.mul(add_4_949, rsqrt_2_943)
        del rsqrt_2_943, add_4_949
        mul_6_957 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_6_951, idim=0, odim=2, ranks=[2, 3])
        del mul_6_951
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_961 = torch.mul(mul_6_957, self.blocks_1_norm1_weight_959)
        del mul_6_957
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_969, mul_7_1344, mul_7_1346 = nnscaler.runtime.function.multiref(mul_7_961, times=3)
        del mul_7_961
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_973 = torch.nn.functional.linear(mul_7_969, self.blocks_1_q_weight_971, bias=None)
        del mul_7_969
        linear_7_979 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_7_973, dim=2, ranks=[2, 3])
        del linear_7_973
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_981 = torch.Tensor.view(linear_7_979, size=(size_2_228, size_3_229, 1, 8))
        del linear_7_979
        view_3_987 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_3_981, idim=2, odim=0, ranks=[2, 3])
        del view_3_981
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_989 = torch.transpose(view_3_987, dim0=1, dim1=2)
        del view_3_987
        mul_7_995 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_7_1344, idim=2, odim=0, ranks=[2, 3])
        del mul_7_1344
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_997 = torch.nn.functional.linear(mul_7_995, self.blocks_1_k_weight_293, bias=None)
        del mul_7_995
        linear_8_1005 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_8_997, idim=0, odim=1, ranks=[2, 3])
        del linear_8_997
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_1007 = torch.Tensor.view(linear_8_1005, size=(size_2_228, 4, 2, 8))
        del linear_8_1005
        view_4_1013 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_4_1007, idim=1, odim=0, ranks=[2, 3])
        del view_4_1007
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_1015 = torch.transpose(view_4_1013, dim0=1, dim1=2)
        del view_4_1013
        mul_7_555 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_7_1346, dim=2, ranks=[2, 3])
        del mul_7_1346
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_1023 = torch.nn.functional.linear(mul_7_555, self.blocks_1_v_weight_1021, bias=None)
        del mul_7_555
        linear_9_1031 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_9_1023, idim=2, odim=1, ranks=[2, 3])
        del linear_9_1023
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_1033 = torch.Tensor.view(linear_9_1031, size=(size_2_228, 4, 2, 8))
        del linear_9_1031
        view_5_1039 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_5_1033, idim=1, odim=0, ranks=[2, 3])
        del view_5_1033
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_1041 = torch.transpose(view_5_1039, dim0=1, dim1=2)
        del view_5_1039
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_1047 = torch.transpose(transpose_6_1015, dim0=-2, dim1=-1)
        del transpose_6_1015
        transpose_5_1051 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_5_989, idim=0, odim=2, ranks=[2, 3])
        del transpose_5_989
        transpose_8_301 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_8_1047, dim=0, ranks=[2, 3])
        del transpose_8_1047
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_1053 = torch.matmul(transpose_5_1051, transpose_8_301)
        del transpose_5_1051, transpose_8_301
        matmul_2_1061 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_2_1053, idim=2, odim=3, ranks=[2, 3])
        del matmul_2_1053
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_1063 = torch.mul(matmul_2_1061, 0.3535533905932738)
        del matmul_2_1061
        mask_1069 = nnscaler.runtime.adapter.chunk(mask_496, dim=1, ranks=[2, 3])
        del mask_496
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_1071 = torch.add(mul_8_1063, mask_1069, alpha=1)
        del mul_8_1063, mask_1069
        add_6_1075 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_6_1071, idim=3, odim=2, ranks=[2, 3])
        del add_6_1071
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_1077 = torch.softmax(add_6_1075, dim=-1, _stacklevel=3, dtype=None)
        del add_6_1075
        transpose_7_300 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_7_1041, dim=0, ranks=[2, 3])
        del transpose_7_1041
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_1083 = torch.matmul(softmax_1_1077, transpose_7_300)
        del softmax_1_1077, transpose_7_300
        matmul_3_1089 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_3_1083, idim=2, odim=0, ranks=[2, 3])
        del matmul_3_1083
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_1091 = torch.transpose(matmul_3_1089, dim0=1, dim1=2)
        del matmul_3_1089
        transpose_9_1097 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_9_1091, idim=0, odim=2, ranks=[2, 3])
        del transpose_9_1091
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_1099 = torch.Tensor.reshape(transpose_9_1097, shape=(size_2_228, size_3_229, 8))
        del transpose_9_1097
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_1107 = torch.nn.functional.linear(reshape_1_1099, self.blocks_1_o_weight_1105, bias=None)
        del reshape_1_1099
        add_4_1111 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_4_1338, idim=2, odim=0, ranks=[2, 3])
        del add_4_1338
        linear_10_1113 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_10_1107, dim=0, ranks=[2, 3])
        del linear_10_1107
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_1115 = torch.add(add_4_1111, linear_10_1113, alpha=1)
        del add_4_1111, linear_10_1113
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_1123, add_7_1151, add_7_1350 = nnscaler.runtime.function.multiref(add_7_1115, times=3)
        del add_7_1115
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_1125 = torch.pow(add_7_1123, 2)
        del add_7_1123
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_1131 = torch.mean(pow_4_1125, dim=(2,), keepdim=True)
        del pow_4_1125
        mean_3_1135 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mean_3_1131, idim=0, odim=1, ranks=[2, 3])
        del mean_3_1131
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_1137 = torch.add(mean_3_1135, 1e-06, alpha=1)
        del mean_3_1135
        add_8_1143 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_8_1137, idim=1, odim=0, ranks=[2, 3])
        del add_8_1137
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_1145 = torch.rsqrt(add_8_1143)
        del add_8_1143
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_1153 = torch.mul(add_7_1151, rsqrt_3_1145)
        del add_7_1151, rsqrt_3_1145
        mul_9_1159 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_9_1153, idim=0, odim=1, ranks=[2, 3])
        del mul_9_1153
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_1161 = torch.mul(mul_9_1159, self.blocks_1_norm2_weight_317)
        del mul_9_1159
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_1356, mul_10_1358 = nnscaler.runtime.function.multiref(mul_10_1161, times=2)
        del mul_10_1161
        mul_10_575 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_10_1356, dim=1, ranks=[2, 3])
        del mul_10_1356
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1171 = torch.nn.functional.linear(mul_10_575, self.blocks_1_gate_weight_1169, bias=None)
        del mul_10_575
        linear_11_1179 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_11_1171, idim=2, odim=1, ranks=[2, 3])
        del linear_11_1171
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1181 = torch.nn.functional.silu(linear_11_1179, inplace=False)
        del linear_11_1179
        mul_10_1187 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_10_1358, idim=1, odim=2, ranks=[2, 3])
        del mul_10_1358
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1191 = torch.nn.functional.linear(mul_10_1187, self.blocks_1_up_weight_1189, bias=None)
        del mul_10_1187
        silu_1_1197 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1_1181, idim=1, odim=2, ranks=[2, 3])
        del silu_1_1181
        linear_12_1199 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_12_1191, dim=2, ranks=[2, 3])
        del linear_12_1191
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1201 = torch.mul(silu_1_1197, linear_12_1199)
        del silu_1_1197, linear_12_1199
        mul_11_1209 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_11_1201, idim=2, odim=1, ranks=[2, 3])
        del mul_11_1201
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1211 = torch.nn.functional.linear(mul_11_1209, self.blocks_1_down_weight_325, bias=None)
        del mul_11_1209
        add_7_1219 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_7_1350, idim=0, odim=1, ranks=[2, 3])
        del add_7_1350
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_1221 = torch.add(add_7_1219, linear_13_1211, alpha=1)
        del linear_13_1211, add_7_1219
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_1364, add_9_1366 = nnscaler.runtime.function.multiref(add_9_1221, times=2)
        del add_9_1221
        add_9_1227 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_9_1364, idim=1, odim=0, ranks=[2, 3])
        del add_9_1364
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_1229 = torch.pow(add_9_1227, 2)
        del add_9_1227
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_1235 = torch.mean(pow_5_1229, dim=(2,), keepdim=True)
        del pow_5_1229
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_1239 = torch.add(mean_4_1235, 1e-06, alpha=1)
        del mean_4_1235
        add_10_1243 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_10_1239, idim=0, odim=1, ranks=[2, 3])
        del add_10_1239
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_1245 = torch.rsqrt(add_10_1243)
        del add_10_1243
        add_9_1251 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_9_1366, idim=1, odim=2, ranks=[2, 3])
        del add_9_1366
        rsqrt_4_331 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_4_1245, dim=1, ranks=[2, 3])
        del rsqrt_4_1245
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_1253 = torch.mul(add_9_1251, rsqrt_4_331)
        del add_9_1251, rsqrt_4_331
        mul_12_1261 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_12_1253, idim=2, odim=1, ranks=[2, 3])
        del mul_12_1253
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_1263 = torch.mul(mul_12_1261, self.norm_weight_333)
        del mul_12_1261
        mul_13_1271 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_13_1263, idim=1, odim=2, ranks=[2, 3])
        del mul_13_1263
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_1275 = torch.nn.functional.linear(mul_13_1271, self.head_weight_1273, bias=None)
        del mul_13_1271
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_1370, linear_14_1371 = nnscaler.runtime.function.multiref(linear_14_1275, times=2)
        del linear_14_1275
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        getitem_1_1281 = nnscaler.runtime.adapter.chunk(getitem_1_337, dim=0, ranks=[2, 3])
        del getitem_1_337
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_1283 = torch.Tensor.view(getitem_1_1281, size=(-1,))
        del getitem_1_1281
        linear_14_591 = nnscaler.runtime.adapter.all_reduce(linear_14_1370, ranks=[2, 3])
        del linear_14_1370
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        linear_14_1285 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_14_1371, dim=2, ranks=[2, 3])
        del linear_14_1371
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_1287 = torch.Tensor.view(linear_14_1285, size=(-1, 32))
        del linear_14_1285
        view_6_338 = nnscaler.runtime.adapter.all_gather(view_6_1283, dim=0, ranks=[2, 3])
        del view_6_1283
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_1287, dim=1, ranks=[2, 3])
        del view_7_1287
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_231 = torch.nn.functional.cross_entropy(view_7_339, view_6_338, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_6_338, view_7_339
        return cross_entropy_231
    
    def reducer1648(self):
        self.wreducer1648.sync_grads()
        return 
    
    def reducer1972(self):
        self.wreducer1972.sync_grads()
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
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment1969', model.segment1969, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment1969', (), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer1648, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.reducer1972, *(), requires_grad=False)
    return cross_entropy_231


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment1969', model.segment1969, *(data_344, ), requires_grad=False)
    return cross_entropy_231
