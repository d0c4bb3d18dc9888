// The log of one process: a header page and records of 64 bytes in a file mapped into memory.
//
// A record is committed by its first word, stored last with release order, so a process that is
// killed leaves every record it committed readable. What does not fit is counted, never wrapped.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi.h"

namespace planguard::preload {

struct Record {
  std::atomic<std::uint32_t> commit;  // 0: not committed; else the low 31 bits of its number, plus 2^31
  std::uint16_t op;
  std::uint8_t phase;  // 0 before the call, 1 after it, 2 its kernels have ended (profiler only)
  std::uint8_t dtype;
  std::uint64_t time;    // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t comm;    // identity that all members of a communicator share
  std::uint64_t count;   // elements; communicator size for kCommInfo
  std::uint64_t stream;  // handle of the CUDA stream
  std::int32_t peer;     // peer or root, communicator rank for kCommInfo, color of a split; -1 none
  std::uint32_t thread;
  std::int32_t result;  // of the call; 0 before it
  std::uint32_t redop;
  std::uint64_t caller;  // return address
};
static_assert(sizeof(Record) == 64);

struct Header {
  char magic[8];  // "PGNCCL1"
  std::uint32_t version;
  std::uint32_t record_bytes;
  std::uint64_t capacity;  // records that fit
  std::atomic<std::uint64_t> head;
  std::uint64_t pid;
  std::uint64_t realtime_ns;   // of the moment the log was opened
  std::uint64_t monotonic_ns;  // the same moment on the clock of the records
  std::int32_t rank;           // environment variable RANK, or -1
  std::int32_t world_size;     // environment variable WORLD_SIZE, or -1
  std::atomic<std::uint32_t> flags;  // 1 stub mode, 2 written by the profiler plugin, 4 calls of MPI
};
constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(Header) <= kHeaderBytes);

// What a call says of itself.
struct Fields {
  Op op;
  std::uint64_t comm = 0;
  std::uint64_t count = 0;
  std::uint64_t stream = 0;
  std::int32_t peer = -1;
  std::uint8_t dtype = 255;
  std::uint32_t redop = 0;
  std::uint64_t caller = 0;
};

// Write one record; nothing happens when there is no log.
void append(const Fields& fields, int phase, int result);

// Say in the header that the records come from the profiler plugin.
void mark_profiler();

// Say in the header that the records are calls of MPI (mpi.cpp).
void mark_mpi();

// True when PLANGUARD_PRELOAD_STUB is set: calls return success and move nothing.
bool is_stub();

}  // namespace planguard::preload
