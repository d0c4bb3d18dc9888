// What the wrappers of an MPI program's calls (mpi.cpp) keep and write: communicators, requests and
// the fields of each call. Included by that file alone.
#pragma once

#include <dlfcn.h>
#include <mpi.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "log.h"

namespace {

using planguard::preload::append;
using planguard::preload::Fields;
using planguard::preload::Op;

// One number per kind of record, stored: never renumbered (planguard/capture/mpi/records.py).
enum : int {
  kSend = 100,
  kSsend,
  kBsend,
  kRsend,
  kRecv,
  kIsend,
  kIssend,
  kIbsend,
  kIrsend,
  kIrecv,
  kWait,
  kBcast = 120,
  kReduce,
  kAllreduce,
  kAllgather,
  kAlltoall,
  kBarrier,
  kScatter,
  kGather,
  kScan,
  kExscan,
  kSplit,
  kDup,
  kCreate,
  kFinalize,
  kSplitType,
  kCreateGroup,
  kCartCreate,
  kCartSub,
  kDupInfo,
  kWinCreate,
  kWinAllocate,
  kWinAllocateShared,
  kWinCreateDynamic,
  kWinFree,
  kWinFence,
  kNotFollowed = 150,
  kPolled,
  kCounts,
  kMember,
  kWaitAny,
  kTested,
  kFreed,
  kProbe,
  kMprobe,
  kLoose,
  kAllgatherv = 160,
  kGatherv,
  kScatterv,
  kAlltoallv,
  kAlltoallw,
  kReduceScatter,
  kReduceScatterBlock,
};
constexpr int kAny = -2;
constexpr std::uint8_t kNoType = 255;

std::mutex guard;
std::map<MPI_Comm, std::uint64_t> comms;
std::map<MPI_Request, std::vector<std::uint64_t>> requests;  // in order of their start
std::map<MPI_Request, Fields> persistent;                    // what each start of it is
std::map<MPI_Message, Fields> matched;                       // by MPI_Mprobe, not yet received
std::map<MPI_Win, std::uint64_t> windows;                    // to the communicator's identity
std::set<MPI_Win> unfenced;  // something was put or got, and no fence came since
std::uint64_t last_request = 0;
std::uint32_t made = 0;
int world_rank = -1;

void note(int kind, const char* name) {
  Fields f{};
  f.op = static_cast<Op>(kind);
  std::uint64_t words[4] = {};
  std::strncpy(reinterpret_cast<char*>(words), name, sizeof words - 1);
  f.comm = words[0], f.count = words[1], f.stream = words[2], f.caller = words[3];
  append(f, 0, 0);
}

void not_followed(const char* name) {
  note(kNotFollowed, name);
}

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
  learn(MPI_COMM_SELF);
}

int world_peer(MPI_Comm comm, int peer) {
  if (peer == MPI_ANY_SOURCE) return kAny;
  int found = -1, size = 0;
  PMPI_Comm_size(comm, &size);
  if (peer < 0 || peer >= size) return found;  // the call itself will say so
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

// Element types by number, stored: their names are in records.py. What is not listed
// (derived types, MPI_BYTE, complex numbers) has no number and is compared by its bytes alone.
std::uint8_t element(MPI_Datatype type) {
  const MPI_Datatype known[][5] = {
      {MPI_CHAR, MPI_SIGNED_CHAR, MPI_INT8_T, MPI_INT8_T, MPI_INT8_T},
      {MPI_UNSIGNED_CHAR, MPI_UINT8_T, MPI_UINT8_T, MPI_UINT8_T, MPI_UINT8_T},
      {MPI_SHORT, MPI_INT16_T, MPI_INT16_T, MPI_INT16_T, MPI_INT16_T},
      {MPI_INT, MPI_INT32_T, MPI_INT32_T, MPI_INT32_T, MPI_INT32_T},
      {MPI_INT64_T, MPI_LONG_LONG, MPI_AINT, MPI_COUNT, MPI_OFFSET},
      {MPI_FLOAT, MPI_FLOAT, MPI_FLOAT, MPI_FLOAT, MPI_FLOAT},
      {MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE},
      {MPI_C_BOOL, MPI_C_BOOL, MPI_C_BOOL, MPI_C_BOOL, MPI_C_BOOL},
  };
  if (type == MPI_LONG) return sizeof(long) == 8 ? 4 : 3;
  for (std::uint8_t i = 0; i < sizeof known / sizeof *known; ++i)
    for (const auto one : known[i])
      if (type == one) return i;
  return kNoType;
}

Fields message(int kind, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  Fields f{};
  f.op = static_cast<Op>(kind);
  f.dtype = element(type);
  f.comm = identity(comm);
  if (f.comm == 0) not_followed("an unknown communicator's call");
  f.count = bytes(n, type);
  f.peer = f.comm == 0 ? -1 : world_peer(comm, peer);
  f.redop = tag == MPI_ANY_TAG ? 0xFFFFFFFFu : static_cast<std::uint32_t>(tag);
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
void polled(const char* name) {
  note(kPolled, name);
}

// Whether requests have ended: of none that is active the answer is always yes.
void asked(const char* name, const std::vector<MPI_Request>& before) {
  bool any = false;
  {
    std::lock_guard<std::mutex> lock(guard);
    for (const auto one : before) any = any || requests.count(one) != 0;
  }
  if (any) polled(name);
}

void ended(int kind, MPI_Request before) {
  const auto id = number(before);
  if (id == 0) return;
  Fields f = wait_of(id);
  f.op = static_cast<Op>(kind);
  append(f, 0, 0);
}

// The requests that a call may end, one record each, before the record of the call itself.
std::size_t members(int n, const MPI_Request* r) {
  std::lock_guard<std::mutex> lock(guard);
  std::size_t found = 0;
  for (int i = 0; i < n; ++i) {
    const auto at = requests.find(r[i]);
    if (at == requests.end()) continue;
    for (const auto id : at->second) {
      Fields f = wait_of(id);
      f.op = static_cast<Op>(kMember);
      append(f, 0, 0);
      ++found;
    }
  }
  return found;
}

template <class Call>
int waiting(const char* name, int n, MPI_Request* r, int* count, int* indices, Call call) {
  const std::vector<MPI_Request> before(r, r + n);
  Fields f{};
  f.op = static_cast<Op>(kWaitAny);
  f.count = members(n, r);
  if (f.count > 1) polled(name);
  if (f.count) append(f, 0, 0);
  const int result = call();
  if (f.count) append(f, 1, result);
  const int some = count == nullptr ? 1 : *count;
  for (int i = 0; result == MPI_SUCCESS && i < some; ++i)
    if (indices[i] != MPI_UNDEFINED) number(before[static_cast<std::size_t>(indices[i])]);
  return result;
}

// MPI_Sendrecv is a send and a receive at once: both are started, then both are waited for.
template <class Call>
int exchange(const std::vector<Fields>& both, Call call) {
  std::vector<std::uint64_t> ids;
  for (Fields f : both) {
    {
      std::lock_guard<std::mutex> lock(guard);
      f.stream = ++last_request;
    }
    ids.push_back(f.stream);
    append(f, 0, 0), append(f, 1, 0);
  }
  for (const auto id : ids) append(wait_of(id), 0, 0);
  const int result = call();
  for (const auto id : ids) append(wait_of(id), 1, result);
  return result;
}
std::vector<Fields> both(const Fields& in, int from, const Fields& out, int to) {
  std::vector<Fields> found;
  if (from != MPI_PROC_NULL) found.push_back(in);
  if (to != MPI_PROC_NULL) found.push_back(out);
  return found;
}

// A message that MPI_Mprobe took is received by its handle: as if by a receive from its sender and
// of its tag, where no other receive comes in between.
void took(MPI_Message* m, MPI_Comm c, const MPI_Status& s) {
  if (*m == MPI_MESSAGE_NULL || *m == MPI_MESSAGE_NO_PROC) return;
  const Fields f = message(kRecv, 0, MPI_BYTE, s.MPI_SOURCE, s.MPI_TAG, c);
  std::lock_guard<std::mutex> lock(guard);
  matched[*m] = f;
}
bool is_taken() {
  std::lock_guard<std::mutex> lock(guard);
  return !matched.empty();
}
void receives() {
  if (is_taken()) not_followed("a receive inside MPI_Mprobe");
}
Fields give(MPI_Message m, int kind, int n, MPI_Datatype t) {
  Fields f{};
  {
    std::lock_guard<std::mutex> lock(guard);
    const auto at = matched.find(m);
    if (at != matched.end()) f = at->second, matched.erase(at);
  }
  if (f.comm == 0) not_followed("MPI_Mrecv of an unknown message");
  receives();
  f.op = static_cast<Op>(kind);
  f.count = bytes(n, t), f.dtype = element(t);
  return f;
}

}  // namespace
