// One rank of a job that calls NCCL as its arguments say: job RANK SIZE TOKEN...
//   ar:N all_reduce, rs:N, ag:N, a2a:N, bc:N:ROOT, rd:N:ROOT, s:PEER:N, r:PEER:N, gs, ge,
//   dt:TYPE (NCCL's number of the element type of later calls; 7, float, at first),
//   split:COLOR (later calls use the child), nsplit:COLOR (nonblocking, polled as torch does),
//   gsplit:COLOR (inside a group), up (back to the parent), gsim (ncclGroupSimulateEnd), destroy,
//   fork, time:N
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct UniqueId {
  char internal[128];
};
using Comm = void*;
extern "C" {
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(Comm*, int, UniqueId, int);
int ncclCommSplit(Comm, int, int, Comm*, void*);
int ncclCommGetAsyncError(Comm, int*);
int ncclGroupSimulateEnd(void*);
int ncclCommUserRank(Comm, int*);
int ncclCommCount(Comm, int*);
int ncclCommDestroy(Comm);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllReduce(const void*, void*, std::size_t, int, int, Comm, void*);
int ncclReduceScatter(const void*, void*, std::size_t, int, int, Comm, void*);
int ncclAllGather(const void*, void*, std::size_t, int, Comm, void*);
int ncclBroadcast(const void*, void*, std::size_t, int, int, Comm, void*);
int ncclReduce(const void*, void*, std::size_t, int, int, int, Comm, void*);
int ncclSend(const void*, std::size_t, int, int, Comm, void*);
int ncclRecv(void*, std::size_t, int, int, Comm, void*);
}

static int element = 7;

static double seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

static void issue(const char* token, std::vector<Comm>& comms, int rank) {
  char name[16] = "";
  long a = 0;
  long b = 0;
  std::sscanf(token, "%15[a-z0-9]:%ld:%ld", name, &a, &b);
  Comm comm = comms.back();
  const auto n = static_cast<std::size_t>(a);
  const auto m = static_cast<std::size_t>(b);
  const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("dt")) element = static_cast<int>(a);
  if (is("ar")) ncclAllReduce(nullptr, nullptr, n, element, 0, comm, nullptr);
  if (is("rs")) ncclReduceScatter(nullptr, nullptr, n, element, 0, comm, nullptr);
  if (is("ag")) ncclAllGather(nullptr, nullptr, n, element, comm, nullptr);
  if (is("a2a")) {
    // The stand-in has the alias only, so this name comes from the interposer.
    using AlltoAll = int (*)(const void*, void*, std::size_t, int, Comm, void*);
    reinterpret_cast<AlltoAll>(dlsym(RTLD_DEFAULT, "ncclAlltoAll"))(nullptr, nullptr, n, element,
                                                                    comm, nullptr);
  }
  if (is("bc")) ncclBroadcast(nullptr, nullptr, n, element, static_cast<int>(b), comm, nullptr);
  if (is("rd")) ncclReduce(nullptr, nullptr, n, element, 0, static_cast<int>(b), comm, nullptr);
  if (is("s")) ncclSend(nullptr, m, element, static_cast<int>(a), comm, nullptr);
  if (is("r")) ncclRecv(nullptr, m, element, static_cast<int>(a), comm, nullptr);
  if (is("gs")) ncclGroupStart();
  if (is("ge")) ncclGroupEnd();
  if (is("gsim")) ncclGroupSimulateEnd(nullptr);
  if (is("destroy")) ncclCommDestroy(comm);
  if (is("up")) comms.pop_back();
  if (is("split") || is("nsplit") || is("gsplit")) {
    Comm made = nullptr;
    int config = 0;
    if (is("gsplit")) ncclGroupStart();
    const int result = ncclCommSplit(comm, static_cast<int>(a), rank, &made,
                                     is("nsplit") ? static_cast<void*>(&config) : nullptr);
    if (result != (is("nsplit") ? 7 : 0)) std::exit(40 + result);
    if (is("gsplit")) ncclGroupEnd();
    int state = 7;
    ncclCommGetAsyncError(comm, &state);
    for (state = 7; state == 7;) ncclCommGetAsyncError(made, &state);
    int place = -1;
    int size = -1;
    ncclCommUserRank(made, &place);
    ncclCommCount(made, &size);
    std::printf("split %d of %d\n", place, size);
    comms.push_back(made);
  }
  if (is("fork")) {
    const pid_t child = fork();
    if (child == 0) {
      ncclAllReduce(nullptr, nullptr, 5, element, 0, comm, nullptr);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  if (is("time")) {
    const double start = seconds();
    for (long i = 0; i < a; ++i) ncclAllReduce(nullptr, nullptr, 8, element, 0, comm, nullptr);
    std::printf("%.1f ns per call\n", (seconds() - start) / static_cast<double>(a) * 1e9);
  }
}

int main(int argc, char** argv) {
  const int rank = std::atoi(argv[1]);
  const int size = std::atoi(argv[2]);
  UniqueId id;
  std::memset(&id, 7, sizeof id);
  std::vector<Comm> comms(1);
  ncclCommInitRank(&comms[0], size, id, rank);
  for (int i = 3; i < argc; ++i) issue(argv[i], comms, rank);
  std::printf("done\n");
  return 0;
}
