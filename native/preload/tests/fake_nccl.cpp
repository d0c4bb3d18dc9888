// A stand-in for libnccl: every function exists, remembers nothing but its communicators, and
// ncclAllReduce of 666 elements never returns, as a real hang does.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

struct Fake {
  int rank;
  int size;
  int polls = 0;  // so often its state is ncclInProgress
};
struct UniqueId {
  char internal[128];
};

#define API extern "C" __attribute__((visibility("default")))
using Comm = Fake*;

API int ncclGetUniqueId(UniqueId* id) {
  for (int i = 0; i < 128; ++i) id->internal[i] = static_cast<char>(i);
  return 0;
}
API int ncclCommInitRank(Comm* comm, int size, UniqueId, int rank) {
  *comm = new Fake{rank, size};
  return 0;
}
API int ncclCommInitRankConfig(Comm* comm, int size, UniqueId, int rank, void*) {
  *comm = new Fake{rank, size};
  return 0;
}
// Splits wait for the end of the group they are made in, as NCCL's do. With a configuration they are
// nonblocking: the handle is there when the state of its parent was asked for.
static std::vector<std::pair<Comm*, Comm>> waiting;
static int depth = 0;

static void write_handles() {
  for (auto& [at, comm] : waiting) *at = comm;
  waiting.clear();
}

API int ncclCommSplit(Comm comm, int color, int, Comm* made, void* config) {
  // As if even and odd ranks split.
  *made = nullptr;
  if (color < 0) return 0;
  Comm child = new Fake{comm->rank / 2, comm->size / 2, config == nullptr ? 0 : 2};
  if (depth > 0 || config != nullptr) {
    waiting.push_back({made, child});
  } else {
    *made = child;
  }
  return config == nullptr ? 0 : 7;
}
API int ncclCommGetAsyncError(Comm comm, int* state) {
  write_handles();
  *state = comm->polls > 0 ? 7 : 0;
  if (comm->polls > 0) --comm->polls;
  return 0;
}
API int ncclCommUserRank(Comm comm, int* rank) {
  if (comm->polls > 0) return 4;
  *rank = comm->rank;
  return 0;
}
API int ncclCommCount(Comm comm, int* size) {
  if (comm->polls > 0) return 4;
  *size = comm->size;
  return 0;
}
API int ncclCommDestroy(Comm comm) {
  delete comm;
  return 0;
}
API int ncclGroupStart() {
  ++depth;
  return 0;
}
API int ncclGroupEnd() {
  if (--depth == 0) write_handles();
  return 0;
}
API int ncclGroupSimulateEnd(void*) {
  --depth;
  return 0;
}
API int ncclAllReduce(const void*, void*, std::size_t count, int, int, Comm, void*) {
  while (count == 666) pause();
  return count == 13 ? 3 : 0;
}
API int ncclReduceScatter(const void*, void*, std::size_t, int, int, Comm, void*) { return 0; }
API int ncclAllGather(const void*, void*, std::size_t, int, Comm, void*) { return 0; }
// Only the alias: the interposer must find it there.
API int pncclAlltoAll(const void*, void*, std::size_t, int, Comm, void*) { return 0; }
API int ncclBroadcast(const void*, void*, std::size_t, int, int, Comm, void*) { return 0; }
API int ncclReduce(const void*, void*, std::size_t, int, int, int, Comm, void*) { return 0; }
API int ncclSend(const void*, std::size_t, int, int, Comm, void*) { return 0; }
API int ncclRecv(void*, std::size_t, int, int, Comm, void*) { return 0; }
