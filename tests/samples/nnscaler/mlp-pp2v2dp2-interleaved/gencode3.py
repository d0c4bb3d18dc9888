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
         
        self.register_parameter('layers_2_weight_54', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_2_weight_54', 15, True, 'layers.2.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_3_weight_56', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_3_weight_56', 19, True, 'layers.3.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('layers_4_weight_58', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('layers_4_weight_58', 23, True, 'layers.4.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        
        self.wreducer341 = nnscaler.runtime.adapter.Reducer(ranks=[1, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer341.add_param(self.layers_2_weight_54)
        self.wreducer341.add_param(self.layers_3_weight_56)
        self.wreducer341.add_param(self.layers_4_weight_58)
        self.add_reducer(self.wreducer341)
        
        self._post_init(init_params)
    
    def adapter88(self):
        linear_1_53 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=2, dst=3)
        return linear_1_53
    
    def segment35(self, linear_1_53):
        linear_1_98 = nnscaler.runtime.function.identity(linear_1_53)
        del linear_1_53
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_2_55 = torch.nn.functional.linear(linear_1_98, self.layers_2_weight_54, bias=None)
        del linear_1_98
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_3_57 = torch.nn.functional.linear(linear_2_55, self.layers_3_weight_56, bias=None)
        del linear_2_55
        # File "models.py", line 26, in forward,  x = layer(x)
        linear_4_59 = torch.nn.functional.linear(linear_3_57, self.layers_4_weight_58, bias=None)
        del linear_3_57
        return linear_4_59
    
    def adapter104(self, linear_4_59):
        _ = nnscaler.runtime.adapter.move(linear_4_59, shape=(4, 16), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter64(self):
        linear_7_65 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=2, dst=3)
        return linear_7_65
    
    def segment47(self, linear_7_65, data_74):
        linear_7_106 = nnscaler.runtime.function.identity(linear_7_65)
        del linear_7_65
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        sigmoid_66 = torch.sigmoid(linear_7_106)
        del linear_7_106
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        getitem_1_67 = _operator.getitem(data_74, 'target')
        # File "models.py", line 27, in forward,  return self.loss(torch.sigmoid(x), data["target"])
        binary_cross_entropy_48 = torch.nn.functional.binary_cross_entropy(sigmoid_66, getitem_1_67, weight=None, reduction='mean')
        del sigmoid_66, getitem_1_67
        return binary_cross_entropy_48
    
    def adapter70(self, glinear_7_93):
        _ = nnscaler.runtime.adapter.move(glinear_7_93, shape=(4, 16), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter110(self):
        glinear_4_87 = nnscaler.runtime.adapter.move((), shape=(4, 16), dtype=torch.float32, src=2, dst=3)
        return glinear_4_87
    
    def adapter94(self, glinear_1_81):
        _ = nnscaler.runtime.adapter.move(glinear_1_81, shape=(4, 16), dtype=torch.float32, src=3, dst=2)
        return 
    
    def adapter77(self, binary_cross_entropy_48):
        _ = nnscaler.runtime.adapter.move(binary_cross_entropy_48, shape=(), dtype=torch.float32, src=3, dst=2)
        return binary_cross_entropy_48
    
    def reducer341(self):
        self.wreducer341.sync_grads()
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
    linear_1_53 = nnscaler.runtime.executor.aexecute(model.adapter88, *(), requires_grad=True)
    linear_4_59 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_53, ), requires_grad=True)
    linear_1_112 = nnscaler.runtime.executor.aexecute(model.adapter88, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter104, *(linear_4_59, ), requires_grad=False)
    linear_4_125 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_112, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter104, *(linear_4_125, ), requires_grad=False)
    linear_7_65 = nnscaler.runtime.executor.aexecute(model.adapter64, *(), requires_grad=True)
    linear_7_139 = nnscaler.runtime.executor.aexecute(model.adapter64, *(), requires_grad=True)
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment47', model.segment47, *(linear_7_65, data_74, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_7_93 = nnscaler.runtime.executor.backward('segment47', (linear_7_65, ), (binary_cross_entropy_48, ), (None, ))
    binary_cross_entropy_48 = binary_cross_entropy_48.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter70, *(glinear_7_93, ), requires_grad=False)
    del linear_7_65, glinear_7_93
    data_108 = next(*(dataloader_75, ))
    binary_cross_entropy_162 = nnscaler.runtime.executor.fexecute('segment47', model.segment47, *(linear_7_139, data_108, ), requires_grad=True)
    linear_1_154 = nnscaler.runtime.executor.aexecute(model.adapter88, *(), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_7_140 = nnscaler.runtime.executor.backward('segment47', (linear_7_139, ), (binary_cross_entropy_162, ), (None, ))
    binary_cross_entropy_162 = binary_cross_entropy_162.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter70, *(glinear_7_140, ), requires_grad=False)
    del linear_7_139, glinear_7_140
    glinear_4_87 = nnscaler.runtime.executor.aexecute(model.adapter110, *(), requires_grad=False)
    linear_4_183 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_154, ), requires_grad=True)
    linear_1_176 = nnscaler.runtime.executor.aexecute(model.adapter88, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter104, *(linear_4_183, ), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_1_81 = nnscaler.runtime.executor.backward('segment35', (linear_1_53, ), (linear_4_59, ), (glinear_4_87, ))
    del linear_4_59, glinear_4_87
    glinear_4_126 = nnscaler.runtime.executor.aexecute(model.adapter110, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter94, *(glinear_1_81, ), requires_grad=False)
    del linear_1_53, glinear_1_81
    linear_4_211 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_176, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter104, *(linear_4_211, ), requires_grad=False)
    linear_7_203 = nnscaler.runtime.executor.aexecute(model.adapter64, *(), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_1_113 = nnscaler.runtime.executor.backward('segment35', (linear_1_112, ), (linear_4_125, ), (glinear_4_126, ))
    del linear_4_125, glinear_4_126
    _ = nnscaler.runtime.executor.aexecute(model.adapter94, *(glinear_1_113, ), requires_grad=False)
    del linear_1_112, glinear_1_113
    data_150 = next(*(dataloader_75, ))
    binary_cross_entropy_241 = nnscaler.runtime.executor.fexecute('segment47', model.segment47, *(linear_7_203, data_150, ), requires_grad=True)
    linear_7_232 = nnscaler.runtime.executor.aexecute(model.adapter64, *(), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_7_204 = nnscaler.runtime.executor.backward('segment47', (linear_7_203, ), (binary_cross_entropy_241, ), (None, ))
    binary_cross_entropy_241 = binary_cross_entropy_241.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter70, *(glinear_7_204, ), requires_grad=False)
    del linear_7_203, glinear_7_204
    data_172 = next(*(dataloader_75, ))
    binary_cross_entropy_257 = nnscaler.runtime.executor.fexecute('segment47', model.segment47, *(linear_7_232, data_172, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    glinear_7_233 = nnscaler.runtime.executor.backward('segment47', (linear_7_232, ), (binary_cross_entropy_257, ), (None, ))
    binary_cross_entropy_257 = binary_cross_entropy_257.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter70, *(glinear_7_233, ), requires_grad=False)
    del linear_7_232, glinear_7_233
    glinear_4_184 = nnscaler.runtime.executor.aexecute(model.adapter110, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    glinear_1_155 = nnscaler.runtime.executor.backward('segment35', (linear_1_154, ), (linear_4_183, ), (glinear_4_184, ))
    del linear_4_183, glinear_4_184
    glinear_4_212 = nnscaler.runtime.executor.aexecute(model.adapter110, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter94, *(glinear_1_155, ), requires_grad=False)
    del linear_1_154, glinear_1_155
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    glinear_1_177 = nnscaler.runtime.executor.backward('segment35', (linear_1_176, ), (linear_4_211, ), (glinear_4_212, ))
    del linear_4_211, glinear_4_212
    _ = nnscaler.runtime.executor.aexecute(model.adapter94, *(glinear_1_177, ), requires_grad=False)
    del linear_1_176, glinear_1_177
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter77, *(binary_cross_entropy_48, ), requires_grad=True)
    binary_cross_entropy_162 = nnscaler.runtime.executor.aexecute(model.adapter77, *(binary_cross_entropy_162, ), requires_grad=True)
    binary_cross_entropy_241 = nnscaler.runtime.executor.aexecute(model.adapter77, *(binary_cross_entropy_241, ), requires_grad=True)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter77, *(binary_cross_entropy_257, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.reducer341, *(), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_162, binary_cross_entropy_241, binary_cross_entropy_257


def _infer_step(model, dataloader_75):
    _ = None
    linear_1_53 = nnscaler.runtime.executor.aexecute(model.adapter88, *(), requires_grad=False)
    linear_4_59 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_53, ), requires_grad=False)
    linear_1_112 = nnscaler.runtime.executor.aexecute(model.adapter88, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter104, *(linear_4_59, ), requires_grad=False)
    linear_4_125 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_112, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter104, *(linear_4_125, ), requires_grad=False)
    linear_7_65 = nnscaler.runtime.executor.aexecute(model.adapter64, *(), requires_grad=False)
    linear_7_139 = nnscaler.runtime.executor.aexecute(model.adapter64, *(), requires_grad=False)
    data_74 = next(*(dataloader_75, ))
    binary_cross_entropy_48 = nnscaler.runtime.executor.fexecute('segment47', model.segment47, *(linear_7_65, data_74, ), requires_grad=False)
    data_108 = next(*(dataloader_75, ))
    binary_cross_entropy_162 = nnscaler.runtime.executor.fexecute('segment47', model.segment47, *(linear_7_139, data_108, ), requires_grad=False)
    linear_1_154 = nnscaler.runtime.executor.aexecute(model.adapter88, *(), requires_grad=False)
    linear_4_183 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_154, ), requires_grad=False)
    linear_1_176 = nnscaler.runtime.executor.aexecute(model.adapter88, *(), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter104, *(linear_4_183, ), requires_grad=False)
    linear_4_211 = nnscaler.runtime.executor.fexecute('segment35', model.segment35, *(linear_1_176, ), requires_grad=False)
    _ = nnscaler.runtime.executor.aexecute(model.adapter104, *(linear_4_211, ), requires_grad=False)
    linear_7_203 = nnscaler.runtime.executor.aexecute(model.adapter64, *(), requires_grad=False)
    data_150 = next(*(dataloader_75, ))
    binary_cross_entropy_241 = nnscaler.runtime.executor.fexecute('segment47', model.segment47, *(linear_7_203, data_150, ), requires_grad=False)
    linear_7_232 = nnscaler.runtime.executor.aexecute(model.adapter64, *(), requires_grad=False)
    data_172 = next(*(dataloader_75, ))
    binary_cross_entropy_257 = nnscaler.runtime.executor.fexecute('segment47', model.segment47, *(linear_7_232, data_172, ), requires_grad=False)
    binary_cross_entropy_48 = nnscaler.runtime.executor.aexecute(model.adapter77, *(binary_cross_entropy_48, ), requires_grad=False)
    binary_cross_entropy_162 = nnscaler.runtime.executor.aexecute(model.adapter77, *(binary_cross_entropy_162, ), requires_grad=False)
    binary_cross_entropy_241 = nnscaler.runtime.executor.aexecute(model.adapter77, *(binary_cross_entropy_241, ), requires_grad=False)
    binary_cross_entropy_257 = nnscaler.runtime.executor.aexecute(model.adapter77, *(binary_cross_entropy_257, ), requires_grad=False)
    return binary_cross_entropy_48, binary_cross_entropy_162, binary_cross_entropy_241, binary_cross_entropy_257
