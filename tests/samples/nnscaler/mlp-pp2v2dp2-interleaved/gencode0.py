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
        self.init_group(ranks=[0, 2])
        self.init_group(ranks=[1, 3])
         
        self.register_parameter('layers_0_weight_50', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_0_weight_50', 7, True, 'layers.0.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_1_weight_52', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_1_weight_52', 11, True, 'layers.1.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_5_weight_60', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_5_weight_60', 27, True, 'layers.5.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_6_weight_62', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_6_weight_62', 31, True, 'layers.6.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_7_weight_64', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_7_weight_64', 35, True, 'layers.7.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self.wreducer340 = nnscaler.runtime.adapter.Reducer(ranks=[0, 2], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer340.add_param(self.layers_0_weight_50)
        self.wreducer340.add_param(self.layers_1_weight_52)
        self.wreducer340.add_param(self.layers_5_weight_60)
        self.wreducer340.add_param(self.layers_6_weight_62)
        self.wreducer340.add_param(self.layers_7_weight_64)
        self.add_reducer(self.wreducer340)
        
        self._post_init(init_params)
    
    def segment31(self, data_74):
        # File "models.py", line 24, in forward,  x = data["data"]
        getitem_49 = _operator.getitem(data_74, 'data')
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_51 = torch.nn.functional.linear(getitem_49, self.layers_0_weight_50, bias=None)
        del getitem_49
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_1_53 = torch.nn.functional.linear(linear_51, self.layers_1_weight_52, bias=None)
        del linear_51
        return linear_1_53
    
    def adapter88(self, linear_1_53):
        _ = nnscaler.runtime.adapter.move(linear_1_53, shape=(4, 16), dtype=torch.float32, src=0, dst=1)
        return 
    
    def adapter104(self):
        linear_4_59 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=1, dst=0)
        return linear_4_59
    
    def segment41(self, linear_4_59):
        linear_4_102 = nnscaler.runtime.function.identity(linear_4_59)
        del linear_4_59
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_5_61 = torch.nn.functional.linear(linear_4_102, self.layers_5_weight_60, bias=None)
        del linear_4_102
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_6_63 = torch.nn.functional.linear(linear_5_61, self.layers_6_weight_62, bias=None)
        del linear_5_61
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_7_65 = torch.nn.functional.linear(linear_6_63, self.layers_7_weight_64, bias=None)
        del linear_6_63
        return linear_7_65
    
    def adapter64(self, linear_7_65):
        _ = nnscaler.runtime.adapter.move(linear_7_65, shape=(4, 16), dtype=torch.float32, src=0, dst=1)
        return 
    
    def adapter70(self):
        glinear_7_93 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=1, dst=0)
        return glinear_7_93
    
    def adapter110(self, glinear_4_87):
        _ = nnscaler.runtime.adapter.move(glinear_4_87, shape=(4, 16), dtype=torch.float32, src=0, dst=1)
        return 
    
    def adapter94(self):
        glinear_1_81 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=1, dst=0)
        return glinear_1_81
    
    def adapter77(self):
        binary_cross_entropy_48 = nnscaler.runtime.adapter.move((), shape=(), dtype=torch.float32, src=1, dst=0)
        return binary_cross_entropy_48
    
    def reducer340(self):
        self.wreducer340.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_75):
    _ = None
    nnscaler.flags.RuntimeFlag.skip_zero_grad = False
    model.zero_grad()
    data_74 = next(*(dataloader_75, ))
    linear_1_53 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_74, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter88, *(linear_1_53, ), requires_grad=False)
    data_108 = next(*(dataloader_75, ))
    linear_1_112 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_108, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter88, *(linear_1_112, ), requires_grad=False)
    linear_4_59 = nnscaler.runtime.executor.aexecute(model.adapter104, *(), requires_grad=True)
    linear_7_65 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_59, ), requires_grad=True)
    linear_4_125 = nnscaler.runtime.executor.aexecute(model.adapter104, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_65, ), requires_grad=False)
    linear_7_139 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_125, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_139, ), requires_grad=False)
    glinear_7_93 = nnscaler.runtime.executor.aexecute(model.adapter70, *(), requires_grad=False)
    data_150 = next(*(dataloader_75, ))
    linear_1_154 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_150, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter88, *(linear_1_154, ), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_87 = nnscaler.runtime.executor.backward('segment41', (linear_4_59, ), (linear_7_65, ), (glinear_7_93, ))
    del linear_7_65, glinear_7_93
    glinear_7_140 = nnscaler.runtime.executor.aexecute(model.adapter70, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter110, *(glinear_4_87, ), requires_grad=False)
    del linear_4_59, glinear_4_87
    data_172 = next(*(dataloader_75, ))
    linear_1_176 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_172, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter88, *(linear_1_176, ), requires_grad=False)
    linear_4_183 = nnscaler.runtime.executor.aexecute(model.adapter104, *(), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_126 = nnscaler.runtime.executor.backward('segment41', (linear_4_125, ), (linear_7_139, ), (glinear_7_140, ))
    del linear_7_139, glinear_7_140
    _ = nnscaler.runtime.executor.aexecute(model.adapter110, *(glinear_4_126, ), requires_grad=False)
    del linear_4_125, glinear_4_126
    glinear_1_81 = nnscaler.runtime.executor.aexecute(model.adapter94, *(), requires_grad=False)
    linear_7_203 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_183, ), requires_grad=True)
    linear_4_211 = nnscaler.runtime.executor.aexecute(model.adapter104, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_203, ), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment31', (), (linear_1_53, ), (glinear_1_81, ))
    del linear_1_53, glinear_1_81
    glinear_1_113 = nnscaler.runtime.executor.aexecute(model.adapter94, *(), requires_grad=False)
    linear_7_232 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_211, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_232, ), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment31', (), (linear_1_112, ), (glinear_1_113, ))
    del linear_1_112, glinear_1_113
    glinear_7_204 = nnscaler.runtime.executor.aexecute(model.adapter70, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_4_184 = nnscaler.runtime.executor.backward('segment41', (linear_4_183, ), (linear_7_203, ), (glinear_7_204, ))
    del linear_7_203, glinear_7_204
    glinear_7_233 = nnscaler.runtime.executor.aexecute(model.adapter70, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter110, *(glinear_4_184, ), requires_grad=False)
    del linear_4_183, glinear_4_184
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    glinear_4_212 = nnscaler.runtime.executor.backward('segment41', (linear_4_211, ), (linear_7_232, ), (glinear_7_233, ))
    del linear_7_232, glinear_7_233
    _ = nnscaler.runtime.executor.aexecute(model.adapter110, *(glinear_4_212, ), requires_grad=False)
    del linear_4_211, glinear_4_212
    glinear_1_155 = nnscaler.runtime.executor.aexecute(model.adapter94, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('segment31', (), (linear_1_154, ), (glinear_1_155, ))
    del linear_1_154, glinear_1_155
    glinear_1_177 = nnscaler.runtime.executor.aexecute(model.adapter94, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    _ = nnscaler.runtime.executor.backward('segment31', (), (linear_1_176, ), (glinear_1_177, ))
    del linear_1_176, glinear_1_177
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter77, *(), requires_grad=True)
    binary_cross_entropy_162 = nnscaler.runtime.executor.aexecute(model.adapter77, *(), requires_grad=True)
    binary_cross_entropy_241 = nnscaler.runtime.executor.aexecute(model.adapter77, *(), requires_grad=True)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter77, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer340, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_162, binary_cross_entropy_241, binary_cross_entropy_257


def _infer_step(model, dataloader_75):
    _ = None
    data_74 = next(*(dataloader_75, ))
    linear_1_53 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_74, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter88, *(linear_1_53, ), requires_grad=False)
    data_108 = next(*(dataloader_75, ))
    linear_1_112 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_108, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter88, *(linear_1_112, ), requires_grad=False)
    linear_4_59 = nnscaler.runtime.executor.aexecute(model.adapter104, *(), requires_grad=False)
    linear_7_65 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_59, ), requires_grad=False)
    linear_4_125 = nnscaler.runtime.executor.aexecute(model.adapter104, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_65, ), requires_grad=False)
    linear_7_139 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_125, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_139, ), requires_grad=False)
    data_150 = next(*(dataloader_75, ))
    linear_1_154 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_150, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter88, *(linear_1_154, ), requires_grad=False)
    data_172 = next(*(dataloader_75, ))
    linear_1_176 = nnscaler.runtime.executor.fexecute('segment31', model.segment31, *(data_172, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter88, *(linear_1_176, ), requires_grad=False)
    linear_4_183 = nnscaler.runtime.executor.aexecute(model.adapter104, *(), requires_grad=False)
    linear_7_203 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_183, ), requires_grad=False)
    linear_4_211 = nnscaler.runtime.executor.aexecute(model.adapter104, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_203, ), requires_grad=False)
    linear_7_232 = nnscaler.runtime.executor.fexecute('segment41', model.segment41, *(linear_4_211, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter64, *(linear_7_232, ), requires_grad=False)
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter77, *(), requires_grad=False)
    binary_cross_entropy_162 = nnscaler.runtime.executor.aexecute(model.adapter77, *(), requires_grad=False)
    binary_cross_entropy_241 = nnscaler.runtime.executor.aexecute(model.adapter77, *(), requires_grad=False)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter77, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_162, binary_cross_entropy_241, binary_cross_entropy_257
