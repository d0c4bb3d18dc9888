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
    rank = 3
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
         
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
        
        
        self.wreducer1049 = nnscaler.runtime.adapter.Reducer(ranks=[1, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer1049.add_param(self.blocks_1_norm1_weight_287)
        self.wreducer1049.add_param(self.blocks_1_q_weight_289)
        self.wreducer1049.add_param(self.blocks_1_k_weight_293)
        self.wreducer1049.add_param(self.blocks_1_v_weight_297)
        self.wreducer1049.add_param(self.blocks_1_o_weight_309)
        self.wreducer1049.add_param(self.blocks_1_norm2_weight_317)
        self.wreducer1049.add_param(self.blocks_1_gate_weight_319)
        self.wreducer1049.add_param(self.blocks_1_up_weight_322)
        self.wreducer1049.add_param(self.blocks_1_down_weight_325)
        self.wreducer1049.add_param(self.norm_weight_333)
        self.wreducer1049.add_param(self.head_weight_335)
        self.add_reducer(self.wreducer1049)
        
        self._post_init(init_params)
    
    def adapter340(self):
        add_5_284 = nnscaler.runtime.adapter.move((), shape=(2, 8, 1), dtype=torch.float32, src=2, dst=3)
        return add_5_284
    
    def adapter356(self):
        mask_496 = nnscaler.runtime.adapter.move((), shape=(8, 8), dtype=torch.float32, src=2, dst=3)
        return mask_496
    
    def adapter368(self):
        add_4_543 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=2, dst=3)
        return add_4_543
    
    def adapter384(self):
        add_4_542 = nnscaler.runtime.adapter.move((), shape=(2, 8, 16), dtype=torch.float32, src=2, dst=3)
        return add_4_542
    
    def segment255(self, add_5_284, size_2_228, size_3_229, data_344, mask_496, add_4_542, add_4_543):
        mask_607 = nnscaler.runtime.function.identity(mask_496)
        del mask_496
        add_4_604 = nnscaler.runtime.function.identity(add_4_543)
        del add_4_543
        add_4_600 = nnscaler.runtime.function.identity(add_4_542)
        del add_4_542
        add_5_596 = nnscaler.runtime.function.identity(add_5_284)
        del add_5_284
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        rsqrt_2_285 = torch.rsqrt(add_5_596)
        del add_5_596
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_6_286 = torch.mul(add_4_600, rsqrt_2_285)
        del add_4_600, rsqrt_2_285
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_7_288 = torch.mul(mul_6_286, self.blocks_1_norm1_weight_287)
        del mul_6_286
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_7_553, mul_7_554, mul_7_555 = nnscaler.runtime.function.multiref(mul_7_288, times=3)
        del mul_7_288
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_7_290 = torch.nn.functional.linear(mul_7_553, self.blocks_1_q_weight_289, bias=None)
        del mul_7_553
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_3_291 = torch.Tensor.view(linear_7_290, size=(size_2_228, size_3_229, 2, 8))
        del linear_7_290
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_5_292 = torch.transpose(view_3_291, dim0=1, dim1=2)
        del view_3_291
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_8_294 = torch.nn.functional.linear(mul_7_554, self.blocks_1_k_weight_293, bias=None)
        del mul_7_554
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        view_4_295 = torch.Tensor.view(linear_8_294, size=(size_2_228, size_3_229, 2, 8))
        del linear_8_294
        # File "models.py", line 102, in <genexpr>,  q, k, v = (
        transpose_6_296 = torch.transpose(view_4_295, dim0=1, dim1=2)
        del view_4_295
        # File "models.py", line 103, in <genexpr>,  linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
        linear_9_298 = torch.nn.functional.linear(mul_7_555, self.blocks_1_v_weight_297, bias=None)
        del mul_7_555
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
        add_6_304 = torch.add(mul_8_303, mask_607, alpha=1)
        del mask_607, mul_8_303
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
        add_7_311 = torch.add(add_4_604, linear_10_310, alpha=1)
        del add_4_604, linear_10_310
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_7_565, add_7_566, add_7_567 = nnscaler.runtime.function.multiref(add_7_311, times=3)
        del add_7_311
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_4_312 = torch.pow(add_7_565, 2)
        del add_7_565
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
        mul_9_316 = torch.mul(add_7_566, rsqrt_3_315)
        del add_7_566, rsqrt_3_315
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_10_318 = torch.mul(mul_9_316, self.blocks_1_norm2_weight_317)
        del mul_9_316
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        mul_10_575, mul_10_576 = nnscaler.runtime.function.multiref(mul_10_318, times=2)
        del mul_10_318
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_11_320 = torch.nn.functional.linear(mul_10_575, self.blocks_1_gate_weight_319, bias=None)
        del mul_10_575
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        silu_1_321 = torch.nn.functional.silu(linear_11_320, inplace=False)
        del linear_11_320
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_12_323 = torch.nn.functional.linear(mul_10_576, self.blocks_1_up_weight_322, bias=None)
        del mul_10_576
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        mul_11_324 = torch.mul(silu_1_321, linear_12_323)
        del silu_1_321, linear_12_323
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        linear_13_326 = torch.nn.functional.linear(mul_11_324, self.blocks_1_down_weight_325, bias=None)
        del mul_11_324
        # File "models.py", line 110, in forward,  return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        add_9_327 = torch.add(add_7_567, linear_13_326, alpha=1)
        del add_7_567, linear_13_326
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_9_583, add_9_584 = nnscaler.runtime.function.multiref(add_9_327, times=2)
        del add_9_327
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        pow_5_328 = torch.pow(add_9_583, 2)
        del add_9_583
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
        mul_12_332 = torch.mul(add_9_584, rsqrt_4_331)
        del add_9_584, rsqrt_4_331
        # File "models.py", line 84, in forward,  return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        mul_13_334 = torch.mul(mul_12_332, self.norm_weight_333)
        del mul_12_332
        # File "models.py", line 128, in forward,  logits = self.head(self.norm(x))
        linear_14_336 = torch.nn.functional.linear(mul_13_334, self.head_weight_335, bias=None)
        del mul_13_334
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_14_591, linear_14_592 = nnscaler.runtime.function.multiref(linear_14_336, times=2)
        del linear_14_336
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        getitem_1_337 = _operator.getitem(data_344, 'labels')
        # File "models.py", line 129, in forward,  labels = data["labels"].view(-1)
        view_6_338 = torch.Tensor.view(getitem_1_337, size=(-1,))
        del getitem_1_337
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_4_230 = torch.Tensor.size(linear_14_591, dim=-1)
        del linear_14_591
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_7_339 = torch.Tensor.view(linear_14_592, size=(-1, size_4_230))
        del linear_14_592
        # File "models.py", line 130, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_231 = torch.nn.functional.cross_entropy(view_7_339, view_6_338, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_6_338, view_7_339
        return cross_entropy_231
    
    def adapter390(self, gadd_4_545):
        _ = nnscaler.runtime.adapter.move(gadd_4_545, shape=(2, 8, 16), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter374(self, gadd_4_546):
        _ = nnscaler.runtime.adapter.move(gadd_4_546, shape=(2, 8, 16), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter346(self, gadd_5_411):
        _ = nnscaler.runtime.adapter.move(gadd_5_411, shape=(2, 8, 1), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter397(self, cross_entropy_231):
        _ = nnscaler.runtime.adapter.move(cross_entropy_231, shape=(), dtype=torch.float32, src=3, dst=2)
        return cross_entropy_231
    
    def reducer1049(self):
        self.wreducer1049.sync_grads()
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
    add_5_284 = nnscaler.runtime.executor.aexecute(model.adapter340, *(), requires_grad=True)
    mask_496 = nnscaler.runtime.executor.aexecute(model.adapter356, *(), requires_grad=False)
    add_4_543 = nnscaler.runtime.executor.aexecute(model.adapter368, *(), requires_grad=True)
    add_4_542 = nnscaler.runtime.executor.aexecute(model.adapter384, *(), requires_grad=True)
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_284, size_2_228, size_3_229, data_344, mask_496, add_4_542, add_4_543, ), requires_grad=True)
    del mask_496
    add_5_617 = nnscaler.runtime.executor.aexecute(model.adapter340, *(), requires_grad=True)
    mask_622 = nnscaler.runtime.executor.aexecute(model.adapter356, *(), requires_grad=False)
    add_4_629 = nnscaler.runtime.executor.aexecute(model.adapter368, *(), requires_grad=True)
    add_4_625 = nnscaler.runtime.executor.aexecute(model.adapter384, *(), requires_grad=True)
    data_613 = next(*(dataloader_345, ))
    cross_entropy_688 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_617, size_2_619, size_3_620, data_613, mask_622, add_4_625, add_4_629, ), requires_grad=True)
    del mask_622
    add_5_659 = nnscaler.runtime.executor.aexecute(model.adapter340, *(), requires_grad=True)
    mask_664 = nnscaler.runtime.executor.aexecute(model.adapter356, *(), requires_grad=False)
    add_4_671 = nnscaler.runtime.executor.aexecute(model.adapter368, *(), requires_grad=True)
    add_4_667 = nnscaler.runtime.executor.aexecute(model.adapter384, *(), requires_grad=True)
    data_655 = next(*(dataloader_345, ))
    cross_entropy_748 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_659, size_2_661, size_3_662, data_655, mask_664, add_4_667, add_4_671, ), requires_grad=True)
    del mask_664
    add_5_719 = nnscaler.runtime.executor.aexecute(model.adapter340, *(), requires_grad=True)
    mask_724 = nnscaler.runtime.executor.aexecute(model.adapter356, *(), requires_grad=False)
    add_4_731 = nnscaler.runtime.executor.aexecute(model.adapter368, *(), requires_grad=True)
    add_4_727 = nnscaler.runtime.executor.aexecute(model.adapter384, *(), requires_grad=True)
    data_715 = next(*(dataloader_345, ))
    cross_entropy_787 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_719, size_2_721, size_3_722, data_715, mask_724, add_4_727, add_4_731, ), requires_grad=True)
    del mask_724
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_5_411, gadd_4_545, gadd_4_546 = nnscaler.runtime.executor.backward('segment255', (add_5_284, add_4_542, add_4_543, ), (cross_entropy_231, ), (None, ))
    cross_entropy_231 = cross_entropy_231.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter390, *(gadd_4_545, ), requires_grad=False)
    del add_4_542, gadd_4_545
    _ = nnscaler.runtime.executor.aexecute(model.adapter374, *(gadd_4_546, ), requires_grad=False)
    del add_4_543, gadd_4_546
    _ = nnscaler.runtime.executor.aexecute(model.adapter346, *(gadd_5_411, ), requires_grad=False)
    del add_5_284, gadd_5_411
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_5_618, gadd_4_626, gadd_4_630 = nnscaler.runtime.executor.backward('segment255', (add_5_617, add_4_625, add_4_629, ), (cross_entropy_688, ), (None, ))
    cross_entropy_688 = cross_entropy_688.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter390, *(gadd_4_626, ), requires_grad=False)
    del add_4_625, gadd_4_626
    _ = nnscaler.runtime.executor.aexecute(model.adapter374, *(gadd_4_630, ), requires_grad=False)
    del add_4_629, gadd_4_630
    _ = nnscaler.runtime.executor.aexecute(model.adapter346, *(gadd_5_618, ), requires_grad=False)
    del add_5_617, gadd_5_618
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gadd_5_660, gadd_4_668, gadd_4_672 = nnscaler.runtime.executor.backward('segment255', (add_5_659, add_4_667, add_4_671, ), (cross_entropy_748, ), (None, ))
    cross_entropy_748 = cross_entropy_748.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter390, *(gadd_4_668, ), requires_grad=False)
    del add_4_667, gadd_4_668
    _ = nnscaler.runtime.executor.aexecute(model.adapter374, *(gadd_4_672, ), requires_grad=False)
    del add_4_671, gadd_4_672
    _ = nnscaler.runtime.executor.aexecute(model.adapter346, *(gadd_5_660, ), requires_grad=False)
    del add_5_659, gadd_5_660
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    gadd_5_720, gadd_4_728, gadd_4_732 = nnscaler.runtime.executor.backward('segment255', (add_5_719, add_4_727, add_4_731, ), (cross_entropy_787, ), (None, ))
    cross_entropy_787 = cross_entropy_787.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter390, *(gadd_4_728, ), requires_grad=False)
    del add_4_727, gadd_4_728
    _ = nnscaler.runtime.executor.aexecute(model.adapter374, *(gadd_4_732, ), requires_grad=False)
    del add_4_731, gadd_4_732
    _ = nnscaler.runtime.executor.aexecute(model.adapter346, *(gadd_5_720, ), requires_grad=False)
    del add_5_719, gadd_5_720
    cross_entropy_231 = nnscaler.runtime.executor.aexecute(model.adapter397, *(cross_entropy_231, ), requires_grad=True)
    cross_entropy_688 = nnscaler.runtime.executor.aexecute(model.adapter397, *(cross_entropy_688, ), requires_grad=True)
    cross_entropy_748 = nnscaler.runtime.executor.aexecute(model.adapter397, *(cross_entropy_748, ), requires_grad=True)
    cross_entropy_787 = nnscaler.runtime.executor.aexecute(model.adapter397, *(cross_entropy_787, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer1049, *(), requires_grad=False)
    return cross_entropy_231, cross_entropy_688, cross_entropy_748, cross_entropy_787


def _infer_step(model, dataloader_345):
    _ = None
    add_5_284 = nnscaler.runtime.executor.aexecute(model.adapter340, *(), requires_grad=False)
    mask_496 = nnscaler.runtime.executor.aexecute(model.adapter356, *(), requires_grad=False)
    add_4_543 = nnscaler.runtime.executor.aexecute(model.adapter368, *(), requires_grad=False)
    add_4_542 = nnscaler.runtime.executor.aexecute(model.adapter384, *(), requires_grad=False)
    data_344 = next(*(dataloader_345, ))
    cross_entropy_231 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_284, size_2_228, size_3_229, data_344, mask_496, add_4_542, add_4_543, ), requires_grad=False)
    del mask_496
    add_5_617 = nnscaler.runtime.executor.aexecute(model.adapter340, *(), requires_grad=False)
    mask_622 = nnscaler.runtime.executor.aexecute(model.adapter356, *(), requires_grad=False)
    add_4_629 = nnscaler.runtime.executor.aexecute(model.adapter368, *(), requires_grad=False)
    add_4_625 = nnscaler.runtime.executor.aexecute(model.adapter384, *(), requires_grad=False)
    data_613 = next(*(dataloader_345, ))
    cross_entropy_688 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_617, size_2_619, size_3_620, data_613, mask_622, add_4_625, add_4_629, ), requires_grad=False)
    del mask_622
    add_5_659 = nnscaler.runtime.executor.aexecute(model.adapter340, *(), requires_grad=False)
    mask_664 = nnscaler.runtime.executor.aexecute(model.adapter356, *(), requires_grad=False)
    add_4_671 = nnscaler.runtime.executor.aexecute(model.adapter368, *(), requires_grad=False)
    add_4_667 = nnscaler.runtime.executor.aexecute(model.adapter384, *(), requires_grad=False)
    data_655 = next(*(dataloader_345, ))
    cross_entropy_748 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_659, size_2_661, size_3_662, data_655, mask_664, add_4_667, add_4_671, ), requires_grad=False)
    del mask_664
    add_5_719 = nnscaler.runtime.executor.aexecute(model.adapter340, *(), requires_grad=False)
    mask_724 = nnscaler.runtime.executor.aexecute(model.adapter356, *(), requires_grad=False)
    add_4_731 = nnscaler.runtime.executor.aexecute(model.adapter368, *(), requires_grad=False)
    add_4_727 = nnscaler.runtime.executor.aexecute(model.adapter384, *(), requires_grad=False)
    data_715 = next(*(dataloader_345, ))
    cross_entropy_787 = nnscaler.runtime.executor.fexecute('segment255', model.segment255, *(add_5_719, size_2_721, size_3_722, data_715, mask_724, add_4_727, add_4_731, ), requires_grad=False)
    del mask_724
    cross_entropy_231 = nnscaler.runtime.executor.aexecute(model.adapter397, *(cross_entropy_231, ), requires_grad=False)
    cross_entropy_688 = nnscaler.runtime.executor.aexecute(model.adapter397, *(cross_entropy_688, ), requires_grad=False)
    cross_entropy_748 = nnscaler.runtime.executor.aexecute(model.adapter397, *(cross_entropy_748, ), requires_grad=False)
    cross_entropy_787 = nnscaler.runtime.executor.aexecute(model.adapter397, *(cross_entropy_787, ), requires_grad=False)
    return cross_entropy_231, cross_entropy_688, cross_entropy_748, cross_entropy_787
