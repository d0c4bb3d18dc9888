// Records the calls of an MPI program: compiled with the user's own mpicxx (MPI_Comm and
// MPI_Request are pointers in Open MPI and integers in MPICH), and put in front of it by
// LD_PRELOAD.
//
// What is not followed is marked by name: mpi_others.inc is generated from the user's mpi.h and has
// a wrapper for every function that is neither here nor local.
#include "mpi_records.h"
#include "mpi_rounds.h"

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  const int result = PMPI_Init(argc, argv);
  if (result == MPI_SUCCESS) begun();
  return result;
}
int MPI_Init_thread(int* argc, char*** argv, int wanted, int* given) {
  const int result = PMPI_Init_thread(argc, argv, wanted, given);
  if (result == MPI_SUCCESS) begun();
  return result;
}
int MPI_Finalize() {
  return around(round(kFinalize, {}, -1, MPI_COMM_WORLD), [] { return PMPI_Finalize(); });
}

#define SEND(Name)                                                                      \
  int MPI_##Name(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c) { \
    if (peer == MPI_PROC_NULL) return PMPI_##Name(b, n, t, peer, tag, c);               \
    return around(message(k##Name, n, t, peer, tag, c),                                 \
                  [&] { return PMPI_##Name(b, n, t, peer, tag, c); });                  \
  }
SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)
#undef SEND
#define ISEND(Name)                                                                   \
  int MPI_##Name(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, \
                 MPI_Request* r) {                                                    \
    if (peer == MPI_PROC_NULL) return PMPI_##Name(b, n, t, peer, tag, c, r);          \
    return starting(message(k##Name, n, t, peer, tag, c), r,                          \
                    [&] { return PMPI_##Name(b, n, t, peer, tag, c, r); });           \
  }
ISEND(Isend)
ISEND(Issend)
ISEND(Ibsend)
ISEND(Irsend)
#undef ISEND
    int MPI_Recv(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, MPI_Status* s) {
  if (peer == MPI_PROC_NULL) return PMPI_Recv(b, n, t, peer, tag, c, s);
  receives();
  return around(message(kRecv, n, t, peer, tag, c),
                [&] { return PMPI_Recv(b, n, t, peer, tag, c, s); });
}
int MPI_Irecv(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, MPI_Request* r) {
  if (peer == MPI_PROC_NULL) return PMPI_Irecv(b, n, t, peer, tag, c, r);
  receives();
  return starting(message(kIrecv, n, t, peer, tag, c), r,
                  [&] { return PMPI_Irecv(b, n, t, peer, tag, c, r); });
}
int MPI_Sendrecv(const void* b, int n, MPI_Datatype t, int to, int tag, void* rb, int rn,
                 MPI_Datatype rt, int from, int rtag, MPI_Comm c, MPI_Status* s) {
  receives();
  const auto calls =
      both(message(kIrecv, rn, rt, from, rtag, c), from, message(kIsend, n, t, to, tag, c), to);
  return exchange(calls,
                  [&] { return PMPI_Sendrecv(b, n, t, to, tag, rb, rn, rt, from, rtag, c, s); });
}
int MPI_Sendrecv_replace(void* b, int n, MPI_Datatype t, int to, int tag, int from, int rtag,
                         MPI_Comm c, MPI_Status* s) {
  receives();
  const auto calls =
      both(message(kIrecv, n, t, from, rtag, c), from, message(kIsend, n, t, to, tag, c), to);
  return exchange(calls, [&] { return PMPI_Sendrecv_replace(b, n, t, to, tag, from, rtag, c, s); });
}

// Persistent requests: each start is a message of its own.
#define INIT(Name, kind, buffer)                                                                   \
  int MPI_##Name(buffer b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, MPI_Request* r) { \
    const int result = PMPI_##Name(b, n, t, peer, tag, c, r);                                      \
    if (result != MPI_SUCCESS || peer == MPI_PROC_NULL) return result;                             \
    const Fields f = message(kind, n, t, peer, tag, c);                                            \
    std::lock_guard<std::mutex> lock(guard);                                                       \
    persistent[*r] = f;                                                                            \
    return result;                                                                                 \
  }
INIT(Send_init, kIsend, const void*)
INIT(Ssend_init, kIssend, const void*)
INIT(Bsend_init, kIbsend, const void*)
INIT(Rsend_init, kIrsend, const void*)
INIT(Recv_init, kIrecv, void*)
#undef INIT
int MPI_Start(MPI_Request* r) {
  Fields f{};
  {
    std::lock_guard<std::mutex> lock(guard);
    const auto at = persistent.find(*r);
    if (at != persistent.end()) f = at->second;
  }
  if (f.comm == 0)
    return PMPI_Start(r);  // to nobody, or of a kind that was marked when it was made
  if (f.op == static_cast<Op>(kIrecv)) receives();
  return starting(f, r, [&] { return PMPI_Start(r); });
}
int MPI_Startall(int n, MPI_Request* r) {
  for (int i = 0; i < n; ++i)
    if (const int result = MPI_Start(&r[i]); result != MPI_SUCCESS) return result;
  return MPI_SUCCESS;
}
// What is freed goes on, and has ended when MPI_Finalize returns.
int MPI_Request_free(MPI_Request* r) {
  const MPI_Request before = *r;
  const int result = PMPI_Request_free(r);
  ended(kFreed, before);
  std::lock_guard<std::mutex> lock(guard);
  persistent.erase(before);
  return result;
}

int MPI_Probe(int peer, int tag, MPI_Comm c, MPI_Status* s) {
  if (peer == MPI_PROC_NULL) return PMPI_Probe(peer, tag, c, s);
  receives();
  return around(message(kProbe, 0, MPI_BYTE, peer, tag, c),
                [&] { return PMPI_Probe(peer, tag, c, s); });
}
int MPI_Iprobe(int peer, int tag, MPI_Comm c, int* flag, MPI_Status* s) {
  if (peer != MPI_PROC_NULL) polled("MPI_Iprobe");
  return PMPI_Iprobe(peer, tag, c, flag, s);
}
int MPI_Mprobe(int peer, int tag, MPI_Comm c, MPI_Message* m, MPI_Status* s) {
  if (peer == MPI_PROC_NULL) return PMPI_Mprobe(peer, tag, c, m, s);
  receives();
  MPI_Status seen{};
  const int result = around(message(kMprobe, 0, MPI_BYTE, peer, tag, c),
                            [&] { return PMPI_Mprobe(peer, tag, c, m, &seen); });
  if (result == MPI_SUCCESS) took(m, c, seen);
  if (s != MPI_STATUS_IGNORE) *s = seen;
  return result;
}
int MPI_Improbe(int peer, int tag, MPI_Comm c, int* flag, MPI_Message* m, MPI_Status* s) {
  if (peer != MPI_PROC_NULL) polled("MPI_Improbe");
  MPI_Status seen{};
  const int result = PMPI_Improbe(peer, tag, c, flag, m, &seen);
  if (result == MPI_SUCCESS && *flag) took(m, c, seen);
  if (s != MPI_STATUS_IGNORE) *s = seen;
  return result;
}
int MPI_Mrecv(void* b, int n, MPI_Datatype t, MPI_Message* m, MPI_Status* s) {
  if (*m == MPI_MESSAGE_NO_PROC) return PMPI_Mrecv(b, n, t, m, s);
  return around(give(*m, kRecv, n, t), [&] { return PMPI_Mrecv(b, n, t, m, s); });
}
int MPI_Imrecv(void* b, int n, MPI_Datatype t, MPI_Message* m, MPI_Request* r) {
  if (*m == MPI_MESSAGE_NO_PROC) return PMPI_Imrecv(b, n, t, m, r);
  return starting(give(*m, kIrecv, n, t), r, [&] { return PMPI_Imrecv(b, n, t, m, r); });
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
int MPI_Waitany(int n, MPI_Request* r, int* index, MPI_Status* s) {
  return waiting("MPI_Waitany", n, r, nullptr, index, [&] { return PMPI_Waitany(n, r, index, s); });
}
int MPI_Waitsome(int n, MPI_Request* r, int* count, int* indices, MPI_Status* s) {
  return waiting("MPI_Waitsome", n, r, count, indices,
                 [&] { return PMPI_Waitsome(n, r, count, indices, s); });
}
int MPI_Test(MPI_Request* r, int* flag, MPI_Status* s) {
  const MPI_Request before = *r;
  const int result = PMPI_Test(r, flag, s);
  asked("MPI_Test", {before});
  if (*flag) ended(kTested, before);
  return result;
}
int MPI_Request_get_status(MPI_Request r, int* flag, MPI_Status* s) {
  asked("MPI_Request_get_status", {r});
  return PMPI_Request_get_status(r, flag, s);
}
int MPI_Testall(int n, MPI_Request* r, int* flag, MPI_Status* s) {
  const std::vector<MPI_Request> before(r, r + n);
  const int result = PMPI_Testall(n, r, flag, s);
  asked("MPI_Testall", before);
  for (const auto one : before)
    if (*flag) ended(kTested, one);
  return result;
}
int MPI_Testany(int n, MPI_Request* r, int* index, int* flag, MPI_Status* s) {
  const std::vector<MPI_Request> before(r, r + n);
  const int result = PMPI_Testany(n, r, index, flag, s);
  asked("MPI_Testany", before);
  if (*flag && *index != MPI_UNDEFINED) ended(kTested, before[static_cast<std::size_t>(*index)]);
  return result;
}
int MPI_Testsome(int n, MPI_Request* r, int* count, int* indices, MPI_Status* s) {
  const std::vector<MPI_Request> before(r, r + n);
  const int result = PMPI_Testsome(n, r, count, indices, s);
  asked("MPI_Testsome", before);
  if (*count == MPI_UNDEFINED) return result;
  for (int i = 0; i < *count; ++i) ended(kTested, before[static_cast<std::size_t>(indices[i])]);
  return result;
}

// A collective and its nonblocking form. "b, n, t" is what is given, "r, m, u" what is got.
#define BARE(...) __VA_ARGS__
#define BOTH(Name, Iname, fields, params, args)                             \
  int MPI_##Name(BARE params) {                                             \
    return around(fields, [&] { return PMPI_##Name(BARE args); });          \
  }                                                                         \
  int MPI_##Iname(BARE params, MPI_Request* q) {                            \
    return starting(fields, q, [&] { return PMPI_##Iname(BARE args, q); }); \
  }
BOTH(Barrier, Ibarrier, round(kBarrier, {}, -1, c), (MPI_Comm c), (c))
BOTH(Bcast, Ibcast, round(kBcast, of(n, t), root, c),
     (void* b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
BOTH(Reduce, Ireduce, reducing(kReduce, n, t, o, root, c),
     (const void* b, void* r, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
     (b, r, n, t, o, root, c))
#define REDUCES(Name, Iname, fields)                                                               \
  BOTH(Name, Iname, fields, (const void* b, void* r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), \
       (b, r, n, t, o, c))
REDUCES(Allreduce, Iallreduce, reducing(kAllreduce, n, t, o, -1, c))
REDUCES(Scan, Iscan, reducing(kScan, n, t, o, -1, c))
REDUCES(Exscan, Iexscan, reducing(kExscan, n, t, o, -1, c))
REDUCES(Reduce_scatter_block, Ireduce_scatter_block, reducing(kReduceScatterBlock, n, t, o, -1, c))
BOTH(Reduce_scatter, Ireduce_scatter, reduce_scatter(n, t, o, c),
     (const void* b, void* r, const int* n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
     (b, r, n, t, o, c))
BOTH(Allgather, Iallgather, allgather(b, n, t, m, u, c),
     (const void* b, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, MPI_Comm c),
     (b, n, t, r, m, u, c))
BOTH(Allgatherv, Iallgatherv, allgatherv(b, n, t, m, u, c),
     (const void* b, int n, MPI_Datatype t, void* r, const int* m, const int* at, MPI_Datatype u,
      MPI_Comm c),
     (b, n, t, r, m, at, u, c))
BOTH(Alltoall, Ialltoall, alltoall(b, n, t, m, u, c),
     (const void* b, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, MPI_Comm c),
     (b, n, t, r, m, u, c))
BOTH(Alltoallv, Ialltoallv, alltoallv(b, n, t, m, u, c),
     (const void* b, const int* n, const int* of_b, MPI_Datatype t, void* r, const int* m,
      const int* of_r, MPI_Datatype u, MPI_Comm c),
     (b, n, of_b, t, r, m, of_r, u, c))
BOTH(Alltoallw, Ialltoallw, alltoallw(b, n, t, m, u, c),
     (const void* b, const int* n, const int* of_b, const MPI_Datatype* t, void* r, const int* m,
      const int* of_r, const MPI_Datatype* u, MPI_Comm c),
     (b, n, of_b, t, r, m, of_r, u, c))
BOTH(Gather, Igather, gather(b, n, t, m, u, root, c),
     (const void* b, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, int root, MPI_Comm c),
     (b, n, t, r, m, u, root, c))
BOTH(Gatherv, Igatherv, gatherv(b, n, t, m, u, root, c),
     (const void* b, int n, MPI_Datatype t, void* r, const int* m, const int* at, MPI_Datatype u,
      int root, MPI_Comm c),
     (b, n, t, r, m, at, u, root, c))
BOTH(Scatter, Iscatter, scatter(n, t, r, m, u, root, c),
     (const void* b, int n, MPI_Datatype t, void* r, int m, MPI_Datatype u, int root, MPI_Comm c),
     (b, n, t, r, m, u, root, c))
BOTH(Scatterv, Iscatterv, scatterv(n, t, r, m, u, root, c),
     (const void* b, const int* n, const int* at, MPI_Datatype t, void* r, int m, MPI_Datatype u,
      int root, MPI_Comm c),
     (b, n, at, t, r, m, u, root, c))

int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op) {
  const int result = PMPI_Op_create(function, commutes, op);
  const auto name = named(reinterpret_cast<void*>(function));
  std::lock_guard<std::mutex> lock(guard);
  if (result == MPI_SUCCESS) own_ops[*op] = name;
  return result;
}

#define MAKING(Name, kind, params, args)                                                 \
  int MPI_##Name params {                                                                \
    const int result = around(round(kind, {}, -1, c), [&] { return PMPI_##Name args; }); \
    if (result == MPI_SUCCESS) learn(*made_of);                                          \
    return result;                                                                       \
  }
MAKING(Comm_dup, kDup, (MPI_Comm c, MPI_Comm* made_of), (c, made_of))
MAKING(Comm_dup_with_info, kDupInfo, (MPI_Comm c, MPI_Info i, MPI_Comm* made_of), (c, i, made_of))
MAKING(Comm_split, kSplit, (MPI_Comm c, int color, int key, MPI_Comm* made_of),
       (c, color, key, made_of))
MAKING(Comm_split_type, kSplitType, (MPI_Comm c, int kind, int key, MPI_Info i, MPI_Comm* made_of),
       (c, kind, key, i, made_of))
MAKING(Comm_create, kCreate, (MPI_Comm c, MPI_Group g, MPI_Comm* made_of), (c, g, made_of))
MAKING(Cart_create, kCartCreate,
       (MPI_Comm c, int n, const int* dims, const int* wraps, int reorder, MPI_Comm* made_of),
       (c, n, dims, wraps, reorder, made_of))
MAKING(Cart_sub, kCartSub, (MPI_Comm c, const int* kept, MPI_Comm* made_of), (c, kept, made_of))
// Collective over the members of the group alone: a barrier of what it makes. While it is under way
// there is no name for that.
int MPI_Comm_create_group(MPI_Comm c, MPI_Group g, int tag, MPI_Comm* made_of) {
  Fields f{};
  f.op = static_cast<Op>(kCreateGroup);
  const int result = around(f, [&] { return PMPI_Comm_create_group(c, g, tag, made_of); });
  if (result != MPI_SUCCESS || *made_of == MPI_COMM_NULL) return result;
  learn(*made_of);
  return around(round(kCreateGroup, {}, -1, *made_of), [] { return MPI_SUCCESS; });
}

// Windows: what makes, frees and fences them is collective; what is put or got between two fences
// meets nobody. Locks, and epochs of some ranks alone, are not followed.
#define WINDOW(Name, kind, params, args)                                                 \
  int MPI_##Name params {                                                                \
    const int result = around(round(kind, {}, -1, c), [&] { return PMPI_##Name args; }); \
    const auto id = identity(c);                                                         \
    std::lock_guard<std::mutex> lock(guard);                                             \
    if (result == MPI_SUCCESS) windows[*w] = id;                                         \
    return result;                                                                       \
  }
WINDOW(Win_create, kWinCreate, (void* b, MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, MPI_Win* w),
       (b, n, unit, i, c, w))
WINDOW(Win_allocate, kWinAllocate,
       (MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, void* b, MPI_Win* w), (n, unit, i, c, b, w))
WINDOW(Win_allocate_shared, kWinAllocateShared,
       (MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, void* b, MPI_Win* w), (n, unit, i, c, b, w))
WINDOW(Win_create_dynamic, kWinCreateDynamic, (MPI_Info i, MPI_Comm c, MPI_Win* w), (i, c, w))
Fields of_window(int kind, MPI_Win w) {
  Fields f{};
  f.op = static_cast<Op>(kind);
  std::lock_guard<std::mutex> lock(guard);
  const auto at = windows.find(w);
  f.comm = at == windows.end() ? 0 : at->second;
  return f;
}
void opens(MPI_Win w) {
  std::lock_guard<std::mutex> lock(guard);
  unfenced.insert(w);
}
bool fences(MPI_Win w) {
  std::lock_guard<std::mutex> lock(guard);
  return unfenced.erase(w) != 0;
}
#define TARGET int peer, MPI_Aint at, int m, MPI_Datatype u
int MPI_Put(const void* b, int n, MPI_Datatype t, TARGET, MPI_Win w) {
  opens(w);
  return PMPI_Put(b, n, t, peer, at, m, u, w);
}
int MPI_Get(void* b, int n, MPI_Datatype t, TARGET, MPI_Win w) {
  opens(w);
  return PMPI_Get(b, n, t, peer, at, m, u, w);
}
int MPI_Accumulate(const void* b, int n, MPI_Datatype t, TARGET, MPI_Op o, MPI_Win w) {
  opens(w);
  return PMPI_Accumulate(b, n, t, peer, at, m, u, o, w);
}
#undef TARGET
int MPI_Win_free(MPI_Win* w) {
  if (fences(*w)) not_followed("an epoch that no fence ends");
  const Fields f = of_window(kWinFree, *w);
  if (f.comm == 0) not_followed("a window of unknown origin");
  return around(f, [&] { return PMPI_Win_free(w); });
}
int MPI_Win_fence(int assertion, MPI_Win w) {
  fences(w);
  const Fields f = of_window(kWinFence, w);
  if (f.comm == 0) not_followed("a window of unknown origin");
  // Such a fence ends nothing and need not wait for the others (MPI 4.1, 12.5.1).
  if (assertion & MPI_MODE_NOPRECEDE) note(kLoose, "MPI_Win_fence with NOPRECEDE");
  return around(f, [&] { return PMPI_Win_fence(assertion, w); });
}

#include "mpi_others.inc"

}  // extern "C"
