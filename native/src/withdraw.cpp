#include "withdraw.h"

#include <algorithm>

namespace planguard {

Withdrawal::Withdrawal(Lanes& lanes, Layout& layout) : lanes_(lanes), layout_(layout) {
  size_t n_matches = lanes.need.size();
  first_.assign(n_matches + 1, 0);
  for (uint32_t word : lanes.code) ++first_[(word >> 2) + 1];
  for (size_t match = 0; match < n_matches; ++match) first_[match + 1] += first_[match];
  words_.resize(first_.back());
  std::vector<uint64_t> next(first_.begin(), first_.end() - 1);
  uint32_t n = static_cast<uint32_t>(lanes.lane_rank.size());
  for (uint32_t lane = 0; lane < n; ++lane)
    for (uint64_t at = lanes.lane_off[lane]; at < lanes.lane_off[lane + 1]; ++at)
      words_[next[lanes.code[at] >> 2]++] = {lane, at};
  passed_.assign(lanes.lane_off.begin(), lanes.lane_off.begin() + n);
}

void Withdrawal::apply(const std::vector<Leaving>& all) {
  for (const Leaving& leaving : all) collect(leaving);
  if (!kills_.empty()) rewrite();
}

void Withdrawal::demand(uint32_t lane, uint64_t end) {
  if (end <= passed_[lane]) return;
  touched_.push_back(lane);
  todo_.push_back({lane, {passed_[lane], end}});
  passed_[lane] = end;
}

void Withdrawal::find_past(const Leaving& leaving) {
  for (uint32_t lane : touched_) passed_[lane] = lanes_.lane_off[lane];
  touched_.clear();
  demand(leaving.lane, leaving.at);
  while (!todo_.empty()) {
    auto [lane, range] = todo_.back();
    todo_.pop_back();
    for (uint64_t at = range.first; at < range.second; ++at) {
      uint32_t word = lanes_.code[at], match = word >> 2;
      if (!(word & AWAIT)) continue;
      // A lane arrives before it waits: it has passed only what stands before its arrival.
      for (uint64_t index = first_[match]; index < first_[match + 1]; ++index)
        if (lanes_.code[words_[index].at] & ARRIVE) demand(words_[index].lane, words_[index].at);
    }
  }
}

// Where the actions of a rank that leaves arrive; one that forwards by itself, on its own lane.
std::vector<uint32_t> Withdrawal::matches_of(const Leaving& leaving) const {
  std::vector<uint32_t> found;
  for (auto [begin, end] : leaving.arrivals)
    for (uint64_t at = begin; at < end; ++at)
      if (!(lanes_.code[at] & AWAIT)) found.push_back(lanes_.code[at] >> 2);
  uint32_t rank = lanes_.lane_rank[leaving.lane];
  size_t own = found.size();
  for (size_t lane = leaving.lane + 1; lane < lanes_.lane_rank.size(); ++lane) {
    if (lanes_.lane_rank[lane] != rank) break;
    uint64_t begin = lanes_.lane_off[lane], end = lanes_.lane_off[lane + 1];
    if (begin == end || !std::count(found.begin(), found.begin() + own, lanes_.code[begin] >> 2))
      continue;
    for (uint64_t at = begin; at < end; ++at)
      if (lanes_.code[at] & ARRIVE) found.push_back(lanes_.code[at] >> 2);
  }
  return found;
}

void Withdrawal::collect(const Leaving& leaving) {
  find_past(leaving);
  uint32_t rank = lanes_.lane_rank[leaving.lane], dead = NONE;
  for (uint32_t match : matches_of(leaving))
    for (uint64_t index = first_[match]; index < first_[match + 1]; ++index) {
      const Place& place = words_[index];
      bool waits = lanes_.code[place.at] & AWAIT && lanes_.lane_rank[place.lane] != rank;
      if (!waits || place.at < passed_[place.lane]) continue;
      if (dead == NONE) dead = layout_.ext({static_cast<uint32_t>(Ext::dead) << 24, rank, 0, 0}, NONE);
      kills_.push_back({place.at, dead});
    }
}

// An arrival with its await becomes two words: it still arrives for those that completed.
void Withdrawal::rewrite() {
  std::stable_sort(kills_.begin(), kills_.end(),
                   [](const Kill& left, const Kill& right) { return left.at < right.at; });
  Big<uint32_t> code, origin;
  Big<uint8_t> why;
  auto kill = kills_.begin();
  auto put = [&](uint64_t at, uint32_t word) {
    code.push_back(word);
    if (lanes_.origin.empty()) return;
    origin.push_back(lanes_.origin[at]);
    why.push_back(lanes_.why[at]);
  };
  for (uint64_t at = 0; at < lanes_.code.size(); ++at) {
    bool dies = kill != kills_.end() && kill->at == at;
    if (!dies || lanes_.code[at] & ARRIVE) put(at, dies ? lanes_.code[at] & ~AWAIT : lanes_.code[at]);
    if (!dies) continue;
    if (lanes_.code[at] & ARRIVE) inserted_.push_back(at);
    put(at, kill->dead << 2 | AWAIT);
    while (kill != kills_.end() && kill->at == at) ++kill;
  }
  lanes_.code = std::move(code);
  lanes_.origin = std::move(origin);
  lanes_.why = std::move(why);
  for (uint64_t& place : lanes_.lane_off) shift(place);
  for (uint64_t& place : lanes_.lane_soft) shift(place);
}

void Withdrawal::shift(uint64_t& place) const {
  place += static_cast<uint64_t>(std::lower_bound(inserted_.begin(), inserted_.end(), place) -
                                 inserted_.begin());
}

}  // namespace planguard
