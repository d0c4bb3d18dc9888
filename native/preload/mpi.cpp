// Records the calls of an MPI program: compiled with the user's own mpicxx (MPI_Comm and
// MPI_Request are pointers in Open MPI and integers in MPICH), and put in front of it by LD_PRELOAD.
//
// What is not followed is marked by name: mpi_others.inc is generated from the user's mpi.h and has
// a wrapper for every function that is neither here nor local.
#include <dlfcn.h>
#include <mpi.h>

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "log.h"

namespace {

using planguard::preload::append;
using planguard::preload::Fields;
using planguard::preload::Op;

// One number per kind of record, stored: never renumbered (planguard/capture/mpi/reading.py).
enum : int {
  kSend = 100, kSsend, kBsend, kRsend, kRecv, kIsend, kIssend, kIbsend, kIrsend, kIrecv, kWait,
  kBcast = 120, kReduce, kAllreduce, kAllgather, kAlltoall, kBarrier, kScatter, kGather,
  kScan, kExscan, kSplit, kDup, kCreate, kFinalize,
  kNotFollowed = 150, kPolled,
};
constexpr int kAny = -2;

std::mutex guard;
std::map<MPI_Comm, std::uint64_t> comms;
std::map<MPI_Request, std::vector<std::uint64_t>> requests;  // in order of their start
std::uint64_t last_request = 0;
std::uint32_t made = 0;
int world_rank = -1;

void note(int kind, const char* name) {
  Fields f{};
  f.op = static_cast<Op>(kind);
  std::uint64_t words[4] = {};
  std::strncpy(reinterpret_cast<char*>(words), name, sizeof words);
  f.comm = words[0], f.count = words[1], f.stream = words[2], f.caller = words[3];
  append(f, 0, 0);
}

void not_followed(const char* name) { note(kNotFollowed, name); }

std::uint64_t identity(MPI_Comm comm) {
  std::lock_guard<std::mutex> lock(guard);
  const auto at = comms.find(comm);
  return at == comms.end() ? 0 : at->second;
}

// Say who this process is in a communicator that was just made: its first member names it.
void learn(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  int inter = 0, rank = 0, size = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter) return not_followed("an intercommunicator");
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  unsigned long long id = (static_cast<unsigned long long>(world_rank + 1) << 32) | ++made;
  PMPI_Bcast(&id, 1, MPI_UNSIGNED_LONG_LONG, 0, comm);
  {
    std::lock_guard<std::mutex> lock(guard);
    comms[comm] = id;
  }
  Fields f{};
  f.op = Op::kCommInfo;
  f.comm = id, f.count = static_cast<std::uint64_t>(size), f.peer = rank;
  append(f, 0, 0);
}

void begun() {
  planguard::preload::mark_mpi();
  // Open MPI's Fortran calls go past the functions of C; its bindings are there only for them.
  if (dlsym(RTLD_DEFAULT, "mpi_send_") != nullptr) not_followed("Fortran's MPI_Send and others");
  PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  learn(MPI_COMM_WORLD);
}

int world_peer(MPI_Comm comm, int peer) {
  if (peer == MPI_ANY_SOURCE) return kAny;
  int found = -1;
  MPI_Group own, world;
  PMPI_Comm_group(comm, &own);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_translate_ranks(own, 1, &peer, world, &found);
  PMPI_Group_free(&own);
  PMPI_Group_free(&world);
  return found == MPI_UNDEFINED ? -1 : found;
}

std::uint64_t bytes(long long count, MPI_Datatype type) {
  int size = 0;
  if (type == MPI_DATATYPE_NULL) return 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
}

Fields message(int kind, std::uint64_t size, int peer, int tag, MPI_Comm comm) {
  Fields f{};
  f.op = static_cast<Op>(kind);
  f.comm = identity(comm);
  if (f.comm == 0) not_followed("a message of an unknown communicator");
  f.count = size;
  f.peer = f.comm == 0 ? -1 : world_peer(comm, peer);
  f.redop = tag == MPI_ANY_TAG ? 0xFFFFFFFFu : static_cast<std::uint32_t>(tag);
  return f;
}

Fields round(int kind, std::uint64_t size, int root, MPI_Comm comm) {
  Fields f{};
  f.op = static_cast<Op>(kind);
  f.comm = identity(comm);
  if (f.comm == 0) not_followed("a collective of an unknown communicator");
  f.count = size;
  f.peer = root < 0 || f.comm == 0 ? -1 : world_peer(comm, root);
  return f;
}

// Open MPI gives all sends that are done at once one request: which of them a wait is for is open,
// unless all are waited for together.
std::uint64_t number(MPI_Request request, bool* shared) {
  std::lock_guard<std::mutex> lock(guard);
  const auto at = requests.find(request);
  if (at == requests.end()) return 0;
  const auto found = at->second.front();
  at->second.erase(at->second.begin());
  *shared = !at->second.empty();
  if (at->second.empty()) requests.erase(at);
  return found;
}

std::uint64_t number(MPI_Request request) {
  bool shared = false;
  const auto found = number(request, &shared);
  if (shared) note(kPolled, "MPI_Wait of a shared request");
  return found;
}

Fields wait_of(std::uint64_t id) {
  Fields f{};
  f.op = static_cast<Op>(kWait);
  f.stream = id;
  return f;
}

template <class Call>
int around(const Fields& f, Call call) {
  append(f, 0, 0);
  const int result = call();
  append(f, 1, result);
  return result;
}

// The number is given before the call, so that it stands in the record; the request comes with it.
template <class Call>
int starting(Fields f, MPI_Request* request, Call call) {
  {
    std::lock_guard<std::mutex> lock(guard);
    f.stream = ++last_request;
  }
  append(f, 0, 0);
  const int result = call();
  if (result == MPI_SUCCESS) {
    std::lock_guard<std::mutex> lock(guard);
    requests[*request].push_back(f.stream);
  }
  append(f, 1, result);
  return result;
}

// Calls that see which of several requests ended: the order seen is one of several.
void ended(MPI_Request before) {
  const auto id = number(before);
  if (id == 0) return;
  append(wait_of(id), 0, 0);
  append(wait_of(id), 1, 0);
}

}  // namespace

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  const int result = PMPI_Init(argc, argv);
  if (result == MPI_SUCCESS) begun();
  return result;
}
int MPI_Init_thread(int* argc, char*** argv, int wanted, int* given) {
  const int result = PMPI_Init_thread(argc, argv, wanted, given);
  if (result == MPI_SUCCESS) begun();
  if (result == MPI_SUCCESS && wanted >= MPI_THREAD_SERIALIZED) {  // who says so means it
    not_followed("MPI from several threads");
  }
  return result;
}
int MPI_Finalize() {
  return around(round(kFinalize, 0, -1, MPI_COMM_WORLD), [] { return PMPI_Finalize(); });
}

#define SEND(Name)                                                                               \
  int MPI_##Name(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c) {          \
    if (peer == MPI_PROC_NULL) return PMPI_##Name(b, n, t, peer, tag, c);                        \
    return around(message(k##Name, bytes(n, t), peer, tag, c),                                   \
                  [&] { return PMPI_##Name(b, n, t, peer, tag, c); });                           \
  }
SEND(Send) SEND(Ssend) SEND(Bsend) SEND(Rsend)
#undef SEND
#define ISEND(Name)                                                                              \
  int MPI_##Name(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c,            \
                 MPI_Request* r) {                                                               \
    if (peer == MPI_PROC_NULL) return PMPI_##Name(b, n, t, peer, tag, c, r);                     \
    return starting(message(k##Name, bytes(n, t), peer, tag, c), r,                              \
                    [&] { return PMPI_##Name(b, n, t, peer, tag, c, r); });                      \
  }
ISEND(Isend) ISEND(Issend) ISEND(Ibsend) ISEND(Irsend)
#undef ISEND
int MPI_Recv(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, MPI_Status* s) {
  if (peer == MPI_PROC_NULL) return PMPI_Recv(b, n, t, peer, tag, c, s);
  return around(message(kRecv, bytes(n, t), peer, tag, c),
                [&] { return PMPI_Recv(b, n, t, peer, tag, c, s); });
}
int MPI_Irecv(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, MPI_Request* r) {
  if (peer == MPI_PROC_NULL) return PMPI_Irecv(b, n, t, peer, tag, c, r);
  return starting(message(kIrecv, bytes(n, t), peer, tag, c), r,
                  [&] { return PMPI_Irecv(b, n, t, peer, tag, c, r); });
}
// A send and a receive at once: both are started, then both are waited for.
int MPI_Sendrecv(const void* b, int n, MPI_Datatype t, int to, int tag, void* rb, int rn,
                 MPI_Datatype rt, int from, int rtag, MPI_Comm c, MPI_Status* s) {
  MPI_Request both[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status seen[2];
  int result = MPI_Irecv(rb, rn, rt, from, rtag, c, &both[0]);
  if (result == MPI_SUCCESS) result = MPI_Isend(b, n, t, to, tag, c, &both[1]);
  if (result == MPI_SUCCESS) result = MPI_Waitall(2, both, seen);
  if (s != MPI_STATUS_IGNORE) *s = seen[0];
  return result;
}
int MPI_Wait(MPI_Request* r, MPI_Status* s) {
  const auto id = number(*r);
  if (id == 0) return PMPI_Wait(r, s);
  return around(wait_of(id), [&] { return PMPI_Wait(r, s); });
}
int MPI_Waitall(int n, MPI_Request* r, MPI_Status* s) {
  std::vector<std::uint64_t> ids;
  std::map<MPI_Request, bool> shared;
  for (int i = 0; i < n; ++i)
    if (const auto id = number(r[i], &shared[r[i]])) ids.push_back(id);
  for (const auto& one : shared)
    if (one.second) note(kPolled, "MPI_Waitall, shared request");
  for (const auto id : ids) append(wait_of(id), 0, 0);
  const int result = PMPI_Waitall(n, r, s);
  for (const auto id : ids) append(wait_of(id), 1, result);
  return result;
}
int MPI_Test(MPI_Request* r, int* flag, MPI_Status* s) {
  const MPI_Request before = *r;
  const int result = PMPI_Test(r, flag, s);
  if (before != MPI_REQUEST_NULL) note(kPolled, "MPI_Test");
  if (*flag) ended(before);
  return result;
}

#define ROUND(Name, kind, size, root, params, args)                                              \
  int MPI_##Name params {                                                                        \
    return around(round(kind, size, root, c), [&] { return PMPI_##Name args; });                 \
  }
ROUND(Barrier, kBarrier, 0, -1, (MPI_Comm c), (c))
ROUND(Bcast, kBcast, bytes(n, t), root, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c),
      (b, n, t, root, c))
ROUND(Reduce, kReduce, bytes(n, t), root,
      (const void* b, void* r, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
      (b, r, n, t, o, root, c))
#define REDUCING(Name)                                                                           \
  ROUND(Name, k##Name, bytes(n, t), -1,                                                          \
        (const void* b, void* r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (b, r, n, t, o, c))
REDUCING(Allreduce) REDUCING(Scan) REDUCING(Exscan)
ROUND(Allgather, kAllgather, bytes(m, u), -1,
      (const void* b, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, MPI_Comm c),
      (b, n, t, r, m, u, c))
ROUND(Alltoall, kAlltoall, bytes(m, u), -1,
      (const void* b, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, MPI_Comm c),
      (b, n, t, r, m, u, c))
bool at_root(int root, MPI_Comm c) {
  int rank = -1;
  PMPI_Comm_rank(c, &rank);
  return rank == root;
}
// What one member gives or gets: the other side's arguments are significant at the root only.
ROUND(Gather, kGather, at_root(root, c) ? bytes(m, u) : bytes(n, t), root,
      (const void* b, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, int root, MPI_Comm c),
      (b, n, t, r, m, u, root, c))
ROUND(Scatter, kScatter, at_root(root, c) ? bytes(n, t) : bytes(m, u), root,
      (const void* b, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, int root, MPI_Comm c),
      (b, n, t, r, m, u, root, c))

#define MAKING(Name, kind, params, args)                                                         \
  int MPI_##Name params {                                                                        \
    const int result = around(round(kind, 0, -1, c), [&] { return PMPI_##Name args; });          \
    if (result == MPI_SUCCESS) learn(*made_of);                                                  \
    return result;                                                                               \
  }
MAKING(Comm_dup, kDup, (MPI_Comm c, MPI_Comm* made_of), (c, made_of))
MAKING(Comm_split, kSplit, (MPI_Comm c, int color, int key, MPI_Comm* made_of),
       (c, color, key, made_of))
MAKING(Comm_create, kCreate, (MPI_Comm c, MPI_Group g, MPI_Comm* made_of), (c, g, made_of))

#include "mpi_others.inc"

}  // extern "C"
