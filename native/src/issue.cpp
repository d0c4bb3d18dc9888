// Communication actions: which matches a launch arrives at, and what it has to wait behind.
#include <algorithm>

#include "lowerer.h"

namespace planguard {
namespace {

constexpr uint32_t ext_type(Ext type, uint32_t detail = 0) {
  return static_cast<uint32_t>(type) << 24 | detail;
}

Why why_of(uint8_t kind) {
  if (is_send(kind)) return Why::send;
  return is_p2p(kind) ? Why::recv : Why::collective;
}

}  // namespace

void Lowerer::communicate(uint64_t at, uint64_t end) {
  uint32_t entry = static_cast<uint32_t>(at - begin_);
  size_t lane = lane_of(at);
  if (rules_.lazy_init) first_use(at, end, entry);
  uint8_t kind = kind_at(at);
  bool batch = kind == BATCH, async = c_.op[at] & ASYNC;
  bool plain = !batch && forced_.empty() && poison_.empty() && dropped_.empty() && !c_.has_probe &&
               !rules_.pre_barrier && !rules_.empty_alone[kind] &&
               !(rules_.barrier_last && kind == BARRIER) &&
               (is_p2p(kind) || rules_.degree[kind] == Degree::all);
  if (plain) {
    quick(at, entry, lane);
  } else if (batch && !device()) {
    one_by_one(at, end, entry);
  } else if (batch && by_communicator(at, end, entry, lane)) {
  } else {
    now_.clear();
    if (!batch) collect(at, false);
    for (uint64_t member = at + 1; batch && member < end; ++member) collect(member, true);
    // A batch may hold point-to-point, which waits for its turn in the queue.
    if (batch) now_.direct = false;
    launch(entry, lane, async, batch ? Why::queue : why_of(kind));
  }
  if (kind == BARRIER && !async && device() && host_lane_allowed_) block_barrier(entry);
  if (rules_.barrier_last && async && is_collective(kind)) rounds_.push_back({c_.arg[at], entry});
}

// A group call is one kernel per communicator. Where one queue holds them they start in the order of
// first use, so that order has to be the same on all ranks; each goes to the queue of its own where
// there is one (ADR 0030).
bool Lowerer::by_communicator(uint64_t at, uint64_t end, uint32_t entry, size_t lane) {
  std::vector<uint32_t> slots;
  for (uint64_t member = at + 1; member < end; ++member) {
    uint32_t slot = slot_of(member);
    if (std::find(slots.begin(), slots.end(), slot) == slots.end()) slots.push_back(slot);
  }
  if (slots.size() < 2) return false;
  std::vector<uint32_t> all;
  bool async = c_.op[at] & ASYNC;
  size_t kept = pending_.size();
  done_[entry] = 0;
  for (uint32_t slot : slots) {
    now_.clear();
    for (uint64_t member = at + 1; member < end; ++member)
      if (slot_of(member) == slot) collect(member, true);
    now_.direct = false;
    if (parallel()) launch_parallel(entry, lane, true, Why::queue);
    else emit_launch(0, entry, true, Why::queue), set_await(entry, now_.await);
    each_await(entry, [&](uint32_t match) { all.push_back(match); });
  }
  pending_.resize(kept);
  set_await(entry, all);
  if (!parallel()) {
    if (!solid_.empty()) note_fifo(entry, async);
  } else if (async) {
    pending_.push_back(entry);
  } else {  // the stream goes on behind all of them
    for (uint32_t match : all) put(lane, match, AWAIT, entry, Why::queue);
    done_[entry] = static_cast<uint32_t>(lane + 1);
  }
  return true;
}

// The place of the rank in the group that a member of a batch uses.
uint32_t Lowerer::slot_of(uint64_t at) const {
  uint8_t kind = kind_at(at);
  uint32_t arg = c_.arg[at];
  if (is_collective(kind)) return arg;
  return is_send(kind) ? c_.chan_src_slot[arg] : c_.chan_dst_slot[arg];
}

// Without a device a batch is a loop of single calls (gloo and MPI do not fuse).
void Lowerer::one_by_one(uint64_t at, uint64_t end, uint32_t entry) {
  bool async = c_.op[at] & ASYNC;
  uint64_t begin = out_.code.size();
  size_t kept = pending_.size();
  std::vector<uint32_t> all;
  await_[entry] = NONE;
  for (uint64_t member = at + 1; member < end; ++member) {
    now_.clear();
    collect(member, true);
    launch(entry, 0, true, why_of(kind_at(member)));
    each_await(entry, [&](uint32_t match) { all.push_back(match); });
  }
  pending_.resize(kept);
  done_[entry] = 0;
  set_await(entry, all);
  if (worker()) note_fifo(entry, async);
  else if (!async) await_entry(0, entry, entry, Why::queue);
  else if (has_exit_) keep_for_exit(entry, begin);
}

// The common case, one match: no lists, no edges.
void Lowerer::quick(uint64_t at, uint32_t entry, size_t lane) {
  uint8_t kind = kind_at(at);
  bool async = c_.op[at] & ASYNC, pair = is_p2p(kind);
  uint32_t match = pair ? layout_.next_pair(c_.arg[at], is_send(kind), false)
                        : layout_.next_round(c_.arg[at]);
  check_.add(match, at);
  if (!pair) check_.count(match, layout_.messages(c_.arg[at]));
  bool eager = pair && is_eager(kind, c_.sig[at]);
  if (parallel()) {
    now_.clear();
    now_.arrive.push_back(match);
    if (!eager) now_.await.push_back(match);
    now_.queues.push_back(queue_of(at, false));
    now_.direct = !pair;
    now_.chained = !pair && !layout_.is_first(c_.arg[at], match);
    return launch_parallel(entry, lane, async, why_of(kind));
  }
  bool single = device() || worker();
  uint32_t flags = eager || (async && !single) ? ARRIVE : ARRIVE | AWAIT;
  await_[entry] = eager ? NONE : match;
  done_[entry] = 0;
  if (flags == (ARRIVE | AWAIT))
    put_round(0, match, !pair && !layout_.is_first(c_.arg[at], match), entry, why_of(kind));
  else
    put(0, match, flags, entry, why_of(kind));
  if (has_exit_ && async) keep_for_exit(entry, out_.code.size() - 1);
  if (!solid_.empty()) note_fifo(entry, async);
}

// What may leave early: a size that the plan does not say may be a small one.
bool Lowerer::is_small(uint32_t sig) const {
  return rules_.eager &&
         (sigs_.bytes[sig] <= rules_.eager_bytes || sigs_.bytes[sig] == UNKNOWN_SIZE);
}

bool Lowerer::is_eager(uint8_t kind, uint32_t sig) const {
  if (rules_.send_modes && kind == BSEND) return true;
  if (rules_.send_modes && kind == SSEND) return false;
  return kind != RECV && is_small(sig);
}

void Lowerer::collect(uint64_t at, bool batched) {
  if (parallel()) {
    Queue* queue = queue_of(at, batched);
    auto found = std::find(now_.queues.begin(), now_.queues.end(), queue);
    if (found == now_.queues.end()) now_.queues.push_back(queue);
  }
  if (is_p2p(kind_at(at))) collect_pair(at, batched);
  else collect_round(at);
}

void Lowerer::collect_pair(uint64_t at, bool batched) {
  uint8_t kind = kind_at(at);
  uint32_t channel = c_.arg[at];
  if (kind == PROBE) {
    uint32_t seen = layout_.ext({ext_type(Ext::probe), layout_.peek_pair(channel, batched), 0, 0}, 1);
    now_.await.push_back(seen);
    return;
  }
  bool send = is_send(kind);
  uint32_t match = layout_.next_pair(channel, send, batched);
  check_.add(match, at);
  if (poisoned(at) || (!dropped_.empty() && dropped_[at - begin_] && layout_.meets(match))) {
    note_poison(at, match);
    return;
  }
  if (send && layout_.probed(channel))
    now_.arrive.push_back(layout_.ext({ext_type(Ext::probe), match, 0, 0}, 1));
  now_.arrive.push_back(match);
  if (!(send && is_eager(kind, c_.sig[at]))) now_.await.push_back(match);
}

// A handle that died before its match: a dropped send is never delivered, a dropped receive
// swallows its message; both stall what comes later (measured on gloo).
void Lowerer::note_poison(uint64_t at, uint32_t match) {
  uint32_t channel = c_.arg[at];
  bool send = is_send(kind_at(at)), first = !dropped_.empty() && dropped_[at - begin_];
  if (first && !send) now_.arrive.push_back(match);
  uint32_t peer = send ? c_.chan_dst[channel] : c_.chan_src[channel];
  poison_.push_back({c_.chan_ginst[channel], peer, send ? c_.chan_tag[channel] : NONE, send});
  uint32_t dead = layout_.ext({ext_type(Ext::dead), rank_, 0, 0}, NONE);
  if (!first) now_.await.push_back(dead);
}

bool Lowerer::poisoned(uint64_t at) const {
  uint8_t kind = kind_at(at);
  for (const Key& key : poison_) {
    if (is_collective(kind)) {
      if (!key.d && c_.slot_ginst[c_.arg[at]] == key.a) return true;
      continue;
    }
    uint32_t channel = c_.arg[at];
    bool send = is_send(kind);
    uint32_t peer = send ? c_.chan_dst[channel] : c_.chan_src[channel];
    if (key.a != c_.chan_ginst[channel] || key.b != peer) continue;
    // A receive that swallowed its message stalls both directions of the pair (measured on gloo).
    if (!key.d || (send && key.c == c_.chan_tag[channel])) return true;
  }
  return false;
}

void Lowerer::collect_round(uint64_t at) {
  uint8_t kind = kind_at(at);
  uint32_t slot = c_.arg[at], sig = c_.sig[at], round = layout_.next_round(slot);
  check_.add(round, at);
  check_.count(round, layout_.messages(slot));
  if (!poison_.empty() && poisoned(at)) {
    now_.await.push_back(layout_.ext({ext_type(Ext::dead), rank_, 0, 0}, NONE));
    return;
  }
  if (is_forced(round)) return collect_forced(slot, round, kind, sig);
  if (rules_.empty_alone[kind] && sigs_.bytes[sig] == 0) {
    out_of_order_ = true;
    return;
  }
  if (rules_.degree[kind] != Degree::all && !rules_.pre_barrier)
    return collect_edges(slot, round, kind, sig);
  if (rules_.barrier_last && kind == BARRIER)
    for (auto [other, entry] : rounds_)
      if (other == slot && !done_[entry])
        each_await(entry, [&](uint32_t match) { now_.before.push_back(match); });
  out_of_order_ |= !now_.before.empty();
  now_.arrive.push_back(round);
  now_.await.push_back(round);
  now_.direct = true;
  now_.chained = !layout_.is_first(slot, round);
}

// A round whose members disagree, as if they did not: whatever a rank issues there counts as its
// part, and each waits for those that its own call needs.
void Lowerer::collect_forced(uint32_t slot, uint32_t round, uint8_t kind, uint32_t sig) {
  uint32_t ginst = c_.slot_ginst[slot], place = slot - c_.ginst_off[ginst];
  uint32_t size = c_.ginst_off[ginst + 1] - c_.ginst_off[ginst];
  auto presence = [&](uint32_t of) {
    return layout_.ext({ext_type(Ext::edge, 0xFFFF), round, of, of}, 1);
  };
  now_.arrive.push_back(round);
  now_.arrive.push_back(presence(place));
  if (rules_.empty_alone[kind] && sigs_.bytes[sig] == 0) return;
  Degree degree = rules_.pre_barrier ? Degree::all : rules_.degree[kind];
  uint32_t root = sigs_.root[sig] == NONE ? 0 : place_of(ginst, sigs_.root[sig]);
  bool inward = kind == GATHER || kind == REDUCE, sends = (place == root) != inward;
  bool eager = is_small(sig);
  if (degree == Degree::flat && sends && eager) return;
  if (degree == Degree::all || (degree == Degree::flat && place == root)) {
    now_.await.push_back(round);
  } else if (degree == Degree::flat) {
    now_.await.push_back(presence(root));
  } else {
    uint32_t own = (place + size - root) % size, high = 1;
    while (high <= own) high <<= 1;
    if (own) now_.await.push_back(presence(((own ^ (high >> 1)) + root) % size));
    for (uint32_t bit = high; own + bit < size; bit <<= 1)
      now_.await.push_back(presence((own + bit + root) % size));
  }
}

uint32_t Lowerer::place_of(uint32_t ginst, uint32_t rank) const {
  uint32_t begin = c_.ginst_off[ginst], size = c_.ginst_off[ginst + 1] - begin;
  if (rank < size && c_.slot_rank[begin + rank] == rank) return rank;
  auto first = c_.slot_rank.begin() + begin;
  return static_cast<uint32_t>(std::find(first, first + size, rank) - first);
}

uint32_t Lowerer::edge(uint32_t round, uint8_t kind, uint32_t src, uint32_t dst) {
  uint32_t detail = rules_.kind_slots ? rules_.slot_class[kind] : 0;
  return layout_.ext({ext_type(Ext::edge, detail), round, src, dst}, 2);
}

void Lowerer::collect_edges(uint32_t slot, uint32_t round, uint8_t kind, uint32_t sig) {
  uint32_t ginst = c_.slot_ginst[slot], place = slot - c_.ginst_off[ginst];
  uint32_t size = c_.ginst_off[ginst + 1] - c_.ginst_off[ginst];
  uint32_t root = place_of(ginst, sigs_.root[sig] == NONE ? c_.slot_rank[c_.ginst_off[ginst]]
                                                          : sigs_.root[sig]);
  bool eager = is_small(sig);
  if (rules_.degree[kind] == Degree::tree) collect_tree(round, kind, place, root, size, eager);
  else collect_flat(round, kind, place, root, size, eager);
}

void Lowerer::collect_flat(uint32_t round, uint8_t kind, uint32_t place, uint32_t root,
                           uint32_t size, bool eager) {
  bool inward = kind == GATHER || kind == REDUCE;
  auto meet = [&](uint32_t src, uint32_t dst, bool sends) {
    uint32_t match = edge(round, kind, src, dst);
    now_.arrive.push_back(match);
    if (!(sends && eager)) now_.await.push_back(match);
  };
  if (place != root) return meet(inward ? place : root, inward ? root : place, inward);
  for (uint32_t other = 0; other < size; ++other)
    if (other != root) meet(inward ? other : root, inward ? root : other, !inward);
}

// Binomial tree of gloo: the parent of a place is the place with its highest bit cleared.
void Lowerer::collect_tree(uint32_t round, uint8_t kind, uint32_t place, uint32_t root,
                           uint32_t size, bool eager) {
  uint32_t own = (place + size - root) % size, high = 1;
  while (high <= own) high <<= 1;
  auto real = [&](uint32_t relative) { return (relative + root) % size; };
  if (own) now_.pre = edge(round, kind, real(own ^ (high >> 1)), place);
  for (uint32_t bit = high; own + bit < size; bit <<= 1) {
    uint32_t match = edge(round, kind, place, real(own + bit));
    now_.arrive.push_back(match);
    if (!eager) now_.await.push_back(match);
  }
}

Queue* Lowerer::queue_of(uint64_t at, bool batched) {
  uint8_t kind = kind_at(at);
  uint32_t arg = c_.arg[at];
  if (is_collective(kind)) return &queues_[arg];
  if (!rules_.pair_comm || batched) {
    uint32_t slot = is_send(kind) ? c_.chan_src_slot[arg] : c_.chan_dst_slot[arg];
    return &queues_[slot];
  }
  uint32_t peer = c_.chan_src[arg] == rank_ ? c_.chan_dst[arg] : c_.chan_src[arg];
  uint32_t name = pair_name_.intern({c_.chan_ginst[arg], rank_, peer, 0});
  while (pair_queue_.size() <= name) pair_queue_.emplace_back();
  return &pair_queue_[name];
}

}  // namespace planguard
