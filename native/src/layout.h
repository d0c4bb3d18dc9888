// Match numbers: which actions meet, before anybody runs.
#pragma once
#include <map>
#include <vector>

#include "planguard/lanes.h"

namespace planguard {

// Positions decide matches: the k-th collective of a communicator at every member, the k-th send
// and the k-th receive of a channel. A layout gives each such position its number up front.
class Layout {
 public:
  Layout(const Columns& columns, const Rules& rules, Lanes& lanes);

  // Number of the next round of `slot`'s communicator.
  uint32_t next_round(uint32_t slot) {
    return lanes_.comm_base[comm(slot)] + round_[slot]++;
  }
  // Messages that the rank of `slot` made so far on its communicator, where the model counts them.
  uint32_t messages(uint32_t slot) const { return messages_.empty() ? 0 : messages_[slot]; }
  // Whether a round of `slot` is the first of its communicator.
  bool is_first(uint32_t slot, uint32_t round) const { return lanes_.comm_base[comm(slot)] == round; }
  uint32_t next_pair(uint32_t channel, bool send, bool batched) {
    uint32_t cls = channel_class(channel, send, batched);
    uint32_t slot = (send ? columns_.chan_src_slot : columns_.chan_dst_slot)[channel];
    if (!messages_.empty() && slot != NONE) ++messages_[slot];
    return lanes_.class_base[cls] + (send ? sent_[cls]++ : received_[cls]++);
  }
  // The pair that the next receive of this channel would get.
  uint32_t peek_pair(uint32_t channel, bool batched) const {
    uint32_t cls = channel_class(channel, false, batched);
    return lanes_.class_base[cls] + received_[cls];
  }
  uint32_t comm(uint32_t slot) const {
    return slot_comm_.empty() ? columns_.slot_ginst[slot] : slot_comm_[slot];
  }
  uint32_t comm_size(uint32_t comm) const {
    uint32_t ginst = lanes_.comm_ginst[comm];
    return columns_.ginst_off[ginst + 1] - columns_.ginst_off[ginst];
  }
  // A match named by `key`, made with `need` arrivals on first use.
  uint32_t ext(const Key& key, uint32_t need);
  // A fresh match of one arrival inside one rank.
  uint32_t token(uint32_t rank, uint32_t entry);
  // Whether both sides of a pair exist in the plan.
  bool meets(uint32_t match) const;
  bool probed(uint32_t channel) const { return !probed_.empty() && probed_[channel]; }
  // `new_group` by rank: later calls of the slot use the communicator of this creation.
  uint32_t create_group(uint32_t rank, uint32_t group, uint32_t counter);

  uint32_t channel_class(uint32_t channel, bool send, bool batched) const {
    uint32_t cls = class_of_.empty() ? channel : (send ? class_of_ : recv_class_of_)[channel];
    return batched && rules_.pair_comm ? cls + n_classes_ : cls;
  }

 private:
  void number_comms();
  void number_channels();
  void find_probes();
  uint32_t virtual_comm(uint32_t ginst, uint32_t counter);
  // Slot of `rank` in its instance of `group`, or NONE.
  uint32_t slot_in_group(uint32_t group, uint32_t rank) const;
  void premake_groups();
  void replay_groups(uint32_t rank);

  const Columns& columns_;
  const Rules& rules_;
  Lanes& lanes_;
  std::vector<uint32_t> round_, messages_, sent_, received_, slot_comm_, class_of_, recv_class_of_;
  std::vector<uint8_t> probed_;
  std::vector<uint64_t> sends_, recvs_;
  uint32_t n_classes_ = 0;
  std::vector<uint32_t> rounds_;        // per communicator, while numbering
  std::vector<uint32_t> same_members_;  // per group instance: one number per member list
  DenseMap names_, slots_;
  std::vector<uint32_t> named_;
  std::map<std::vector<uint32_t>, uint32_t> canonical_;
  DenseMap virtual_;
};

}  // namespace planguard
