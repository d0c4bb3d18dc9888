// The per-rank IR as struct-of-arrays, and the symbolic code it is expanded from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planguard/big.h"
#include "planguard/kinds.h"

namespace planguard {

template <class T>
struct View {
  const T* data = nullptr;
  size_t size = 0;
  const T& operator[](size_t index) const { return data[index]; }
};

// Borrowed view of a CompiledPlan (planguard/plan/compiling/compile.py owns the arrays).
struct Compiled {
  uint32_t world_size = 0;
  View<uint32_t> mesh_sizes;
  View<uint8_t> group_kind;  // 0 explicit, 1 mesh family
  View<uint32_t> group_mask;
  View<uint32_t> group_off, group_members;
  View<int32_t> refs;  // six words each: type, group, peer mode, peer, delta, tag
  std::vector<View<uint32_t>> programs;
  View<uint32_t> n_slots;
  View<uint32_t> rank_program;
  View<uint32_t> sig_root;
  View<uint32_t> label_pool, aux;
  uint64_t max_entries = 0xFFFFFFF0ull;
};

enum class ExpandError : uint32_t {
  none = 0,
  peer_off_mesh = 1,
  peer_not_in_group = 2,
  not_a_member = 3,
  root_not_in_group = 4,
  too_large = 5,
  unbound_handle = 6,
  malformed = 7,
  peer_out_of_range = 8,
};

struct Failure {
  ExpandError kind = ExpandError::none;
  uint32_t rank = 0, program = 0, instruction = 0;
  int64_t value = 0;
};

// One entry per action (batch members follow their batch): 9 bytes, plus optional label and stream.
struct Columns {
  uint32_t world_size = 0;
  uint32_t n_groups = 0;
  std::vector<uint64_t> rank_off;
  Big<uint8_t> op;
  Big<uint32_t> arg, sig, label;
  Big<uint8_t> stream;
  std::vector<uint32_t> aux;
  // A group instance is one member of a mesh family, or an explicit group; a slot is one
  // membership of one rank in one instance.
  std::vector<uint32_t> ginst_group, ginst_off, slot_rank, slot_ginst, slot_count;
  // A channel is (group instance, source, destination, tag).
  std::vector<uint32_t> chan_ginst, chan_src, chan_dst, chan_tag, chan_src_slot, chan_dst_slot;
  std::vector<uint32_t> send_count, recv_count;
  // Programs that several ranks run: the reference of every entry (NONE without one), and what
  // each of their references means to a rank, a slot or a channel. Other ranks have no template.
  std::vector<std::vector<uint32_t>> templates;
  std::vector<uint32_t> rank_template, local;
  std::vector<uint64_t> local_off;
  bool has_markers = false, has_new_group = false, has_any_source = false, has_probe = false;
  bool has_drop = false, has_stream = false, has_wait_choice = false, has_any_tag = false;
  Failure failure;
};

Columns expand(const Compiled& plan);

}  // namespace planguard
