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
         
        self.register_parameter('tok_weight_484', torch.nn.Parameter(torch.empty((2048, 512), dtype=torch.float32)))
        self.add_full_map('tok_weight_484', 4, True, 'tok.weight', (8192, 512), (slice(2048, 4096, None), slice(0, 512, None)), 1)
        
        self.register_parameter('blocks_0_norm1_weight_532', torch.nn.Parameter(torch.empty((128,), dtype=torch.float32)))
        self.add_full_map('blocks_0_norm1_weight_532', 21, True, 'blocks.0.norm1.weight', (512,), (slice(128, 256, None),), 1)
        
        self.register_parameter('blocks_0_q_weight_544', torch.nn.Parameter(torch.empty((512, 128), dtype=torch.float32)))
        self.add_full_map('blocks_0_q_weight_544', 25, True, 'blocks.0.q.weight', (512, 512), (slice(0, 512, None), slice(128, 256, None)), 1)
        
        self.register_parameter('blocks_0_k_weight_792', torch.nn.Parameter(torch.empty((512, 128), dtype=torch.float32)))
        self.add_full_map('blocks_0_k_weight_792', 33, True, 'blocks.0.k.weight', (512, 512), (slice(0, 512, None), slice(128, 256, None)), 1)
        
        self.register_parameter('blocks_0_v_weight_820', torch.nn.Parameter(torch.empty((512, 128), dtype=torch.float32)))
        self.add_full_map('blocks_0_v_weight_820', 41, True, 'blocks.0.v.weight', (512, 512), (slice(0, 512, None), slice(128, 256, None)), 1)
        
        self.register_buffer('mask_257', torch.empty((8, 8), dtype=torch.float32), persistent=True)
        self.add_full_map('mask_257', 8, False, 'mask', (8, 8), (slice(0, 8, None), slice(0, 8, None)), 1)
        
        self.register_parameter('blocks_0_o_weight_848', torch.nn.Parameter(torch.empty((512, 128), dtype=torch.float32)))
        self.add_full_map('blocks_0_o_weight_848', 65, True, 'blocks.0.o.weight', (512, 512), (slice(0, 512, None), slice(128, 256, None)), 1)
        
        self.register_parameter('blocks_0_norm2_weight_271', torch.nn.Parameter(torch.empty((512,), dtype=torch.float32)))
        self.add_full_map('blocks_0_norm2_weight_271', 81, True, 'blocks.0.norm2.weight', (512,), (slice(0, 512, None),), 1)
        
        self.register_parameter('blocks_0_gate_weight_704', torch.nn.Parameter(torch.empty((256, 512), dtype=torch.float32)))
        self.add_full_map('blocks_0_gate_weight_704', 85, True, 'blocks.0.gate.weight', (1024, 512), (slice(256, 512, None), slice(0, 512, None)), 1)
        
        self.register_parameter('blocks_0_up_weight_900', torch.nn.Parameter(torch.empty((256, 512), dtype=torch.float32)))
        self.add_full_map('blocks_0_up_weight_900', 91, True, 'blocks.0.up.weight', (1024, 512), (slice(256, 512, None), slice(0, 512, None)), 1)
        
        self.register_parameter('blocks_0_down_weight_740', torch.nn.Parameter(torch.empty((512, 256), dtype=torch.float32)))
        self.add_full_map('blocks_0_down_weight_740', 97, True, 'blocks.0.down.weight', (512, 1024), (slice(0, 512, None), slice(256, 512, None)), 1)
        
        self.register_parameter('blocks_1_norm1_weight_944', torch.nn.Parameter(torch.empty((128,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm1_weight_944', 116, True, 'blocks.1.norm1.weight', (512,), (slice(128, 256, None),), 1)
        
        self.register_parameter('blocks_1_q_weight_956', torch.nn.Parameter(torch.empty((512, 128), dtype=torch.float32)))
        self.add_full_map('blocks_1_q_weight_956', 120, True, 'blocks.1.q.weight', (512, 512), (slice(0, 512, None), slice(128, 256, None)), 1)
        
        self.register_parameter('blocks_1_k_weight_992', torch.nn.Parameter(torch.empty((512, 128), dtype=torch.float32)))
        self.add_full_map('blocks_1_k_weight_992', 128, True, 'blocks.1.k.weight', (512, 512), (slice(0, 512, None), slice(128, 256, None)), 1)
        
        self.register_parameter('blocks_1_v_weight_1028', torch.nn.Parameter(torch.empty((512, 128), dtype=torch.float32)))
        self.add_full_map('blocks_1_v_weight_1028', 136, True, 'blocks.1.v.weight', (512, 512), (slice(0, 512, None), slice(128, 256, None)), 1)
        
        self.register_parameter('blocks_1_o_weight_1136', torch.nn.Parameter(torch.empty((512, 128), dtype=torch.float32)))
        self.add_full_map('blocks_1_o_weight_1136', 160, True, 'blocks.1.o.weight', (512, 512), (slice(0, 512, None), slice(128, 256, None)), 1)
        
        self.register_parameter('blocks_1_norm2_weight_317', torch.nn.Parameter(torch.empty((512,), dtype=torch.float32)))
        self.add_full_map('blocks_1_norm2_weight_317', 176, True, 'blocks.1.norm2.weight', (512,), (slice(0, 512, None),), 1)
        
        self.register_parameter('blocks_1_gate_weight_1212', torch.nn.Parameter(torch.empty((256, 512), dtype=torch.float32)))
        self.add_full_map('blocks_1_gate_weight_1212', 180, True, 'blocks.1.gate.weight', (1024, 512), (slice(256, 512, None), slice(0, 512, None)), 1)
        
        self.register_parameter('blocks_1_up_weight_1240', torch.nn.Parameter(torch.empty((256, 512), dtype=torch.float32)))
        self.add_full_map('blocks_1_up_weight_1240', 186, True, 'blocks.1.up.weight', (1024, 512), (slice(256, 512, None), slice(0, 512, None)), 1)
        
        self.register_parameter('blocks_1_down_weight_1260', torch.nn.Parameter(torch.empty((512, 256), dtype=torch.float32)))
        self.add_full_map('blocks_1_down_weight_1260', 192, True, 'blocks.1.down.weight', (512, 1024), (slice(0, 512, None), slice(256, 512, None)), 1)
        
        self.register_parameter('norm_weight_333', torch.nn.Parameter(torch.empty((512,), dtype=torch.float32)))
        self.add_full_map('norm_weight_333', 208, True, 'norm.weight', (512,), (slice(0, 512, None),), 1)
        
        self.register_parameter('head_weight_776', torch.nn.Parameter(torch.empty((2048, 512), dtype=torch.float32)))
        self.add_full_map('head_weight_776', 212, True, 'head.weight', (8192, 512), (slice(2048, 4096, None), slice(0, 512, None)), 1)
        
        
        self._post_init(init_params)
    
    def segment3305(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_488 = nnscaler.runtime.function.embedding(getitem_232, self.tok_weight_484, padding_idx=None, start=2048, stop=4096)
        del getitem_232
        # create at IRAdapterGener:autoref, comment before transformation: activation
        embedding_1551, embedding_1552, embedding_1553, embedding_1554, embedding_1555 = nnscaler.runtime.function.multiref(embedding_488, times=5)
        del embedding_488
        embedding_1325 = nnscaler.runtime.adapter.all_reduce(embedding_1551, ranks=[0, 1, 2, 3])
        del embedding_1551
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_1325, dim=0)
        del embedding_1325
        embedding_1326 = nnscaler.runtime.adapter.all_reduce(embedding_1552, ranks=[0, 1, 2, 3])
        del embedding_1552
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_1326, dim=1)
        del embedding_1326
        embedding_1327 = nnscaler.runtime.adapter.nn.allreduce_identity(embedding_1553, ranks=[0, 1, 2, 3])
        del embedding_1553
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_235 = torch.pow(embedding_1327, 2)
        del embedding_1327
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_236 = torch.mean(pow_1_235, dim=(2,), keepdim=True)
        del pow_1_235
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_237 = torch.add(mean_236, 1e-06, alpha=1)
        del mean_236
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_238 = torch.rsqrt(add_237)
        del add_237
        embedding_1328 = nnscaler.runtime.adapter.nn.allreduce_identity(embedding_1554, ranks=[0, 1, 2, 3])
        del embedding_1554
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_239 = torch.mul(embedding_1328, rsqrt_238)
        del rsqrt_238, embedding_1328
        mul_524 = nnscaler.runtime.adapter.nn.split_allgather(mul_239, dim=2, ranks=[0, 1, 2, 3])
        del mul_239
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_536 = torch.mul(mul_524, self.blocks_0_norm1_weight_532)
        del mul_524
        # created at IRAdapterGener:local_consumer_multiref
        mul_1_1586, mul_1_1590, mul_1_1594 = nnscaler.runtime.function.multiref(mul_1_536, times=3)
        del mul_1_536
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_548 = torch.nn.functional.linear(mul_1_1586, self.blocks_0_q_weight_544, bias=None)
        del mul_1_1586
        linear_243 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_548, ranks=[0, 1, 2, 3])
        del linear_548
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_244 = torch.Tensor.view(linear_243, size=(size_226, size_1_227, 2, 256))
        del linear_243
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_245 = torch.transpose(view_244, dim0=1, dim1=2)
        del view_244
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_796 = torch.nn.functional.linear(mul_1_1590, self.blocks_0_k_weight_792, bias=None)
        del mul_1_1590
        linear_1_247 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_1_796, ranks=[0, 1, 2, 3])
        del linear_1_796
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_248 = torch.Tensor.view(linear_1_247, size=(size_226, size_1_227, 2, 256))
        del linear_1_247
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_249 = torch.transpose(view_1_248, dim0=1, dim1=2)
        del view_1_248
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_824 = torch.nn.functional.linear(mul_1_1594, self.blocks_0_v_weight_820, bias=None)
        del mul_1_1594
        linear_2_251 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_2_824, ranks=[0, 1, 2, 3])
        del linear_2_824
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_252 = torch.Tensor.view(linear_2_251, size=(size_226, size_1_227, 2, 256))
        del linear_2_251
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_2_253 = torch.transpose(view_2_252, dim0=1, dim1=2)
        del view_2_252
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_3_254 = torch.transpose(transpose_1_249, dim0=-2, dim1=-1)
        del transpose_1_249
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_255 = torch.matmul(transpose_245, transpose_3_254)
        del transpose_245, transpose_3_254
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_2_256 = torch.mul(matmul_255, 0.0625)
        del matmul_255
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_258 = torch.add(mul_2_256, self.mask_257, alpha=1)
        del mul_2_256
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_259 = torch.softmax(add_1_258, dim=-1, _stacklevel=3, dtype=None)
        del add_1_258
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_1_260 = torch.matmul(softmax_259, transpose_2_253)
        del transpose_2_253, softmax_259
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_4_261 = torch.transpose(matmul_1_260, dim0=1, dim1=2)
        del matmul_1_260
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_262 = torch.Tensor.reshape(transpose_4_261, shape=(size_226, size_1_227, 512))
        del transpose_4_261
        reshape_844 = nnscaler.runtime.adapter.nn.split_allgather(reshape_262, dim=2, ranks=[0, 1, 2, 3])
        del reshape_262
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_852 = torch.nn.functional.linear(reshape_844, self.blocks_0_o_weight_848, bias=None)
        del reshape_844
        linear_3_264 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_3_852, ranks=[0, 1, 2, 3])
        del linear_3_852
        embedding_1329 = nnscaler.runtime.adapter.nn.allreduce_identity(embedding_1555, ranks=[0, 1, 2, 3])
        del embedding_1555
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_265 = torch.add(embedding_1329, linear_3_264, alpha=1)
        del linear_3_264, embedding_1329
        # created at IRAdapterGener:local_consumer_multiref
        add_2_1637, add_2_1641, add_2_1645 = nnscaler.runtime.function.multiref(add_2_265, times=3)
        del add_2_265
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_266 = torch.pow(add_2_1637, 2)
        del add_2_1637
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_1_267 = torch.mean(pow_2_266, dim=(2,), keepdim=True)
        del pow_2_266
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_3_268 = torch.add(mean_1_267, 1e-06, alpha=1)
        del mean_1_267
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_1_269 = torch.rsqrt(add_3_268)
        del add_3_268
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_3_270 = torch.mul(add_2_1641, rsqrt_1_269)
        del add_2_1641, rsqrt_1_269
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_272 = torch.mul(mul_3_270, self.blocks_0_norm2_weight_271)
        del mul_3_270
        mul_4_272 = nnscaler.runtime.adapter.nn.identity_allreduce(mul_4_272, ranks=[0, 1, 2, 3])
        # created at IRAdapterGener:local_consumer_multiref
        mul_4_1683, mul_4_1687 = nnscaler.runtime.function.multiref(mul_4_272, times=2)
        del mul_4_272
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_708 = torch.nn.functional.linear(mul_4_1683, self.blocks_0_gate_weight_704, bias=None)
        del mul_4_1683
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_716 = torch.nn.functional.silu(linear_4_708, inplace=False)
        del linear_4_708
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_728 = torch.nn.functional.linear(mul_4_1687, self.blocks_0_up_weight_900, bias=None)
        del mul_4_1687
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_732 = torch.mul(silu_716, linear_5_728)
        del silu_716, linear_5_728
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_744 = torch.nn.functional.linear(mul_5_732, self.blocks_0_down_weight_740, bias=None)
        del mul_5_732
        linear_6_280 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_6_744, ranks=[0, 1, 2, 3])
        del linear_6_744
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_281 = torch.add(add_2_1645, linear_6_280, alpha=1)
        del add_2_1645, linear_6_280
        # create at IRAdapterGener:autoref, comment before transformation: activation
        add_4_1343, add_4_1344, add_4_1345, add_4_1346, add_4_1347 = nnscaler.runtime.function.multiref(add_4_281, times=5)
        del add_4_281
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_1343, dim=0)
        del add_4_1343
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_1344, dim=1)
        del add_4_1344
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_282 = torch.pow(add_4_1345, 2)
        del add_4_1345
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_283 = torch.mean(pow_3_282, dim=(2,), keepdim=True)
        del pow_3_282
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_284 = torch.add(mean_2_283, 1e-06, alpha=1)
        del mean_2_283
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_285 = torch.rsqrt(add_5_284)
        del add_5_284
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_286 = torch.mul(add_4_1346, rsqrt_2_285)
        del add_4_1346, rsqrt_2_285
        mul_6_936 = nnscaler.runtime.adapter.nn.split_allgather(mul_6_286, dim=2, ranks=[0, 1, 2, 3])
        del mul_6_286
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_948 = torch.mul(mul_6_936, self.blocks_1_norm1_weight_944)
        del mul_6_936
        # created at IRAdapterGener:local_consumer_multiref
        mul_7_1723, mul_7_1727, mul_7_1731 = nnscaler.runtime.function.multiref(mul_7_948, times=3)
        del mul_7_948
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_960 = torch.nn.functional.linear(mul_7_1723, self.blocks_1_q_weight_956, bias=None)
        del mul_7_1723
        linear_7_290 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_7_960, ranks=[0, 1, 2, 3])
        del linear_7_960
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_291 = torch.Tensor.view(linear_7_290, size=(size_2_228, size_3_229, 2, 256))
        del linear_7_290
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_292 = torch.transpose(view_3_291, dim0=1, dim1=2)
        del view_3_291
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_996 = torch.nn.functional.linear(mul_7_1727, self.blocks_1_k_weight_992, bias=None)
        del mul_7_1727
        linear_8_294 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_8_996, ranks=[0, 1, 2, 3])
        del linear_8_996
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_295 = torch.Tensor.view(linear_8_294, size=(size_2_228, size_3_229, 2, 256))
        del linear_8_294
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_296 = torch.transpose(view_4_295, dim0=1, dim1=2)
        del view_4_295
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_1032 = torch.nn.functional.linear(mul_7_1731, self.blocks_1_v_weight_1028, bias=None)
        del mul_7_1731
        linear_9_298 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_9_1032, ranks=[0, 1, 2, 3])
        del linear_9_1032
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_299 = torch.Tensor.view(linear_9_298, size=(size_2_228, size_3_229, 2, 256))
        del linear_9_298
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_7_300 = torch.transpose(view_5_299, dim0=1, dim1=2)
        del view_5_299
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        transpose_8_301 = torch.transpose(transpose_6_296, dim0=-2, dim1=-1)
        del transpose_6_296
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        matmul_2_302 = torch.matmul(transpose_5_292, transpose_8_301)
        del transpose_5_292, transpose_8_301
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        mul_8_303 = torch.mul(matmul_2_302, 0.0625)
        del matmul_2_302
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_6_304 = torch.add(mul_8_303, self.mask_257, alpha=1)
        del mul_8_303
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        softmax_1_305 = torch.softmax(add_6_304, dim=-1, _stacklevel=3, dtype=None)
        del add_6_304
        # File "models.py", line 107, in forward,  a = torch.softmax(scores, dim=-1) @ v
        matmul_3_306 = torch.matmul(softmax_1_305, transpose_7_300)
        del transpose_7_300, softmax_1_305
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        transpose_9_307 = torch.transpose(matmul_3_306, dim0=1, dim1=2)
        del matmul_3_306
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        reshape_1_308 = torch.Tensor.reshape(transpose_9_307, shape=(size_2_228, size_3_229, 512))
        del transpose_9_307
        reshape_1_1132 = nnscaler.runtime.adapter.nn.split_allgather(reshape_1_308, dim=2, ranks=[0, 1, 2, 3])
        del reshape_1_308
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_1140 = torch.nn.functional.linear(reshape_1_1132, self.blocks_1_o_weight_1136, bias=None)
        del reshape_1_1132
        linear_10_310 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_10_1140, ranks=[0, 1, 2, 3])
        del linear_10_1140
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_311 = torch.add(add_4_1347, linear_10_310, alpha=1)
        del add_4_1347, linear_10_310
        # created at IRAdapterGener:local_consumer_multiref
        add_7_1774, add_7_1778, add_7_1782 = nnscaler.runtime.function.multiref(add_7_311, times=3)
        del add_7_311
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_312 = torch.pow(add_7_1774, 2)
        del add_7_1774
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_3_313 = torch.mean(pow_4_312, dim=(2,), keepdim=True)
        del pow_4_312
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_8_314 = torch.add(mean_3_313, 1e-06, alpha=1)
        del mean_3_313
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_3_315 = torch.rsqrt(add_8_314)
        del add_8_314
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_9_316 = torch.mul(add_7_1778, rsqrt_3_315)
        del add_7_1778, rsqrt_3_315
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_318 = torch.mul(mul_9_316, self.blocks_1_norm2_weight_317)
        del mul_9_316
        mul_10_318 = nnscaler.runtime.adapter.nn.identity_allreduce(mul_10_318, ranks=[0, 1, 2, 3])
        # created at IRAdapterGener:local_consumer_multiref
        mul_10_1820, mul_10_1824 = nnscaler.runtime.function.multiref(mul_10_318, times=2)
        del mul_10_318
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_1216 = torch.nn.functional.linear(mul_10_1820, self.blocks_1_gate_weight_1212, bias=None)
        del mul_10_1820
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_1224 = torch.nn.functional.silu(linear_11_1216, inplace=False)
        del linear_11_1216
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_1244 = torch.nn.functional.linear(mul_10_1824, self.blocks_1_up_weight_1240, bias=None)
        del mul_10_1824
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_1252 = torch.mul(silu_1_1224, linear_12_1244)
        del silu_1_1224, linear_12_1244
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_1264 = torch.nn.functional.linear(mul_11_1252, self.blocks_1_down_weight_1260, bias=None)
        del mul_11_1252
        linear_13_326 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_13_1264, ranks=[0, 1, 2, 3])
        del linear_13_1264
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_327 = torch.add(add_7_1782, linear_13_326, alpha=1)
        del add_7_1782, linear_13_326
        # created at IRAdapterGener:local_consumer_multiref
        add_9_1854, add_9_1858 = nnscaler.runtime.function.multiref(add_9_327, times=2)
        del add_9_327
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_328 = torch.pow(add_9_1854, 2)
        del add_9_1854
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_4_329 = torch.mean(pow_5_328, dim=(2,), keepdim=True)
        del pow_5_328
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_10_330 = torch.add(mean_4_329, 1e-06, alpha=1)
        del mean_4_329
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_4_331 = torch.rsqrt(add_10_330)
        del add_10_330
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_12_332 = torch.mul(add_9_1858, rsqrt_4_331)
        del add_9_1858, rsqrt_4_331
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_334 = torch.mul(mul_12_332, self.norm_weight_333)
        del mul_12_332
        mul_13_334 = nnscaler.runtime.adapter.nn.identity_allreduce(mul_13_334, ranks=[0, 1, 2, 3])
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_780 = torch.nn.functional.linear(mul_13_334, self.head_weight_776, bias=None)
        del mul_13_334
        # create at IRAdapterGener:autoref, comment before transformation: activation
        linear_14_1567, linear_14_1535 = nnscaler.runtime.function.multiref(linear_14_780, times=2)
        del linear_14_780
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_338 = torch.Tensor.view(getitem_1_337, size=(-1,))
        del getitem_1_337
        linear_14_1355 = nnscaler.runtime.adapter.all_gather(linear_14_1567, dim=2, ranks=[0, 1, 2, 3])
        del linear_14_1567
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_1355, dim=-1)
        del linear_14_1355
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_784 = torch.Tensor.view(linear_14_1535, size=(-1, 2048))
        del linear_14_1535
        view_7_339 = nnscaler.runtime.adapter.nn.allgather_split(view_7_784, dim=1, ranks=[0, 1, 2, 3])
        del view_7_784
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_231 = torch.nn.functional.cross_entropy(view_7_339, view_6_338, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_6_338, view_7_339
        return cross_entropy_231
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_345):
    _ = None
    model.zero_grad()
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3305', model.segment3305, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment3305', (), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    return cross_entropy_231


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment3305', model.segment3305, *(data_344, ), requires_grad=False)
    return cross_entropy_231
