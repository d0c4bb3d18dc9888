// Columns -> lanes, rank by rank. docs/adr/0017 gives the argument for every shortcut taken here.
#include <algorithm>

#include "lowerer.h"

namespace planguard {

Lanes Lowerer::run() {
  if (out_.overflow) return std::move(out_);
  prepare();
  for (rank_ = 0; rank_ < c_.world_size && !out_.overflow; ++rank_) {
    if (repeats_ && repeat_rank()) continue;
    size_t matches = out_.need.size();
    lower_rank();
    bool plain = sinks_.size() == 1 && matches == out_.need.size() && !ended_ && !out_of_order_;
    if (repeats_) recipes_.learn(rank_, plain);
  }
  if (must_unchain()) return Lanes();
  if (rules_.kind_slots)
    for (uint32_t match : out_.broken)
      if (!is_forced(match)) out_.need[match] = NONE;
  out_.lane_off.push_back(out_.code.size());
  withdraw();
  order_lanes();
  return std::move(out_);
}

void Lowerer::prepare() {
  check_.start();
  if (options_.forced.size) {
    forced_.assign(out_.ext_base, 0);
    for (size_t index = 0; index < options_.forced.size; ++index)
      if (options_.forced[index] < out_.ext_base) forced_[options_.forced[index]] = 1;
  }
  uint64_t longest = 0;
  for (uint32_t rank = 0; rank < c_.world_size; ++rank)
    longest = std::max(longest, c_.rank_off[rank + 1] - c_.rank_off[rank]);
  await_.assign(longest, NONE);
  done_.assign(longest, 0);
  if (worker()) code_end_.assign(longest, 0);
  if (parallel()) queues_.resize(c_.slot_rank.size());
  inited_.assign(c_.slot_rank.size(), 0);
  size_t words = c_.op.size() + c_.op.size() / 16 + 64;
  out_.code.reserve(words);
  if (options_.origins) {
    out_.origin.reserve(words);
    out_.why.reserve(words);
  }
  bool blocks = rules_.lazy_init || c_.has_stream ||
                (rules_.new_group == NewGroup::world && c_.has_new_group);
  bool has_init = false, has_exit = false;
  for (size_t at = 0; at < c_.op.size(); ++at) {
    has_init |= kind_at(at) == INIT;
    has_exit |= kind_at(at) == EXIT;
  }
  blocks = blocks || has_init;
  has_exit_ = rules_.exit_withdraws && has_exit && rules_.family == Family::host;
  if (has_exit_) arrived_at_.assign(longest, {0, 0});
  host_lane_allowed_ = (blocks || options_.threads) && rules_.family != Family::host;
  chains_ = chains_ && !options_.origins && !options_.forced.size && !worker() && !has_exit_ &&
            !(rules_.poison_drops && c_.has_drop);
  repeats_ = !options_.forced.size && !rules_.pair_comm && !c_.has_new_group &&
             !c_.has_probe && !(rules_.poison_drops && c_.has_drop) && !c_.templates.empty() &&
             !(rules_.counts_messages && !c_.chan_ginst.empty());
  if (repeats_) recipes_.start();
  if (worker() || tracks_streams()) solid_.assign(longest, NONE);
}

size_t Lowerer::add_lane(LaneKind kind) {
  size_t lane = sinks_.size();
  if (scratch_.size() < lane) scratch_.emplace_back();
  sinks_.emplace_back();
  // The pool may have moved: refresh every sink that points into it.
  for (size_t index = 1; index <= lane; ++index) {
    Scratch& own = scratch_[index - 1];
    sinks_[index] = {&own.code, &own.origin, &own.why};
  }
  Scratch& fresh = scratch_[lane - 1];
  fresh.code.clear();
  fresh.origin.clear();
  fresh.why.clear();
  fresh.kind = kind;
  if (tail_.size() <= lane) tail_.resize(lane + 1);
  tail_[lane] = NONE;
  return lane;
}

void Lowerer::lower_rank() {
  begin_ = c_.rank_off[rank_];
  uint64_t end = c_.rank_off[rank_ + 1];
  sinks_.assign(1, {&out_.code, &out_.origin, &out_.why});
  stream_lane_.assign(1, 0);
  multi_.clear();
  pending_.clear();
  poison_.clear();
  rounds_.clear();
  event_token_.clear();
  front_.clear();
  host_ = 0;
  gate_ = last_block_ = last_solid_ = NONE;
  created_ = entered_ = 0;
  ended_ = false;
  if (rules_.poison_drops && c_.has_drop) {
    dropped_.assign(end - begin_, 0);
    for (uint64_t at = begin_; at < end; ++at)
      if (kind_at(at) == DROP) mark_dropped(c_.arg[at]);
  }
  out_.lane_off.push_back(out_.code.size());
  out_.lane_rank.push_back(rank_);
  out_.lane_kind.push_back(PROGRAM);
  for (uint64_t at = begin_; at < end && !ended_;) at = step(at);
  finish();
}

// Lower a rank like another one of its program, where possible.
bool Lowerer::repeat_rank() {
  uint64_t begin = out_.code.size();
  if (!recipes_.emit(rank_, check_)) return false;
  out_.lane_off.push_back(begin);
  out_.lane_rank.push_back(rank_);
  out_.lane_kind.push_back(PROGRAM);
  if (!device()) out_.lane_soft.push_back(begin + recipes_.soft(rank_));
  return true;
}

// Lanes that send to each other start together: any order ends in the same state, but a pipeline
// that runs as a whole stays in the cache, and all first stages of a large plan do not.
void Lowerer::order_lanes() {
  uint32_t world = c_.world_size;
  std::vector<uint32_t> parent(world), size(world, 0), place(world);
  for (uint32_t rank = 0; rank < world; ++rank) parent[rank] = rank;
  auto root = [&](uint32_t rank) {
    while (parent[rank] != rank) rank = parent[rank] = parent[parent[rank]];
    return rank;
  };
  for (size_t channel = 0; channel < c_.chan_src.size(); ++channel) {
    if (c_.chan_src[channel] == NONE || c_.chan_dst[channel] == NONE) continue;
    uint32_t left = root(c_.chan_src[channel]), right = root(c_.chan_dst[channel]);
    parent[std::max(left, right)] = std::min(left, right);
  }
  uint32_t lanes = static_cast<uint32_t>(out_.lane_rank.size()), components = 0, total = 0;
  for (uint32_t rank = 0; rank < world; ++rank) components += root(rank) == rank;
  if (components == 1 || components == world) return;
  for (uint32_t rank : out_.lane_rank) ++size[root(rank)];
  for (uint32_t rank = 0; rank < world; ++rank) {
    place[rank] = total;
    total += size[rank];
  }
  out_.order.resize(lanes);
  for (uint32_t lane = 0; lane < lanes; ++lane)
    out_.order[place[root(out_.lane_rank[lane])]++] = lane;
}

void Lowerer::finish() {
  // A queue that never drains is stuck: the last instructions wait for all that is pending.
  if (parallel())
    for (uint32_t entry : pending_)
      if (!done_[entry]) await_entry(0, entry, entry, Why::queue);
  // ProcessGroupMPI: the worker may stay stuck at what its host never waits for.
  if (worker())
    out_.lane_soft.push_back(last_block_ == NONE ? out_.lane_off.back() : code_end_[last_block_]);
  else if (!device())
    out_.lane_soft.push_back(out_.code.size());
  for (size_t lane = 1; lane < sinks_.size(); ++lane) {
    Scratch& own = scratch_[lane - 1];
    out_.lane_off.push_back(out_.code.size());
    out_.lane_rank.push_back(rank_);
    out_.lane_kind.push_back(own.kind);
    out_.code.insert(out_.code.end(), own.code.begin(), own.code.end());
    out_.origin.insert(out_.origin.end(), own.origin.begin(), own.origin.end());
    out_.why.insert(out_.why.end(), own.why.begin(), own.why.end());
    // A broadcast that forwards by itself and that nobody waits for is not a stuck host.
    if (!device())
      out_.lane_soft.push_back(worker() ? out_.code.size() : out_.lane_off.back());
  }
}

// The handle of a batch is the handle of its members.
void Lowerer::mark_dropped(uint32_t entry) {
  bool batch = kind_at(begin_ + entry) == BATCH;
  uint32_t last = batch ? entry + c_.arg[begin_ + entry] : entry;
  for (uint32_t member = entry; member <= last; ++member) dropped_[member] = 1;
}

size_t Lowerer::lane_of(uint64_t at) {
  if (!c_.has_stream || !parallel()) return 0;
  uint8_t stream = c_.stream[at];
  if (stream >= stream_lane_.size()) stream_lane_.resize(stream + 1, -1);
  if (stream_lane_[stream] < 0) {
    size_t lane = add_lane(PROGRAM);
    stream_lane_[stream] = static_cast<int64_t>(lane);
    if (gate_ != NONE) put(lane, gate_, AWAIT, NONE, Why::gate);
  }
  return static_cast<size_t>(stream_lane_[stream]);
}

size_t Lowerer::host_lane() {
  if (!host_) host_ = add_lane(HOST);
  return host_;
}

// Everything issued from here on waits until the host got this far.
void Lowerer::close_gate() {
  if (options_.threads) return;  // every launch waits for the host of its own thread
  gate_ = layout_.token(rank_, NONE);
  put(host_lane(), gate_, ARRIVE, NONE, Why::gate);
  for (int64_t lane : stream_lane_)
    if (lane >= 0) put(static_cast<size_t>(lane), gate_, AWAIT, NONE, Why::gate);
}

uint32_t Lowerer::pack(const std::vector<uint32_t>& matches) {
  if (matches.empty()) return NONE;
  if (matches.size() == 1) return matches[0];
  uint32_t code = static_cast<uint32_t>(multi_.size()) | MANY;
  multi_.push_back(static_cast<uint32_t>(matches.size()));
  multi_.insert(multi_.end(), matches.begin(), matches.end());
  return code;
}

uint64_t Lowerer::step(uint64_t at) {
  uint8_t kind = kind_at(at);
  uint32_t entry = static_cast<uint32_t>(at - begin_);
  if (is_p2p(kind) || is_collective(kind)) {
    communicate(at, at + 1);
    return at + 1;
  }
  await_[entry] = NONE;
  done_[entry] = 0;
  if (!solid_.empty()) solid_[entry] = NONE;
  switch (kind) {
    case BATCH:
      communicate(at, at + 1 + c_.arg[at]);
      return at + 1 + c_.arg[at];
    case WAIT:
      wait_handle(lane_of(at), c_.arg[at], entry);
      break;
    case WAIT_MANY:
      wait_list(at, entry);
      break;
    case COMPUTE:
      depend(at, entry);
      break;
    case HOST_SYNC:
      host_sync(at, entry);
      break;
    case EVENT_RECORD:
      record_event(at, entry);
      break;
    case EVENT_WAIT:
      wait_event(at, entry);
      break;
    case INIT:
      init_comm(c_.arg[at], entry);
      break;
    case NEW_GROUP:
      new_group(at, entry);
      break;
    case EXIT:
      leave();
      break;
    default:  // test, drop, destroy and copies move no progress
      break;
  }
  return at + 1;
}

Lanes lower(const Columns& columns, const Signatures& sigs, const Rules& rules,
            const LowerOptions& options) {
  {
    Lowerer chained(columns, sigs, rules, options, true);
    Lanes lanes = chained.run();
    if (!chained.must_unchain()) return lanes;
  }
  return Lowerer(columns, sigs, rules, options, false).run();
}

}  // namespace planguard
