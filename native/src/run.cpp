// One deterministic execution: run every lane until it waits, wake those whose match completes.
#include "planguard/lanes.h"

namespace planguard {

constexpr uint32_t WOKEN = 0xFFFFFFFFu;

RunState run(const Lanes& lanes) {
  RunState state;
  state.need = lanes.need;
  size_t n = lanes.lane_rank.size();
  state.pc.assign(lanes.lane_off.begin(), lanes.lane_off.begin() + n);
  std::vector<uint32_t> first_waiter(lanes.need.size(), 0), next_waiter(n, 0), ready;
  ready.reserve(n);
  for (size_t lane = n; lane-- > 0;) ready.push_back(static_cast<uint32_t>(lane));
  const uint32_t* code = lanes.code.data();
  uint32_t* need = state.need.data();
  while (!ready.empty()) {
    uint32_t lane = ready.back();
    ready.pop_back();
    uint64_t pc = state.pc[lane], end = lanes.lane_off[lane + 1];
    // A lane that was woken has already arrived at the instruction it stands at.
    if (next_waiter[lane] == WOKEN) {
      next_waiter[lane] = 0;
      ++pc;
    }
    for (; pc < end; ++pc) {
      uint32_t word = code[pc], match = word >> 2;
      if (word & ARRIVE) {
        if (--need[match] == 0) {
          for (uint32_t waiter = first_waiter[match]; waiter;) {
            uint32_t next = next_waiter[waiter - 1];
            next_waiter[waiter - 1] = WOKEN;
            ready.push_back(waiter - 1);
            waiter = next;
          }
        }
      }
      if ((word & AWAIT) && need[match] != 0) {
        next_waiter[lane] = first_waiter[match];
        first_waiter[match] = lane + 1;
        break;
      }
    }
    state.pc[lane] = pc;
  }
  for (size_t lane = 0; lane < n; ++lane) {
    state.executed += state.pc[lane] - lanes.lane_off[lane];
    uint64_t end = lanes.lane_soft.empty() ? lanes.lane_off[lane + 1] : lanes.lane_soft[lane];
    state.stuck_lanes += state.pc[lane] < end;
  }
  return state;
}

Blockers blockers(const Lanes& lanes, const RunState& state) {
  Blockers out;
  std::vector<uint8_t> waited(lanes.need.size(), 0);
  size_t n = lanes.lane_rank.size();
  for (size_t lane = 0; lane < n; ++lane) {
    if (state.pc[lane] >= lanes.lane_off[lane + 1]) continue;
    uint32_t match = lanes.code[state.pc[lane]] >> 2;
    out.lane.push_back(static_cast<uint32_t>(lane));
    out.match.push_back(match);
    waited[match] = 1;
  }
  for (uint32_t lane : out.lane) {
    // The instruction a lane stands at has arrived already.
    for (uint64_t pc = state.pc[lane] + 1; pc < lanes.lane_off[lane + 1]; ++pc) {
      uint32_t word = lanes.code[pc];
      if (!(word & ARRIVE) || !waited[word >> 2]) continue;
      out.owed_match.push_back(word >> 2);
      out.owed_lane.push_back(lane);
      out.owed_at.push_back(pc);
    }
  }
  return out;
}

}  // namespace planguard
