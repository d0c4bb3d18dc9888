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
         
        self.register_parameter('source_weight_83', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('source_weight_83', 5, True, 'source.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('encode_weight_85', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('encode_weight_85', 9, True, 'encode.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('encode_bias_86', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('encode_bias_86', 11, True, 'encode.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('target_weight_229', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('target_weight_229', 18, True, 'target.weight', (64, 16), (slice(16, 32, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('head_weight_445', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_445', 66, True, 'head.weight', (64, 16), (slice(16, 32, None), slice(0, 16, None)), 1)
        
        self.register_parameter('head_bias_449', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('head_bias_449', 68, True, 'head.bias', (64,), (slice(16, 32, None),), 1)
        
        
        self.wreducer634 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer634.add_param(self.source_weight_83)
        self.wreducer634.add_param(self.encode_weight_85)
        self.wreducer634.add_param(self.encode_bias_86)
        self.wreducer634.add_param(self.q_weight_92)
        self.wreducer634.add_param(self.q_bias_93)
        self.wreducer634.add_param(self.k_weight_95)
        self.wreducer634.add_param(self.k_bias_96)
        self.wreducer634.add_param(self.v_weight_102)
        self.wreducer634.add_param(self.v_bias_103)
        self.wreducer634.add_param(self.o_weight_106)
        self.wreducer634.add_param(self.o_bias_107)
        self.wreducer634.add_param(self.norm_weight_110)
        self.wreducer634.add_param(self.norm_bias_111)
        self.add_reducer(self.wreducer634)
        
        self._post_init(init_params)
    
    def segment745(self, data_125):
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        getitem_82 = _operator.getitem(data_125, 'source')
        getitem_181 = nnscaler.runtime.adapter.chunk(getitem_82, dim=0, ranks=[0, 1, 2, 3])
        del getitem_82
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        embedding_185 = nnscaler.runtime.function.embedding(getitem_181, self.source_weight_83, padding_idx=None, start=0, stop=64)
        del getitem_181
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        linear_197 = torch.nn.functional.linear(embedding_185, self.encode_weight_85, self.encode_bias_86)
        del embedding_185
        linear_213 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_197, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del linear_197
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        relu_217 = torch.nn.functional.relu(linear_213, inplace=False)
        del linear_213
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        relu_484, relu_486 = nnscaler.runtime.function.multiref(relu_217, times=2)
        del relu_217
        # File "models.py", line 167, in forward,  x = self.target(data["ids"])
        getitem_1_89 = _operator.getitem(data_125, 'ids')
        # File "models.py", line 167, in forward,  x = self.target(data["ids"])
        embedding_1_233 = nnscaler.runtime.function.embedding(getitem_1_89, self.target_weight_229, padding_idx=None, start=16, stop=32)
        del getitem_1_89
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1_498, embedding_1_499 = nnscaler.runtime.function.multiref(embedding_1_233, times=2)
        del embedding_1_233
        embedding_1_241 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1_498, dim=1, ranks=[0, 1, 2, 3])
        del embedding_1_498
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        linear_1_245 = torch.nn.functional.linear(embedding_1_241, self.q_weight_92, self.q_bias_93)
        del embedding_1_241
        relu_265 = nnscaler.runtime.adapter.nn.alltoall_alltoall(relu_484, idim=2, odim=0, ranks=[0, 1, 2, 3])
        del relu_484
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        linear_2_269 = torch.nn.functional.linear(relu_265, self.k_weight_95, self.k_bias_96)
        del relu_265
        linear_2_289 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_269, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del linear_2_269
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        transpose_293 = torch.transpose(linear_2_289, dim0=1, dim1=2)
        del linear_2_289
        linear_1_305 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_245, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_1_245
        transpose_309 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_293, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del transpose_293
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        matmul_313 = torch.matmul(linear_1_305, transpose_309)
        del linear_1_305, transpose_309
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        truediv_329 = torch.div(matmul_313, 4, rounding_mode=None)
        del matmul_313
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        softmax_337 = torch.softmax(truediv_329, dim=-1, _stacklevel=3, dtype=None)
        del truediv_329
        relu_345 = nnscaler.runtime.adapter.nn.alltoall_alltoall(relu_486, idim=2, odim=0, ranks=[0, 1, 2, 3])
        del relu_486
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        linear_3_349 = torch.nn.functional.linear(relu_345, self.v_weight_102, self.v_bias_103)
        del relu_345
        softmax_369 = nnscaler.runtime.adapter.nn.alltoall_alltoall(softmax_337, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del softmax_337
        linear_3_104 = nnscaler.runtime.adapter.nn.allgather_reducescatter(linear_3_349, dim=0, ranks=[0, 1, 2, 3])
        del linear_3_349
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        matmul_1_373 = torch.matmul(softmax_369, linear_3_104)
        del softmax_369, linear_3_104
        matmul_1_389 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_1_373, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del matmul_1_373
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        linear_4_393 = torch.nn.functional.linear(matmul_1_389, self.o_weight_106, self.o_bias_107)
        del matmul_1_389
        embedding_1_413 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1_499, dim=0, ranks=[0, 1, 2, 3])
        del embedding_1_499
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        add_417 = torch.add(embedding_1_413, linear_4_393, alpha=1)
        del linear_4_393, embedding_1_413
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        layer_norm_429 = nnscaler.runtime.function.layer_norm(add_417, self.norm_weight_110, self.norm_bias_111, normalized_shape=(16,), eps=1e-05)
        del add_417
        layer_norm_112 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_429, dim=0, ranks=[0, 1, 2, 3])
        del layer_norm_429
        # File "models.py", line 170, in forward,  logits = self.head(x).flatten(0, 1)
        linear_5_453 = torch.nn.functional.linear(layer_norm_112, self.head_weight_445, self.head_bias_449)
        del layer_norm_112
        # File "models.py", line 170, in forward,  logits = self.head(x).flatten(0, 1)
        flatten_473 = torch.flatten(linear_5_453, start_dim=0, end_dim=1)
        del linear_5_453
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        getitem_2_117 = _operator.getitem(data_125, 'labels')
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        flatten_1_118 = torch.flatten(getitem_2_117, start_dim=0, end_dim=1)
        del getitem_2_117
        flatten_116 = nnscaler.runtime.adapter.nn.allgather_split(flatten_473, dim=1, ranks=[0, 1, 2, 3])
        del flatten_473
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        cross_entropy_81 = torch.nn.functional.cross_entropy(flatten_116, flatten_1_118, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del flatten_1_118, flatten_116
        return cross_entropy_81
    
    def reducer634(self):
        self.wreducer634.sync_grads()
        return 
    
    def _forward_impl(self, data):
        cross_entropy_81 = self.segment745(data)
        return cross_entropy_81
