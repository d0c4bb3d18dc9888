// Group instances of a plan and who is a member of which.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "planguard/columns.h"

namespace planguard {

class GroupTable {
 public:
  GroupTable(const Compiled& plan, Columns& out);

  // Slot of `rank` in its instance of `group`, or NONE.
  uint32_t slot_of(uint32_t group, uint32_t rank) const;
  // Slot of `rank` in the given instance, or NONE.
  uint32_t slot_in(uint32_t ginst, uint32_t rank) const;
  uint32_t coordinate(uint32_t rank, uint32_t dim) const {
    return rank / stride_[dim] % plan_.mesh_sizes[dim];
  }
  uint32_t stride(uint32_t dim) const { return stride_[dim]; }

 private:
  void add_explicit(uint32_t group);
  void add_family(uint32_t group);
  std::pair<uint32_t, uint32_t> place(uint32_t group, uint32_t rank) const;

  const Compiled& plan_;
  Columns& out_;
  std::vector<uint32_t> stride_, first_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> sorted_;
};

}  // namespace planguard
