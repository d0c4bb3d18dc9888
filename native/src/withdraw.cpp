#include "withdraw.h"

namespace planguard {

Withdrawal::Withdrawal(const Lanes& lanes) : lanes_(lanes) {
  first_.assign(lanes.need.size() + 1, 0);
  for (uint32_t word : lanes.code)
    if (word & ARRIVE) ++first_[(word >> 2) + 1];
  for (size_t match = 0; match < lanes.need.size(); ++match) first_[match + 1] += first_[match];
  arrivals_.resize(first_.back());
  std::vector<uint64_t> next(first_.begin(), first_.end() - 1);
  uint32_t n = static_cast<uint32_t>(lanes.lane_rank.size());
  for (uint32_t lane = 0; lane < n; ++lane)
    for (uint64_t at = lanes.lane_off[lane]; at < lanes.lane_off[lane + 1]; ++at)
      if (lanes.code[at] & ARRIVE) arrivals_[next[lanes.code[at] >> 2]++] = {lane, at};
  passed_.assign(lanes.lane_off.begin(), lanes.lane_off.begin() + n);
  arrived_ = passed_;
}

void Withdrawal::reset() {
  for (uint32_t lane : touched_) passed_[lane] = arrived_[lane] = lanes_.lane_off[lane];
  touched_.clear();
}

void Withdrawal::demand_pass(uint32_t lane, uint64_t end) {
  if (end <= passed_[lane]) return;
  touched_.push_back(lane);
  todo_.push_back({lane, {passed_[lane], end}});
  passed_[lane] = end;
  if (arrived_[lane] < end) arrived_[lane] = end;
}

// A lane arrives before it waits: it must have passed only what stands before the arrival.
void Withdrawal::demand_arrival(const Arrival& arrival) {
  demand_pass(arrival.lane, arrival.at);
  touched_.push_back(arrival.lane);
  if (arrived_[arrival.lane] <= arrival.at) arrived_[arrival.lane] = arrival.at + 1;
}

bool Withdrawal::is_met(uint32_t match) const {
  uint32_t found = 0;
  for (uint64_t index = first_[match]; index < first_[match + 1]; ++index)
    found += happened(arrivals_[index]);
  return found >= lanes_.need[match];
}

// A broadcast that forwards by itself is over when its own lane is.
bool Withdrawal::is_over(const Leaving& leaving, uint32_t match) const {
  if (match < lanes_.ext_base) return is_met(match);
  for (size_t lane = leaving.lane + 1; lane < lanes_.lane_rank.size(); ++lane) {
    uint64_t begin = lanes_.lane_off[lane], end = lanes_.lane_off[lane + 1];
    if (lanes_.lane_rank[lane] != lanes_.lane_rank[leaving.lane]) break;
    if (begin == end || lanes_.code[begin] != (match << 2 | AWAIT)) continue;
    for (uint64_t at = begin + 1; at + 1 < end; ++at)
      if (!is_met(lanes_.code[at] >> 2)) return false;
    return true;
  }
  return is_met(match);
}

std::vector<uint64_t> Withdrawal::lost(const Leaving& leaving) {
  reset();
  demand_pass(leaving.lane, leaving.at);
  while (!todo_.empty()) {
    auto [lane, range] = todo_.back();
    todo_.pop_back();
    for (uint64_t at = range.first; at < range.second; ++at) {
      uint32_t word = lanes_.code[at], match = word >> 2;
      if (!(word & AWAIT)) continue;
      for (uint64_t index = first_[match]; index < first_[match + 1]; ++index)
        demand_arrival(arrivals_[index]);
    }
  }
  std::vector<uint64_t> words;
  for (auto [begin, end] : leaving.arrivals)
    for (uint64_t at = begin; at < end; ++at)
      if (!(lanes_.code[at] & AWAIT) && !is_over(leaving, lanes_.code[at] >> 2)) words.push_back(at);
  return words;
}

}  // namespace planguard
