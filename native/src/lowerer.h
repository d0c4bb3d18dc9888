// The state of lowering one rank after the other; lower.cpp, issue.cpp and host.cpp define it.
#pragma once
#include <deque>
#include <vector>

#include "layout.h"
#include "meet.h"
#include "recipe.h"
#include "withdraw.h"

namespace planguard {

// What is still in flight on one communicator queue of the current rank.
struct Queue {
  uint32_t last = NONE;  // last entry issued on it
  uint32_t own = NONE;   // what of that entry is on this queue, as an await code
  uint32_t lane = 0;     // lane it was issued from
  int32_t helper = -1;   // lane of the queue itself, while in use
  bool direct = false;   // one barrier-like round whose arrival is made on `lane`
};

struct Sink {
  Big<uint32_t>* code;
  Big<uint32_t>* origin;
  Big<uint8_t>* why;
};

struct Scratch {
  Big<uint32_t> code, origin;
  Big<uint8_t> why;
  uint8_t kind = 0;
};

// One launch: a match that gates it (tree broadcasts), arrivals, and what completes it.
struct Launch {
  uint32_t pre = NONE;
  std::vector<uint32_t> before, arrive, await;
  std::vector<Queue*> queues;
  bool direct = false;
  bool chained = false;  // the round before it is one of the same communicator
  void clear() {
    pre = NONE;
    before.clear();
    arrive.clear();
    await.clear();
    queues.clear();
    direct = chained = false;
  }
};

class Lowerer {
 public:
  Lowerer(const Columns& columns, const Signatures& sigs, const Rules& rules,
          const LowerOptions& options, bool may_chain)
      : c_(columns), sigs_(sigs), rules_(rules), options_(options), layout_(columns, rules, out_),
        check_(columns, sigs, rules, out_), recipes_(columns, sigs, layout_, out_),
        chains_(may_chain) {}
  Lanes run();
  // Rounds were chained although some member does not arrive at them in order.
  bool must_unchain() const { return chains_ && (out_of_order_ || !out_.broken.empty()); }

 private:
  static constexpr uint32_t MANY = 0x80000000u;  // an entry awaits a list of matches
  static constexpr uint32_t DONE_FOR_ALL = 0xFFFFFFFFu;
  enum LaneKind : uint8_t { PROGRAM = 0, QUEUE = 1, HOST = 2 };

  bool device() const { return rules_.family == Family::device; }
  bool worker() const { return rules_.family == Family::worker; }
  bool parallel() const { return device() && !rules_.single_queue; }
  bool is_forced(uint32_t match) const { return !forced_.empty() && forced_[match]; }
  uint8_t kind_at(uint64_t at) const { return c_.op[at] & KIND_MASK; }

  void prepare();
  void lower_rank();
  bool repeat_rank();
  void order_lanes();
  void finish();
  uint64_t step(uint64_t at);

  // Lanes of the current rank.
  void put(size_t lane, uint32_t match, uint32_t flags, uint32_t entry, Why why) {
    Sink& sink = sinks_[lane];
    sink.code->push_back(match << 2 | flags);
    if (!options_.origins) return;
    sink.origin->push_back(entry);
    sink.why->push_back(static_cast<uint8_t>(why));
  }
  // Arrive at a round and wait for it. Where the lane stands at the round before, it goes on at
  // once: when a round is complete, all before it are (docs/adr/0017).
  void put_round(size_t lane, uint32_t match, bool chained, uint32_t entry, Why why) {
    if (chains_ && chained) {
      Big<uint32_t>& code = *sinks_[lane].code;
      size_t first = lane ? 0 : out_.lane_off.back();
      if (code.size() > first && code.back() == ((match - 1) << 2 | ARRIVE | AWAIT))
        code.back() = (match - 1) << 2 | ARRIVE;
    }
    put(lane, match, ARRIVE | AWAIT, entry, why);
  }
  size_t add_lane(LaneKind kind);
  size_t lane_of(uint64_t at);
  void mark_dropped(uint32_t entry);
  size_t host_lane();
  void close_gate();

  // What an entry waits for.
  template <class Visit>
  void each_await(uint32_t entry, Visit visit) {
    each_of(await_[entry], visit);
  }
  template <class Visit>
  void each_of(uint32_t code, Visit visit) {
    if (code == NONE) return;
    if (!(code & MANY)) return visit(code);
    uint32_t at = code & ~MANY;
    for (uint32_t index = 0; index < multi_[at]; ++index) visit(multi_[at + 1 + index]);
  }
  void await_entry(size_t lane, uint32_t entry, uint32_t cause, Why why) {
    each_await(entry, [&](uint32_t match) { put(lane, match, AWAIT, cause, why); });
    if (!done_[entry]) done_[entry] = static_cast<uint32_t>(lane + 1);
  }
  uint32_t pack(const std::vector<uint32_t>& matches);
  void set_await(uint32_t entry, const std::vector<uint32_t>& matches) {
    await_[entry] = pack(matches);
  }
  bool finished(const Queue& queue, size_t lane) const {
    uint32_t done = done_[queue.last];
    return queue.own == NONE || done == lane + 1 || done == DONE_FOR_ALL;
  }

  // issue.cpp: communication.
  void communicate(uint64_t at, uint64_t end);
  void quick(uint64_t at, uint32_t entry, size_t lane);
  void one_by_one(uint64_t at, uint64_t end, uint32_t entry);
  bool by_communicator(uint64_t at, uint64_t end, uint32_t entry, size_t lane);
  uint32_t slot_of(uint64_t at) const;
  void collect(uint64_t at, bool batched);
  void collect_pair(uint64_t at, bool batched);
  void collect_round(uint64_t at);
  void collect_forced(uint32_t slot, uint32_t round, uint8_t kind, uint32_t sig);
  void collect_edges(uint32_t slot, uint32_t round, uint8_t kind, uint32_t sig);
  void collect_flat(uint32_t round, uint8_t kind, uint32_t place, uint32_t root, uint32_t size,
                    bool eager);
  void collect_tree(uint32_t round, uint8_t kind, uint32_t place, uint32_t root, uint32_t size,
                    bool eager);
  uint32_t edge(uint32_t round, uint8_t kind, uint32_t src, uint32_t dst);
  uint32_t place_of(uint32_t ginst, uint32_t rank) const;
  bool is_small(uint32_t sig) const;
  bool is_eager(uint8_t kind, uint32_t sig) const;
  void launch(uint32_t entry, size_t lane, bool async, Why why);
  void launch_host(uint32_t entry, bool async, Why why);
  void forward_alone(uint32_t entry, Why why);
  void exchange_after_check(uint32_t entry, bool async, Why why);
  void keep_for_exit(uint32_t entry, uint64_t begin);
  void launch_single(uint32_t entry, bool async, Why why);
  void launch_parallel(uint32_t entry, size_t lane, bool async, Why why);
  void launch_behind(uint32_t entry, size_t lane, const std::vector<Queue*>& busy, Why why);
  size_t helper_of(const std::vector<Queue*>& busy);
  void occupy(uint32_t entry, size_t lane, int32_t helper, bool direct);
  bool behind(const Queue& queue, size_t lane) const;
  void emit_launch(size_t lane, uint32_t entry, bool await, Why why);
  void mark_done(size_t lane, uint32_t entry, Why why);
  void block_barrier(uint32_t entry);
  Queue* queue_of(uint64_t at, bool batched);
  bool poisoned(uint64_t at) const;
  void note_poison(uint64_t at, uint32_t match);

  // host.cpp: what blocks or orders the host.
  void wait(size_t lane, uint32_t target, uint32_t entry, Why why);
  void wait_handle(size_t lane, uint32_t target, uint32_t entry);
  void wait_list(uint64_t at, uint32_t entry);
  void depend(uint64_t at, uint32_t entry);
  void host_sync(uint64_t at, uint32_t entry);
  void record_event(uint64_t at, uint32_t entry);
  void wait_event(uint64_t at, uint32_t entry);
  void init_comm(uint32_t slot, uint32_t entry);
  void init_pair(uint64_t at, uint32_t entry);
  void block_on(uint32_t match, uint32_t entry, Why why);
  void first_use(uint64_t at, uint64_t end, uint32_t entry);
  void new_group(uint64_t at, uint32_t entry);
  void leave();
  void withdraw();
  void note_fifo(uint32_t entry, bool async);
  bool tracks_streams() const {
    return device() && rules_.single_queue && host_lane_allowed_ && c_.has_stream;
  }
  uint32_t& front(uint64_t at);
  void advance(uint32_t& front, uint32_t to) const {
    if (to != NONE && (front == NONE || to > front)) front = to;
  }
  void sync_stream(uint32_t stream, uint32_t entry);
  void block_host(uint32_t target) {
    if (last_block_ == NONE || target > last_block_) last_block_ = target;
  }

  const Columns& c_;
  const Signatures& sigs_;
  const Rules& rules_;
  const LowerOptions& options_;
  Lanes out_;
  Layout layout_;
  MeetCheck check_;
  Recipes recipes_;
  Launch now_;
  std::vector<Queue*> busy_;
  std::vector<uint8_t> forced_, inited_, dropped_;
  std::vector<uint32_t> await_, done_, multi_, pending_, event_token_;
  std::vector<uint64_t> code_end_;  // per entry: its end in the FIFO of the process
  std::vector<uint32_t> solid_;     // per entry: the last one up to it that awaits anything
  std::vector<uint32_t> front_;     // one queue, several streams: what each stream comes after
  std::vector<std::pair<uint64_t, uint64_t>> arrived_at_;  // code that `exit` takes back
  std::vector<Leaving> leaving_;
  std::vector<uint32_t> tail_;                             // per lane: last entry launched there
  std::vector<Key> poison_;
  std::vector<std::pair<uint32_t, uint32_t>> rounds_;  // (slot, entry) of asynchronous rounds
  std::vector<Queue> queues_;
  std::deque<Queue> pair_queue_;  // addresses stay valid
  DenseMap pair_name_, pair_inited_;
  std::vector<Sink> sinks_;
  std::vector<Scratch> scratch_;
  std::vector<int64_t> stream_lane_;
  uint64_t begin_ = 0;
  size_t host_ = 0;
  uint32_t rank_ = 0, gate_ = NONE, created_ = 0, entered_ = 0, last_block_ = NONE, last_solid_ = NONE;
  bool ended_ = false, host_lane_allowed_ = false, has_exit_ = false;
  bool chains_, out_of_order_ = false, repeats_ = false;
};

}  // namespace planguard
