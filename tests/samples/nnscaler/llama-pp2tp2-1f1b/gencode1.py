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
        
        self.register_parameter('blocks_0_v_weight_250', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_v_weight_250', 41, True, 'blocks.0.v.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('blocks_0_down_weight_279', torch.nn.Parameter(torch.empty((16, 32), dtype=torch.float32)))
        self.add_full_map('blocks_0_down_weight_279', 97, True, 'blocks.0.down.weight', (16, 32), (slice(0, 16, None), slice(0, 32, None)), 1)
        
        
        self.wreducer1881 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer1881.add_param(self.tok_weight_233)
        self.wreducer1881.add_param(self.blocks_0_norm1_weight_240)
        self.wreducer1881.add_param(self.blocks_0_q_weight_242)
        self.wreducer1881.add_param(self.blocks_0_k_weight_246)
        self.wreducer1881.add_param(self.blocks_0_v_weight_250)
        self.wreducer1881.add_param(self.blocks_0_o_weight_263)
        self.wreducer1881.add_param(self.blocks_0_norm2_weight_271)
        self.wreducer1881.add_param(self.blocks_0_gate_weight_273)
        self.wreducer1881.add_param(self.blocks_0_up_weight_276)
        self.wreducer1881.add_param(self.blocks_0_down_weight_279)
        self.add_reducer(self.wreducer1881)
        
        self._post_init(init_params)
    
    def segment207(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        getitem_614 = nnscaler.runtime.adapter.chunk(getitem_232, dim=0, ranks=[0, 1])
        del getitem_232
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_616 = nnscaler.runtime.function.embedding(getitem_614, self.tok_weight_233, padding_idx=None, start=0, stop=64)
        del getitem_614
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1113, embedding_1115, embedding_622, embedding_642, embedding_748 = nnscaler.runtime.function.multiref(embedding_616, times=5)
        del embedding_616
        embedding_485 = nnscaler.runtime.adapter.all_gather(embedding_1113, dim=0, ranks=[0, 1])
        del embedding_1113
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        embedding_486 = nnscaler.runtime.adapter.all_gather(embedding_1115, dim=0, ranks=[0, 1])
        del embedding_1115
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_624 = torch.pow(embedding_622, 2)
        del embedding_622
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_630 = torch.mean(pow_1_624, dim=(2,), keepdim=True)
        del pow_1_624
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_634 = torch.add(mean_630, 1e-06, alpha=1)
        del mean_630
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_638 = torch.rsqrt(add_634)
        del add_634
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_644 = torch.mul(embedding_642, rsqrt_638)
        del embedding_642, rsqrt_638
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_650 = torch.mul(mul_644, self.blocks_0_norm1_weight_240)
        del mul_644
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_656, mul_1_674, mul_1_692 = nnscaler.runtime.function.multiref(mul_1_650, times=3)
        del mul_1_650
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_658 = torch.nn.functional.linear(mul_1_656, self.blocks_0_q_weight_242, bias=None)
        del mul_1_656
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_666 = torch.Tensor.view(linear_658, size=(1, size_1_227, 2, 8))
        del linear_658
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_670 = torch.transpose(view_666, dim0=1, dim1=2)
        del view_666
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_676 = torch.nn.functional.linear(mul_1_674, self.blocks_0_k_weight_246, bias=None)
        del mul_1_674
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_684 = torch.Tensor.view(linear_1_676, size=(1, size_1_227, 2, 8))
        del linear_1_676
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_688 = torch.transpose(view_1_684, dim0=1, dim1=2)
        del view_1_684
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_694 = torch.nn.functional.linear(mul_1_692, self.blocks_0_v_weight_250, bias=None)
        del mul_1_692
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_702 = torch.Tensor.view(linear_2_694, size=(1, size_1_227, 2, 8))
        del linear_2_694
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_706 = torch.transpose(view_2_702, dim0=1, dim1=2)
        del view_2_702
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_710 = torch.transpose(transpose_1_688, dim0=-2, dim1=-1)
        del transpose_1_688
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_714 = torch.matmul(transpose_670, transpose_3_710)
        del transpose_670, transpose_3_710
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_718 = torch.mul(matmul_714, 0.3535533905932738)
        del matmul_714
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_722 = torch.add(mul_2_718, mask_495, alpha=1)
        del mul_2_718, mask_495
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_726 = torch.softmax(add_1_722, dim=-1, _stacklevel=3, dtype=None)
        del add_1_722
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_730 = torch.matmul(softmax_726, transpose_2_706)
        del transpose_2_706, softmax_726
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_734 = torch.transpose(matmul_1_730, dim0=1, dim1=2)
        del matmul_1_730
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_738 = torch.Tensor.reshape(transpose_4_734, shape=(1, size_1_227, 16))
        del transpose_4_734
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_742 = torch.nn.functional.linear(reshape_738, self.blocks_0_o_weight_263, bias=None)
        del reshape_738
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_750 = torch.add(embedding_748, linear_3_742, alpha=1)
        del embedding_748, linear_3_742
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_756, add_2_776, add_2_824 = nnscaler.runtime.function.multiref(add_2_750, times=3)
        del add_2_750
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_758 = torch.pow(add_2_756, 2)
        del add_2_756
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_764 = torch.mean(pow_2_758, dim=(2,), keepdim=True)
        del pow_2_758
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_768 = torch.add(mean_1_764, 1e-06, alpha=1)
        del mean_1_764
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_772 = torch.rsqrt(add_3_768)
        del add_3_768
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_778 = torch.mul(add_2_776, rsqrt_1_772)
        del add_2_776, rsqrt_1_772
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_784 = torch.mul(mul_3_778, self.blocks_0_norm2_weight_271)
        del mul_3_778
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_790, mul_4_804 = nnscaler.runtime.function.multiref(mul_4_784, times=2)
        del mul_4_784
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_792 = torch.nn.functional.linear(mul_4_790, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_790
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_800 = torch.nn.functional.silu(linear_4_792, inplace=False)
        del linear_4_792
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_806 = torch.nn.functional.linear(mul_4_804, self.blocks_0_up_weight_276, bias=None)
        del mul_4_804
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_814 = torch.mul(silu_800, linear_5_806)
        del silu_800, linear_5_806
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_818 = torch.nn.functional.linear(mul_5_814, self.blocks_0_down_weight_279, bias=None)
        del mul_5_814
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_826 = torch.add(add_2_824, linear_6_818, alpha=1)
        del add_2_824, linear_6_818
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_1121, add_4_1123, add_4_832, add_4_860, add_4_852 = nnscaler.runtime.function.multiref(add_4_826, times=5)
        del add_4_826
        add_4_539 = nnscaler.runtime.adapter.all_gather(add_4_1121, dim=0, ranks=[0, 1])
        del add_4_1121
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        add_4_540 = nnscaler.runtime.adapter.all_gather(add_4_1123, dim=0, ranks=[0, 1])
        del add_4_1123
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_834 = torch.pow(add_4_832, 2)
        del add_4_832
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_840 = torch.mean(pow_3_834, dim=(2,), keepdim=True)
        del pow_3_834
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_844 = torch.add(mean_2_840, 1e-06, alpha=1)
        del mean_2_840
        add_4_542 = nnscaler.runtime.adapter.nn.allgather_split(add_4_860, dim=0, ranks=[0, 1])
        del add_4_860
        add_4_543 = nnscaler.runtime.adapter.nn.allgather_split(add_4_852, dim=0, ranks=[0, 1])
        del add_4_852
        add_5_284 = nnscaler.runtime.adapter.nn.allgather_split(add_5_844, dim=0, ranks=[0, 1])
        del add_5_844
        return add_5_284, size_2_228, size_3_229, mask_496, add_4_542, add_4_543
    
    def adapter731(self, add_5_284):
        add_5_1130 = nnscaler.runtime.adapter.chunk(add_5_284, dim=1, ranks=[0, 1])
        _ = nnscaler.runtime.adapter.move(add_5_1130, shape=(2, 4, 1), dtype=torch.float32, src=1, dst=3)
        return 
    
    def adapter773(self, mask_496):
        mask_1136 = nnscaler.runtime.adapter.chunk(mask_496, dim=1, ranks=[0, 1])
        _ = nnscaler.runtime.adapter.move(mask_1136, shape=(8, 4), dtype=torch.float32, src=1, dst=3)
        return 
    
    def adapter812(self, add_4_543):
        add_4_1140 = nnscaler.runtime.adapter.chunk(add_4_543, dim=2, ranks=[0, 1])
        _ = nnscaler.runtime.adapter.move(add_4_1140, shape=(2, 8, 8), dtype=torch.float32, src=1, dst=3)
        return 
    
    def adapter842(self, add_4_542):
        add_4_1148 = nnscaler.runtime.adapter.chunk(add_4_542, dim=2, ranks=[0, 1])
        _ = nnscaler.runtime.adapter.move(add_4_1148, shape=(2, 8, 8), dtype=torch.float32, src=1, dst=3)
        return 
    
    def adapter853(self):
        gadd_4_1150 = nnscaler.runtime.adapter.move((), shape=(2, 8, 8), dtype=torch.float32, src=3, dst=1)
        gadd_4_545 = nnscaler.runtime.adapter.all_gather(gadd_4_1150, dim=2, ranks=[0, 1])
        return gadd_4_545
    
    def adapter823(self):
        gadd_4_1146 = nnscaler.runtime.adapter.move((), shape=(2, 8, 8), dtype=torch.float32, src=3, dst=1)
        gadd_4_546 = nnscaler.runtime.adapter.all_gather(gadd_4_1146, dim=2, ranks=[0, 1])
        return gadd_4_546
    
    def adapter742(self):
        gadd_5_1134 = nnscaler.runtime.adapter.move((), shape=(2, 4, 1), dtype=torch.float32, src=3, dst=1)
        gadd_5_411 = nnscaler.runtime.adapter.all_gather(gadd_5_1134, dim=1, ranks=[0, 1])
        return gadd_5_411
    
    def adapter866(self):
        cross_entropy_231 = nnscaler.runtime.adapter.move((), shape=(), dtype=torch.float32, src=3, dst=1)
        return cross_entropy_231
    
    def reducer1881(self):
        self.wreducer1881.sync_grads()
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
    data_344 = next(*(dataloader_345, ))
    add_5_284, size_2_228, size_3_229, mask_496, add_4_542, add_4_543 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter731, *(add_5_284, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter773, *(mask_496, ), requires_grad=False)
    del mask_496
    _ = nnscaler.runtime.executor.aexecute(model.adapter812, *(add_4_543, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter842, *(add_4_542, ), requires_grad=False)
    data_1167 = next(*(dataloader_345, ))
    add_5_1172, size_2_1174, size_3_1175, mask_1177, add_4_1180, add_4_1184 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_1167, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter731, *(add_5_1172, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter773, *(mask_1177, ), requires_grad=False)
    del mask_1177
    _ = nnscaler.runtime.executor.aexecute(model.adapter812, *(add_4_1184, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter842, *(add_4_1180, ), requires_grad=False)
    gadd_4_545 = nnscaler.runtime.executor.aexecute(model.adapter853, *(), requires_grad=False)
    gadd_4_546 = nnscaler.runtime.executor.aexecute(model.adapter823, *(), requires_grad=False)
    gadd_5_411 = nnscaler.runtime.executor.aexecute(model.adapter742, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment207', (), (add_5_284, add_4_542, add_4_543, ), (gadd_5_411, gadd_4_545, gadd_4_546, ))
    del add_5_284, add_4_542, add_4_543, gadd_4_545, gadd_4_546, gadd_5_411
    data_1249 = next(*(dataloader_345, ))
    add_5_1254, size_2_1256, size_3_1257, mask_1259, add_4_1262, add_4_1266 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_1249, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter731, *(add_5_1254, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter773, *(mask_1259, ), requires_grad=False)
    del mask_1259
    _ = nnscaler.runtime.executor.aexecute(model.adapter812, *(add_4_1266, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter842, *(add_4_1262, ), requires_grad=False)
    gadd_4_1181 = nnscaler.runtime.executor.aexecute(model.adapter853, *(), requires_grad=False)
    gadd_4_1185 = nnscaler.runtime.executor.aexecute(model.adapter823, *(), requires_grad=False)
    gadd_5_1173 = nnscaler.runtime.executor.aexecute(model.adapter742, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment207', (), (add_5_1172, add_4_1180, add_4_1184, ), (gadd_5_1173, gadd_4_1181, gadd_4_1185, ))
    del add_5_1172, add_4_1180, add_4_1184, gadd_4_1181, gadd_4_1185, gadd_5_1173
    data_1331 = next(*(dataloader_345, ))
    add_5_1336, size_2_1338, size_3_1339, mask_1341, add_4_1344, add_4_1348 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_1331, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter731, *(add_5_1336, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter773, *(mask_1341, ), requires_grad=False)
    del mask_1341
    _ = nnscaler.runtime.executor.aexecute(model.adapter812, *(add_4_1348, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter842, *(add_4_1344, ), requires_grad=False)
    gadd_4_1263 = nnscaler.runtime.executor.aexecute(model.adapter853, *(), requires_grad=False)
    gadd_4_1267 = nnscaler.runtime.executor.aexecute(model.adapter823, *(), requires_grad=False)
    gadd_5_1255 = nnscaler.runtime.executor.aexecute(model.adapter742, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment207', (), (add_5_1254, add_4_1262, add_4_1266, ), (gadd_5_1255, gadd_4_1263, gadd_4_1267, ))
    del add_5_1254, add_4_1262, add_4_1266, gadd_4_1263, gadd_4_1267, gadd_5_1255
    gadd_4_1345 = nnscaler.runtime.executor.aexecute(model.adapter853, *(), requires_grad=False)
    gadd_4_1349 = nnscaler.runtime.executor.aexecute(model.adapter823, *(), requires_grad=False)
    gadd_5_1337 = nnscaler.runtime.executor.aexecute(model.adapter742, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    _ = nnscaler.runtime.executor.backward('segment207', (), (add_5_1336, add_4_1344, add_4_1348, ), (gadd_5_1337, gadd_4_1345, gadd_4_1349, ))
    del add_5_1336, add_4_1344, add_4_1348, gadd_4_1345, gadd_4_1349, gadd_5_1337
    cross_entropy_231 = nnscaler.runtime.executor.aexecute(model.adapter866, *(), requires_grad=True)
    cross_entropy_1243 = nnscaler.runtime.executor.aexecute(model.adapter866, *(), requires_grad=True)
    cross_entropy_1325 = nnscaler.runtime.executor.aexecute(model.adapter866, *(), requires_grad=True)
    cross_entropy_1407 = nnscaler.runtime.executor.aexecute(model.adapter866, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer1881, *(), requires_grad=False)
    return cross_entropy_231, cross_entropy_1243, cross_entropy_1325, cross_entropy_1407


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    add_5_284, size_2_228, size_3_229, mask_496, add_4_542, add_4_543 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_344, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter731, *(add_5_284, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter773, *(mask_496, ), requires_grad=False)
    del mask_496
    _ = nnscaler.runtime.executor.aexecute(model.adapter812, *(add_4_543, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter842, *(add_4_542, ), requires_grad=False)
    data_1167 = next(*(dataloader_345, ))
    add_5_1172, size_2_1174, size_3_1175, mask_1177, add_4_1180, add_4_1184 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_1167, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter731, *(add_5_1172, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter773, *(mask_1177, ), requires_grad=False)
    del mask_1177
    _ = nnscaler.runtime.executor.aexecute(model.adapter812, *(add_4_1184, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter842, *(add_4_1180, ), requires_grad=False)
    data_1249 = next(*(dataloader_345, ))
    add_5_1254, size_2_1256, size_3_1257, mask_1259, add_4_1262, add_4_1266 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_1249, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter731, *(add_5_1254, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter773, *(mask_1259, ), requires_grad=False)
    del mask_1259
    _ = nnscaler.runtime.executor.aexecute(model.adapter812, *(add_4_1266, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter842, *(add_4_1262, ), requires_grad=False)
    data_1331 = next(*(dataloader_345, ))
    add_5_1336, size_2_1338, size_3_1339, mask_1341, add_4_1344, add_4_1348 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_1331, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter731, *(add_5_1336, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter773, *(mask_1341, ), requires_grad=False)
    del mask_1341
    _ = nnscaler.runtime.executor.aexecute(model.adapter812, *(add_4_1348, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter842, *(add_4_1344, ), requires_grad=False)
    cross_entropy_231 = nnscaler.runtime.executor.aexecute(model.adapter866, *(), requires_grad=False)
    cross_entropy_1243 = nnscaler.runtime.executor.aexecute(model.adapter866, *(), requires_grad=False)
    cross_entropy_1325 = nnscaler.runtime.executor.aexecute(model.adapter866, *(), requires_grad=False)
    cross_entropy_1407 = nnscaler.runtime.executor.aexecute(model.adapter866, *(), requires_grad=False)
    return cross_entropy_231, cross_entropy_1243, cross_entropy_1325, cross_entropy_1407
