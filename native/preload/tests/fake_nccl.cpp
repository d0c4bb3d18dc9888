// A stand-in for libnccl: every function exists, remembers nothing but its communicators, and
// ncclAllReduce of 666 elements never returns, as a real hang does.
#include <unistd.h>

#include <cstddef>
#include <cstdint>

struct Fake {
  int rank;
  int size;
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
API int ncclCommSplit(Comm comm, int color, int, Comm* made, void*) {
  // As if even and odd ranks split.
  *made = color < 0 ? nullptr : new Fake{comm->rank / 2, comm->size / 2};
  return 0;
}
API int ncclCommUserRank(Comm comm, int* rank) {
  *rank = comm->rank;
  return 0;
}
API int ncclCommCount(Comm comm, int* size) {
  *size = comm->size;
  return 0;
}
API int ncclCommDestroy(Comm comm) {
  delete comm;
  return 0;
}
API int ncclGroupStart() { return 0; }
API int ncclGroupEnd() { return 0; }
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
