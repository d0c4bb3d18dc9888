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
    rank = 2
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
         
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
        
        
        self.wreducer1048 = nnscaler.runtime.adapter.Reducer(ranks=[0, 2], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer1048.add_param(self.tok_weight_233)
        self.wreducer1048.add_param(self.blocks_0_norm1_weight_240)
        self.wreducer1048.add_param(self.blocks_0_q_weight_242)
        self.wreducer1048.add_param(self.blocks_0_k_weight_246)
        self.wreducer1048.add_param(self.blocks_0_v_weight_250)
        self.wreducer1048.add_param(self.blocks_0_o_weight_263)
        self.wreducer1048.add_param(self.blocks_0_norm2_weight_271)
        self.wreducer1048.add_param(self.blocks_0_gate_weight_273)
        self.wreducer1048.add_param(self.blocks_0_up_weight_276)
        self.wreducer1048.add_param(self.blocks_0_down_weight_279)
        self.add_reducer(self.wreducer1048)
        
        self._post_init(init_params)
    
    def segment207(self, data_344):
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        getitem_232 = _operator.getitem(data_344, 'ids')
        # File "models.py", line 125, in forward,  x = self.tok(data["ids"])
        embedding_234 = nnscaler.runtime.function.embedding(getitem_232, self.tok_weight_233, padding_idx=None, start=0, stop=64)
        del getitem_232
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_485, embedding_486, embedding_487, embedding_488, embedding_489 = nnscaler.runtime.function.multiref(embedding_234, times=5)
        del embedding_234
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_226 = torch.Tensor.size(embedding_485, dim=0)
        del embedding_485
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_1_227 = torch.Tensor.size(embedding_486, dim=1)
        del embedding_486
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_1_235 = torch.pow(embedding_487, 2)
        del embedding_487
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
        mul_239 = torch.mul(embedding_488, rsqrt_238)
        del embedding_488, rsqrt_238
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_1_241 = torch.mul(mul_239, self.blocks_0_norm1_weight_240)
        del mul_239
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_1_503, mul_1_504, mul_1_505 = nnscaler.runtime.function.multiref(mul_1_241, times=3)
        del mul_1_241
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_243 = torch.nn.functional.linear(mul_1_503, self.blocks_0_q_weight_242, bias=None)
        del mul_1_503
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_244 = torch.Tensor.view(linear_243, size=(size_226, size_1_227, 2, 8))
        del linear_243
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_245 = torch.transpose(view_244, dim0=1, dim1=2)
        del view_244
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_1_247 = torch.nn.functional.linear(mul_1_504, self.blocks_0_k_weight_246, bias=None)
        del mul_1_504
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_1_248 = torch.Tensor.view(linear_1_247, size=(size_226, size_1_227, 2, 8))
        del linear_1_247
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_1_249 = torch.transpose(view_1_248, dim0=1, dim1=2)
        del view_1_248
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_2_251 = torch.nn.functional.linear(mul_1_505, self.blocks_0_v_weight_250, bias=None)
        del mul_1_505
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
        # auto_multiref
        mask_495, mask_496 = nnscaler.runtime.function.multiref(self.mask_257, times=2)
        # File "models.py", line 106, in forward,  scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        add_1_258 = torch.add(mul_2_256, mask_495, alpha=1)
        del mul_2_256, mask_495
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
        add_2_265 = torch.add(embedding_489, linear_3_264, alpha=1)
        del embedding_489, linear_3_264
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_2_515, add_2_516, add_2_517 = nnscaler.runtime.function.multiref(add_2_265, times=3)
        del add_2_265
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_2_266 = torch.pow(add_2_515, 2)
        del add_2_515
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
        mul_3_270 = torch.mul(add_2_516, rsqrt_1_269)
        del add_2_516, rsqrt_1_269
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_4_272 = torch.mul(mul_3_270, self.blocks_0_norm2_weight_271)
        del mul_3_270
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_4_525, mul_4_526 = nnscaler.runtime.function.multiref(mul_4_272, times=2)
        del mul_4_272
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_4_274 = torch.nn.functional.linear(mul_4_525, self.blocks_0_gate_weight_273, bias=None)
        del mul_4_525
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_275 = torch.nn.functional.silu(linear_4_274, inplace=False)
        del linear_4_274
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_5_277 = torch.nn.functional.linear(mul_4_526, self.blocks_0_up_weight_276, bias=None)
        del mul_4_526
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_5_278 = torch.mul(silu_275, linear_5_277)
        del silu_275, linear_5_277
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_6_280 = torch.nn.functional.linear(mul_5_278, self.blocks_0_down_weight_279, bias=None)
        del mul_5_278
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_4_281 = torch.add(add_2_517, linear_6_280, alpha=1)
        del add_2_517, linear_6_280
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_4_539, add_4_540, add_4_541, add_4_542, add_4_543 = nnscaler.runtime.function.multiref(add_4_281, times=5)
        del add_4_281
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_2_228 = torch.Tensor.size(add_4_539, dim=0)
        del add_4_539
        # File "models.py", line 100, in forward,  b, t, d = x.size(0), x.size(1), self.heads * self.head
        size_3_229 = torch.Tensor.size(add_4_540, dim=1)
        del add_4_540
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_3_282 = torch.pow(add_4_541, 2)
        del add_4_541
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mean_2_283 = torch.mean(pow_3_282, dim=(2,), keepdim=True)
        del pow_3_282
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        add_5_284 = torch.add(mean_2_283, 1e-06, alpha=1)
        del mean_2_283
        return add_5_284, size_2_228, size_3_229, mask_496, add_4_542, add_4_543
    
    def adapter340(self, add_5_284):
        _ = nnscaler.runtime.adapter.move(add_5_284, shape=(2, 8, 1), dtype=torch.float32, src=2, dst=3)
        return 
    
    def adapter356(self, mask_496):
        _ = nnscaler.runtime.adapter.move(mask_496, shape=(8, 8), dtype=torch.float32, src=2, dst=3)
        return 
    
    def adapter368(self, add_4_543):
        _ = nnscaler.runtime.adapter.move(add_4_543, shape=(2, 8, 16), dtype=torch.float32, src=2, dst=3)
        return 
    
    def adapter384(self, add_4_542):
        _ = nnscaler.runtime.adapter.move(add_4_542, shape=(2, 8, 16), dtype=torch.float32, src=2, dst=3)
        return 
    
    def adapter390(self):
        gadd_4_545 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=3, dst=2)
        return gadd_4_545
    
    def adapter374(self):
        gadd_4_546 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=3, dst=2)
        return gadd_4_546
    
    def adapter346(self):
        gadd_5_411 = nnscaler.runtime.adapter.move((), shape=(2, 8, 1), dtype=torch.float32, src=3, dst=2)
        return gadd_5_411
    
    def adapter397(self):
        cross_entropy_231 = nnscaler.runtime.adapter.move((), shape=(), dtype=torch.float32, src=3, dst=2)
        return cross_entropy_231
    
    def reducer1048(self):
        self.wreducer1048.sync_grads()
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
    _ = nnscaler.runtime.executor.aexecute(model.adapter340, *(add_5_284, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter356, *(mask_496, ), requires_grad=False)
    del mask_496
    _ = nnscaler.runtime.executor.aexecute(model.adapter368, *(add_4_543, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter384, *(add_4_542, ), requires_grad=False)
    data_613 = next(*(dataloader_345, ))
    add_5_617, size_2_619, size_3_620, mask_622, add_4_625, add_4_629 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_613, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter340, *(add_5_617, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter356, *(mask_622, ), requires_grad=False)
    del mask_622
    _ = nnscaler.runtime.executor.aexecute(model.adapter368, *(add_4_629, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter384, *(add_4_625, ), requires_grad=False)
    data_655 = next(*(dataloader_345, ))
    add_5_659, size_2_661, size_3_662, mask_664, add_4_667, add_4_671 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_655, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter340, *(add_5_659, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter356, *(mask_664, ), requires_grad=False)
    del mask_664
    _ = nnscaler.runtime.executor.aexecute(model.adapter368, *(add_4_671, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter384, *(add_4_667, ), requires_grad=False)
    data_715 = next(*(dataloader_345, ))
    add_5_719, size_2_721, size_3_722, mask_724, add_4_727, add_4_731 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_715, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter340, *(add_5_719, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter356, *(mask_724, ), requires_grad=False)
    del mask_724
    _ = nnscaler.runtime.executor.aexecute(model.adapter368, *(add_4_731, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter384, *(add_4_727, ), requires_grad=False)
    gadd_4_545 = nnscaler.runtime.executor.aexecute(model.adapter390, *(), requires_grad=False)
    gadd_4_546 = nnscaler.runtime.executor.aexecute(model.adapter374, *(), requires_grad=False)
    gadd_5_411 = nnscaler.runtime.executor.aexecute(model.adapter346, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment207', (), (add_5_284, add_4_542, add_4_543, ), (gadd_5_411, gadd_4_545, gadd_4_546, ))
    del add_5_284, add_4_542, add_4_543, gadd_4_545, gadd_4_546, gadd_5_411
    gadd_4_626 = nnscaler.runtime.executor.aexecute(model.adapter390, *(), requires_grad=False)
    gadd_4_630 = nnscaler.runtime.executor.aexecute(model.adapter374, *(), requires_grad=False)
    gadd_5_618 = nnscaler.runtime.executor.aexecute(model.adapter346, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment207', (), (add_5_617, add_4_625, add_4_629, ), (gadd_5_618, gadd_4_626, gadd_4_630, ))
    del add_5_617, add_4_625, add_4_629, gadd_4_626, gadd_4_630, gadd_5_618
    gadd_4_668 = nnscaler.runtime.executor.aexecute(model.adapter390, *(), requires_grad=False)
    gadd_4_672 = nnscaler.runtime.executor.aexecute(model.adapter374, *(), requires_grad=False)
    gadd_5_660 = nnscaler.runtime.executor.aexecute(model.adapter346, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment207', (), (add_5_659, add_4_667, add_4_671, ), (gadd_5_660, gadd_4_668, gadd_4_672, ))
    del add_5_659, add_4_667, add_4_671, gadd_4_668, gadd_4_672, gadd_5_660
    gadd_4_728 = nnscaler.runtime.executor.aexecute(model.adapter390, *(), requires_grad=False)
    gadd_4_732 = nnscaler.runtime.executor.aexecute(model.adapter374, *(), requires_grad=False)
    gadd_5_720 = nnscaler.runtime.executor.aexecute(model.adapter346, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    _ = nnscaler.runtime.executor.backward('segment207', (), (add_5_719, add_4_727, add_4_731, ), (gadd_5_720, gadd_4_728, gadd_4_732, ))
    del add_5_719, add_4_727, add_4_731, gadd_4_728, gadd_4_732, gadd_5_720
    cross_entropy_231 = nnscaler.runtime.executor.aexecute(model.adapter397, *(), requires_grad=True)
    cross_entropy_688 = nnscaler.runtime.executor.aexecute(model.adapter397, *(), requires_grad=True)
    cross_entropy_748 = nnscaler.runtime.executor.aexecute(model.adapter397, *(), requires_grad=True)
    cross_entropy_787 = nnscaler.runtime.executor.aexecute(model.adapter397, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer1048, *(), requires_grad=False)
    return cross_entropy_231, cross_entropy_688, cross_entropy_748, cross_entropy_787


def _infer_step(model, dataloader_345):
    _ = None
    data_344 = next(*(dataloader_345, ))
    add_5_284, size_2_228, size_3_229, mask_496, add_4_542, add_4_543 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_344, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter340, *(add_5_284, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter356, *(mask_496, ), requires_grad=False)
    del mask_496
    _ = nnscaler.runtime.executor.aexecute(model.adapter368, *(add_4_543, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter384, *(add_4_542, ), requires_grad=False)
    data_613 = next(*(dataloader_345, ))
    add_5_617, size_2_619, size_3_620, mask_622, add_4_625, add_4_629 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_613, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter340, *(add_5_617, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter356, *(mask_622, ), requires_grad=False)
    del mask_622
    _ = nnscaler.runtime.executor.aexecute(model.adapter368, *(add_4_629, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter384, *(add_4_625, ), requires_grad=False)
    data_655 = next(*(dataloader_345, ))
    add_5_659, size_2_661, size_3_662, mask_664, add_4_667, add_4_671 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_655, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter340, *(add_5_659, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter356, *(mask_664, ), requires_grad=False)
    del mask_664
    _ = nnscaler.runtime.executor.aexecute(model.adapter368, *(add_4_671, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter384, *(add_4_667, ), requires_grad=False)
    data_715 = next(*(dataloader_345, ))
    add_5_719, size_2_721, size_3_722, mask_724, add_4_727, add_4_731 = nnscaler.runtime.executor.fexecute('segment207', model.segment207, *(data_715, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter340, *(add_5_719, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter356, *(mask_724, ), requires_grad=False)
    del mask_724
    _ = nnscaler.runtime.executor.aexecute(model.adapter368, *(add_4_731, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter384, *(add_4_727, ), requires_grad=False)
    cross_entropy_231 = nnscaler.runtime.executor.aexecute(model.adapter397, *(), requires_grad=False)
    cross_entropy_688 = nnscaler.runtime.executor.aexecute(model.adapter397, *(), requires_grad=False)
    cross_entropy_748 = nnscaler.runtime.executor.aexecute(model.adapter397, *(), requires_grad=False)
    cross_entropy_787 = nnscaler.runtime.executor.aexecute(model.adapter397, *(), requires_grad=False)
    return cross_entropy_231, cross_entropy_688, cross_entropy_748, cross_entropy_787
