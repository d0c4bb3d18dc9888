// Symbolic code -> columns: loops unrolled once per program, then copied with each rank's channels.
#include <algorithm>
#include <cstring>

#include "groups.h"
#include "planguard/hash.h"

namespace planguard {
namespace {

constexpr uint32_t LOCAL = 0x80000000u;  // arg is an index into the program's own references
constexpr uint32_t WORDS = 6;

struct LocalRef {
  uint32_t ref, instruction, collectives, sends, recvs;
};

// A block of undecided order: `after` may name an item that is written later in it.
struct Block {
  struct Later {
    size_t aux;
    uint32_t slot, instruction;
  };
  uint32_t begin;
  std::vector<Later> later;
};

// One program with its loops unrolled; `arg` still holds references instead of channels.
struct Unrolled {
  std::vector<uint8_t> op, stream;
  std::vector<uint32_t> arg, sig, label, use;  // use: its local reference plus one, 0 without one
  std::vector<LocalRef> refs;
  std::vector<std::pair<uint32_t, uint32_t>> roots;  // (local reference, root rank)
  std::vector<uint32_t> root_instruction;
};

class Expander {
 public:
  explicit Expander(const Compiled& plan) : plan_(plan), groups_(plan, out_) {}

  Columns run() {
    out_.world_size = plan_.world_size;
    out_.n_groups = static_cast<uint32_t>(plan_.group_kind.size);
    if (!measure()) return std::move(out_);
    template_of_.assign(plan_.programs.size(), NONE);
    shared_ = uses_;
    for (uint32_t rank = 0; rank < plan_.world_size && ok(); ++rank) place_rank(rank);
    return std::move(out_);
  }

 private:
  bool ok() const { return out_.failure.kind == ExpandError::none; }
  void fail(ExpandError kind, uint32_t rank, uint32_t program, uint32_t instruction, int64_t value) {
    if (ok()) out_.failure = {kind, rank, program, instruction, value};
  }

  uint64_t length(const View<uint32_t>& code, size_t begin, size_t end) const {
    uint64_t total = 0;
    for (size_t at = begin; at < end; ++at) {
      const uint32_t* word = code.data + at * WORDS;
      uint8_t kind = word[0] & KIND_MASK;
      if (kind == REPEAT) {
        uint64_t body = length(code, at + 1, std::min<size_t>(at + 1 + word[2], end));
        if (body && word[1] > plan_.max_entries / body) return ~0ull >> 8;
        total += body * word[1];
        at += word[2];
      } else if (kind != BIND) {
        ++total;
      }
      if (total > plan_.max_entries) return ~0ull >> 8;
    }
    return total;
  }

  void note_features(const View<uint32_t>& code) {
    for (size_t at = 0; at < code.size; at += WORDS) {
      uint8_t kind = code[at] & KIND_MASK;
      out_.has_markers |= kind >= FIRST_MARKER && kind <= LAST_MARKER;
      out_.has_new_group |= kind == NEW_GROUP;
      out_.has_probe |= kind == PROBE;
      out_.has_drop |= kind == DROP;
      out_.has_wait_choice |= kind == WAIT_MANY && code[at + 2] != 0;
      out_.has_stream |= code[at + 5] != 0;
      has_label_ |= code[at + 4] != 0;
    }
  }

  bool measure() {
    std::vector<uint64_t> lengths;
    for (const auto& code : plan_.programs) {
      lengths.push_back(length(code, 0, code.size / WORDS));
      note_features(code);
    }
    uses_.assign(plan_.programs.size(), 0);
    out_.rank_off.assign(plan_.world_size + 1, 0);
    for (uint32_t rank = 0; rank < plan_.world_size; ++rank) {
      uint32_t program = plan_.rank_program[rank];
      ++uses_[program];
      uint64_t total = out_.rank_off[rank] + lengths[program];
      if (total > plan_.max_entries) {
        fail(ExpandError::too_large, rank, program, 0, static_cast<int64_t>(plan_.max_entries));
        return false;
      }
      out_.rank_off[rank + 1] = total;
    }
    uint64_t total = out_.rank_off.back();
    out_.op.resize(total);
    out_.arg.resize(total);
    out_.sig.resize(total);
    if (has_label_) out_.label.resize(total);
    if (out_.has_stream) out_.stream.resize(total);
    unrolled_.resize(plan_.programs.size());
    return true;
  }

  uint32_t local_ref(uint32_t ref, uint32_t instruction) {
    if (ref >= ref_place_.size()) {
      fail(ExpandError::malformed, 0, program_, instruction, ref);
      return 0;
    }
    if (ref_place_[ref] == NONE) {
      ref_place_[ref] = static_cast<uint32_t>(now_->refs.size());
      now_->refs.push_back({ref, instruction, 0, 0, 0});
    }
    return ref_place_[ref];
  }

  void emit(uint32_t op, uint32_t arg, const uint32_t* word, uint32_t iteration) {
    now_->op.push_back(static_cast<uint8_t>(op));
    now_->arg.push_back(arg);
    now_->sig.push_back(word[3]);
    if (has_label_) {
      uint32_t label = word[4];
      if (label & LOCAL) {
        size_t at = static_cast<size_t>(label & ~LOCAL) + iteration;
        label = at < plan_.label_pool.size ? plan_.label_pool[at] : 0;
      }
      now_->label.push_back(label);
    }
    if (out_.has_stream) now_->stream.push_back(static_cast<uint8_t>(word[5]));
  }

  // Handles and ids in a list become rank-local entry indices.
  uint32_t resolve_list(uint32_t offset, uint32_t instruction) {
    if (offset == NONE) return NONE;
    uint32_t at = static_cast<uint32_t>(out_.aux.size()), count = plan_.aux[offset];
    out_.aux.push_back(count);
    for (uint32_t index = 0; index < count; ++index) {
      uint32_t slot = plan_.aux[offset + 1 + index];
      if (slots_[slot] == NONE) fail(ExpandError::unbound_handle, 0, program_, instruction, slot);
      out_.aux.push_back(slots_[slot]);
    }
    return at;
  }

  // Items issued first, by entry. Ids bound before the block began are those of another iteration.
  uint32_t resolve_after(uint32_t offset, uint32_t instruction) {
    if (blocks_.empty()) return resolve_list(offset, instruction);
    uint32_t at = static_cast<uint32_t>(out_.aux.size()), count = plan_.aux[offset];
    out_.aux.push_back(count);
    for (uint32_t index = 0; index < count; ++index) {
      uint32_t slot = plan_.aux[offset + 1 + index];
      if (!bound_in_block(slot)) blocks_.back().later.push_back({out_.aux.size(), slot, instruction});
      out_.aux.push_back(slots_[slot]);
    }
    return at;
  }

  bool bound_in_block(uint32_t slot) const {
    return slots_[slot] != NONE && slots_[slot] >= blocks_.back().begin;
  }

  void close_block() {
    if (blocks_.empty()) return;
    for (const Block::Later& later : blocks_.back().later) {
      if (!bound_in_block(later.slot))
        fail(ExpandError::unbound_handle, 0, program_, later.instruction, later.slot);
      out_.aux[later.aux] = slots_[later.slot];
    }
    blocks_.pop_back();
  }

  void unroll_range(const View<uint32_t>& code, uint32_t begin, uint32_t end, uint32_t iteration) {
    for (uint32_t at = begin; at < end && ok(); ++at) {
      const uint32_t* word = code.data + size_t(at) * WORDS;
      uint8_t kind = word[0] & KIND_MASK;
      if (kind == REPEAT) {
        for (uint32_t turn = 0; turn < word[1] && ok(); ++turn)
          unroll_range(code, at + 1, std::min(at + 1 + word[2], end), turn);
        at += word[2];
        continue;
      }
      if (kind == BIND) {
        slots_[word[1]] = last_;
        continue;
      }
      one(word, kind, at, iteration);
    }
  }

  void one(const uint32_t* word, uint8_t kind, uint32_t at, uint32_t iteration) {
    uint32_t entry = static_cast<uint32_t>(now_->op.size()), arg = word[1];
    if (is_p2p(kind) || is_collective(kind) || kind == INIT) {
      arg = local_ref(word[1], at);
      LocalRef& ref = now_->refs[arg];
      if (is_collective(kind)) {
        ++ref.collectives;
        note_root(arg, word[3], at);
      } else if (is_send(kind)) {
        ++ref.sends;
      } else if (kind == RECV) {
        ++ref.recvs;
      }
      arg |= LOCAL;
    } else if (kind == WAIT || kind == TEST || kind == DROP) {
      if (slots_[arg] == NONE) fail(ExpandError::unbound_handle, 0, program_, at, arg);
      arg = slots_[arg];
    } else if (kind == WAIT_MANY || kind == COMPUTE) {
      arg = resolve_list(arg, at);
    } else if (kind == AFTER) {
      arg = resolve_after(arg, at);
    } else if (kind == UNORDERED_BEGIN || kind == THREADS_BEGIN) {
      blocks_.push_back({entry, {}});
    } else if (kind == UNORDERED_END || kind == THREADS_END) {
      close_block();
    }
    emit(word[0], arg, word, iteration);
    if (!(word[0] & MEMBER)) last_ = entry;
    bool binds = is_p2p(kind) || is_collective(kind) || kind == BATCH;
    if (binds && word[2]) slots_[word[2] - 1] = entry;
  }

  void note_root(uint32_t local, uint32_t sig, uint32_t instruction) {
    uint32_t root = sig < plan_.sig_root.size ? plan_.sig_root[sig] : NONE;
    if (root == NONE) return;
    auto pair = std::make_pair(local, root);
    if (std::find(now_->roots.begin(), now_->roots.end(), pair) != now_->roots.end()) return;
    now_->roots.push_back(pair);
    now_->root_instruction.push_back(instruction);
  }

  void unroll(uint32_t program) {
    program_ = program;
    now_ = &unrolled_[program];
    const auto& code = plan_.programs[program];
    if (ref_place_.empty()) ref_place_.assign(plan_.refs.size / WORDS, NONE);
    slots_.assign(plan_.n_slots[program] + 1, NONE);
    last_ = NONE;
    blocks_.clear();
    unroll_range(code, 0, static_cast<uint32_t>(code.size / WORDS), 0);
    for (const auto& ref : now_->refs) ref_place_[ref.ref] = NONE;
    split_references();
  }

  // Entries of one kind or the other are copied alike, without a branch: `arg` plus what `use` means.
  void split_references() {
    now_->use.assign(now_->arg.size(), 0);
    for (size_t entry = 0; entry < now_->arg.size(); ++entry) {
      uint32_t& value = now_->arg[entry];
      if (!(value & LOCAL) || value == NONE) continue;
      now_->use[entry] = (value & ~LOCAL) + 1;
      value = 0;
    }
  }

  void place_rank(uint32_t rank) {
    uint32_t program = plan_.rank_program[rank];
    Unrolled& source = unrolled_[program];
    if (source.op.empty()) unroll(program);
    if (!ok()) {
      if (out_.failure.rank == 0) out_.failure.rank = rank;
      return;
    }
    local_.assign(source.refs.size() + 1, 0);
    for (size_t index = 0; index < source.refs.size() && ok(); ++index)
      local_[index + 1] = resolve(source.refs[index], rank, program);
    for (size_t index = 0; index < source.roots.size() && ok(); ++index)
      check_root(source, index, rank, program);
    if (ok()) copy_rank(source, rank);
    if (ok()) note_template(source, rank, program);
    if (--uses_[program] == 0) source = Unrolled();
  }

  void note_template(const Unrolled& source, uint32_t rank, uint32_t program) {
    out_.rank_template.resize(plan_.world_size, NONE);
    out_.local_off.resize(size_t(plan_.world_size) + 1, 0);
    if (shared_[program] > 1) {
      uint32_t& index = template_of_[program];
      if (index == NONE) {
        index = static_cast<uint32_t>(out_.templates.size());
        out_.templates.push_back(source.use);
        for (uint32_t& use : out_.templates.back()) --use;  // NONE where there was none
      }
      out_.rank_template[rank] = index;
      out_.local.insert(out_.local.end(), local_.begin() + 1, local_.end());
    }
    out_.local_off[rank + 1] = out_.local.size();
  }

  void copy_rank(const Unrolled& source, uint32_t rank) {
    size_t count = source.op.size(), at = out_.rank_off[rank];
    if (!count) return;
    std::memcpy(&out_.op[at], source.op.data(), count);
    std::memcpy(&out_.sig[at], source.sig.data(), count * 4);
    if (has_label_) std::memcpy(&out_.label[at], source.label.data(), count * 4);
    if (out_.has_stream) std::memcpy(&out_.stream[at], source.stream.data(), count);
    uint32_t* arg = &out_.arg[at];
    const uint32_t *own = source.arg.data(), *use = source.use.data(), *local = local_.data();
    for (size_t index = 0; index < count; ++index) arg[index] = own[index] + local[use[index]];
  }

  void check_root(const Unrolled& source, size_t index, uint32_t rank, uint32_t program) {
    auto [local, root] = source.roots[index];
    uint32_t ginst = out_.slot_ginst[local_[local + 1]];
    if (groups_.slot_in(ginst, root) == NONE)
      fail(ExpandError::root_not_in_group, rank, program, source.root_instruction[index], root);
  }

  uint32_t resolve(const LocalRef& use, uint32_t rank, uint32_t program) {
    const int32_t* word = plan_.refs.data + size_t(use.ref) * WORDS;
    uint32_t slot = groups_.slot_of(static_cast<uint32_t>(word[1]), rank);
    if (slot == NONE) {
      fail(ExpandError::not_a_member, rank, program, use.instruction, word[1]);
      return 0;
    }
    if (word[0] == 0) {
      out_.slot_count[slot] += use.collectives;
      return slot;
    }
    return channel(use, word, rank, slot, program);
  }

  uint32_t peer_of(const int32_t* word, uint32_t rank, uint32_t program, const LocalRef& use) {
    if (word[2] == 0) {
      if (static_cast<uint32_t>(word[3]) >= plan_.world_size)
        fail(ExpandError::peer_out_of_range, rank, program, use.instruction, word[3]);
      return static_cast<uint32_t>(word[3]);
    }
    uint32_t dim = static_cast<uint32_t>(word[3]);
    int64_t size = plan_.mesh_sizes[dim], delta = word[4] >> 1;
    int64_t from = groups_.coordinate(rank, dim), to = from + delta;
    if (word[4] & 1) to = ((to % size) + size) % size;
    if (to < 0 || to >= size) {
      fail(ExpandError::peer_off_mesh, rank, program, use.instruction, delta);
      return rank;
    }
    return static_cast<uint32_t>(rank + (to - from) * static_cast<int64_t>(groups_.stride(dim)));
  }

  uint32_t channel(const LocalRef& use, const int32_t* word, uint32_t rank, uint32_t slot,
                   uint32_t program) {
    uint32_t ginst = out_.slot_ginst[slot], peer = NONE, peer_slot = NONE;
    bool any = word[2] == 2;
    if (!any) {
      peer = peer_of(word, rank, program, use);
      if (!ok()) return 0;
      peer_slot = groups_.slot_in(ginst, peer);
      if (peer_slot == NONE)
        fail(ExpandError::peer_not_in_group, rank, program, use.instruction, peer);
    }
    out_.has_any_source |= any;
    out_.has_any_tag |= word[5] < 0;
    bool send = word[0] == 1;
    uint32_t src = send ? rank : peer, dst = send ? peer : rank;
    uint32_t tag = word[5] < 0 ? NONE : static_cast<uint32_t>(word[5]);
    uint32_t id = channels_.intern({ginst, src, dst, tag});
    if (id == out_.chan_ginst.size()) {
      out_.chan_ginst.push_back(ginst);
      out_.chan_src.push_back(src);
      out_.chan_dst.push_back(dst);
      out_.chan_tag.push_back(tag);
      out_.chan_src_slot.push_back(send ? slot : peer_slot);
      out_.chan_dst_slot.push_back(send ? peer_slot : slot);
      out_.send_count.push_back(0);
      out_.recv_count.push_back(0);
    }
    out_.send_count[id] += use.sends;
    out_.recv_count[id] += use.recvs;
    return id;
  }

  const Compiled& plan_;
  Columns out_;
  GroupTable groups_;
  DenseMap channels_;
  bool has_label_ = false;
  std::vector<Unrolled> unrolled_;
  std::vector<uint32_t> uses_, shared_, template_of_, ref_place_, slots_;
  std::vector<uint32_t> local_;  // of the current rank, by reference plus one
  std::vector<Block> blocks_;
  Unrolled* now_ = nullptr;
  uint32_t program_ = 0, last_ = NONE;
};

}  // namespace

Columns expand(const Compiled& plan) { return Expander(plan).run(); }

}  // namespace planguard
