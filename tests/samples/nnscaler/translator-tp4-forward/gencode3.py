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
         
        self.register_parameter('source_weight_83', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('source_weight_83', 5, True, 'source.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('encode_weight_85', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('encode_weight_85', 9, True, 'encode.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('encode_bias_86', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('encode_bias_86', 11, True, 'encode.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('target_weight_231', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('target_weight_231', 18, True, 'target.weight', (64, 16), (slice(48, 64, None), slice(0, 16, None)), 1)
        
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
        
        self.register_parameter('head_weight_447', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_447', 66, True, 'head.weight', (64, 16), (slice(48, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('head_bias_451', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('head_bias_451', 68, True, 'head.bias', (64,), (slice(48, 64, None),), 1)
        
        
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
    
    def segment749(self, data_125):
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        getitem_82 = _operator.getitem(data_125, 'source')
        getitem_183 = nnscaler.runtime.adapter.chunk(getitem_82, dim=0, ranks=[0, 1, 2, 3])
        del getitem_82
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        embedding_187 = nnscaler.runtime.function.embedding(getitem_183, self.source_weight_83, padding_idx=None, start=0, stop=64)
        del getitem_183
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        linear_199 = torch.nn.functional.linear(embedding_187, self.encode_weight_85, self.encode_bias_86)
        del embedding_187
        linear_215 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_199, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del linear_199
        # File "models.py", line 166, in forward,  memory = nn.functional.relu(self.encode(self.source(data["source"])))
        relu_219 = torch.nn.functional.relu(linear_215, inplace=False)
        del linear_215
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        relu_492, relu_494 = nnscaler.runtime.function.multiref(relu_219, times=2)
        del relu_219
        # File "models.py", line 167, in forward,  x = self.target(data["ids"])
        getitem_1_89 = _operator.getitem(data_125, 'ids')
        # File "models.py", line 167, in forward,  x = self.target(data["ids"])
        embedding_1_235 = nnscaler.runtime.function.embedding(getitem_1_89, self.target_weight_231, padding_idx=None, start=48, stop=64)
        del getitem_1_89
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        embedding_1_502, embedding_1_503 = nnscaler.runtime.function.multiref(embedding_1_235, times=2)
        del embedding_1_235
        embedding_1_243 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1_502, dim=1, ranks=[0, 1, 2, 3])
        del embedding_1_502
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        linear_1_247 = torch.nn.functional.linear(embedding_1_243, self.q_weight_92, self.q_bias_93)
        del embedding_1_243
        relu_267 = nnscaler.runtime.adapter.nn.alltoall_alltoall(relu_492, idim=2, odim=0, ranks=[0, 1, 2, 3])
        del relu_492
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        linear_2_271 = torch.nn.functional.linear(relu_267, self.k_weight_95, self.k_bias_96)
        del relu_267
        linear_2_291 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_2_271, idim=0, odim=2, ranks=[0, 1, 2, 3])
        del linear_2_271
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        transpose_295 = torch.transpose(linear_2_291, dim0=1, dim1=2)
        del linear_2_291
        linear_1_307 = nnscaler.runtime.adapter.nn.alltoall_alltoall(linear_1_247, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del linear_1_247
        transpose_311 = nnscaler.runtime.adapter.nn.alltoall_alltoall(transpose_295, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del transpose_295
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        matmul_315 = torch.matmul(linear_1_307, transpose_311)
        del linear_1_307, transpose_311
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        truediv_331 = torch.div(matmul_315, 4, rounding_mode=None)
        del matmul_315
        # File "models.py", line 168, in forward,  scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        softmax_339 = torch.softmax(truediv_331, dim=-1, _stacklevel=3, dtype=None)
        del truediv_331
        relu_347 = nnscaler.runtime.adapter.nn.alltoall_alltoall(relu_494, idim=2, odim=0, ranks=[0, 1, 2, 3])
        del relu_494
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        linear_3_351 = torch.nn.functional.linear(relu_347, self.v_weight_102, self.v_bias_103)
        del relu_347
        softmax_371 = nnscaler.runtime.adapter.nn.alltoall_alltoall(softmax_339, idim=0, odim=1, ranks=[0, 1, 2, 3])
        del softmax_339
        linear_3_104 = nnscaler.runtime.adapter.nn.allgather_reducescatter(linear_3_351, dim=0, ranks=[0, 1, 2, 3])
        del linear_3_351
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        matmul_1_375 = torch.matmul(softmax_371, linear_3_104)
        del softmax_371, linear_3_104
        matmul_1_391 = nnscaler.runtime.adapter.nn.alltoall_alltoall(matmul_1_375, idim=1, odim=0, ranks=[0, 1, 2, 3])
        del matmul_1_375
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        linear_4_395 = torch.nn.functional.linear(matmul_1_391, self.o_weight_106, self.o_bias_107)
        del matmul_1_391
        embedding_1_415 = nnscaler.runtime.adapter.nn.reducescatter_allgather(embedding_1_503, dim=0, ranks=[0, 1, 2, 3])
        del embedding_1_503
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        add_419 = torch.add(embedding_1_415, linear_4_395, alpha=1)
        del linear_4_395, embedding_1_415
        # File "models.py", line 169, in forward,  x = self.norm(x + self.o(scores @ self.v(memory)))
        layer_norm_431 = nnscaler.runtime.function.layer_norm(add_419, self.norm_weight_110, self.norm_bias_111, normalized_shape=(16,), eps=1e-05)
        del add_419
        layer_norm_112 = nnscaler.runtime.adapter.nn.allgather_reducescatter(layer_norm_431, dim=0, ranks=[0, 1, 2, 3])
        del layer_norm_431
        # File "models.py", line 170, in forward,  logits = self.head(x).flatten(0, 1)
        linear_5_455 = torch.nn.functional.linear(layer_norm_112, self.head_weight_447, self.head_bias_451)
        del layer_norm_112
        # File "models.py", line 170, in forward,  logits = self.head(x).flatten(0, 1)
        flatten_475 = torch.flatten(linear_5_455, start_dim=0, end_dim=1)
        del linear_5_455
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        getitem_2_117 = _operator.getitem(data_125, 'labels')
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        flatten_1_118 = torch.flatten(getitem_2_117, start_dim=0, end_dim=1)
        del getitem_2_117
        flatten_116 = nnscaler.runtime.adapter.nn.allgather_split(flatten_475, dim=1, ranks=[0, 1, 2, 3])
        del flatten_475
        # File "models.py", line 171, in forward,  return nn.functional.cross_entropy(logits, data["labels"].flatten())
        cross_entropy_81 = torch.nn.functional.cross_entropy(flatten_116, flatten_1_118, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del flatten_1_118, flatten_116
        return cross_entropy_81
    
    def reducer634(self):
        self.wreducer634.sync_grads()
        return 
    
    def _forward_impl(self, data):
        cross_entropy_81 = self.segment749(data)
        return cross_entropy_81
