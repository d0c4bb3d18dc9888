// Bytes -> compiled plans and rules, as the door lets them pass: what the fuzzer draws.
#pragma once
#include <algorithm>
#include <set>
#include <tuple>

#include "plan.h"

namespace planguard {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  // A number below `bound`; zero when the input is used up.
  uint32_t below(uint32_t bound) { return empty() || bound < 2 ? 0 : *at_++ % bound; }
  bool coin(uint32_t in) { return below(in) == 1; }

 private:
  const uint8_t *at_, *end_;
};

using Words = std::vector<uint32_t>;

// One program as a tree, so that blocks can be written in either order.
struct Item {
  Words own;                          // words of the action, members of a batch included
  bool is_block = false;
  uint32_t times = 0;                 // of a loop
  std::vector<Item> body;
};

constexpr uint32_t SLOTS = 24, EVENTS = 2, STREAMS = 2;

class Maker {
 public:
  explicit Maker(Bytes& bytes) : bytes_(bytes), plan_(1) {}

  // Fills `programs` instead of the plan's own, which depend on the order of blocks.
  Plan make(std::vector<std::vector<Item>>& programs) {
    uint32_t world = 1;
    for (uint32_t dims = bytes_.below(4); dims-- > 0;) {
      sizes_.push_back(1 + bytes_.below(3));
      world *= sizes_.back();
    }
    if (sizes_.empty()) world = 1 + bytes_.below(5);
    plan_ = Plan(world);
    plan_.mesh_sizes = sizes_;
    if (!sizes_.empty())
      for (uint32_t count = bytes_.below(4); count-- > 0;)
        plan_.family(1 + bytes_.below((1u << sizes_.size()) - 1));
    if (bytes_.coin(4)) add_explicit(world);
    streams_ = bytes_.coin(4);
    labels_ = bytes_.coin(4);
    if (labels_) for (uint32_t turn = 0; turn < 64; ++turn) plan_.label_pool.push_back(1 + turn % 5);
    uint32_t count = 1 + bytes_.below(3), dim = bytes_.below(3);
    for (uint32_t rank = 0; rank < world; ++rank)
      plan_.rank_program.push_back(place(rank, dim) % count);
    for (uint32_t index = 0; index < count; ++index) {
      slot_ = 0;
      bound_.clear();
      programs.push_back(items(0, false));
      plan_.n_slots.push_back(SLOTS);
    }
    return plan_;
  }

 private:
  uint32_t place(uint32_t rank, uint32_t dim) const {
    uint32_t stride = 1;
    for (size_t later = dim + 1; later < sizes_.size(); ++later) stride *= sizes_[later];
    return dim < sizes_.size() ? rank / stride % sizes_[dim] : rank;
  }

  void add_explicit(uint32_t world) {
    std::set<uint32_t> seen;
    uint32_t count = 1 + bytes_.below(world);
    plan_.group_kind.push_back(0);
    plan_.group_mask.push_back(0);
    for (uint32_t index = 0; index < count; ++index) {
      uint32_t rank = bytes_.below(world);
      if (seen.insert(rank).second) plan_.group_members.push_back(rank);
    }
    plan_.group_off.push_back(static_cast<uint32_t>(plan_.group_members.size()));
    // A family after an explicit group starts where the members end.
  }

  std::vector<Item> items(int depth, bool in_block) {
    std::vector<Item> out;
    std::set<uint32_t> before = bound_;
    for (uint32_t count = bytes_.below(in_block ? 5 : 9) + 1; count-- > 0 && !bytes_.empty();) {
      uint32_t what = bytes_.below(24);
      if (what < 3 && !in_block && depth < 2) {
        Item block;
        block.is_block = true;
        block.body = items(depth + 1, true);
        out.push_back(std::move(block));
      } else if (what < 5 && !in_block && depth < 2) {
        Item loop;
        loop.times = 1 + bytes_.below(3);
        loop.body = items(depth + 1, false);
        out.push_back(std::move(loop));
      } else {
        // In a block nothing refers to what the block itself binds: the order would decide.
        Item one;
        one.own = action(what, in_block ? before : bound_);
        if (!one.own.empty()) out.push_back(std::move(one));
      }
    }
    return out;
  }

  uint32_t group() { return bytes_.below(static_cast<uint32_t>(plan_.group_kind.size())); }
  uint32_t stream() { return streams_ ? bytes_.below(STREAMS) : 0; }
  uint32_t handle() {
    if (slot_ >= SLOTS) return 0;
    bound_.insert(slot_);
    return ++slot_;
  }
  uint32_t label() {
    if (!labels_) return 0;
    uint32_t kind = bytes_.below(4);
    return kind == 3 ? 0x80000000u | bytes_.below(8) : kind;
  }
  uint32_t sig(uint8_t kind) {
    static const uint64_t sizes[4] = {4, UNKNOWN_SIZE, 0, 8};
    bool rooted = kind == BROADCAST || kind == REDUCE || kind == GATHER || kind == SCATTER;
    uint32_t index = plan_.sig(kind, sizes[bytes_.below(4)], rooted ? bytes_.below(plan_.world_size) : NONE);
    if (bytes_.coin(6)) plan_.sig_dtype[index] = static_cast<uint8_t>(bytes_.below(3));
    if (bytes_.coin(6)) plan_.sig_redop[index] = static_cast<uint8_t>(bytes_.below(3));
    if (bytes_.coin(8)) plan_.sig_layout[index] = bytes_.below(2);
    if (kind) plan_.sig_splits[index] = bytes_.below(3);
    return index;
  }
  uint32_t p2p_ref(bool send) {
    int32_t type = send ? 1 : 2, tag = bytes_.coin(4) ? 1 : 0;
    int32_t in = static_cast<int32_t>(group());
    if (sizes_.empty() || bytes_.coin(6))
      return plan_.ref(type, in, 0, static_cast<int32_t>(bytes_.below(plan_.world_size)), 0, tag);
    int32_t dim = static_cast<int32_t>(bytes_.below(static_cast<uint32_t>(sizes_.size())));
    int32_t delta = (bytes_.coin(2) ? 1 : -1) * (bytes_.coin(6) ? 2 : 1);
    return plan_.ref(type, in, 1, dim, delta * 2 + (bytes_.coin(4) ? 0 : 1), tag);
  }
  // `count` handles in the list of a wait or a computation.
  uint32_t list(const std::set<uint32_t>& known) {
    uint32_t at = static_cast<uint32_t>(plan_.aux.size());
    plan_.aux.push_back(0);
    for (uint32_t slot : known)
      if (bytes_.coin(2)) {
        plan_.aux.push_back(slot);
        ++plan_.aux[at];
      }
    return at;
  }
  static Words word(uint32_t op, uint32_t a, uint32_t b = 0, uint32_t sig = 0, uint32_t label = 0,
                    uint32_t stream = 0) {
    return {op, a, b, sig, label, stream};
  }

  Words message(uint32_t flags, bool may_bind) {
    static const uint8_t kinds[5] = {SEND, RECV, RECV, SSEND, BSEND};
    uint8_t kind = kinds[bytes_.below(5)];
    uint32_t bound = may_bind && bytes_.coin(2) ? handle() : 0;
    return word(kind | flags | (bound ? ASYNC : 0), p2p_ref(kind != RECV), bound, sig(kind), label(), stream());
  }
  Words collective() {
    uint8_t kind = static_cast<uint8_t>(ALL_REDUCE + bytes_.below(17));
    uint32_t bound = bytes_.coin(3) ? handle() : 0;
    uint32_t ref = plan_.ref(0, static_cast<int32_t>(group()), 0, 0, 0, 0);
    return word(kind | (bound ? ASYNC : 0), ref, bound, sig(kind), label(), stream());
  }
  Words batch() {
    uint32_t count = 1 + bytes_.below(3), bound = bytes_.coin(2) ? handle() : 0;
    Words out = word(BATCH | (bound ? ASYNC : 0), count, bound, 0, 0, stream());
    for (uint32_t member = 0; member < count; ++member) {
      Words one = message(MEMBER | (bound ? ASYNC : 0), false);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  Words on_handle(uint8_t kind, const std::set<uint32_t>& known) {
    if (known.empty()) return {};
    auto which = known.begin();
    std::advance(which, bytes_.below(static_cast<uint32_t>(known.size())));
    return word(kind, *which, 0, 0, 0, stream());
  }

  Words action(uint32_t what, const std::set<uint32_t>& known) {
    if (what < 11) return collective();
    if (what < 15) return message(0, true);
    switch (what) {
      case 15:
      case 16: return on_handle(WAIT, known);
      case 17: return known.empty() ? Words() : word(WAIT_MANY, list(known), 0, 0, 0, stream());
      case 18: return word(COMPUTE, bytes_.coin(3) ? NONE : list(known), 0, 0, 0, stream());
      case 19: return batch();
      case 20: return on_handle(bytes_.coin(2) ? DROP : TEST, known);
      case 21: return word(HOST_SYNC, streams_ ? bytes_.below(STREAMS + 1) : 0, 0, 0, 0, stream());
      case 22: return word(bytes_.coin(2) ? EVENT_RECORD : EVENT_WAIT, bytes_.below(EVENTS), 0, 0, 0, stream());
      default: break;
    }
    switch (bytes_.below(6)) {
      case 0: return word(EXIT, 0);
      case 1: return word(INIT, plan_.ref(0, static_cast<int32_t>(group()), 0, 0, 0, 0));
      case 2: return word(NEW_GROUP, group());
      case 3: return word(PROBE, p2p_ref(false), 0, sig(PROBE), 0, stream());
      default: return word(NOP, 0);
    }
  }

  Bytes& bytes_;
  Plan plan_;
  std::vector<uint32_t> sizes_;
  std::set<uint32_t> bound_;
  uint32_t slot_ = 0;
  bool streams_ = false, labels_ = false;
};

inline void write(const std::vector<Item>& items, bool reversed, Words& code) {
  for (size_t place = 0; place < items.size(); ++place) {
    const Item& item = items[place];
    if (item.own.size()) {
      code.insert(code.end(), item.own.begin(), item.own.end());
      continue;
    }
    Words body;
    std::vector<Item> inner = item.body;
    if (item.is_block && reversed) std::reverse(inner.begin(), inner.end());
    write(inner, reversed, body);
    uint32_t count = static_cast<uint32_t>(body.size() / 6);
    if (item.is_block) code.insert(code.end(), {UNORDERED_BEGIN, 0, 0, 0, 0, 0});
    else code.insert(code.end(), {REPEAT, item.times, count, 0, 0, 0});
    code.insert(code.end(), body.begin(), body.end());
    if (item.is_block) code.insert(code.end(), {UNORDERED_END, 0, 0, 0, 0, 0});
  }
}

inline Plan written(const Plan& plan, const std::vector<std::vector<Item>>& programs, bool reversed) {
  Plan out = plan;
  for (const auto& program : programs) {
    out.programs.emplace_back();
    write(program, reversed, out.programs.back());
  }
  return out;
}

// The same plan with a program of its own for every rank.
inline Plan unshared(const Plan& plan) {
  Plan out = plan;
  out.programs.clear();
  out.n_slots.clear();
  for (uint32_t rank = 0; rank < plan.world_size; ++rank) {
    out.programs.push_back(plan.programs[plan.rank_program[rank]]);
    out.n_slots.push_back(SLOTS);
    out.rank_program[rank] = rank;
  }
  // A program that no rank runs still says which features the plan has.
  for (const auto& program : plan.programs) {
    out.programs.push_back(program);
    out.n_slots.push_back(SLOTS);
  }
  return out;
}

inline Rules any_rules(Bytes& bytes) {
  if (bytes.coin(2)) return gloo();
  Rules rules = rules_of(static_cast<Family>(bytes.below(3)));
  rules.single_queue = bytes.coin(2);
  rules.use_tags = !bytes.coin(2);
  rules.pair_comm = bytes.coin(3) && rules.family == Family::device;
  rules.lazy_init = bytes.coin(3);
  rules.kind_slots = bytes.coin(2);
  rules.pre_barrier = bytes.coin(3);
  rules.barrier_last = bytes.coin(3);
  rules.counts_messages = bytes.coin(3);
  rules.sync_is_a_kind = bytes.coin(3);
  rules.send_modes = bytes.coin(3);
  rules.eager = bytes.coin(2);
  rules.poison_drops = bytes.coin(3);
  rules.exit_withdraws = bytes.coin(3);
  rules.new_group = static_cast<NewGroup>(bytes.below(3));
  rules.eager_bytes = 4;
  for (uint8_t kind : {BROADCAST, REDUCE, GATHER, SCATTER})
    rules.degree[kind] = static_cast<Degree>(bytes.below(3));
  for (uint8_t kind : {ALL_REDUCE, ALL_GATHER}) rules.empty_alone[kind] = bytes.coin(4);
  return rules;
}
}  // namespace planguard
