// What a process that exits takes along: asynchronous actions that need not be over by then.
#pragma once
#include <utility>
#include <vector>

#include "layout.h"

namespace planguard {

// A rank that leaves: its lane, where its program ends, and the instructions (lane and place) that
// arrived for actions nobody waited for.
struct Leaving {
  uint32_t lane = 0;
  uint64_t at = 0;
  std::vector<std::pair<uint64_t, uint64_t>> arrivals;
};

// A partner that has not completed its side by then waits for ever. It has in every execution iff
// its await is in the causal past of the exit. Matches are AND-waits and lanes are sequences, so
// that past is the closure of "to be here, a lane must have passed every await before, and so
// every arrival that those need".
class Withdrawal {
 public:
  Withdrawal(Lanes& lanes, Layout& layout);
  // Let the partners of every rank that leaves wait for ever where some execution makes them.
  void apply(const std::vector<Leaving>& all);

 private:
  struct Place {
    uint32_t lane;
    uint64_t at;
  };
  // An await that becomes one for a match that never completes.
  struct Kill {
    uint64_t at;
    uint32_t dead;
  };

  void find_past(const Leaving& leaving);
  void demand(uint32_t lane, uint64_t end);
  std::vector<uint32_t> matches_of(const Leaving& leaving) const;
  void collect(const Leaving& leaving);
  void rewrite();
  void shift(uint64_t& place) const;

  Lanes& lanes_;
  Layout& layout_;
  std::vector<uint64_t> first_;  // per match: its words
  std::vector<Place> words_;
  std::vector<uint64_t> passed_;  // per lane: the past found so far
  std::vector<uint32_t> touched_;
  std::vector<std::pair<uint32_t, std::pair<uint64_t, uint64_t>>> todo_;
  std::vector<Kill> kills_;
  std::vector<uint64_t> inserted_;  // places behind which a word was inserted
};

}  // namespace planguard
