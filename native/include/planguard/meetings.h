// Search over who meets whom among messages that compete (planguard/reordering/messages).
//
// Lanes run as far as they go, since steps that are no pick only ever enable more; then one pick is
// taken: a receive and one of the messages it may take, or a send that finishes because it is
// buffered. Equal states are followed once: those in which every lane stands at the same place,
// the same operations met, whoever met whom, and the same pairs disagree.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "planguard/columns.h"

namespace planguard {

// What is searched. Lanes and matches are those of `lower`; a message is a row of `kind` to `match`.
struct MeetingColumns {
  std::vector<uint64_t> lane_off;
  std::vector<uint32_t> code, lane_rank;
  std::vector<uint64_t> lane_end;  // where a lane has come to its end
  std::vector<uint32_t> need;
  std::vector<uint8_t> kind;       // 0 send, 1 receive, 2 probe
  std::vector<uint32_t> rank, home, peer, tag;  // peer and tag: NONE is any
  std::vector<uint32_t> said;      // what the plan says of the data; equal numbers agree
  std::vector<uint32_t> match;
  bool posted = false;             // a receive is served before all later ones that fit, too
  std::vector<uint32_t> eager;     // by match: the rank whose send may finish early, or NONE
  // Waits for one of several handles: by code word the wait, or NONE; of a wait its handles and
  // the word behind it; of a handle its entry and the matches that it still needs.
  std::vector<uint32_t> look;
  std::vector<uint64_t> look_behind;
  std::vector<uint32_t> look_off, handle_entry, handle_off, handle_match;

  // Whether every index is inside of what it indexes.
  bool is_sound() const;
};

// States in which an execution may end, in the order in which they were found.
struct MeetingEnds {
  std::vector<uint32_t> at;  // by end and lane: twice the word, plus one where it has arrived
  std::vector<uint64_t> pair_off, seen_off, buffered_off, looked_off;
  std::vector<uint32_t> pairs, seen, buffered, looked;  // two numbers each; `buffered` one
};

class MeetingSearch {
 public:
  explicit MeetingSearch(MeetingColumns columns);
  MeetingSearch(MeetingSearch&&) noexcept;
  ~MeetingSearch();

  // Visits about that many further states. False: there are no more.
  bool advance(uint64_t count);

  uint64_t states() const;  // visited so far
  uint64_t bytes() const;   // memory that they take
  MeetingEnds ends() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace planguard
