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
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
         
        self.register_parameter('gate_weight_70', torch.nn.Parameter(torch.empty((4, 16), dtype=torch.float32)))
        self.add_full_map('gate_weight_70', 7, True, 'gate.weight', (4, 16), (slice(0, 4, None), slice(0, 16, None)), 1)
        
        self.register_parameter('gate_bias_71', torch.nn.Parameter(torch.empty((4,), dtype=torch.float32)))
        self.add_full_map('gate_bias_71', 9, True, 'gate.bias', (4,), (slice(0, 4, None),), 1)
        
        self.register_parameter('experts_0_weight_74', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('experts_0_weight_74', 15, True, 'experts.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_0_bias_75', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('experts_0_bias_75', 17, True, 'experts.0.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('experts_1_weight_78', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('experts_1_weight_78', 23, True, 'experts.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_1_bias_79', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('experts_1_bias_79', 25, True, 'experts.1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('experts_2_weight_82', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('experts_2_weight_82', 31, True, 'experts.2.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_2_bias_83', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('experts_2_bias_83', 33, True, 'experts.2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('experts_3_weight_86', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('experts_3_weight_86', 39, True, 'experts.3.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('experts_3_bias_87', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('experts_3_bias_87', 41, True, 'experts.3.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('out_weight_94', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('out_weight_94', 55, True, 'out.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('out_bias_95', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('out_bias_95', 57, True, 'out.bias', (16,), (slice(0, 16, None),), 1)
        
        
        self.wreducer112 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=True, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=2)
        self.wreducer112.add_param(self.gate_weight_70)
        self.wreducer112.add_param(self.gate_bias_71)
        self.wreducer112.add_param(self.experts_0_weight_74)
        self.wreducer112.add_param(self.experts_0_bias_75)
        self.wreducer112.add_param(self.experts_1_weight_78)
        self.wreducer112.add_param(self.experts_1_bias_79)
        self.wreducer112.add_param(self.experts_2_weight_82)
        self.wreducer112.add_param(self.experts_2_bias_83)
        self.wreducer112.add_param(self.experts_3_weight_86)
        self.wreducer112.add_param(self.experts_3_bias_87)
        self.wreducer112.add_param(self.out_weight_94)
        self.wreducer112.add_param(self.out_bias_95)
        self.add_reducer(self.wreducer112)
        
        self._post_init(init_params)
    
    def segment110(self, data_104):
        # File "models.py", line 185, in forward,  x = data["data"]
        getitem_69 = _operator.getitem(data_104, 'data')
        # created at IRAdapterGener:local_consumer_multiref
        getitem_146, getitem_150, getitem_154, getitem_158, getitem_162 = nnscaler.runtime.function.multiref(getitem_69, times=5)
        del getitem_69
        # File "models.py", line 186, in forward,  weights = torch.softmax(self.gate(x), dim=-1)
        linear_72 = torch.nn.functional.linear(getitem_146, self.gate_weight_70, self.gate_bias_71)
        del getitem_146
        # File "models.py", line 186, in forward,  weights = torch.softmax(self.gate(x), dim=-1)
        softmax_73 = torch.softmax(linear_72, dim=-1, _stacklevel=3, dtype=None)
        del linear_72
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_1_76 = torch.nn.functional.linear(getitem_150, self.experts_0_weight_74, self.experts_0_bias_75)
        del getitem_150
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_77 = torch.tanh(linear_1_76)
        del linear_1_76
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_2_80 = torch.nn.functional.linear(getitem_154, self.experts_1_weight_78, self.experts_1_bias_79)
        del getitem_154
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_1_81 = torch.tanh(linear_2_80)
        del linear_2_80
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_3_84 = torch.nn.functional.linear(getitem_158, self.experts_2_weight_82, self.experts_2_bias_83)
        del getitem_158
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_2_85 = torch.tanh(linear_3_84)
        del linear_3_84
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        linear_4_88 = torch.nn.functional.linear(getitem_162, self.experts_3_weight_86, self.experts_3_bias_87)
        del getitem_162
        # File "models.py", line 187, in <listcomp>,  parts = [torch.tanh(expert(x)) for expert in self.experts]
        tanh_3_89 = torch.tanh(linear_4_88)
        del linear_4_88
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        stack_90 = nnscaler.runtime.function.stack(tanh_77, tanh_1_81, tanh_2_85, tanh_3_89, dim=-1)
        del tanh_77, tanh_1_81, tanh_2_85, tanh_3_89
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        unsqueeze_91 = torch.unsqueeze(softmax_73, dim=1)
        del softmax_73
        # File "models.py", line 188, in forward,  y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        mul_92 = torch.mul(stack_90, unsqueeze_91)
        del stack_90, unsqueeze_91
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        sum_1_93 = torch.sum(mul_92, dim=(-1,), keepdim=False)
        del mul_92
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        linear_5_96 = torch.nn.functional.linear(sum_1_93, self.out_weight_94, self.out_bias_95)
        del sum_1_93
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        getitem_1_97 = _operator.getitem(data_104, 'target')
        # File "models.py", line 189, in forward,  return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])
        mse_loss_68 = torch.nn.functional.mse_loss(linear_5_96, getitem_1_97)
        del linear_5_96, getitem_1_97
        return mse_loss_68
    
    def reducer112(self):
        self.wreducer112.sync_grads()
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
    mse_loss_68 = nnscaler.runtime.executor.fexecute('segment110', model.segment110, *(data_104, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment110', (), (mse_loss_68, ), (None, ))
    mse_loss_68 = mse_loss_68.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer112, *(), requires_grad=False)
    return mse_loss_68


def _infer_step(model, dataloader_105):
    _ = None
    data_104 = next(*(dataloader_105, ))
    mse_loss_68 = nnscaler.runtime.executor.fexecute('segment110', model.segment110, *(data_104, ), requires_grad=False)
    return mse_loss_68
