// What the interposer needs of the NCCL ABI: opaque handles, enums as int, the 128-byte unique id.
// tests/integration/test_preload.py compares every signature with nccl.h of an installed release.
#pragma once

#include <cstddef>
#include <cstdint>

namespace planguard::preload {

using Comm = void*;
using Stream = void*;
using Window = void*;

struct UniqueId {
  char internal[128];
};

constexpr int kSuccess = 0;
constexpr int kSystemError = 2;
constexpr int kInvalidUsage = 5;
constexpr int kInProgress = 7;  // of a nonblocking communicator
constexpr int kNoColor = -1;

// One number per recorded function, stored in every record: never renumbered, only added to.
enum class Op : std::uint16_t {
  kNone = 0,
  kAllReduce = 1,
  kBroadcast = 2,
  kBcast = 3,
  kReduce = 4,
  kAllGather = 5,
  kReduceScatter = 6,
  kAlltoAll = 7,
  kGather = 8,
  kScatter = 9,
  kSend = 10,
  kRecv = 11,
  kPutSignal = 12,
  kSignal = 13,
  kWaitSignal = 14,
  kGroupStart = 20,
  kGroupEnd = 21,
  kGroupSimulateEnd = 22,
  kCommInitRank = 30,
  kCommInitRankConfig = 31,
  kCommInitRankScalable = 32,
  kCommInitAll = 33,
  kCommSplit = 34,
  kCommShrink = 35,
  kCommGrow = 36,
  kCommFinalize = 37,
  kCommDestroy = 38,
  kCommAbort = 39,
  kCommRevoke = 40,
  kCommSuspend = 41,
  kCommResume = 42,
  kCommInfo = 50,  // rank and size of a communicator that was just made
};

}  // namespace planguard::preload
