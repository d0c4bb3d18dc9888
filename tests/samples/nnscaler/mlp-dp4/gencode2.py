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
         
        self.register_parameter('layers_0_weight_50', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_50', 7, True, 'layers.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_1_weight_52', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_52', 11, True, 'layers.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_2_weight_54', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_54', 15, True, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_3_weight_56', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_56', 19, True, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_4_weight_58', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_58', 23, True, 'layers.4.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_62', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_62', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_7_weight_64', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_64', 35, True, 'layers.7.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self.wreducer74 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer74.add_param(self.layers_0_weight_50)
        self.wreducer74.add_param(self.layers_1_weight_52)
        self.wreducer74.add_param(self.layers_2_weight_54)
        self.wreducer74.add_param(self.layers_3_weight_56)
        self.wreducer74.add_param(self.layers_4_weight_58)
        self.wreducer74.add_param(self.layers_5_weight_60)
        self.wreducer74.add_param(self.layers_6_weight_62)
        self.wreducer74.add_param(self.layers_7_weight_64)
        self.add_reducer(self.wreducer74)
        
        self._post_init(init_params)
    
    def segment72(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_51 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_50, bias=None)
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_53 = torch.nn.functional.linear(linear_51, self.layers_1_weight_52, bias=None)
        del linear_51
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_55 = torch.nn.functional.linear(linear_1_53, self.layers_2_weight_54, bias=None)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_57 = torch.nn.functional.linear(linear_2_55, self.layers_3_weight_56, bias=None)
        del linear_2_55
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_59 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_58, bias=None)
        del linear_3_57
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_61 = torch.nn.functional.linear(linear_4_59, self.layers_5_weight_60, bias=None)
        del linear_4_59
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_63 = torch.nn.functional.linear(linear_5_61, self.layers_6_weight_62, bias=None)
        del linear_5_61
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_65 = torch.nn.functional.linear(linear_6_63, self.layers_7_weight_64, bias=None)
        del linear_6_63
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_66 = torch.sigmoid(linear_7_65)
        del linear_7_65
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del sigmoid_66, getitem_1_67
        return binary_cross_entropy_48
    
    def reducer74(self):
        self.wreducer74.sync_grads()
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
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment72', model.segment72, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment72', (), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer74, *(), requires_grad=False)
    return binary_cross_entropy_48


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment72', model.segment72, *(data_74, ), requires_grad=False)
    return binary_cross_entropy_48
