// Do the members of one match agree? Compares signatures as members are lowered.
#pragma once
#include <vector>

#include "planguard/lanes.h"

namespace planguard {

class MeetCheck {
 public:
  MeetCheck(const Columns& columns, const Signatures& sigs, const Rules& rules, Lanes& lanes)
      : columns_(columns), sigs_(sigs), rules_(rules), lanes_(lanes) {}

  void start() {
    seen_.assign(lanes_.ext_base, 0);
    if (!columns_.label.empty()) label_.assign(lanes_.ext_base, 0);
    if (rules_.counts_messages && !columns_.chan_ginst.empty()) messages_.assign(lanes_.p2p_base, 0);
  }

  // One member of `match` was issued as `entry`.
  void add(uint32_t match, uint64_t entry) {
    uint32_t sig = columns_.sig[entry], mark = columns_.op[entry] & ASYNC ? ASYNC_BIT : 0;
    uint32_t& seen = seen_[match];
    if (!seen) {
      seen = (sig + 1) | mark;
      if (is_split(sig)) lanes_.split_rounds.push_back(match);
    } else {
      compare(match, seen, sig, mark);
    }
    if (!label_.empty()) compare_label(match, columns_.label[entry]);
  }

  // A member of the round `match` made so many messages before it on its communicator.
  void count(uint32_t match, uint32_t messages) {
    if (messages_.empty()) return;
    uint32_t& first = messages_[match];
    if (first && first != messages + 1) report(match);
    first = messages + 1;
  }

 private:
  static constexpr uint32_t ASYNC_BIT = 0x80000000u;

  bool is_split(uint32_t sig) const { return sigs_.splits[sig]; }

  // Does a signature say a size, dtype or reduction of which another says nothing?
  bool adds(uint32_t sig, uint32_t other) const {
    return (sigs_.bytes[other] == UNKNOWN_SIZE && sigs_.bytes[sig] != UNKNOWN_SIZE) ||
           (sigs_.dtype[sig] && !sigs_.dtype[other]) || (sigs_.redop[sig] && !sigs_.redop[other]);
  }

  void compare(uint32_t match, uint32_t& seen, uint32_t sig, uint32_t mark) {
    uint32_t other = (seen & ~ASYNC_BIT) - 1;
    bool round = match < lanes_.p2p_base;
    if (round && (seen & ASYNC_BIT) != mark) {
      if (rules_.sync_is_a_kind) {
        report(match);
        lanes_.broken.push_back(match);
      } else if (lanes_.mixed_async.size() < 64) {
        lanes_.mixed_async.push_back(match);
      }
    }
    if (other == sig) return;
    // One signature stands for all members before. Where neither of two says everything that the
    // other says, none can, and the whole match is compared later.
    bool more = adds(sig, other), less = adds(other, sig);
    if (round && ((more && less) || (is_split(sig) && !is_split(other))))
      lanes_.split_rounds.push_back(match);
    if (round && sigs_.kind[other] != sigs_.kind[sig] &&
        rules_.slot_class[sigs_.kind[other]] != rules_.slot_class[sigs_.kind[sig]])
      lanes_.broken.push_back(match);
    if (disagree(other, sig)) report(match);
    if (more && !less) seen = (sig + 1) | (seen & ASYNC_BIT);
  }

  bool disagree(uint32_t left, uint32_t right) const {
    if (rules_.spelling[sigs_.kind[left]] != rules_.spelling[sigs_.kind[right]]) return true;
    bool splits = is_split(left) || is_split(right);
    if (!splits && sigs_.bytes[left] != sigs_.bytes[right] &&
        sigs_.bytes[left] != UNKNOWN_SIZE && sigs_.bytes[right] != UNKNOWN_SIZE)
      return true;
    if (sigs_.dtype[left] && sigs_.dtype[right] && sigs_.dtype[left] != sigs_.dtype[right])
      return true;
    if (sigs_.redop[left] && sigs_.redop[right] && sigs_.redop[left] != sigs_.redop[right])
      return true;
    if (sigs_.root[left] != sigs_.root[right]) return true;
    return !splits && sigs_.layout[left] != sigs_.layout[right];
  }

  void compare_label(uint32_t match, uint32_t label) {
    if (!label) return;
    if (label_[match] && label_[match] != label) report(match);
    label_[match] = label;
  }

  void report(uint32_t match) {
    ++lanes_.n_mismatched;
    auto& list = lanes_.mismatched;
    if (list.empty() || list.back() != match) list.push_back(match);
  }

  const Columns& columns_;
  const Signatures& sigs_;
  const Rules& rules_;
  Lanes& lanes_;
  Big<uint32_t> seen_, label_, messages_;
};

}  // namespace planguard
