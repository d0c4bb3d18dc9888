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
    
    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
        # communication groups
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
        self.init_group(ranks=[0, 1])
        self.init_group(ranks=[2, 3])
         
        self.register_parameter('layers_0_weight_106', torch.nn.Parameter(torch.empty((512, 1024), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_106', 7, True, 'layers.0.weight', (1024, 1024), (slice(0, 512, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_1_weight_120', torch.nn.Parameter(torch.empty((1024, 512), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_120', 11, True, 'layers.1.weight', (1024, 1024), (slice(0, 1024, None), slice(0, 512, None)), 1)
        
        self.register_parameter('layers_2_weight_134', torch.nn.Parameter(torch.empty((512, 1024), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_134', 15, True, 'layers.2.weight', (1024, 1024), (slice(0, 512, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_3_weight_140', torch.nn.Parameter(torch.empty((1024, 512), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_140', 19, True, 'layers.3.weight', (1024, 1024), (slice(0, 1024, None), slice(0, 512, None)), 1)
        
        self.register_parameter('layers_4_weight_154', torch.nn.Parameter(torch.empty((512, 1024), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_154', 23, True, 'layers.4.weight', (1024, 1024), (slice(0, 512, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_5_weight_160', torch.nn.Parameter(torch.empty((1024, 512), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_160', 27, True, 'layers.5.weight', (1024, 1024), (slice(0, 1024, None), slice(0, 512, None)), 1)
        
        self.register_parameter('layers_6_weight_174', torch.nn.Parameter(torch.empty((512, 1024), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_174', 31, True, 'layers.6.weight', (1024, 1024), (slice(0, 512, None), slice(0, 1024, None)), 1)
        
        self.register_parameter('layers_7_weight_178', torch.nn.Parameter(torch.empty((1024, 512), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_178', 35, True, 'layers.7.weight', (1024, 1024), (slice(0, 1024, None), slice(0, 512, None)), 1)
        
        
        self.wreducer272 = nnscaler.runtime.adapter.Reducer(ranks=[0, 2], reduce_op='sum', async_op=async_op, zero=True, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer272.add_param(self.layers_0_weight_106)
        self.wreducer272.add_param(self.layers_1_weight_120)
        self.wreducer272.add_param(self.layers_2_weight_134)
        self.wreducer272.add_param(self.layers_3_weight_140)
        self.wreducer272.add_param(self.layers_4_weight_154)
        self.wreducer272.add_param(self.layers_5_weight_160)
        self.wreducer272.add_param(self.layers_6_weight_174)
        self.wreducer272.add_param(self.layers_7_weight_178)
        self.add_reducer(self.wreducer272)
        
        self._post_init(init_params)
    
    def segment268(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_108 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_106, bias=None)
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_122 = torch.nn.functional.linear(linear_108, self.layers_1_weight_120, bias=None)
        del linear_108
        linear_1_53 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_1_122, ranks=[0, 1])
        del linear_1_122
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_136 = torch.nn.functional.linear(linear_1_53, self.layers_2_weight_134, bias=None)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_142 = torch.nn.functional.linear(linear_2_136, self.layers_3_weight_140, bias=None)
        del linear_2_136
        linear_3_57 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_3_142, ranks=[0, 1])
        del linear_3_142
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_156 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_154, bias=None)
        del linear_3_57
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_162 = torch.nn.functional.linear(linear_4_156, self.layers_5_weight_160, bias=None)
        del linear_4_156
        linear_5_61 = nnscaler.runtime.adapter.nn.allreduce_allreduce(linear_5_162, ranks=[0, 1])
        del linear_5_162
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_176 = torch.nn.functional.linear(linear_5_61, self.layers_6_weight_174, bias=None)
        del linear_5_61
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_180 = torch.nn.functional.linear(linear_6_176, self.layers_7_weight_178, bias=None)
        del linear_6_176
        linear_7_65 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_7_180, ranks=[0, 1])
        del linear_7_180
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_66 = torch.sigmoid(linear_7_65)
        del linear_7_65
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del sigmoid_66, getitem_1_67
        return binary_cross_entropy_48
    
    def reducer272(self):
        self.wreducer272.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_75):
    _ = None
    model.zero_grad()
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment268', model.segment268, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment268', (), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer272, *(), requires_grad=False)
    return binary_cross_entropy_48


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment268', model.segment268, *(data_74, ), requires_grad=False)
    return binary_cross_entropy_48
