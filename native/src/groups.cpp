#include "groups.h"

namespace planguard {

GroupTable::GroupTable(const Compiled& plan, Columns& out) : plan_(plan), out_(out) {
  size_t dims = plan.mesh_sizes.size;
  stride_.assign(dims, 1);
  for (size_t dim = dims; dim-- > 1;) stride_[dim - 1] = stride_[dim] * plan.mesh_sizes[dim];
  size_t groups = plan.group_kind.size;
  sorted_.resize(groups);
  out.ginst_off.push_back(0);
  for (uint32_t group = 0; group < groups; ++group) {
    first_.push_back(static_cast<uint32_t>(out.ginst_group.size()));
    if (plan.group_kind[group] == 0) add_explicit(group);
    else add_family(group);
  }
  out.slot_count.assign(out.slot_rank.size(), 0);
}

void GroupTable::add_explicit(uint32_t group) {
  uint32_t ginst = static_cast<uint32_t>(out_.ginst_group.size());
  out_.ginst_group.push_back(group);
  uint32_t begin = plan_.group_off[group], end = plan_.group_off[group + 1];
  bool identity = true;
  for (uint32_t index = begin; index < end; ++index) {
    uint32_t rank = plan_.group_members[index];
    identity = identity && rank == index - begin;
    out_.slot_rank.push_back(rank);
    out_.slot_ginst.push_back(ginst);
  }
  out_.ginst_off.push_back(static_cast<uint32_t>(out_.slot_rank.size()));
  if (identity) return;  // an empty lookup table means "position = rank"
  auto& table = sorted_[group];
  for (uint32_t index = begin; index < end; ++index)
    table.emplace_back(plan_.group_members[index], index - begin);
  std::sort(table.begin(), table.end());
}

// (index of the instance inside the family, position inside the instance), both row-major.
std::pair<uint32_t, uint32_t> GroupTable::place(uint32_t group, uint32_t rank) const {
  uint32_t mask = plan_.group_mask[group], instance = 0, position = 0;
  for (uint32_t dim = 0; dim < plan_.mesh_sizes.size; ++dim) {
    uint32_t at = coordinate(rank, dim), size = plan_.mesh_sizes[dim];
    if (mask >> dim & 1) position = position * size + at;
    else instance = instance * size + at;
  }
  return {instance, position};
}

void GroupTable::add_family(uint32_t group) {
  uint32_t members = 1, mask = plan_.group_mask[group];
  for (uint32_t dim = 0; dim < plan_.mesh_sizes.size; ++dim)
    if (mask >> dim & 1) members *= plan_.mesh_sizes[dim];
  uint32_t instances = plan_.world_size / members;
  uint32_t first_slot = static_cast<uint32_t>(out_.slot_rank.size());
  uint32_t first_ginst = static_cast<uint32_t>(out_.ginst_group.size());
  for (uint32_t instance = 0; instance < instances; ++instance) {
    out_.ginst_group.push_back(group);
    out_.ginst_off.push_back(first_slot + (instance + 1) * members);
  }
  out_.slot_rank.resize(first_slot + plan_.world_size);
  out_.slot_ginst.resize(first_slot + plan_.world_size);
  for (uint32_t rank = 0; rank < plan_.world_size; ++rank) {
    auto [instance, position] = place(group, rank);
    uint32_t slot = first_slot + instance * members + position;
    out_.slot_rank[slot] = rank;
    out_.slot_ginst[slot] = first_ginst + instance;
  }
}

uint32_t GroupTable::slot_of(uint32_t group, uint32_t rank) const {
  if (plan_.group_kind[group] == 0) return slot_in(first_[group], rank);
  auto [instance, position] = place(group, rank);
  return out_.ginst_off[first_[group] + instance] + position;
}

uint32_t GroupTable::slot_in(uint32_t ginst, uint32_t rank) const {
  uint32_t group = out_.ginst_group[ginst];
  uint32_t begin = out_.ginst_off[ginst], size = out_.ginst_off[ginst + 1] - begin;
  if (plan_.group_kind[group] == 1) {
    auto [instance, position] = place(group, rank);
    return first_[group] + instance == ginst ? begin + position : NONE;
  }
  const auto& table = sorted_[group];
  if (table.empty()) return rank < size ? begin + rank : NONE;
  auto found = std::lower_bound(table.begin(), table.end(), std::make_pair(rank, 0u));
  return found != table.end() && found->first == rank ? begin + found->second : NONE;
}

}  // namespace planguard
