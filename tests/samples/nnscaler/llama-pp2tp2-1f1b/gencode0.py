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
    rank = 0
    
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
        getitem_613 = nnscaler.runtime.adapter.chunk(getitem_232, dim=0, ranks=[0, 1])
        del getitem_232
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_615 = nnscaler.runtime.function.embedding(getitem_613, self.tok_weight_233, padding_idx=None, start=0, stop=64)
        del getitem_613
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1109, embedding_1111, embedding_621, embedding_641, embedding_747 = nnscaler.runtime.function.multiref(embedding_615, times=5)
        del embedding_615
        embedding_485 = nnscaler.runtime.adapter.all_gather(embedding_1109, dim=0, ranks=[0, 1])
        del embedding_1109
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        embedding_486 = nnscaler.runtime.adapter.all_gather(embedding_1111, dim=0, ranks=[0, 1])
        del embedding_1111
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_623 = torch.pow(embedding_621, 2)
        del embedding_621
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_629 = torch.mean(pow_1_623, dim=(2,), keepdim=True)
        del pow_1_623
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_633 = torch.add(mean_629, 1e-06, alpha=1)
        del mean_629
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_637 = torch.rsqrt(add_633)
        del add_633
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_643 = torch.mul(embedding_641, rsqrt_637)
        del embedding_641, rsqrt_637
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_649 = torch.mul(mul_643, self.blocks_0_norm1_weight_240)
        del mul_643
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_655, mul_1_673, mul_1_691 = nnscaler.runtime.function.multiref(mul_1_649, times=3)
        del mul_1_649
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_657 = torch.nn.functional.linear(mul_1_655, self.blocks_0_q_weight_242, bias=None)
        del mul_1_655
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_665 = torch.Tensor.view(linear_657, size=(1, size_1_227, 2, 8))
        del linear_657
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_669 = torch.transpose(view_665, dim0=1, dim1=2)
        del view_665
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_675 = torch.nn.functional.linear(mul_1_673, self.blocks_0_k_weight_246, bias=None)
        del mul_1_673
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_683 = torch.Tensor.view(linear_1_675, size=(1, size_1_227, 2, 8))
        del linear_1_675
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_687 = torch.transpose(view_1_683, dim0=1, dim1=2)
        del view_1_683
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_693 = torch.nn.functional.linear(mul_1_691, self.blocks_0_v_weight_250, bias=None)
        del mul_1_691
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_701 = torch.Tensor.view(linear_2_693, size=(1, size_1_227, 2, 8))
        del linear_2_693
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_705 = torch.transpose(view_2_701, dim0=1, dim1=2)
        del view_2_701
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_709 = torch.transpose(transpose_1_687, dim0=-2, dim1=-1)
        del transpose_1_687
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_713 = torch.matmul(transpose_669, transpose_3_709)
        del transpose_669, transpose_3_709
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_717 = torch.mul(matmul_713, 0.3535533905932738)
        del matmul_713
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_721 = torch.add(mul_2_717, mask_495, alpha=1)
        del mul_2_717, mask_495
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_725 = torch.softmax(add_1_721, dim=-1, _stacklevel=3, dtype=None)
        del add_1_721
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_729 = torch.matmul(softmax_725, transpose_2_705)
        del transpose_2_705, softmax_725
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_733 = torch.transpose(matmul_1_729, dim0=1, dim1=2)
        del matmul_1_729
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_737 = torch.Tensor.reshape(transpose_4_733, shape=(1, size_1_227, 16))
        del transpose_4_733
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_741 = torch.nn.functional.linear(reshape_737, self.blocks_0_o_weight_263, bias=None)
        del reshape_737
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_749 = torch.add(embedding_747, linear_3_741, alpha=1)
        del embedding_747, linear_3_741
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_755, add_2_775, add_2_823 = nnscaler.runtime.function.multiref(add_2_749, times=3)
        del add_2_749
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_757 = torch.pow(add_2_755, 2)
        del add_2_755
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_763 = torch.mean(pow_2_757, dim=(2,), keepdim=True)
        del pow_2_757
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_767 = torch.add(mean_1_763, 1e-06, alpha=1)
        del mean_1_763
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_771 = torch.rsqrt(add_3_767)
        del add_3_767
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_777 = torch.mul(add_2_775, rsqrt_1_771)
        del add_2_775, rsqrt_1_771
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_783 = torch.mul(mul_3_777, self.blocks_0_norm2_weight_271)
        del mul_3_777
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_789, mul_4_803 = nnscaler.runtime.function.multiref(mul_4_783, times=2)
        del mul_4_783
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_791 = torch.nn.functional.linear(mul_4_789, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_789
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_799 = torch.nn.functional.silu(linear_4_791, inplace=False)
        del linear_4_791
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_805 = torch.nn.functional.linear(mul_4_803, self.blocks_0_up_weight_276, bias=None)
        del mul_4_803
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_813 = torch.mul(silu_799, linear_5_805)
        del silu_799, linear_5_805
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_817 = torch.nn.functional.linear(mul_5_813, self.blocks_0_down_weight_279, bias=None)
        del mul_5_813
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_825 = torch.add(add_2_823, linear_6_817, alpha=1)
        del add_2_823, linear_6_817
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_1117, add_4_1119, add_4_831, add_4_859, add_4_851 = nnscaler.runtime.function.multiref(add_4_825, times=5)
        del add_4_825
        add_4_539 = nnscaler.runtime.adapter.all_gather(add_4_1117, dim=0, ranks=[0, 1])
        del add_4_1117
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        add_4_540 = nnscaler.runtime.adapter.all_gather(add_4_1119, dim=0, ranks=[0, 1])
        del add_4_1119
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_833 = torch.pow(add_4_831, 2)
        del add_4_831
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_839 = torch.mean(pow_3_833, dim=(2,), keepdim=True)
        del pow_3_833
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_843 = torch.add(mean_2_839, 1e-06, alpha=1)
        del mean_2_839
        add_4_542 = nnscaler.runtime.adapter.nn.allgather_split(add_4_859, dim=0, ranks=[0, 1])
        del add_4_859
        add_4_543 = nnscaler.runtime.adapter.nn.allgather_split(add_4_851, dim=0, ranks=[0, 1])
        del add_4_851
        add_5_284 = nnscaler.runtime.adapter.nn.allgather_split(add_5_843, dim=0, ranks=[0, 1])
        del add_5_843
        return add_5_284, size_2_228, size_3_229, mask_496, add_4_542, add_4_543
    
    def adapter731(self, add_5_284):
        add_5_1129 = nnscaler.runtime.adapter.chunk(add_5_284, dim=1, ranks=[0, 1])
        _ = nnscaler.runtime.adapter.move(add_5_1129, shape=(2, 4, 1), dtype=torch.float32, src=0, dst=2)
        return 
    
    def adapter773(self, mask_496):
        mask_1135 = nnscaler.runtime.adapter.chunk(mask_496, dim=1, ranks=[0, 1])
        _ = nnscaler.runtime.adapter.move(mask_1135, shape=(8, 4), dtype=torch.float32, src=0, dst=2)
        return 
    
    def adapter812(self, add_4_543):
        add_4_1139 = nnscaler.runtime.adapter.chunk(add_4_543, dim=2, ranks=[0, 1])
        _ = nnscaler.runtime.adapter.move(add_4_1139, shape=(2, 8, 8), dtype=torch.float32, src=0, dst=2)
        return 
    
    def adapter842(self, add_4_542):
        add_4_1147 = nnscaler.runtime.adapter.chunk(add_4_542, dim=2, ranks=[0, 1])
        _ = nnscaler.runtime.adapter.move(add_4_1147, shape=(2, 8, 8), dtype=torch.float32, src=0, dst=2)
        return 
    
    def adapter853(self):
        gadd_4_1149 = nnscaler.runtime.adapter.move((), shape=(2, 8, 8), dtype=torch.float32, src=2, dst=0)
        gadd_4_545 = nnscaler.runtime.adapter.all_gather(gadd_4_1149, dim=2, ranks=[0, 1])
        return gadd_4_545
    
    def adapter823(self):
        gadd_4_1145 = nnscaler.runtime.adapter.move((), shape=(2, 8, 8), dtype=torch.float32, src=2, dst=0)
        gadd_4_546 = nnscaler.runtime.adapter.all_gather(gadd_4_1145, dim=2, ranks=[0, 1])
        return gadd_4_546
    
    def adapter742(self):
        gadd_5_1133 = nnscaler.runtime.adapter.move((), shape=(2, 4, 1), dtype=torch.float32, src=2, dst=0)
        gadd_5_411 = nnscaler.runtime.adapter.all_gather(gadd_5_1133, dim=1, ranks=[0, 1])
        return gadd_5_411
    
    def adapter866(self):
        cross_entropy_231 = nnscaler.runtime.adapter.move((), shape=(), dtype=torch.float32, src=2, dst=0)
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
