// One deterministic execution: run every lane until it waits, wake those whose match completes.
#include <vector>

#include "planguard/lanes.h"
#include "ready.h"

namespace planguard {

namespace {

struct Lane {
  const uint32_t* at;
  const uint32_t* end;
  uint32_t next;  // next lane that waits at the same match, plus one
};

struct Match {
  uint32_t need, waiter;  // first lane that waits, plus one
};

void wake(Match& match, Lane* lanes, Ready& ready) {
  uint32_t waiter = match.waiter;
  match.waiter = 0;
  while (waiter) {
    Lane& lane = lanes[waiter - 1];
    ++lane.at;  // it has arrived already at the instruction it stands at
    __builtin_prefetch(lane.at);
    ready.push(waiter - 1);
    waiter = lane.next;
  }
}

void advance(uint32_t self, Lane* lanes, Match* matches, Ready& ready) {
  Lane& lane = lanes[self];
  const uint32_t *at = lane.at, *end = lane.end;
  for (; at < end; ++at) {
    uint32_t word = *at;
    Match& match = matches[word >> 2];
    match.need -= word & ARRIVE;
    if (match.need == 0) {
      if (match.waiter) wake(match, lanes, ready);
    } else if (word & AWAIT) {
      lane.next = match.waiter;
      match.waiter = self + 1;
      break;
    }
  }
  lane.at = at;
}

}  // namespace

RunState run(const Lanes& lanes) {
  uint32_t n = static_cast<uint32_t>(lanes.lane_rank.size());
  const uint32_t* code = lanes.code.data();
  std::vector<Lane> all(n);
  for (uint32_t lane = 0; lane < n; ++lane)
    all[lane] = {code + lanes.lane_off[lane], code + lanes.lane_off[lane + 1], 0};
  Big<Match> matches(lanes.need.size());
  for (size_t match = 0; match < matches.size(); ++match) matches[match] = {lanes.need[match], 0};
  Ready ready(n, lanes.order);
  while (!ready.empty()) advance(ready.pop(), all.data(), matches.data(), ready);
  RunState state;
  state.pc.reserve(n);
  state.need.resize(matches.size());
  for (size_t match = 0; match < matches.size(); ++match) state.need[match] = matches[match].need;
  for (uint32_t lane = 0; lane < n; ++lane) {
    state.pc.push_back(static_cast<uint64_t>(all[lane].at - code));
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
