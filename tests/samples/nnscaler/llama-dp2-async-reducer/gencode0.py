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
    
    def __init__(self, init_params=True, *, async_op=True, max_bucket_size_bytes=2097, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 1])
         
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
        
        
        self.wreducer543 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer543.add_param(self.tok_weight_233)
        self.wreducer543.add_param(self.blocks_0_norm1_weight_240)
        self.wreducer543.add_param(self.blocks_0_q_weight_242)
        self.wreducer543.add_param(self.blocks_0_k_weight_246)
        self.wreducer543.add_param(self.blocks_0_v_weight_250)
        self.wreducer543.add_param(self.blocks_0_o_weight_263)
        self.wreducer543.add_param(self.blocks_0_norm2_weight_271)
        self.wreducer543.add_param(self.blocks_0_gate_weight_273)
        self.wreducer543.add_param(self.blocks_0_up_weight_276)
        self.wreducer543.add_param(self.blocks_0_down_weight_279)
        self.wreducer543.add_param(self.blocks_1_norm1_weight_287)
        self.wreducer543.add_param(self.blocks_1_q_weight_289)
        self.wreducer543.add_param(self.blocks_1_k_weight_293)
        self.wreducer543.add_param(self.blocks_1_v_weight_297)
        self.wreducer543.add_param(self.blocks_1_o_weight_309)
        self.wreducer543.add_param(self.blocks_1_norm2_weight_317)
        self.wreducer543.add_param(self.blocks_1_gate_weight_319)
        self.wreducer543.add_param(self.blocks_1_up_weight_322)
        self.wreducer543.add_param(self.blocks_1_down_weight_325)
        self.wreducer543.add_param(self.norm_weight_333)
        self.wreducer543.add_param(self.head_weight_335)
        self.add_reducer(self.wreducer543)
        
        self._post_init(init_params)
    
    def segment541(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_234 = nnscaler.runtime.function.embedding(getitem_232, self.tok_weight_233, padding_idx=None, start=0, stop=64)
        del getitem_232
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_234, dim=0)
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_234, dim=1)
        # created at IRAdapterGener:local_consumer_multiref
        embedding_478, embedding_482, embedding_486 = nnscaler.runtime.function.multiref(embedding_234, times=3)
        del embedding_234
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_235 = torch.pow(embedding_478, 2)
        del embedding_478
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_236 = torch.mean(pow_1_235, dim=(2,), keepdim=True)
        del pow_1_235
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_237 = torch.add(mean_236, 1e-06, alpha=1)
        del mean_236
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_238 = torch.rsqrt(add_237)
        del add_237
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_239 = torch.mul(embedding_482, rsqrt_238)
        del embedding_482, rsqrt_238
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_241 = torch.mul(mul_239, self.blocks_0_norm1_weight_240)
        del mul_239
        # created at IRAdapterGener:local_consumer_multiref
        mul_1_491, mul_1_495, mul_1_499 = nnscaler.runtime.function.multiref(mul_1_241, times=3)
        del mul_1_241
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_243 = torch.nn.functional.linear(mul_1_491, self.blocks_0_q_weight_242, bias=None)
        del mul_1_491
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_244 = torch.Tensor.view(linear_243, size=(size_226, size_1_227, 2, 8))
        del linear_243
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_245 = torch.transpose(view_244, dim0=1, dim1=2)
        del view_244
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_247 = torch.nn.functional.linear(mul_1_495, self.blocks_0_k_weight_246, bias=None)
        del mul_1_495
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_248 = torch.Tensor.view(linear_1_247, size=(size_226, size_1_227, 2, 8))
        del linear_1_247
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_249 = torch.transpose(view_1_248, dim0=1, dim1=2)
        del view_1_248
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_251 = torch.nn.functional.linear(mul_1_499, self.blocks_0_v_weight_250, bias=None)
        del mul_1_499
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_2_252 = torch.Tensor.view(linear_2_251, size=(size_226, size_1_227, 2, 8))
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
        mul_2_256 = torch.mul(matmul_255, 0.3535533905932738)
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
        reshape_262 = torch.Tensor.reshape(transpose_4_261, shape=(size_226, size_1_227, 16))
        del transpose_4_261
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_3_264 = torch.nn.functional.linear(reshape_262, self.blocks_0_o_weight_263, bias=None)
        del reshape_262
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_2_265 = torch.add(embedding_486, linear_3_264, alpha=1)
        del embedding_486, linear_3_264
        # created at IRAdapterGener:local_consumer_multiref
        add_2_504, add_2_508, add_2_512 = nnscaler.runtime.function.multiref(add_2_265, times=3)
        del add_2_265
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_266 = torch.pow(add_2_504, 2)
        del add_2_504
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
        mul_3_270 = torch.mul(add_2_508, rsqrt_1_269)
        del add_2_508, rsqrt_1_269
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_272 = torch.mul(mul_3_270, self.blocks_0_norm2_weight_271)
        del mul_3_270
        # created at IRAdapterGener:local_consumer_multiref
        mul_4_516, mul_4_520 = nnscaler.runtime.function.multiref(mul_4_272, times=2)
        del mul_4_272
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_274 = torch.nn.functional.linear(mul_4_516, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_516
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_275 = torch.nn.functional.silu(linear_4_274, inplace=False)
        del linear_4_274
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_277 = torch.nn.functional.linear(mul_4_520, self.blocks_0_up_weight_276, bias=None)
        del mul_4_520
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_278 = torch.mul(silu_275, linear_5_277)
        del silu_275, linear_5_277
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_280 = torch.nn.functional.linear(mul_5_278, self.blocks_0_down_weight_279, bias=None)
        del mul_5_278
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_281 = torch.add(add_2_512, linear_6_280, alpha=1)
        del add_2_512, linear_6_280
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_281, dim=0)
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_281, dim=1)
        # created at IRAdapterGener:local_consumer_multiref
        add_4_525, add_4_529, add_4_533 = nnscaler.runtime.function.multiref(add_4_281, times=3)
        del add_4_281
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_282 = torch.pow(add_4_525, 2)
        del add_4_525
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
        mul_6_286 = torch.mul(add_4_529, rsqrt_2_285)
        del add_4_529, rsqrt_2_285
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_288 = torch.mul(mul_6_286, self.blocks_1_norm1_weight_287)
        del mul_6_286
        # created at IRAdapterGener:local_consumer_multiref
        mul_7_538, mul_7_542, mul_7_546 = nnscaler.runtime.function.multiref(mul_7_288, times=3)
        del mul_7_288
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_290 = torch.nn.functional.linear(mul_7_538, self.blocks_1_q_weight_289, bias=None)
        del mul_7_538
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_291 = torch.Tensor.view(linear_7_290, size=(size_2_228, size_3_229, 2, 8))
        del linear_7_290
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_292 = torch.transpose(view_3_291, dim0=1, dim1=2)
        del view_3_291
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_294 = torch.nn.functional.linear(mul_7_542, self.blocks_1_k_weight_293, bias=None)
        del mul_7_542
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_295 = torch.Tensor.view(linear_8_294, size=(size_2_228, size_3_229, 2, 8))
        del linear_8_294
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_296 = torch.transpose(view_4_295, dim0=1, dim1=2)
        del view_4_295
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_298 = torch.nn.functional.linear(mul_7_546, self.blocks_1_v_weight_297, bias=None)
        del mul_7_546
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_5_299 = torch.Tensor.view(linear_9_298, size=(size_2_228, size_3_229, 2, 8))
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
        mul_8_303 = torch.mul(matmul_2_302, 0.3535533905932738)
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
        reshape_1_308 = torch.Tensor.reshape(transpose_9_307, shape=(size_2_228, size_3_229, 16))
        del transpose_9_307
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        linear_10_310 = torch.nn.functional.linear(reshape_1_308, self.blocks_1_o_weight_309, bias=None)
        del reshape_1_308
        # File "models.py", line 108, in forward,  x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        add_7_311 = torch.add(add_4_533, linear_10_310, alpha=1)
        del add_4_533, linear_10_310
        # created at IRAdapterGener:local_consumer_multiref
        add_7_551, add_7_555, add_7_559 = nnscaler.runtime.function.multiref(add_7_311, times=3)
        del add_7_311
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_312 = torch.pow(add_7_551, 2)
        del add_7_551
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
        mul_9_316 = torch.mul(add_7_555, rsqrt_3_315)
        del add_7_555, rsqrt_3_315
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_318 = torch.mul(mul_9_316, self.blocks_1_norm2_weight_317)
        del mul_9_316
        # created at IRAdapterGener:local_consumer_multiref
        mul_10_563, mul_10_567 = nnscaler.runtime.function.multiref(mul_10_318, times=2)
        del mul_10_318
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_320 = torch.nn.functional.linear(mul_10_563, self.blocks_1_gate_weight_319, bias=None)
        del mul_10_563
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_321 = torch.nn.functional.silu(linear_11_320, inplace=False)
        del linear_11_320
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_323 = torch.nn.functional.linear(mul_10_567, self.blocks_1_up_weight_322, bias=None)
        del mul_10_567
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_324 = torch.mul(silu_1_321, linear_12_323)
        del silu_1_321, linear_12_323
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_326 = torch.nn.functional.linear(mul_11_324, self.blocks_1_down_weight_325, bias=None)
        del mul_11_324
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_327 = torch.add(add_7_559, linear_13_326, alpha=1)
        del add_7_559, linear_13_326
        # created at IRAdapterGener:local_consumer_multiref
        add_9_571, add_9_575 = nnscaler.runtime.function.multiref(add_9_327, times=2)
        del add_9_327
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_328 = torch.pow(add_9_571, 2)
        del add_9_571
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
        mul_12_332 = torch.mul(add_9_575, rsqrt_4_331)
        del add_9_575, rsqrt_4_331
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_334 = torch.mul(mul_12_332, self.norm_weight_333)
        del mul_12_332
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_336 = torch.nn.functional.linear(mul_13_334, self.head_weight_335, bias=None)
        del mul_13_334
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_338 = torch.Tensor.view(getitem_1_337, size=(-1,))
        del getitem_1_337
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_336, dim=-1)
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_339 = torch.Tensor.view(linear_14_336, size=(-1, size_4_230))
        del linear_14_336
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_231 = torch.nn.functional.cross_entropy(view_7_339, view_6_338, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_6_338, view_7_339
        return cross_entropy_231
    
    def reducer543(self):
        self.wreducer543.sync_grads()
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
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment541', model.segment541, *(data_344, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment541', (), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer543, *(), requires_grad=False)
    return cross_entropy_231


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment541', model.segment541, *(data_344, ), requires_grad=False)
    return cross_entropy_231
