// What blocks or orders the host: waits, dependencies, synchronization, creation, exit.
#include "lowerer.h"

namespace planguard {

void Lowerer::wait(size_t lane, uint32_t target, uint32_t entry, Why why) {
  if (worker()) {
    block_host(target);
  } else if (!rules_.single_queue) {
    await_entry(lane, target, entry, why);
  } else if (tracks_streams()) {
    advance(front(begin_ + entry), solid_[target]);
  }
}

// In one queue an earlier launch is over when a later one is: a stream stands at the last launch
// that it comes after.
uint32_t& Lowerer::front(uint64_t at) {
  uint8_t stream = c_.stream[at];
  if (stream >= front_.size()) front_.resize(stream + 1, NONE);
  return front_[stream];
}

// Waiting for the barrier of the nccl family blocks the host as calling it does.
void Lowerer::wait_handle(size_t lane, uint32_t target, uint32_t entry) {
  wait(lane, target, entry, Why::wait_handle);
  if (!host_lane_allowed_ || !device() || kind_at(begin_ + target) != BARRIER) return;
  // Of several threads the one that waits stands, not the one that called the barrier.
  if (!options_.threads) return block_barrier(target);
  each_await(target, [&](uint32_t m) { put(host_lane(), m, AWAIT, entry, Why::wait_handle); });
}

void Lowerer::wait_list(uint64_t at, uint32_t entry) {
  uint32_t offset = c_.arg[at];
  for (uint32_t index = 0; index < c_.aux[offset]; ++index)
    wait_handle(lane_of(at), c_.aux[offset + 1 + index], entry);
}

void Lowerer::depend(uint64_t at, uint32_t entry) {
  size_t lane = lane_of(at);
  uint32_t offset = c_.arg[at];
  for (uint32_t index = 0; offset != NONE && index < c_.aux[offset]; ++index) {
    uint32_t target = c_.aux[offset + 1 + index];
    // Synchronous actions of the same lane are done by now; others are an edge between lanes.
    bool async = c_.op[begin_ + target] & ASYNC, streams = parallel() || tracks_streams();
    if (async || (streams && c_.has_stream && c_.stream[begin_ + target] != c_.stream[at]))
      wait(lane, target, entry, Why::dependency);
  }
  if (tracks_streams()) solid_[entry] = front(at);
  if (!c_.has_stream || !parallel()) return;
  uint32_t token = layout_.token(rank_, entry);
  put(lane, token, ARRIVE, entry, Why::stream_edge);
  await_[entry] = token;
}

void Lowerer::host_sync(uint64_t at, uint32_t entry) {
  if (!device()) return;
  uint32_t only = c_.arg[at];  // stream + 1, 0 for all
  if (!host_lane_allowed_) {
    if (only || !parallel()) return;
    for (uint32_t pending : pending_)
      if (!done_[pending]) await_entry(0, pending, entry, Why::queue);
    pending_.clear();
    return;
  }
  if (only && rules_.single_queue) return sync_stream(only - 1, entry);
  for (size_t stream = 0; stream < stream_lane_.size(); ++stream) {
    if (stream_lane_[stream] < 0 || (only && only != stream + 1)) continue;
    uint32_t token = layout_.token(rank_, entry);
    put(static_cast<size_t>(stream_lane_[stream]), token, ARRIVE, entry, Why::stream_edge);
    put(host_lane(), token, AWAIT, entry, Why::stream_edge);
  }
  if (!only)
    for (uint32_t pending : pending_) {
      if (done_[pending] == DONE_FOR_ALL) continue;
      each_await(pending, [&](uint32_t m) { put(host_lane(), m, AWAIT, entry, Why::queue); });
      if (!options_.threads) done_[pending] = DONE_FOR_ALL;
    }
  // What one thread waited for is still queued for another one.
  if (!only && !options_.threads) pending_.clear();
  close_gate();
}

void Lowerer::sync_stream(uint32_t stream, uint32_t entry) {
  uint32_t last = stream < front_.size() ? front_[stream] : NONE;
  if (last == NONE) return;
  each_await(last, [&](uint32_t match) { put(host_lane(), match, AWAIT, entry, Why::queue); });
  close_gate();
}

void Lowerer::record_event(uint64_t at, uint32_t entry) {
  if (!parallel() && !tracks_streams()) return;
  uint32_t event = c_.arg[at];
  if (event >= event_token_.size()) event_token_.resize(event + 1, NONE);
  if (!parallel()) {
    event_token_[event] = front(at);
    return;
  }
  event_token_[event] = layout_.token(rank_, entry);
  put(lane_of(at), event_token_[event], ARRIVE, entry, Why::event);
}

void Lowerer::wait_event(uint64_t at, uint32_t entry) {
  uint32_t event = c_.arg[at];
  if (event >= event_token_.size() || event_token_[event] == NONE) return;
  if (!parallel()) return advance(front(at), event_token_[event]);
  put(lane_of(at), event_token_[event], AWAIT, entry, Why::event);
}

// The host stands at `match` until all its members do.
void Lowerer::block_on(uint32_t match, uint32_t entry, Why why) {
  if (rules_.family == Family::host) return put(0, match, ARRIVE | AWAIT, entry, why);
  size_t host = host_lane();
  if (worker() && last_block_ != NONE && solid_[last_block_] != NONE)
    each_await(solid_[last_block_],
               [&](uint32_t m) { put(host, m, AWAIT, entry, Why::wait_handle); });
  put(host, match, ARRIVE | AWAIT, entry, why);
  close_gate();
}

void Lowerer::init_comm(uint32_t slot, uint32_t entry) {
  if (inited_[slot]) return;
  inited_[slot] = 1;
  uint32_t comm = layout_.comm(slot), size = layout_.comm_size(comm);
  if (size < 2) return;
  block_on(layout_.ext({static_cast<uint32_t>(Ext::init) << 24, comm, 0, 0}, size), entry, Why::init);
}

void Lowerer::init_pair(uint64_t at, uint32_t entry) {
  uint32_t channel = c_.arg[at], src = c_.chan_src[channel], dst = c_.chan_dst[channel];
  uint32_t low = src < dst ? src : dst, high = src < dst ? dst : src;
  uint32_t ginst = c_.chan_ginst[channel], known = pair_inited_.size();
  if (pair_inited_.intern({ginst, rank_, low, high}) != known) return;
  Key key{static_cast<uint32_t>(Ext::init) << 24 | 1, ginst, low, high};
  block_on(layout_.ext(key, 2), entry, Why::init);
}

// Lazy creation: the first use of a communicator (of a pair, for unbatched point-to-point)
// blocks the host until every member is there.
void Lowerer::first_use(uint64_t at, uint64_t end, uint32_t entry) {
  bool batched = kind_at(at) == BATCH;
  for (uint64_t member = batched ? at + 1 : at; member < end; ++member) {
    uint8_t kind = kind_at(member);
    uint32_t arg = c_.arg[member];
    if (is_collective(kind)) {
      init_comm(arg, entry);
    } else if (batched) {
      init_comm(is_send(kind) ? c_.chan_src_slot[arg] : c_.chan_dst_slot[arg], entry);
    } else {
      init_pair(member, entry);
    }
  }
}

void Lowerer::new_group(uint64_t at, uint32_t entry) {
  uint32_t counter = created_++;
  uint32_t comm = layout_.create_group(rank_, c_.arg[at], counter);
  if (rules_.new_group == NewGroup::members && comm != NONE && layout_.comm_size(comm) > 1) {
    Key key{static_cast<uint32_t>(Ext::new_group) << 24, comm, 0, 0};
    block_on(layout_.ext(key, layout_.comm_size(comm)), entry, Why::init);
  } else if (rules_.new_group == NewGroup::world && c_.world_size > 1) {
    Key key{static_cast<uint32_t>(Ext::new_group) << 24 | 1, counter, 0, 0};
    block_on(layout_.ext(key, c_.world_size), entry, Why::init);
  } else if (rules_.new_group == NewGroup::entering && comm != NONE && c_.world_size > 1) {
    Key key{static_cast<uint32_t>(Ext::new_group) << 24 | 2, entered_++, 0, 0};
    block_on(layout_.ext(key, c_.world_size), entry, Why::init);
  }
}

// The rank ends here; what nobody waited for may be lost with its process.
void Lowerer::leave() {
  ended_ = true;
  if (!has_exit_) return;
  Leaving leaving;
  leaving.lane = static_cast<uint32_t>(out_.lane_rank.size() - 1);
  leaving.at = out_.code.size();
  for (uint32_t entry : pending_)
    if (!done_[entry]) leaving.arrivals.push_back(arrived_at_[entry]);
  if (!leaving.arrivals.empty()) leaving_.push_back(std::move(leaving));
}

void Lowerer::withdraw() {
  if (!leaving_.empty()) Withdrawal(out_, layout_).apply(leaving_);
}

}  // namespace planguard
