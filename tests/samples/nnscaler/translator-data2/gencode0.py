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
        self.init_group(ranks=[0, 1])
         
        self.register_parameter('source_weight_83', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('source_weight_83', 5, True, 'source.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('encode_weight_85', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('encode_weight_85', 9, True, 'encode.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('encode_bias_86', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('encode_bias_86', 11, True, 'encode.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('target_weight_90', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('target_weight_90', 18, True, 'target.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('q_weight_92', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('q_weight_92', 22, True, 'q.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('q_bias_93', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('q_bias_93', 24, True, 'q.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('k_weight_95', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('k_weight_95', 28, True, 'k.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('k_bias_96', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('k_bias_96', 30, True, 'k.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('v_weight_102', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('v_weight_102', 42, True, 'v.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('v_bias_103', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('v_bias_103', 44, True, 'v.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('o_weight_106', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('o_weight_106', 50, True, 'o.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('o_bias_107', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('o_bias_107', 52, True, 'o.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norm_weight_110', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_weight_110', 60, True, 'norm.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('norm_bias_111', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('norm_bias_111', 62, True, 'norm.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_113', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_113', 66, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('head_bias_114', torch.nn.Parameter(torch.empty((64,), dtype=torch.float32)))
        self.add_full_map('head_bias_114', 68, True, 'head.bias', (64,), (slice(0, 64, None),), 1)
        
        
        self.wreducer316 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer316.add_param(self.source_weight_83)
        self.wreducer316.add_param(self.encode_weight_85)
        self.wreducer316.add_param(self.encode_bias_86)
        self.wreducer316.add_param(self.target_weight_90)
        self.wreducer316.add_param(self.q_weight_92)
        self.wreducer316.add_param(self.q_bias_93)
        self.wreducer316.add_param(self.k_weight_95)
        self.wreducer316.add_param(self.k_bias_96)
        self.wreducer316.add_param(self.v_weight_102)
        self.wreducer316.add_param(self.v_bias_103)
        self.wreducer316.add_param(self.o_weight_106)
        self.wreducer316.add_param(self.o_bias_107)
        self.wreducer316.add_param(self.norm_weight_110)
        self.wreducer316.add_param(self.norm_bias_111)
        self.wreducer316.add_param(self.head_weight_113)
        self.wreducer316.add_param(self.head_bias_114)
        self.add_reducer(self.wreducer316)
        
        self._post_init(init_params)
    
    def segment325(self, data_125):
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        getitem_82 = _operator.getitem(data_125, 'source')
        getitem_181 = nnscaler.runtime.adapter.chunk(getitem_82, dim=0, ranks=[0, 1])
        del getitem_82
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        embedding_183 = nnscaler.runtime.function.embedding(getitem_181, self.source_weight_83, padding_idx=None, start=0, stop=64)
        del getitem_181
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        linear_189 = torch.nn.functional.linear(embedding_183, self.encode_weight_85, self.encode_bias_86)
        del embedding_183
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        relu_197 = torch.nn.functional.relu(linear_189, inplace=False)
        del linear_189
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        relu_221, relu_249 = nnscaler.runtime.function.multiref(relu_197, times=2)
        del relu_197
        # File "models.py", line 167, in forward,  x = self.target(data["ids"])
        getitem_1_89 = _operator.getitem(data_125, 'ids')
        getitem_1_201 = nnscaler.runtime.adapter.chunk(getitem_1_89, dim=0, ranks=[0, 1])
        del getitem_1_89
        # File "models.py", line 167, in forward,  x = self.target(data["ids"])
        embedding_1_203 = nnscaler.runtime.function.embedding(getitem_1_201, self.target_weight_90, padding_idx=None, start=0, stop=64)
        del getitem_1_201
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1_209, embedding_1_273 = nnscaler.runtime.function.multiref(embedding_1_203, times=2)
        del embedding_1_203
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        linear_1_211 = torch.nn.functional.linear(embedding_1_209, self.q_weight_92, self.q_bias_93)
        del embedding_1_209
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        linear_2_223 = torch.nn.functional.linear(relu_221, self.k_weight_95, self.k_bias_96)
        del relu_221
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        transpose_233 = torch.transpose(linear_2_223, dim0=1, dim1=2)
        del linear_2_223
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        matmul_237 = torch.matmul(linear_1_211, transpose_233)
        del linear_1_211, transpose_233
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        truediv_241 = torch.div(matmul_237, 4, rounding_mode=None)
        del matmul_237
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        softmax_245 = torch.softmax(truediv_241, dim=-1, _stacklevel=3, dtype=None)
        del truediv_241
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        linear_3_251 = torch.nn.functional.linear(relu_249, self.v_weight_102, self.v_bias_103)
        del relu_249
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        matmul_1_261 = torch.matmul(softmax_245, linear_3_251)
        del softmax_245, linear_3_251
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        linear_4_265 = torch.nn.functional.linear(matmul_1_261, self.o_weight_106, self.o_bias_107)
        del matmul_1_261
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        add_275 = torch.add(embedding_1_273, linear_4_265, alpha=1)
        del embedding_1_273, linear_4_265
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        layer_norm_281 = nnscaler.runtime.function.layer_norm(add_275, self.norm_weight_110, self.norm_bias_111, normalized_shape=(16,), eps=1e-05)
        del add_275
        # File "models.py", line 170, in forward,  logits = self.head(x).flatten(0, 1)
        linear_5_289 = torch.nn.functional.linear(layer_norm_281, self.head_weight_113, self.head_bias_114)
        del layer_norm_281
        linear_5_115 = nnscaler.runtime.adapter.nn.allgather_split(linear_5_289, dim=0, ranks=[0, 1])
        del linear_5_289
        # File "models.py", line 170, in forward,  logits = self.head(x).flatten(0, 1)
        flatten_116 = torch.flatten(linear_5_115, start_dim=0, end_dim=1)
        del linear_5_115
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        getitem_2_117 = _operator.getitem(data_125, 'labels')
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        flatten_1_118 = torch.flatten(getitem_2_117, start_dim=0, end_dim=1)
        del getitem_2_117
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        cross_entropy_81 = torch.nn.functional.cross_entropy(flatten_116, flatten_1_118, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del flatten_116, flatten_1_118
        return cross_entropy_81
    
    def reducer316(self):
        self.wreducer316.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_126):
    _ = None
    model.zero_grad()
    data_125 = next(*(dataloader_126, ))
    cross_entropy_81 = nnscaler.runtime.executor.fexecute('segment325', model.segment325, *(data_125, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment325', (), (cross_entropy_81, ), (None, ))
    cross_entropy_81 = cross_entropy_81.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer316, *(), requires_grad=False)
    return cross_entropy_81


def _infer_step(model, dataloader_126):
    _ = None
    data_125 = next(*(dataloader_126, ))
    cross_entropy_81 = nnscaler.runtime.executor.fexecute('segment325', model.segment325, *(data_125, ), requires_grad=False)
    return cross_entropy_81
