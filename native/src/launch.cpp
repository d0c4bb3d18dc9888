// Putting a launch on its lane, behind what its communicator still has in flight.
#include "lowerer.h"

namespace planguard {

void Lowerer::launch(uint32_t entry, size_t lane, bool async, Why why) {
  if (parallel()) launch_parallel(entry, lane, async, why);
  else if (device() || worker()) launch_single(entry, async, why);
  else launch_host(entry, async, why);
}

// The barrier of the nccl family blocks the host, not only a stream.
void Lowerer::block_barrier(uint32_t entry) {
  each_await(entry, [&](uint32_t match) { put(host_lane(), match, AWAIT, entry, Why::collective); });
  close_gate();
}

void Lowerer::emit_launch(size_t lane, uint32_t entry, bool await, Why why) {
  for (uint32_t match : now_.before) put(lane, match, AWAIT, entry, Why::queue);
  if (now_.pre != NONE) put(lane, now_.pre, ARRIVE | AWAIT, entry, why);
  bool same = await && now_.arrive.size() == 1 && now_.await.size() == 1 &&
              now_.arrive[0] == now_.await[0];
  if (same) return put_round(lane, now_.arrive[0], now_.chained, entry, why);
  for (uint32_t match : now_.arrive) put(lane, match, ARRIVE, entry, why);
  if (await)
    for (uint32_t match : now_.await) put(lane, match, AWAIT, entry, why);
}

// Wait blocks the host: one lane, except that an asynchronous tree broadcast forwards by itself.
void Lowerer::launch_host(uint32_t entry, bool async, Why why) {
  done_[entry] = 0;
  if (async && (now_.pre != NONE || !now_.before.empty())) return forward_alone(entry, why);
  bool barrier = rules_.pre_barrier && why == Why::collective;
  uint64_t begin = out_.code.size();
  set_await(entry, now_.await);
  emit_launch(0, entry, !async || barrier, why);
  if (barrier && has_exit_) return exchange_after_check(entry, async, why);
  if (barrier) await_[entry] = NONE;
  else if (async && has_exit_) keep_for_exit(entry, begin);
}

// All members passed the check, but one may leave before the collective itself is done.
void Lowerer::exchange_after_check(uint32_t entry, bool async, Why why) {
  await_[entry] = NONE;
  if (now_.arrive.size() != 1) return;
  uint32_t round = now_.arrive[0];
  Key key{static_cast<uint32_t>(Ext::edge) << 24 | 0xFFFE, round, 0, 0};
  uint32_t data = layout_.ext(key, out_.need[round]);
  put(0, data, async ? ARRIVE : ARRIVE | AWAIT, entry, why);
  await_[entry] = data;
  if (async) keep_for_exit(entry, out_.code.size() - 1);
}

// Remember what the launch put on the host's lane since `begin`: it leaves with its process.
void Lowerer::keep_for_exit(uint32_t entry, uint64_t begin) {
  arrived_at_[entry] = {begin, out_.code.size()};
  pending_.push_back(entry);
}

void Lowerer::forward_alone(uint32_t entry, Why why) {
  size_t helper = add_lane(QUEUE);
  uint32_t issued = layout_.token(rank_, entry), done = layout_.token(rank_, entry);
  put(0, issued, ARRIVE, entry, Why::stream_edge);
  if (has_exit_) keep_for_exit(entry, out_.code.size() - 1);
  put(helper, issued, AWAIT, entry, Why::stream_edge);
  emit_launch(helper, entry, true, why);
  put(helper, done, ARRIVE, entry, why);
  await_[entry] = done;
}

// One FIFO for everything: each launch ends before the next starts.
void Lowerer::launch_single(uint32_t entry, bool async, Why why) {
  done_[entry] = 0;
  set_await(entry, now_.await);
  emit_launch(0, entry, true, why);
  if (!solid_.empty()) note_fifo(entry, async);
}

// Where the FIFO stands once the launch is over, and who comes after it when it is synchronous:
// the host of a worker, the stream of a device.
void Lowerer::note_fifo(uint32_t entry, bool async) {
  if (await_[entry] != NONE) last_solid_ = entry;
  solid_[entry] = last_solid_;
  if (worker()) {
    code_end_[entry] = out_.code.size();
    if (!async) block_host(entry);
  } else if (!async) {
    advance(front(begin_ + entry), solid_[entry]);
  }
}

bool Lowerer::behind(const Queue& queue, size_t lane) const {
  if (queue.last == NONE || finished(queue, lane)) return false;
  // Barrier-like rounds issued from one lane need no edge: a round completes only after every
  // member arrived at it, hence after every member arrived at the one before.
  return !(queue.direct && now_.direct && queue.helper < 0 && queue.lane == lane &&
           now_.queues.size() == 1);
}

void Lowerer::launch_parallel(uint32_t entry, size_t lane, bool async, Why why) {
  done_[entry] = 0;
  std::vector<Queue*>& busy = busy_;
  busy.clear();
  for (Queue* queue : now_.queues)
    if (behind(*queue, lane)) busy.push_back(queue);
  if (async && !busy.empty()) return launch_behind(entry, lane, busy, why);
  for (Queue* queue : busy) {
    each_of(queue->own, [&](uint32_t match) { put(lane, match, AWAIT, entry, Why::queue); });
    if (queue->own == await_[queue->last] && !done_[queue->last])
      done_[queue->last] = static_cast<uint32_t>(lane + 1);
  }
  set_await(entry, now_.await);
  emit_launch(lane, entry, !async, why);
  if (c_.has_stream && now_.await.empty()) mark_done(lane, entry, why);
  if (async) pending_.push_back(entry);
  else done_[entry] = static_cast<uint32_t>(lane + 1);
  occupy(entry, lane, -1, now_.direct && now_.queues.size() == 1 && now_.arrive.size() == 1);
}

// A launch that needs nobody still has a place in its queue.
void Lowerer::mark_done(size_t lane, uint32_t entry, Why why) {
  await_[entry] = layout_.token(rank_, entry);
  put(lane, await_[entry], ARRIVE, entry, why);
}

// A batch over several groups puts several queues on one lane. Only the queue that used the lane
// last may go on there: another one would wait for launches that are none of its own.
size_t Lowerer::helper_of(const std::vector<Queue*>& busy) {
  for (Queue* queue : busy)
    if (queue->helper >= 0 && tail_[static_cast<size_t>(queue->helper)] == queue->last)
      return static_cast<size_t>(queue->helper);
  return add_lane(QUEUE);
}

// The queue is busy: the launch goes to the queue's own lane, after what is in flight there.
void Lowerer::launch_behind(uint32_t entry, size_t lane, const std::vector<Queue*>& busy, Why why) {
  size_t helper = helper_of(busy);
  uint32_t issued = layout_.token(rank_, entry);
  put(lane, issued, ARRIVE, entry, Why::stream_edge);
  put(helper, issued, AWAIT, entry, Why::stream_edge);
  for (Queue* queue : busy)
    if (queue->helper != static_cast<int32_t>(helper))
      each_of(queue->own, [&](uint32_t match) { put(helper, match, AWAIT, entry, Why::queue); });
  set_await(entry, now_.await);
  emit_launch(helper, entry, true, why);
  if (now_.await.empty()) mark_done(helper, entry, why);
  pending_.push_back(entry);
  tail_[helper] = entry;
  // What follows on one of several queues waits only for what the batch has there.
  occupy(entry, lane, now_.queues.size() == 1 ? static_cast<int32_t>(helper) : -1, false);
}

void Lowerer::occupy(uint32_t entry, size_t lane, int32_t helper, bool direct) {
  for (Queue* queue : now_.queues)
    *queue = {entry, await_[entry], static_cast<uint32_t>(lane), helper, direct};
}

}  // namespace planguard
