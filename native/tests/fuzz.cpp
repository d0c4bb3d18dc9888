// libFuzzer target: bytes -> a compiled plan as the door lets it pass -> every kernel.
//
// Beside what the sanitizers see, it holds the kernels to what they promise: ranks that share a
// program get the lanes of ranks that do not, origins change no end, and where no order of bags is
// said to get stuck, the plan with every block reversed completes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <tuple>

#include "made.h"
#include "planguard/weak.h"

using namespace planguard;

namespace {

#define HOLD(claim)                                                 \
  do {                                                              \
    if (!(claim)) {                                                 \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim); \
      std::abort();                                                 \
    }                                                               \
  } while (false)

struct Answer {
  Columns columns;
  Lanes lanes, exact;
  RunState state;
};

bool same(const Lanes& left, const Lanes& right) {
  return left.code == right.code && left.lane_off == right.lane_off && left.need == right.need &&
         left.lane_soft == right.lane_soft && left.origin == right.origin &&
         left.why == right.why && left.n_mismatched == right.n_mismatched &&
         left.mismatched == right.mismatched && left.split_rounds == right.split_rounds;
}

bool decide(const Plan& plan, const Rules& rules, Answer& out) {
  out.columns = plan.columns();
  if (out.columns.failure.kind != ExpandError::none) return false;
  LowerOptions options;
  out.lanes = lower(out.columns, plan.signatures(), rules, options);
  options.origins = true;
  out.exact = lower(out.columns, plan.signatures(), rules, options);
  out.state = run(out.lanes);
  RunState again = run(out.exact);
  HOLD((out.state.stuck_lanes == 0) == (again.stuck_lanes == 0));
  HOLD(out.lanes.n_mismatched == out.exact.n_mismatched);
  Blockers blocked = blockers(out.exact, again);
  HOLD(blocked.lane.size() >= again.stuck_lanes);
  return true;
}

// What planguard/reordering/orders/weak_fast.py gives the kernel.
std::vector<uint8_t> in_block(const Rules& rules) {
  static const std::set<uint8_t> fresh = {PROBE,   TEST, DROP,         INIT,       NEW_GROUP,
                                          DESTROY, EXIT, EVENT_RECORD, EVENT_WAIT, HOST_SYNC};
  std::vector<uint8_t> out;
  bool queued = rules.family != Family::host || rules.pre_barrier;
  for (uint32_t op = 0; op < 256; ++op) {
    uint8_t kind = op & KIND_MASK;
    bool silent = kind == NOP || kind == COPY || kind == COMPUTE;
    bool free = (op & ASYNC && kind != BARRIER && kind != BROADCAST && !queued) || silent;
    bool refused = fresh.count(kind) || (kind == BARRIER && rules.barrier_last);
    out.push_back(static_cast<uint8_t>(refused ? InBlock::refused
                                               : free ? InBlock::free : InBlock::waits));
  }
  return out;
}

std::vector<uint32_t> queues(const Columns& columns, const Rules& rules) {
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>> seen;
  std::vector<uint32_t> out;
  for (size_t channel = 0; channel < columns.chan_src.size(); ++channel) {
    uint32_t tag = rules.use_tags ? columns.chan_tag[channel] : 0;
    auto key = std::make_tuple(columns.chan_ginst[channel], columns.chan_src[channel],
                               columns.chan_dst[channel], tag);
    auto found = std::find(seen.begin(), seen.end(), key);
    out.push_back(static_cast<uint32_t>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(key);
  }
  return out;
}

OpenRounds rounds_of(const Columns& columns, const Rules& rules) {
  std::vector<uint32_t> queue = queues(columns, rules);
  std::vector<uint8_t> table = in_block(rules);
  return open_rounds(columns, view(queue), view(table));
}

bool has_kind(const Columns& columns, uint8_t kind) {
  return std::any_of(columns.op.begin(), columns.op.end(),
                     [&](uint8_t op) { return (op & KIND_MASK) == kind; });
}

void check_orders(const Answer& answer, const Answer& apart, const Plan& plan,
                  const std::vector<std::vector<Item>>& programs, const Rules& rules) {
  OpenRounds rounds = rounds_of(answer.columns, rules), alone = rounds_of(apart.columns, rules);
  HOLD(rounds.status == alone.status && rounds.rank == alone.rank &&
       rounds.first == alone.first && rounds.second == alone.second && rounds.mixed == alone.mixed);
  WeakOrders weak = weak_orders(answer.columns, answer.exact);
  WeakOrders other = weak_orders(apart.columns, apart.exact);
  HOLD(weak.status == other.status && weak.left == other.left);
  if (weak.status != OpenStatus::fine) return;
  HOLD(answer.state.stuck_lanes == 0);
  bool fits = rounds.status == OpenStatus::fine && rules.family == Family::host &&
              !(rules.exit_withdraws && has_kind(answer.columns, EXIT)) &&
              !(rules.poison_drops && has_kind(answer.columns, DROP));
  if (!fits) return;
  Answer reversed;
  if (decide(written(plan, programs, true), rules, reversed))
    HOLD(reversed.state.stuck_lanes == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  Rules rules = any_rules(bytes);
  std::vector<std::vector<Item>> programs;
  Plan bare = Maker(bytes).make(programs);
  Plan plan = written(bare, programs, false);
  Answer answer, apart;
  bool found = decide(plan, rules, answer);
  HOLD(found == decide(unshared(plan), rules, apart));
  if (!found) return 0;
  HOLD(same(answer.lanes, apart.lanes) && same(answer.exact, apart.exact));
  check_orders(answer, apart, bare, programs, rules);
  return 0;
}
