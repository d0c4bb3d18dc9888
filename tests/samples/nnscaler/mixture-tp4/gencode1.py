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
         
        self.register_parameter('gate_weight_162', torch.nn.Parameter(torch.empty((1, 16), dtype=torch.float32)))
        self.add_full_map('gate_weight_162', 7, True, 'gate.weight', (4, 16), (slice(1, 2, None), slice(0, 16, None)), 1)
        
        self.register_parameter('gate_bias_166', torch.nn.Parameter(torch.empty((1,), dtype=torch.float32)))
        self.add_full_map('gate_bias_166', 9, True, 'gate.bias', (4,), (slice(1, 2, None),), 1)
        
        self.register_parameter('experts_0_weight_74', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('experts_0_weight_74', 15, True, 'experts.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_0_bias_75', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('experts_0_bias_75', 17, True, 'experts.0.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('experts_1_weight_78', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('experts_1_weight_78', 23, True, 'experts.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_1_bias_79', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('experts_1_bias_79', 25, True, 'experts.1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('experts_2_weight_286', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('experts_2_weight_286', 31, True, 'experts.2.weight', (16, 16), (slice(4, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_2_bias_290', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('experts_2_bias_290', 33, True, 'experts.2.bias', (16,), (slice(4, 8, None),), 1)
        
        self.register_parameter('experts_3_weight_322', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('experts_3_weight_322', 39, True, 'experts.3.weight', (16, 16), (slice(4, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_3_bias_326', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('experts_3_bias_326', 41, True, 'experts.3.bias', (16,), (slice(4, 8, None),), 1)
        
        self.register_parameter('out_weight_434', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('out_weight_434', 55, True, 'out.weight', (16, 16), (slice(4, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('out_bias_438', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('out_bias_438', 57, True, 'out.bias', (16,), (slice(4, 8, None),), 1)
        
        
        self.wreducer588 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer588.add_param(self.experts_0_weight_74)
        self.wreducer588.add_param(self.experts_0_bias_75)
        self.wreducer588.add_param(self.experts_1_weight_78)
        self.wreducer588.add_param(self.experts_1_bias_79)
        self.add_reducer(self.wreducer588)
        
        self._post_init(init_params)
    
    def segment719(self, data_104):
        # File "models.py", line 185, in forward,  x = data["data"]
        getitem_69 = _operator.getitem(data_104, 'data')
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        getitem_150, getitem_151, getitem_152, getitem_153, getitem_154 = nnscaler.runtime.function.multiref(getitem_69, times=5)
        del getitem_69
        getitem_150 = nnscaler.runtime.adapter.nn.identity_allreduce(getitem_150, ranks=[0, 1, 2, 3])
        # File "models.py", line 186, in forward,  weights = torch.softmax(self.gate(x), dim=-1)
        linear_170 = torch.nn.functional.linear(getitem_150, self.gate_weight_162, self.gate_bias_166)
        del getitem_150
        linear_190 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_170, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_170
        # File "models.py", line 186, in forward,  weights = torch.softmax(self.gate(x), dim=-1)
        softmax_194 = torch.softmax(linear_190, dim=-1, _stacklevel=3, dtype=None)
        del linear_190
        getitem_206 = nnscaler.runtime.adapter.nn.split_allgather(getitem_151, dim=0, ranks=[0, 1, 2, 3])
        del getitem_151
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_1_210 = torch.nn.functional.linear(getitem_206, self.experts_0_weight_74, self.experts_0_bias_75)
        del getitem_206
        linear_1_230 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_210, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_1_210
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_234 = torch.tanh(linear_1_230)
        del linear_1_230
        getitem_246 = nnscaler.runtime.adapter.nn.split_allgather(getitem_152, dim=0, ranks=[0, 1, 2, 3])
        del getitem_152
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_2_250 = torch.nn.functional.linear(getitem_246, self.experts_1_weight_78, self.experts_1_bias_79)
        del getitem_246
        linear_2_270 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_250, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del linear_2_250
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_1_274 = torch.tanh(linear_2_270)
        del linear_2_270
        getitem_153 = nnscaler.runtime.adapter.nn.identity_allreduce(getitem_153, ranks=[0, 1, 2, 3])
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_3_294 = torch.nn.functional.linear(getitem_153, self.experts_2_weight_286, self.experts_2_bias_290)
        del getitem_153
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_2_314 = torch.tanh(linear_3_294)
        del linear_3_294
        getitem_154 = nnscaler.runtime.adapter.nn.identity_allreduce(getitem_154, ranks=[0, 1, 2, 3])
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_4_330 = torch.nn.functional.linear(getitem_154, self.experts_3_weight_322, self.experts_3_bias_326)
        del getitem_154
        linear_4_350 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_4_330, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_4_330
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_3_354 = torch.tanh(linear_4_350)
        del linear_4_350
        tanh_366 = nnscaler.runtime.adapter.nn.alltoall_alltoall(tanh_234, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del tanh_234
        tanh_1_370 = nnscaler.runtime.adapter.nn.alltoall_alltoall(tanh_1_274, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del tanh_1_274
        tanh_2_374 = nnscaler.runtime.adapter.nn.alltoall_alltoall(tanh_2_314, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del tanh_2_314
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        stack_378 = nnscaler.runtime.function.stack(tanh_366, tanh_1_370, tanh_2_374, tanh_3_354, dim=-1)
        del tanh_3_354, tanh_366, tanh_1_370, tanh_2_374
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        unsqueeze_398 = torch.unsqueeze(softmax_194, dim=1)
        del softmax_194
        stack_406 = nnscaler.runtime.adapter.nn.alltoall_alltoall(stack_378, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del stack_378
        unsqueeze_410 = nnscaler.runtime.adapter.nn.alltoall_alltoall(unsqueeze_398, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del unsqueeze_398
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        mul_414 = torch.mul(stack_406, unsqueeze_410)
        del stack_406, unsqueeze_410
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        sum_1_430 = torch.sum(mul_414, dim=(-1,), keepdim=False)
        del mul_414
        sum_1_93 = nnscaler.runtime.adapter.nn.allreduce_allreduce(sum_1_430, ranks=[0, 1, 2, 3])
        del sum_1_430
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        linear_5_442 = torch.nn.functional.linear(sum_1_93, self.out_weight_434, self.out_bias_438)
        del sum_1_93
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        getitem_1_97 = _operator.getitem(data_104, 'target')
        linear_5_96 = nnscaler.runtime.adapter.nn.allgather_split(linear_5_442, dim=1, ranks=[0, 1, 2, 3])
        del linear_5_442
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
    mse_loss_68 = nnscaler.runtime.executor.fexecute('segment719', model.segment719, *(data_104, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment719', (), (mse_loss_68, ), (None, ))
    mse_loss_68 = mse_loss_68.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer588, *(), requires_grad=False)
    return mse_loss_68


def _infer_step(model, dataloader_105):
    _ = None
    data_104 = next(*(dataloader_105, ))
    mse_loss_68 = nnscaler.runtime.executor.fexecute('segment719', model.segment719, *(data_104, ), requires_grad=False)
    return mse_loss_68
