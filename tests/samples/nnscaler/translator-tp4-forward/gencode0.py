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
        self.init_group(ranks=[0, 1, 2, 3])
         
        self.register_parameter('source_weight_83', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('source_weight_83', 5, True, 'source.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('encode_weight_85', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('encode_weight_85', 9, True, 'encode.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('encode_bias_86', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('encode_bias_86', 11, True, 'encode.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('target_weight_228', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('target_weight_228', 18, True, 'target.weight', (64, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('head_weight_444', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_444', 66, True, 'head.weight', (64, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('head_bias_448', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('head_bias_448', 68, True, 'head.bias', (64,), (slice(0, 16, None),), 1)
        
        
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
    
    def segment743(self, data_125):
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        getitem_82 = _operator.getitem(data_125, 'source')
        getitem_180 = nnscaler.runtime.adapter.chunk(getitem_82, dim=0, ranks=[0, 1, 2, 3])
        del getitem_82
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        embedding_184 = nnscaler.runtime.function.embedding(getitem_180, self.source_weight_83, padding_idx=None, start=0, stop=64)
        del getitem_180
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        linear_196 = torch.nn.functional.linear(embedding_184, self.encode_weight_85, self.encode_bias_86)
        del embedding_184
        linear_212 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_196, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del linear_196
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        relu_216 = torch.nn.functional.relu(linear_212, inplace=False)
        del linear_212
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        relu_480, relu_482 = nnscaler.runtime.function.multiref(relu_216, times=2)
        del relu_216
        # File "models.py", line 167, in forward,  x = self.target(data["ids"])
        getitem_1_89 = _operator.getitem(data_125, 'ids')
        # File "models.py", line 167, in forward,  x = self.target(data["ids"])
        embedding_1_232 = nnscaler.runtime.function.embedding(getitem_1_89, self.target_weight_228, padding_idx=None, start=0, stop=16)
        del getitem_1_89
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1_496, embedding_1_497 = nnscaler.runtime.function.multiref(embedding_1_232, times=2)
        del embedding_1_232
        embedding_1_240 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1_496, dim=1, ranks=[0, 1, 2, 3])
        del embedding_1_496
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        linear_1_244 = torch.nn.functional.linear(embedding_1_240, self.q_weight_92, self.q_bias_93)
        del embedding_1_240
        relu_264 = nnscaler.runtime.adapter.nn.alltoall_alltoall(relu_480, idim=2, odim=0, ranks=[0, 1, 2, 3])
        del relu_480
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        linear_2_268 = torch.nn.functional.linear(relu_264, self.k_weight_95, self.k_bias_96)
        del relu_264
        linear_2_288 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_268, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del linear_2_268
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        transpose_292 = torch.transpose(linear_2_288, dim0=1, dim1=2)
        del linear_2_288
        linear_1_304 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_244, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_1_244
        transpose_308 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_292, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del transpose_292
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        matmul_312 = torch.matmul(linear_1_304, transpose_308)
        del linear_1_304, transpose_308
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        truediv_328 = torch.div(matmul_312, 4, rounding_mode=None)
        del matmul_312
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        softmax_336 = torch.softmax(truediv_328, dim=-1, _stacklevel=3, dtype=None)
        del truediv_328
        relu_344 = nnscaler.runtime.adapter.nn.alltoall_alltoall(relu_482, idim=2, odim=0, ranks=[0, 1, 2, 3])
        del relu_482
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        linear_3_348 = torch.nn.functional.linear(relu_344, self.v_weight_102, self.v_bias_103)
        del relu_344
        softmax_368 = nnscaler.runtime.adapter.nn.alltoall_alltoall(softmax_336, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del softmax_336
        linear_3_104 = nnscaler.runtime.adapter.nn.allgather_reducescatter(linear_3_348, dim=0, ranks=[0, 1, 2, 3])
        del linear_3_348
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        matmul_1_372 = torch.matmul(softmax_368, linear_3_104)
        del softmax_368, linear_3_104
        matmul_1_388 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_1_372, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del matmul_1_372
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        linear_4_392 = torch.nn.functional.linear(matmul_1_388, self.o_weight_106, self.o_bias_107)
        del matmul_1_388
        embedding_1_412 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1_497, dim=0, ranks=[0, 1, 2, 3])
        del embedding_1_497
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        add_416 = torch.add(embedding_1_412, linear_4_392, alpha=1)
        del linear_4_392, embedding_1_412
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        layer_norm_428 = nnscaler.runtime.function.layer_norm(add_416, self.norm_weight_110, self.norm_bias_111, normalized_shape=(16,), eps=1e-05)
        del add_416
        layer_norm_112 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_428, dim=0, ranks=[0, 1, 2, 3])
        del layer_norm_428
        # File "models.py", line 170, in forward,  logits = self.head(x).flatten(0, 1)
        linear_5_452 = torch.nn.functional.linear(layer_norm_112, self.head_weight_444, self.head_bias_448)
        del layer_norm_112
        # File "models.py", line 170, in forward,  logits = self.head(x).flatten(0, 1)
        flatten_472 = torch.flatten(linear_5_452, start_dim=0, end_dim=1)
        del linear_5_452
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        getitem_2_117 = _operator.getitem(data_125, 'labels')
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        flatten_1_118 = torch.flatten(getitem_2_117, start_dim=0, end_dim=1)
        del getitem_2_117
        flatten_116 = nnscaler.runtime.adapter.nn.allgather_split(flatten_472, dim=1, ranks=[0, 1, 2, 3])
        del flatten_472
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        cross_entropy_81 = torch.nn.functional.cross_entropy(flatten_116, flatten_1_118, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del flatten_1_118, flatten_116
        return cross_entropy_81
    
    def reducer634(self):
        self.wreducer634.sync_grads()
        return 
    
    def _forward_impl(self, data):
        cross_entropy_81 = self.segment743(data)
        return cross_entropy_81
