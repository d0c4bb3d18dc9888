#include "layout.h"

#include <algorithm>

namespace planguard {

Layout::Layout(const Columns& columns, const Rules& rules, Lanes& lanes)
    : columns_(columns), rules_(rules), lanes_(lanes) {
  round_.assign(columns.slot_rank.size(), 0);
  number_comms();
  number_channels();
  if (rules_.counts_messages && !columns_.chan_ginst.empty())
    messages_.assign(columns_.slot_rank.size(), 0);
  // Until its own `new_group` a rank uses the group as the plan made it.
  if (columns_.has_new_group) slot_comm_ = columns_.slot_ginst;
  lanes_.ext_base = static_cast<uint32_t>(lanes_.need.size());
  find_probes();
}

void Layout::number_comms() {
  size_t n = columns_.ginst_group.size();
  lanes_.comm_ginst.resize(n);
  for (uint32_t ginst = 0; ginst < n; ++ginst) lanes_.comm_ginst[ginst] = ginst;
  if (columns_.has_new_group) {
    premake_groups();
  } else {
    rounds_.assign(n, 0);
    for (uint32_t slot = 0; slot < columns_.slot_ginst.size(); ++slot) {
      uint32_t& rounds = rounds_[columns_.slot_ginst[slot]];
      rounds = std::max(rounds, columns_.slot_count[slot]);
    }
  }
  uint64_t total = 0;
  for (uint32_t comm = 0; comm < lanes_.comm_ginst.size(); ++comm) {
    lanes_.comm_base.push_back(static_cast<uint32_t>(total));
    total += rounds_[comm];
    if (total < (1u << 30)) lanes_.need.resize(total, comm_size(comm));
  }
  lanes_.overflow |= total >= (1u << 30);
  lanes_.p2p_base = static_cast<uint32_t>(total);
}

// Channels fall into one class when the model tells them apart no further.
void Layout::number_channels() {
  size_t n = columns_.chan_ginst.size();
  bool one_tag = std::all_of(columns_.chan_tag.begin(), columns_.chan_tag.end(),
                             [&](uint32_t tag) { return tag == columns_.chan_tag[0]; });
  n_classes_ = static_cast<uint32_t>(n);
  if (columns_.has_new_group || (!rules_.use_tags && !one_tag)) {
    DenseMap classes;
    auto name = [&](uint32_t channel, uint32_t slot) {
      uint32_t home = slot == NONE ? columns_.chan_ginst[channel] : comm(slot);
      uint32_t tag = rules_.use_tags ? columns_.chan_tag[channel] : 0;
      return classes.intern({home, columns_.chan_src[channel], columns_.chan_dst[channel], tag});
    };
    for (uint32_t channel = 0; channel < n; ++channel) {
      class_of_.push_back(name(channel, columns_.chan_src_slot[channel]));
      recv_class_of_.push_back(name(channel, columns_.chan_dst_slot[channel]));
    }
    n_classes_ = classes.size();
  }
  sends_.assign(n_classes_, 0);
  recvs_.assign(n_classes_, 0);
  lanes_.class_chan.assign(n_classes_, 0);
  for (uint32_t channel = 0; channel < n; ++channel) {
    uint32_t send = class_of_.empty() ? channel : class_of_[channel];
    uint32_t recv = class_of_.empty() ? channel : recv_class_of_[channel];
    sends_[send] += columns_.send_count[channel];
    recvs_[recv] += columns_.recv_count[channel];
    lanes_.class_chan[send] = lanes_.class_chan[recv] = channel;
  }
  int copies = rules_.pair_comm ? 2 : 1;
  uint64_t total = lanes_.need.size();
  for (int copy = 0; copy < copies; ++copy)
    for (uint32_t cls = 0; cls < n_classes_; ++cls) {
      lanes_.class_base.push_back(static_cast<uint32_t>(total));
      total += std::max(sends_[cls], recvs_[cls]);
    }
  lanes_.overflow |= total >= (1u << 30);
  if (!lanes_.overflow) lanes_.need.resize(total, 2);
  sent_.assign(size_t(n_classes_) * copies, 0);
  received_.assign(size_t(n_classes_) * copies, 0);
}

bool Layout::meets(uint32_t match) const {
  auto above = std::upper_bound(lanes_.class_base.begin(), lanes_.class_base.end(), match);
  size_t cls = static_cast<size_t>(above - lanes_.class_base.begin()) - 1;
  uint32_t position = match - lanes_.class_base[cls];
  cls %= n_classes_;
  return position < sends_[cls] && position < recvs_[cls];
}

void Layout::find_probes() {
  if (!columns_.has_probe) return;
  probed_.assign(columns_.chan_ginst.size(), 0);
  for (size_t entry = 0; entry < columns_.op.size(); ++entry)
    if ((columns_.op[entry] & KIND_MASK) == PROBE) probed_[columns_.arg[entry]] = 1;
}

uint32_t Layout::ext(const Key& key, uint32_t need) {
  uint32_t name = names_.intern(key);
  if (name == named_.size()) {
    named_.push_back(static_cast<uint32_t>(lanes_.need.size()));
    lanes_.need.push_back(need);
    lanes_.ext.push_back(key);
    lanes_.overflow |= lanes_.need.size() >= (1u << 30);
  }
  return named_[name];
}

uint32_t Layout::token(uint32_t rank, uint32_t entry) {
  uint32_t id = static_cast<uint32_t>(lanes_.need.size());
  lanes_.need.push_back(1);
  lanes_.ext.push_back({static_cast<uint32_t>(Ext::token) << 24, rank, entry, 0});
  lanes_.overflow |= id >= (1u << 30) - 1;
  return id;
}

// torch.distributed names groups by a per-process counter: two ranks share a communicator when
// member list and counter agree, whatever the plan calls the group.
uint32_t Layout::virtual_comm(uint32_t ginst, uint32_t counter) {
  if (same_members_.empty()) same_members_.assign(columns_.ginst_group.size(), NONE);
  if (same_members_[ginst] == NONE) {
    std::vector<uint32_t> members(columns_.slot_rank.begin() + columns_.ginst_off[ginst],
                                  columns_.slot_rank.begin() + columns_.ginst_off[ginst + 1]);
    uint32_t fresh = static_cast<uint32_t>(canonical_.size());
    same_members_[ginst] = canonical_.emplace(std::move(members), fresh).first->second;
  }
  uint32_t index = virtual_.intern({same_members_[ginst], counter, 0, 0});
  uint32_t comm = static_cast<uint32_t>(columns_.ginst_group.size()) + index;
  if (comm == lanes_.comm_ginst.size()) lanes_.comm_ginst.push_back(ginst);
  return comm;
}

uint32_t Layout::slot_in_group(uint32_t group, uint32_t rank) const {
  uint32_t slot = slots_.lookup({group, rank, 0, 0});
  return slot < slots_.size() ? slot : NONE;
}

// Two ranks may use a created communicator under different group names, so its rounds are counted
// per creation, not per group.
void Layout::premake_groups() {
  slot_comm_ = columns_.slot_ginst;
  for (uint32_t slot = 0; slot < columns_.slot_rank.size(); ++slot)
    slots_.intern({columns_.ginst_group[columns_.slot_ginst[slot]], columns_.slot_rank[slot], 0, 0});
  for (uint32_t rank = 0; rank < columns_.world_size; ++rank) replay_groups(rank);
  rounds_.resize(lanes_.comm_ginst.size(), 0);
  round_.assign(round_.size(), 0);
}

void Layout::replay_groups(uint32_t rank) {
  uint32_t counter = 0;
  for (uint64_t at = columns_.rank_off[rank]; at < columns_.rank_off[rank + 1]; ++at) {
    uint8_t kind = columns_.op[at] & KIND_MASK;
    if (kind == NEW_GROUP) {
      create_group(rank, columns_.arg[at], counter++);
    } else if (is_collective(kind)) {
      uint32_t slot = columns_.arg[at], home = comm(slot);
      if (rounds_.size() <= home) rounds_.resize(home + 1, 0);
      rounds_[home] = std::max(rounds_[home], ++round_[slot]);
    }
  }
}

uint32_t Layout::create_group(uint32_t rank, uint32_t group, uint32_t counter) {
  uint32_t slot = slot_in_group(group, rank);
  if (slot == NONE) return NONE;
  slot_comm_[slot] = virtual_comm(columns_.slot_ginst[slot], counter);
  round_[slot] = 0;
  if (!messages_.empty()) messages_[slot] = 0;
  return slot_comm_[slot];
}

}  // namespace planguard
