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
         
        self.register_parameter('tok_weight_147', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('tok_weight_147', 4, True, 'tok.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_buffer('position_287', torch.empty((2,), dtype=torch.int64), persistent=True)
        self.add_full_map('position_287', 8, False, 'position', (8,), (slice(4, 6, None),), 1)
        
        self.register_parameter('pos_weight_150', torch.nn.Parameter(torch.empty((8, 16), dtype=torch.float32)))
        self.add_full_map('pos_weight_150', 9, True, 'pos.weight', (8, 16), (slice(0, 8, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_ln1_weight_153', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln1_weight_153', 24, True, 'blocks.0.ln1.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln1_bias_154', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln1_bias_154', 26, True, 'blocks.0.ln1.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_qkv_weight_156', torch.nn.Parameter(torch.empty((48, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_qkv_weight_156', 30, True, 'blocks.0.qkv.weight', (48, 16), (slice(0, 48, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_qkv_bias_157', torch.nn.Parameter(torch.empty((48,), dtype=torch.float32)))
        self.add_full_map('blocks_0_qkv_bias_157', 32, True, 'blocks.0.qkv.bias', (48,), (slice(0, 48, None),), 1)
        
        self.register_parameter('blocks_0_proj_weight_176', torch.nn.Parameter(torch.empty((16, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_proj_weight_176', 81, True, 'blocks.0.proj.weight', (16, 16), (slice(0, 16, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_proj_bias_177', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_proj_bias_177', 83, True, 'blocks.0.proj.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln2_weight_180', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln2_weight_180', 91, True, 'blocks.0.ln2.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_ln2_bias_181', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_ln2_bias_181', 93, True, 'blocks.0.ln2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('blocks_0_fc1_weight_183', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc1_weight_183', 97, True, 'blocks.0.fc1.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        self.register_parameter('blocks_0_fc1_bias_184', torch.nn.Parameter(torch.empty((64,), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc1_bias_184', 99, True, 'blocks.0.fc1.bias', (64,), (slice(0, 64, None),), 1)
        
        self.register_parameter('blocks_0_fc2_weight_187', torch.nn.Parameter(torch.empty((16, 64), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc2_weight_187', 105, True, 'blocks.0.fc2.weight', (16, 64), (slice(0, 16, None), slice(0, 64, None)), 1)
        
        self.register_parameter('blocks_0_fc2_bias_188', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('blocks_0_fc2_bias_188', 107, True, 'blocks.0.fc2.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('lnf_weight_191', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('lnf_weight_191', 115, True, 'lnf.weight', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('lnf_bias_192', torch.nn.Parameter(torch.empty((16,), dtype=torch.float32)))
        self.add_full_map('lnf_bias_192', 117, True, 'lnf.bias', (16,), (slice(0, 16, None),), 1)
        
        self.register_parameter('head_weight_194', torch.nn.Parameter(torch.empty((64, 16), dtype=torch.float32)))
        self.add_full_map('head_weight_194', 121, True, 'head.weight', (64, 16), (slice(0, 64, None), slice(0, 16, None)), 1)
        
        
        self.wreducer775 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1, 2, 3], reduce_op='sum', async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)
        self.wreducer775.add_param(self.pos_weight_150)
        self.add_reducer(self.wreducer775)
        
        self._post_init(init_params)
    
    def segment788(self, data_203):
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        getitem_146 = _operator.getitem(data_203, 'ids')
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        embedding_148 = nnscaler.runtime.function.embedding(getitem_146, self.tok_weight_147, padding_idx=None, start=0, stop=64)
        del getitem_146
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        embedding_1_291 = nnscaler.runtime.function.embedding(self.position_287, self.pos_weight_150, padding_idx=None, start=0, stop=8)
        embedding_1_151 = nnscaler.runtime.adapter.nn.allgather_split(embedding_1_291, dim=0, ranks=[0, 1, 2, 3])
        del embedding_1_291
        # File "models.py", line 67, in forward,  x = self.tok(data["ids"]) + self.pos(self.position)
        add_152 = torch.add(embedding_148, embedding_1_151, alpha=1)
        del embedding_148, embedding_1_151
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_265, add_266, add_267 = nnscaler.runtime.function.multiref(add_152, times=3)
        del add_152
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getattr_1_135 = builtins.getattr(add_265, 'shape')
        del add_265
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_1_136 = _operator.getitem(getattr_1_135, 0)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_2_137 = _operator.getitem(getattr_1_135, 1)
        # File "models.py", line 42, in forward,  b, t, d = x.shape
        getitem_3_138 = _operator.getitem(getattr_1_135, 2)
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        layer_norm_155 = nnscaler.runtime.function.layer_norm(add_266, self.blocks_0_ln1_weight_153, self.blocks_0_ln1_bias_154, normalized_shape=(16,), eps=1e-05)
        del add_266
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        linear_158 = torch.nn.functional.linear(layer_norm_155, self.blocks_0_qkv_weight_156, self.blocks_0_qkv_bias_157)
        del layer_norm_155
        # File "models.py", line 43, in forward,  q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        chunk_159, chunk_160, chunk_161 = torch.chunk(linear_158, chunks=3, dim=-1)
        del linear_158
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_139 = _operator.floordiv(getitem_3_138, 2)
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_162 = torch.Tensor.view(chunk_159, size=(getitem_1_136, getitem_2_137, 2, floordiv_139))
        del chunk_159
        # File "models.py", line 44, in forward,  q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_163 = torch.transpose(view_162, dim0=1, dim1=2)
        del view_162
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_1_140 = _operator.floordiv(getitem_3_138, 2)
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_1_164 = torch.Tensor.view(chunk_160, size=(getitem_1_136, getitem_2_137, 2, floordiv_1_140))
        del chunk_160
        # File "models.py", line 45, in forward,  k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_1_165 = torch.transpose(view_1_164, dim0=1, dim1=2)
        del view_1_164
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        floordiv_2_141 = _operator.floordiv(getitem_3_138, 2)
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        view_2_166 = torch.Tensor.view(chunk_161, size=(getitem_1_136, getitem_2_137, 2, floordiv_2_141))
        del chunk_161
        # File "models.py", line 46, in forward,  v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        transpose_2_167 = torch.transpose(view_2_166, dim0=1, dim1=2)
        del view_2_166
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        transpose_3_168 = torch.transpose(transpose_1_165, dim0=-2, dim1=-1)
        del transpose_1_165
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        matmul_169 = torch.matmul(transpose_163, transpose_3_168)
        del transpose_163, transpose_3_168
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        floordiv_3_142 = _operator.floordiv(getitem_3_138, 2)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        pow_1_143 = _operator.pow(floordiv_3_142, 0.5)
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        truediv_170 = torch.div(matmul_169, pow_1_143, rounding_mode=None)
        del matmul_169
        # File "models.py", line 47, in forward,  a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        softmax_171 = torch.softmax(truediv_170, dim=-1, _stacklevel=3, dtype=None)
        del truediv_170
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        matmul_1_172 = torch.matmul(softmax_171, transpose_2_167)
        del transpose_2_167, softmax_171
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        transpose_4_173 = torch.transpose(matmul_1_172, dim0=1, dim1=2)
        del matmul_1_172
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        contiguous_174 = torch.Tensor.contiguous(transpose_4_173)
        del transpose_4_173
        # File "models.py", line 48, in forward,  y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        view_3_175 = torch.Tensor.view(contiguous_174, size=(getitem_1_136, getitem_2_137, getitem_3_138))
        del contiguous_174
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        linear_1_178 = torch.nn.functional.linear(view_3_175, self.blocks_0_proj_weight_176, self.blocks_0_proj_bias_177)
        del view_3_175
        # File "models.py", line 49, in forward,  x = x + self.proj(y)
        add_1_179 = torch.add(add_267, linear_1_178, alpha=1)
        del add_267, linear_1_178
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        add_1_274, add_1_275 = nnscaler.runtime.function.multiref(add_1_179, times=2)
        del add_1_179
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        layer_norm_1_182 = nnscaler.runtime.function.layer_norm(add_1_274, self.blocks_0_ln2_weight_180, self.blocks_0_ln2_bias_181, normalized_shape=(16,), eps=1e-05)
        del add_1_274
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_2_185 = torch.nn.functional.linear(layer_norm_1_182, self.blocks_0_fc1_weight_183, self.blocks_0_fc1_bias_184)
        del layer_norm_1_182
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        gelu_186 = torch.nn.functional.gelu(linear_2_185, approximate='none')
        del linear_2_185
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        linear_3_189 = torch.nn.functional.linear(gelu_186, self.blocks_0_fc2_weight_187, self.blocks_0_fc2_bias_188)
        del gelu_186
        # File "models.py", line 50, in forward,  return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))
        add_2_190 = torch.add(add_1_275, linear_3_189, alpha=1)
        del add_1_275, linear_3_189
        # File "models.py", line 70, in forward,  logits = self.head(self.lnf(x))
        layer_norm_2_193 = nnscaler.runtime.function.layer_norm(add_2_190, self.lnf_weight_191, self.lnf_bias_192, normalized_shape=(16,), eps=1e-05)
        del add_2_190
        # File "models.py", line 70, in forward,  logits = self.head(self.lnf(x))
        linear_4_195 = torch.nn.functional.linear(layer_norm_2_193, self.head_weight_194, bias=None)
        del layer_norm_2_193
        # create at IRAdapterGener:autoref, comment before transformation: auto_multiref
        linear_4_282, linear_4_283 = nnscaler.runtime.function.multiref(linear_4_195, times=2)
        del linear_4_195
        # File "models.py", line 71, in forward,  labels = data["labels"].view(-1)
        getitem_7_196 = _operator.getitem(data_203, 'labels')
        # File "models.py", line 71, in forward,  labels = data["labels"].view(-1)
        view_4_197 = torch.Tensor.view(getitem_7_196, size=(-1,))
        del getitem_7_196
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        size_144 = torch.Tensor.size(linear_4_282, dim=-1)
        del linear_4_282
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        view_5_198 = torch.Tensor.view(linear_4_283, size=(-1, size_144))
        del linear_4_283
        # File "models.py", line 72, in forward,  return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)
        cross_entropy_145 = torch.nn.functional.cross_entropy(view_5_198, view_4_197, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0)
        del view_4_197, view_5_198
        return cross_entropy_145
    
    def reducer775(self):
        self.wreducer775.sync_grads()
        return 
    
    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("Code of forward is not generated. You should use module.train_step/module.infer_step instead.")


########## Generated Schedule Code ###########
import torch
import nnscaler

def _train_step(model, dataloader_204):
    _ = None
    model.zero_grad()
    data_203 = next(*(dataloader_204, ))
    cross_entropy_145 = nnscaler.runtime.executor.fexecute('segment788', model.segment788, *(data_203, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment788', (), (cross_entropy_145, ), (None, ))
    cross_entropy_145 = cross_entropy_145.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer775, *(), requires_grad=False)
    return cross_entropy_145


def _infer_step(model, dataloader_204):
    _ = None
    data_203 = next(*(dataloader_204, ))
    cross_entropy_145 = nnscaler.runtime.executor.fexecute('segment788', model.segment788, *(data_203, ), requires_grad=False)
    return cross_entropy_145
