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
        
        self.register_parameter('blocks_0_v_weight_692', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_v_weight_692', 41, True, 'blocks.0.v.weight', (16, 16), (slice(0, 8, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('blocks_0_down_weight_896', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_down_weight_896', 97, True, 'blocks.0.down.weight', (16, 32), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_norm1_weight_958', torch.nn.Parameter(torch.empty((8,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm1_weight_958', 116, True, 'blocks.1.norm1.weight', (16,), (slice(0, 8, None),), 1)
        
        self.register_parameter('blocks_1_q_weight_970', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('blocks_1_q_weight_970', 120, True, 'blocks.1.q.weight', (16, 16), (slice(0, 16, None), slice(0, 8, None)), 1)
        
        self.register_parameter('blocks_1_k_weight_293', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_k_weight_293', 128, True, 'blocks.1.k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_v_weight_1020', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_v_weight_1020', 136, True, 'blocks.1.v.weight', (16, 16), (slice(0, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_o_weight_1104', torch.nn.Parameter(torch.empty((16, 8), dtype=torch.float32)))
        self.add_full_map('blocks_1_o_weight_1104', 160, True, 'blocks.1.o.weight', (16, 16), (slice(0, 16, None), slice(0, 8, None)), 1)
        
        self.register_parameter('blocks_1_norm2_weight_317', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm2_weight_317', 176, True, 'blocks.1.norm2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_1_gate_weight_1168', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_1_gate_weight_1168', 180, True, 'blocks.1.gate.weight', (32, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_1_up_weight_1188', torch.nn.Parameter(torch.empty((32, 8), dtype=torch.float32)))
        self.add_full_map('blocks_1_up_weight_1188', 186, True, 'blocks.1.up.weight', (32, 16), (slice(0, 32, None), slice(0, 8, None)), 1)
        
        self.register_parameter('blocks_1_down_weight_325', torch.nn.Parameter(torch.empty((16, 32), dtype=torch.float32)))
        self.add_full_map('blocks_1_down_weight_325', 192, True, 'blocks.1.down.weight', (16, 32), (slice(0, 16, None), slice(0, 32, None)), 1)
        
        self.register_parameter('norm_weight_333', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_weight_333', 208, True, 'norm.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_1272', torch.nn.Parameter(torch.empty((64, 8), dtype=torch.float32)))
        self.add_full_map('head_weight_1272', 212, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(0, 8, None)), 1)
        
        
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
        
        self.wreducer1971 = nnscaler.runtime.adapter.Reducer(ranks=[0, 2], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer1971.add_param(self.blocks_0_v_weight_692)
        self.wreducer1971.add_param(self.blocks_0_down_weight_896)
        self.wreducer1971.add_param(self.blocks_1_norm1_weight_958)
        self.wreducer1971.add_param(self.blocks_1_q_weight_970)
        self.wreducer1971.add_param(self.blocks_1_v_weight_1020)
        self.wreducer1971.add_param(self.blocks_1_o_weight_1104)
        self.wreducer1971.add_param(self.blocks_1_gate_weight_1168)
        self.wreducer1971.add_param(self.blocks_1_up_weight_1188)
        self.wreducer1971.add_param(self.head_weight_1272)
        self.add_reducer(self.wreducer1971)
        
        self._post_init(init_params)
    
    def segment1967(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        getitem_594 = nnscaler.runtime.adapter.chunk(getitem_232, dim=0, ranks=[2, 3])
        del getitem_232
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_596 = nnscaler.runtime.function.embedding(getitem_594, self.tok_weight_233, padding_idx=None, start=0, stop=64)
        del getitem_594
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1292, embedding_1293, embedding_602, embedding_1294, embedding_790 = nnscaler.runtime.function.multiref(embedding_596, times=5)
        del embedding_596
        embedding_485 = nnscaler.runtime.adapter.all_gather(embedding_1292, dim=0, ranks=[2, 3])
        del embedding_1292
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        embedding_486 = nnscaler.runtime.adapter.all_gather(embedding_1293, dim=0, ranks=[2, 3])
        del embedding_1293
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_604 = torch.pow(embedding_602, 2)
        del embedding_602
        pow_1_610 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_1_604, idim=0, odim=1, ranks=[2, 3])
        del pow_1_604
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_612 = torch.mean(pow_1_610, dim=(2,), keepdim=True)
        del pow_1_610
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_618 = torch.add(mean_612, 1e-06, alpha=1)
        del mean_612
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_622 = torch.rsqrt(add_618)
        del add_618
        embedding_626 = nnscaler.runtime.adapter.nn.alltoall_alltoall(embedding_1294, idim=0, odim=1, ranks=[2, 3])
        del embedding_1294
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_628 = torch.mul(embedding_626, rsqrt_622)
        del rsqrt_622, embedding_626
        mul_634 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_628, idim=1, odim=0, ranks=[2, 3])
        del mul_628
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_636 = torch.mul(mul_634, self.blocks_0_norm1_weight_240)
        del mul_634
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_1300, mul_1_1302, mul_1_1304 = nnscaler.runtime.function.multiref(mul_1_636, times=3)
        del mul_1_636
        mul_1_644 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1300, idim=0, odim=1, ranks=[2, 3])
        del mul_1_1300
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_646 = torch.nn.functional.linear(mul_1_644, self.blocks_0_q_weight_242, bias=None)
        del mul_1_644
        linear_654 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_646, idim=1, odim=2, ranks=[2, 3])
        del linear_646
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_656 = torch.Tensor.view(linear_654, size=(size_226, size_1_227, 1, 8))
        del linear_654
        view_662 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_656, idim=2, odim=3, ranks=[2, 3])
        del view_656
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_664 = torch.transpose(view_662, dim0=1, dim1=2)
        del view_662
        mul_1_670 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_1_1302, idim=0, odim=1, ranks=[2, 3])
        del mul_1_1302
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_672 = torch.nn.functional.linear(mul_1_670, self.blocks_0_k_weight_246, bias=None)
        del mul_1_670
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_680 = torch.Tensor.view(linear_1_672, size=(size_226, 4, 2, 8))
        del linear_1_672
        view_1_684 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_1_680, idim=1, odim=0, ranks=[2, 3])
        del view_1_680
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_686 = torch.transpose(view_1_684, dim0=1, dim1=2)
        del view_1_684
        mul_1_505 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_1_1304, dim=0, ranks=[2, 3])
        del mul_1_1304
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_694 = torch.nn.functional.linear(mul_1_505, self.blocks_0_v_weight_692, bias=None)
        del mul_1_505
        linear_2_702 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_694, idim=2, odim=1, ranks=[2, 3])
        del linear_2_694
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_704 = torch.Tensor.view(linear_2_702, size=(size_226, 4, 2, 8))
        del linear_2_702
        view_2_710 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_2_704, idim=1, odim=0, ranks=[2, 3])
        del view_2_704
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_712 = torch.transpose(view_2_710, dim0=1, dim1=2)
        del view_2_710
        transpose_1_718 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_1_686, idim=0, odim=3, ranks=[2, 3])
        del transpose_1_686
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_720 = torch.transpose(transpose_1_718, dim0=-2, dim1=-1)
        del transpose_1_718
        transpose_726 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_664, idim=3, odim=1, ranks=[2, 3])
        del transpose_664
        transpose_3_728 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_3_720, idim=2, odim=1, ranks=[2, 3])
        del transpose_3_720
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_730 = torch.matmul(transpose_726, transpose_3_728)
        del transpose_726, transpose_3_728
        matmul_738 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_730, idim=1, odim=0, ranks=[2, 3])
        del matmul_730
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_740 = torch.mul(matmul_738, 0.3535533905932738)
        del matmul_738
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        mul_2_746 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_2_740, idim=0, odim=1, ranks=[2, 3])
        del mul_2_740
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_748 = torch.add(mul_2_746, mask_495, alpha=1)
        del mask_495, mul_2_746
        add_1_754 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_1_748, idim=1, odim=2, ranks=[2, 3])
        del add_1_748
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_756 = torch.softmax(add_1_754, dim=-1, _stacklevel=3, dtype=None)
        del add_1_754
        transpose_2_253 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_2_712, dim=0, ranks=[2, 3])
        del transpose_2_712
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_762 = torch.matmul(softmax_756, transpose_2_253)
        del softmax_756, transpose_2_253
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_768 = torch.transpose(matmul_1_762, dim0=1, dim1=2)
        del matmul_1_762
        transpose_4_772 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_4_768, idim=1, odim=0, ranks=[2, 3])
        del transpose_4_768
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_774 = torch.Tensor.reshape(transpose_4_772, shape=(1, size_1_227, 16))
        del transpose_4_772
        reshape_780 = nnscaler.runtime.adapter.nn.alltoall_alltoall(reshape_774, idim=0, odim=1, ranks=[2, 3])
        del reshape_774
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_782 = torch.nn.functional.linear(reshape_780, self.blocks_0_o_weight_263, bias=None)
        del reshape_780
        linear_3_792 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_3_782, idim=1, odim=0, ranks=[2, 3])
        del linear_3_782
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_794 = torch.add(embedding_790, linear_3_792, alpha=1)
        del embedding_790, linear_3_792
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_1312, add_2_1314, add_2_1316 = nnscaler.runtime.function.multiref(add_2_794, times=3)
        del add_2_794
        add_2_802 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_2_1312, idim=0, odim=2, ranks=[2, 3])
        del add_2_1312
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_804 = torch.pow(add_2_802, 2)
        del add_2_802
        pow_2_810 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_2_804, idim=2, odim=0, ranks=[2, 3])
        del pow_2_804
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_812 = torch.mean(pow_2_810, dim=(2,), keepdim=True)
        del pow_2_810
        mean_1_818 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mean_1_812, idim=0, odim=1, ranks=[2, 3])
        del mean_1_812
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_820 = torch.add(mean_1_818, 1e-06, alpha=1)
        del mean_1_818
        add_3_826 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_3_820, idim=1, odim=0, ranks=[2, 3])
        del add_3_820
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_828 = torch.rsqrt(add_3_826)
        del add_3_826
        rsqrt_1_269 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_1_828, dim=0, ranks=[2, 3])
        del rsqrt_1_828
        add_2_834 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_2_1314, idim=0, odim=2, ranks=[2, 3])
        del add_2_1314
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_836 = torch.mul(add_2_834, rsqrt_1_269)
        del rsqrt_1_269, add_2_834
        mul_3_844 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_3_836, idim=2, odim=1, ranks=[2, 3])
        del mul_3_836
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_846 = torch.mul(mul_3_844, self.blocks_0_norm2_weight_271)
        del mul_3_844
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_854, mul_4_1324 = nnscaler.runtime.function.multiref(mul_4_846, times=2)
        del mul_4_846
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_856 = torch.nn.functional.linear(mul_4_854, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_854
        linear_4_864 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_856, idim=1, odim=2, ranks=[2, 3])
        del linear_4_856
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_866 = torch.nn.functional.silu(linear_4_864, inplace=False)
        del linear_4_864
        mul_4_872 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_4_1324, idim=1, odim=0, ranks=[2, 3])
        del mul_4_1324
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_874 = torch.nn.functional.linear(mul_4_872, self.blocks_0_up_weight_276, bias=None)
        del mul_4_872
        silu_882 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_866, idim=2, odim=1, ranks=[2, 3])
        del silu_866
        linear_5_884 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_5_874, idim=0, odim=1, ranks=[2, 3])
        del linear_5_874
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_886 = torch.mul(silu_882, linear_5_884)
        del silu_882, linear_5_884
        mul_5_894 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_5_886, idim=1, odim=2, ranks=[2, 3])
        del mul_5_886
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_898 = torch.nn.functional.linear(mul_5_894, self.blocks_0_down_weight_896, bias=None)
        del mul_5_894
        add_2_904 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_2_1316, idim=0, odim=2, ranks=[2, 3])
        del add_2_1316
        linear_6_906 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_6_898, dim=2, ranks=[2, 3])
        del linear_6_898
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_908 = torch.add(add_2_904, linear_6_906, alpha=1)
        del add_2_904, linear_6_906
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_1328, add_4_1329, add_4_916, add_4_1330, add_4_1332 = nnscaler.runtime.function.multiref(add_4_908, times=5)
        del add_4_908
        add_4_539 = nnscaler.runtime.adapter.all_gather(add_4_1328, dim=2, ranks=[2, 3])
        del add_4_1328
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        add_4_540 = nnscaler.runtime.adapter.all_gather(add_4_1329, dim=2, ranks=[2, 3])
        del add_4_1329
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_918 = torch.pow(add_4_916, 2)
        del add_4_916
        pow_3_924 = nnscaler.runtime.adapter.nn.alltoall_alltoall(pow_3_918, idim=2, odim=0, ranks=[2, 3])
        del pow_3_918
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_926 = torch.mean(pow_3_924, dim=(2,), keepdim=True)
        del pow_3_924
        mean_2_932 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mean_2_926, idim=0, odim=1, ranks=[2, 3])
        del mean_2_926
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_934 = torch.add(mean_2_932, 1e-06, alpha=1)
        del mean_2_932
        add_5_940 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_5_934, idim=1, odim=0, ranks=[2, 3])
        del add_5_934
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_942 = torch.rsqrt(add_5_940)
        del add_5_940
        add_4_948 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_4_1330, idim=2, odim=0, ranks=[2, 3])
        del add_4_1330
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_950 = torch.mul(add_4_948, rsqrt_2_942)
        del rsqrt_2_942, add_4_948
        mul_6_956 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_6_950, idim=0, odim=2, ranks=[2, 3])
        del mul_6_950
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_960 = torch.mul(mul_6_956, self.blocks_1_norm1_weight_958)
        del mul_6_956
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_968, mul_7_1340, mul_7_1342 = nnscaler.runtime.function.multiref(mul_7_960, times=3)
        del mul_7_960
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_972 = torch.nn.functional.linear(mul_7_968, self.blocks_1_q_weight_970, bias=None)
        del mul_7_968
        linear_7_978 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_7_972, dim=2, ranks=[2, 3])
        del linear_7_972
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_980 = torch.Tensor.view(linear_7_978, size=(size_2_228, size_3_229, 1, 8))
        del linear_7_978
        view_3_986 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_3_980, idim=2, odim=0, ranks=[2, 3])
        del view_3_980
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_988 = torch.transpose(view_3_986, dim0=1, dim1=2)
        del view_3_986
        mul_7_994 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_7_1340, idim=2, odim=0, ranks=[2, 3])
        del mul_7_1340
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_996 = torch.nn.functional.linear(mul_7_994, self.blocks_1_k_weight_293, bias=None)
        del mul_7_994
        linear_8_1004 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_8_996, idim=0, odim=1, ranks=[2, 3])
        del linear_8_996
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_1006 = torch.Tensor.view(linear_8_1004, size=(size_2_228, 4, 2, 8))
        del linear_8_1004
        view_4_1012 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_4_1006, idim=1, odim=0, ranks=[2, 3])
        del view_4_1006
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_1014 = torch.transpose(view_4_1012, dim0=1, dim1=2)
        del view_4_1012
        mul_7_555 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_7_1342, dim=2, ranks=[2, 3])
        del mul_7_1342
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_1022 = torch.nn.functional.linear(mul_7_555, self.blocks_1_v_weight_1020, bias=None)
        del mul_7_555
        linear_9_1030 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_9_1022, idim=2, odim=1, ranks=[2, 3])
        del linear_9_1022
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_1032 = torch.Tensor.view(linear_9_1030, size=(size_2_228, 4, 2, 8))
        del linear_9_1030
        view_5_1038 = nnscaler.runtime.adapter.nn.alltoall_alltoall(view_5_1032, idim=1, odim=0, ranks=[2, 3])
        del view_5_1032
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_1040 = torch.transpose(view_5_1038, dim0=1, dim1=2)
        del view_5_1038
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_1046 = torch.transpose(transpose_6_1014, dim0=-2, dim1=-1)
        del transpose_6_1014
        transpose_5_1050 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_5_988, idim=0, odim=2, ranks=[2, 3])
        del transpose_5_988
        transpose_8_301 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_8_1046, dim=0, ranks=[2, 3])
        del transpose_8_1046
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_1052 = torch.matmul(transpose_5_1050, transpose_8_301)
        del transpose_5_1050, transpose_8_301
        matmul_2_1060 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_2_1052, idim=2, odim=3, ranks=[2, 3])
        del matmul_2_1052
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_1062 = torch.mul(matmul_2_1060, 0.3535533905932738)
        del matmul_2_1060
        mask_1068 = nnscaler.runtime.adapter.chunk(mask_496, dim=1, ranks=[2, 3])
        del mask_496
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_1070 = torch.add(mul_8_1062, mask_1068, alpha=1)
        del mul_8_1062, mask_1068
        add_6_1074 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_6_1070, idim=3, odim=2, ranks=[2, 3])
        del add_6_1070
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_1076 = torch.softmax(add_6_1074, dim=-1, _stacklevel=3, dtype=None)
        del add_6_1074
        transpose_7_300 = nnscaler.runtime.adapter.nn.allgather_reducescatter(transpose_7_1040, dim=0, ranks=[2, 3])
        del transpose_7_1040
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_1082 = torch.matmul(softmax_1_1076, transpose_7_300)
        del softmax_1_1076, transpose_7_300
        matmul_3_1088 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_3_1082, idim=2, odim=0, ranks=[2, 3])
        del matmul_3_1082
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_1090 = torch.transpose(matmul_3_1088, dim0=1, dim1=2)
        del matmul_3_1088
        transpose_9_1096 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_9_1090, idim=0, odim=2, ranks=[2, 3])
        del transpose_9_1090
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_1098 = torch.Tensor.reshape(transpose_9_1096, shape=(size_2_228, size_3_229, 8))
        del transpose_9_1096
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_1106 = torch.nn.functional.linear(reshape_1_1098, self.blocks_1_o_weight_1104, bias=None)
        del reshape_1_1098
        add_4_1110 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_4_1332, idim=2, odim=0, ranks=[2, 3])
        del add_4_1332
        linear_10_1112 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_10_1106, dim=0, ranks=[2, 3])
        del linear_10_1106
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_1114 = torch.add(add_4_1110, linear_10_1112, alpha=1)
        del add_4_1110, linear_10_1112
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_1122, add_7_1150, add_7_1348 = nnscaler.runtime.function.multiref(add_7_1114, times=3)
        del add_7_1114
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_1124 = torch.pow(add_7_1122, 2)
        del add_7_1122
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_1130 = torch.mean(pow_4_1124, dim=(2,), keepdim=True)
        del pow_4_1124
        mean_3_1134 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mean_3_1130, idim=0, odim=1, ranks=[2, 3])
        del mean_3_1130
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_1136 = torch.add(mean_3_1134, 1e-06, alpha=1)
        del mean_3_1134
        add_8_1142 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_8_1136, idim=1, odim=0, ranks=[2, 3])
        del add_8_1136
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_1144 = torch.rsqrt(add_8_1142)
        del add_8_1142
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_1152 = torch.mul(add_7_1150, rsqrt_3_1144)
        del add_7_1150, rsqrt_3_1144
        mul_9_1158 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_9_1152, idim=0, odim=1, ranks=[2, 3])
        del mul_9_1152
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_1160 = torch.mul(mul_9_1158, self.blocks_1_norm2_weight_317)
        del mul_9_1158
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_1352, mul_10_1354 = nnscaler.runtime.function.multiref(mul_10_1160, times=2)
        del mul_10_1160
        mul_10_575 = nnscaler.runtime.adapter.nn.allgather_reducescatter(mul_10_1352, dim=1, ranks=[2, 3])
        del mul_10_1352
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1170 = torch.nn.functional.linear(mul_10_575, self.blocks_1_gate_weight_1168, bias=None)
        del mul_10_575
        linear_11_1178 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_11_1170, idim=2, odim=1, ranks=[2, 3])
        del linear_11_1170
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1180 = torch.nn.functional.silu(linear_11_1178, inplace=False)
        del linear_11_1178
        mul_10_1186 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_10_1354, idim=1, odim=2, ranks=[2, 3])
        del mul_10_1354
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1190 = torch.nn.functional.linear(mul_10_1186, self.blocks_1_up_weight_1188, bias=None)
        del mul_10_1186
        silu_1_1196 = nnscaler.runtime.adapter.nn.alltoall_alltoall(silu_1_1180, idim=1, odim=2, ranks=[2, 3])
        del silu_1_1180
        linear_12_1198 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_12_1190, dim=2, ranks=[2, 3])
        del linear_12_1190
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1200 = torch.mul(silu_1_1196, linear_12_1198)
        del silu_1_1196, linear_12_1198
        mul_11_1208 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_11_1200, idim=2, odim=1, ranks=[2, 3])
        del mul_11_1200
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1210 = torch.nn.functional.linear(mul_11_1208, self.blocks_1_down_weight_325, bias=None)
        del mul_11_1208
        add_7_1218 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_7_1348, idim=0, odim=1, ranks=[2, 3])
        del add_7_1348
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_1220 = torch.add(add_7_1218, linear_13_1210, alpha=1)
        del linear_13_1210, add_7_1218
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_1360, add_9_1362 = nnscaler.runtime.function.multiref(add_9_1220, times=2)
        del add_9_1220
        add_9_1226 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_9_1360, idim=1, odim=0, ranks=[2, 3])
        del add_9_1360
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_1228 = torch.pow(add_9_1226, 2)
        del add_9_1226
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_1234 = torch.mean(pow_5_1228, dim=(2,), keepdim=True)
        del pow_5_1228
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_1238 = torch.add(mean_4_1234, 1e-06, alpha=1)
        del mean_4_1234
        add_10_1242 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_10_1238, idim=0, odim=1, ranks=[2, 3])
        del add_10_1238
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_1244 = torch.rsqrt(add_10_1242)
        del add_10_1242
        add_9_1250 = nnscaler.runtime.adapter.nn.alltoall_alltoall(add_9_1362, idim=1, odim=2, ranks=[2, 3])
        del add_9_1362
        rsqrt_4_331 = nnscaler.runtime.adapter.nn.allgather_reducescatter(rsqrt_4_1244, dim=1, ranks=[2, 3])
        del rsqrt_4_1244
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_1252 = torch.mul(add_9_1250, rsqrt_4_331)
        del add_9_1250, rsqrt_4_331
        mul_12_1260 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_12_1252, idim=2, odim=1, ranks=[2, 3])
        del mul_12_1252
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_1262 = torch.mul(mul_12_1260, self.norm_weight_333)
        del mul_12_1260
        mul_13_1270 = nnscaler.runtime.adapter.nn.alltoall_alltoall(mul_13_1262, idim=1, odim=2, ranks=[2, 3])
        del mul_13_1262
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_1274 = torch.nn.functional.linear(mul_13_1270, self.head_weight_1272, bias=None)
        del mul_13_1270
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_1368, linear_14_1369 = nnscaler.runtime.function.multiref(linear_14_1274, times=2)
        del linear_14_1274
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        getitem_1_1280 = nnscaler.runtime.adapter.chunk(getitem_1_337, dim=0, ranks=[2, 3])
        del getitem_1_337
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_1282 = torch.Tensor.view(getitem_1_1280, size=(-1,))
        del getitem_1_1280
        linear_14_591 = nnscaler.runtime.adapter.all_reduce(linear_14_1368, ranks=[2, 3])
        del linear_14_1368
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        linear_14_1284 = nnscaler.runtime.adapter.nn.reducescatter_allgather(linear_14_1369, dim=2, ranks=[2, 3])
        del linear_14_1369
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_1286 = torch.Tensor.view(linear_14_1284, size=(-1, 32))
        del linear_14_1284
        view_6_338 = nnscaler.runtime.adapter.all_gather(view_6_1282, dim=0, ranks=[2, 3])
        del view_6_1282
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_1286, dim=1, ranks=[2, 3])
        del view_7_1286
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_231 = torch.nn.functional.cross_entropy(view_7_339, view_6_338, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_6_338, view_7_339
        return cross_entropy_231
    
    def reducer1648(self):
        self.wreducer1648.sync_grads()
        return 
    
    def reducer1971(self):
        self.wreducer1971.sync_grads()
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
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment1967', model.segment1967, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment1967', (), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer1648, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.reducer1971, *(), requires_grad=False)
    return cross_entropy_231


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment1967', model.segment1967, *(data_344, ), requires_grad=False)
    return cross_entropy_231
