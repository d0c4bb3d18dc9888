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
         
        self.register_parameter('gate_weight_163', torch.nn.Parameter(torch.empty((1, 16), dtype=torch.float32)))
        self.add_full_map('gate_weight_163', 7, True, 'gate.weight', (4, 16), (slice(2, 3, None), slice(0, 16, None)), 1)
        
        self.register_parameter('gate_bias_167', torch.nn.Parameter(torch.empty((1,), dtype=torch.float32)))
        self.add_full_map('gate_bias_167', 9, True, 'gate.bias', (4,), (slice(2, 3, None),), 1)
        
        self.register_parameter('experts_0_weight_74', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('experts_0_weight_74', 15, True, 'experts.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_0_bias_75', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('experts_0_bias_75', 17, True, 'experts.0.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('experts_1_weight_78', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('experts_1_weight_78', 23, True, 'experts.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_1_bias_79', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('experts_1_bias_79', 25, True, 'experts.1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('experts_2_weight_287', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('experts_2_weight_287', 31, True, 'experts.2.weight', (16, 16), (slice(8, 12, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_2_bias_291', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('experts_2_bias_291', 33, True, 'experts.2.bias', (16,), (slice(8, 12, None),), 1)
        
        self.register_parameter('experts_3_weight_323', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('experts_3_weight_323', 39, True, 'experts.3.weight', (16, 16), (slice(8, 12, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_3_bias_327', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('experts_3_bias_327', 41, True, 'experts.3.bias', (16,), (slice(8, 12, None),), 1)
        
        self.register_parameter('out_weight_435', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('out_weight_435', 55, True, 'out.weight', (16, 16), (slice(8, 12, None), slice(0, 16, None)), 1)
        
        self.register_parameter('out_bias_439', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('out_bias_439', 57, True, 'out.bias', (16,), (slice(8, 12, None),), 1)
        
        
        self.wreducer588 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer588.add_param(self.experts_0_weight_74)
        self.wreducer588.add_param(self.experts_0_bias_75)
        self.wreducer588.add_param(self.experts_1_weight_78)
        self.wreducer588.add_param(self.experts_1_bias_79)
        self.add_reducer(self.wreducer588)
        
        self._post_init(init_params)
    
    def segment721(self, data_104):
        # File "models.py", line 185, in forward,  x = data["data"]
        getitem_69 = _operator.getitem(data_104, 'data')
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        getitem_150, getitem_151, getitem_152, getitem_153, getitem_154 = nnscaler.runtime.function.multiref(getitem_69, times=5)
        del getitem_69
        getitem_150 = nnscaler.runtime.adapter.nn.identity_allreduce(getitem_150, ranks=[0, 1, 2, 3])
        # File "models.py", line 186, in forward,  weights = torch.softmax(self.gate(x), dim=-1)
        linear_171 = torch.nn.functional.linear(getitem_150, self.gate_weight_163, self.gate_bias_167)
        del getitem_150
        linear_191 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_171, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_171
        # File "models.py", line 186, in forward,  weights = torch.softmax(self.gate(x), dim=-1)
        softmax_195 = torch.softmax(linear_191, dim=-1, _stacklevel=3, dtype=None)
        del linear_191
        getitem_207 = nnscaler.runtime.adapter.nn.split_allgather(getitem_151, dim=0, ranks=[0, 1, 2, 3])
        del getitem_151
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_1_211 = torch.nn.functional.linear(getitem_207, self.experts_0_weight_74, self.experts_0_bias_75)
        del getitem_207
        linear_1_231 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_211, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_1_211
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_235 = torch.tanh(linear_1_231)
        del linear_1_231
        getitem_247 = nnscaler.runtime.adapter.nn.split_allgather(getitem_152, dim=0, ranks=[0, 1, 2, 3])
        del getitem_152
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_2_251 = torch.nn.functional.linear(getitem_247, self.experts_1_weight_78, self.experts_1_bias_79)
        del getitem_247
        linear_2_271 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_251, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_2_251
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_1_275 = torch.tanh(linear_2_271)
        del linear_2_271
        getitem_153 = nnscaler.runtime.adapter.nn.identity_allreduce(getitem_153, ranks=[0, 1, 2, 3])
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_3_295 = torch.nn.functional.linear(getitem_153, self.experts_2_weight_287, self.experts_2_bias_291)
        del getitem_153
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_2_315 = torch.tanh(linear_3_295)
        del linear_3_295
        getitem_154 = nnscaler.runtime.adapter.nn.identity_allreduce(getitem_154, ranks=[0, 1, 2, 3])
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_4_331 = torch.nn.functional.linear(getitem_154, self.experts_3_weight_323, self.experts_3_bias_327)
        del getitem_154
        linear_4_351 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_331, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_4_331
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_3_355 = torch.tanh(linear_4_351)
        del linear_4_351
        tanh_367 = nnscaler.runtime.adapter.nn.alltoall_alltoall(tanh_235, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del tanh_235
        tanh_1_371 = nnscaler.runtime.adapter.nn.alltoall_alltoall(tanh_1_275, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del tanh_1_275
        tanh_2_375 = nnscaler.runtime.adapter.nn.alltoall_alltoall(tanh_2_315, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del tanh_2_315
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        stack_379 = nnscaler.runtime.function.stack(tanh_367, tanh_1_371, tanh_2_375, tanh_3_355, dim=-1)
        del tanh_3_355, tanh_367, tanh_1_371, tanh_2_375
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        unsqueeze_399 = torch.unsqueeze(softmax_195, dim=1)
        del softmax_195
        stack_407 = nnscaler.runtime.adapter.nn.alltoall_alltoall(stack_379, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del stack_379
        unsqueeze_411 = nnscaler.runtime.adapter.nn.alltoall_alltoall(unsqueeze_399, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del unsqueeze_399
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        mul_415 = torch.mul(stack_407, unsqueeze_411)
        del stack_407, unsqueeze_411
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        sum_1_431 = torch.sum(mul_415, dim=(-1,), keepdim=False)
        del mul_415
        sum_1_93 = nnscaler.runtime.adapter.nn.allreduce_allreduce(sum_1_431, ranks=[0, 1, 2, 3])
        del sum_1_431
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        linear_5_443 = torch.nn.functional.linear(sum_1_93, self.out_weight_435, self.out_bias_439)
        del sum_1_93
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        getitem_1_97 = _operator.getitem(data_104, 'target')
        linear_5_96 = nnscaler.runtime.adapter.nn.allgather_split(linear_5_443, dim=1, ranks=[0, 1, 2, 3])
        del linear_5_443
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        mse_loss_68 = torch.nn.functional.mse_loss(linear_5_96, getitem_1_97)
        del getitem_1_97, linear_5_96
        return mse_loss_68
    
    def reducer588(self):
        self.wreducer588.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_105):
    _ = None
    model.zero_grad()
    data_104 = next(*(dataloader_105, ))
    mse_loss_68 = nnscaler.runtime.executor.fexecute('segment721', model.segment721, *(data_104, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment721', (), (mse_loss_68, ), (None, ))
    mse_loss_68 = mse_loss_68.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer588, *(), requires_grad=False)
    return mse_loss_68


def _infer_step(model, dataloader_105):
    _ = None
    data_104 = next(*(dataloader_105, ))
    mse_loss_68 = nnscaler.runtime.executor.fexecute('segment721', model.segment721, *(data_104, ), requires_grad=False)
    return mse_loss_68
