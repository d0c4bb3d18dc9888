// Operation codes of the columnar IR; planguard/plan/actions.py holds the same numbers.
#pragma once
#include <cstdint>

namespace planguard {

enum Kind : uint8_t {
  NOP = 0,
  SEND = 1,
  RECV = 2,
  SSEND = 3,
  BSEND = 4,
  PROBE = 5,
  ALL_REDUCE = 8,
  ALL_GATHER = 9,
  ALL_GATHER_INTO_TENSOR = 10,
  REDUCE_SCATTER = 11,
  REDUCE_SCATTER_TENSOR = 12,
  BROADCAST = 13,
  REDUCE = 14,
  GATHER = 15,
  SCATTER = 16,
  ALL_TO_ALL = 17,
  ALL_TO_ALL_SINGLE = 18,
  BARRIER = 19,
  SCAN = 20,
  EXSCAN = 21,
  COALESCED_ALL_REDUCE = 22,
  COALESCED_ALL_GATHER = 23,
  COALESCED_REDUCE_SCATTER = 24,
  // 25 to 31: operations that other packages register.
  FIRST_OPERATION = 25,
  LAST_OPERATION = 31,
  WAIT = 32,
  WAIT_MANY = 33,
  TEST = 34,
  DROP = 35,
  BATCH = 36,
  COMPUTE = 37,
  HOST_SYNC = 38,
  EVENT_RECORD = 39,
  EVENT_WAIT = 40,
  INIT = 41,
  NEW_GROUP = 42,
  DESTROY = 43,
  COPY = 44,
  EXIT = 45,
  REPEAT = 48,
  // Unordered, threads, choice and `after`: not decided by this executor.
  FIRST_MARKER = 49,
  UNORDERED_BEGIN = 49,
  UNORDERED_END = 50,
  THREADS_BEGIN = 53,
  THREADS_END = 54,
  AFTER = 58,
  LAST_MARKER = 58,
  BIND = 59,
};

constexpr uint8_t KIND_MASK = 63;
constexpr uint8_t MEMBER = 64;   // inside a batch
constexpr uint8_t ASYNC = 128;   // completes at a wait, not at once

constexpr uint32_t NONE = 0xFFFFFFFFu;
constexpr uint64_t UNKNOWN_SIZE = ~0ull;

inline bool is_send(uint8_t kind) { return kind == SEND || kind == SSEND || kind == BSEND; }
inline bool is_p2p(uint8_t kind) { return kind >= SEND && kind <= PROBE; }
inline bool is_collective(uint8_t kind) { return kind >= ALL_REDUCE && kind <= LAST_OPERATION; }
inline bool is_registered(uint8_t kind) {
  return kind >= FIRST_OPERATION && kind <= LAST_OPERATION;
}

}  // namespace planguard
