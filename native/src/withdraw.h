// What a process that exits takes along: asynchronous actions that need not be complete by then.
#pragma once
#include <utility>
#include <vector>

#include "planguard/lanes.h"

namespace planguard {

// A rank that leaves: where its program stands, and the arrivals that nobody waited for.
struct Leaving {
  uint32_t lane = 0;
  uint64_t at = 0;
  std::vector<std::pair<uint64_t, uint64_t>> arrivals;
};

// An action is lost in some execution unless all its partners arrive in the causal past of the
// exit. Matches are AND-waits and lanes are sequences, so that past is the closure of "to be here,
// a lane must have passed every wait before, and so every arrival that those waits need".
class Withdrawal {
 public:
  explicit Withdrawal(const Lanes& lanes);

  // Words of `leaving` that some execution loses.
  std::vector<uint64_t> lost(const Leaving& leaving);

 private:
  struct Arrival {
    uint32_t lane;
    uint64_t at;
  };

  void reset();
  void demand_pass(uint32_t lane, uint64_t end);
  void demand_arrival(const Arrival& arrival);
  bool happened(const Arrival& arrival) const { return arrival.at < arrived_[arrival.lane]; }
  bool is_met(uint32_t match) const;
  bool is_over(const Leaving& leaving, uint32_t match) const;

  const Lanes& lanes_;
  std::vector<uint64_t> first_;  // per match: its arrivals
  std::vector<Arrival> arrivals_;
  std::vector<uint64_t> passed_, arrived_;  // per lane: the past found so far
  std::vector<uint32_t> touched_;
  std::vector<std::pair<uint32_t, std::pair<uint64_t, uint64_t>>> todo_;
};

}  // namespace planguard
