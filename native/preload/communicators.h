// Which communicator a handle stands for: an identity that all members share, rank and size.
#pragma once

#include "abi.h"

namespace planguard::preload {

struct Known {
  std::uint64_t id = 0;
  int rank = -1;
  int size = 0;
  std::uint32_t children = 0;
  bool told = true;  // its kCommInfo is written; rank and size are known
};

// Identity of a communicator handle; the handle itself when its creation was not seen.
std::uint64_t identity(Comm comm);

// Rank and size of a communicator, {0, -1, 0, 0} when its creation was not seen.
Known known(Comm comm);

// Remember a communicator, and record it as kCommInfo.
void learn(Comm comm, std::uint64_t id, int rank, int size);

// Remember a communicator that NCCL has not finished: its handle is written to `at` when the group
// ends in which it is made, or later, when it is nonblocking (ncclInProgress). The rank and size are
// -1 and 0 where NCCL must be asked for them.
void promise(Comm* at, std::uint64_t id, int rank, int size);

// This thread enters or leaves a group. When it leaves the outermost one, the handles that were
// promised in it are there.
void enter_group();
void leave_group();

// Number of the next child of a communicator: members split in the same order, so it is the same.
std::uint32_t next_child(Comm comm);

void forget(Comm comm);

// FNV-1a over bytes: the same unique id gives every member the same identity.
std::uint64_t hash(const void* data, std::size_t bytes, std::uint64_t seed = 0xcbf29ce484222325u);

// A handle for stub mode; it points to its own Known.
Comm make_stub(std::uint64_t id, int rank, int size);

}  // namespace planguard::preload
