// Communicators: made, split, left. In stub mode a communicator is a handle of our own, no peer is
// contacted, and N ranks can share one device or none.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "communicators.h"
#include "log.h"
#include "real.h"

#define PLANGUARD_API extern "C" __attribute__((visibility("default")))
#define PLANGUARD_CALLER reinterpret_cast<std::uint64_t>(__builtin_return_address(0))

namespace planguard::preload {
namespace {

Fields about(Op op, std::uint64_t comm, std::int32_t peer, std::uint64_t count,
             std::uint64_t caller) {
  Fields fields{op};
  fields.comm = comm;
  fields.peer = peer;
  fields.count = count;
  fields.caller = caller;
  return fields;
}

// A nonblocking communicator is in progress: its handle may be there already, or come later.
bool is_made(int result) { return result == kSuccess || result == kInProgress; }

// Make a communicator, really or as a stub, and learn who it is.
template <typename Make>
int create(Comm* made, const Fields& fields, std::uint64_t id, int rank, int size, Make make) {
  append(fields, 0, kSuccess);
  int result = kSuccess;
  if (is_stub()) {
    *made = make_stub(id, rank, size);
  } else {
    result = make();
  }
  append(fields, 1, result);
  if (is_made(result)) {
    if (*made != nullptr) {
      learn(*made, id, rank, size);
    } else {
      promise(made, id, rank, size);
    }
  }
  return result;
}

// Place of this process in the child of a split, told by PLANGUARD_PRELOAD_SPLITS: one line
// "n color rank size" for the n-th split of a communicator. Absent peers cannot be asked.
bool told(std::uint32_t split, int color, int* rank, int* size) {
  const char* path = std::getenv("PLANGUARD_PRELOAD_SPLITS");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "re");
  if (file == nullptr) return false;
  unsigned int n = 0;
  int c = 0;
  bool found = false;
  while (!found && std::fscanf(file, "%u %d %d %d", &n, &c, rank, size) == 4) {
    found = n == split && c == color;
  }
  std::fclose(file);
  return found;
}

int refuse(const char* name) {
  std::fprintf(stderr,
               "planguard preload: %s in stub mode needs what absent ranks would say; name this "
               "rank's place in PLANGUARD_PRELOAD_SPLITS (lines: n color rank size)\n",
               name);
  return kInvalidUsage;
}

std::uint64_t child_id(Comm parent, std::uint32_t number, int color) {
  const std::uint64_t words[3] = {identity(parent), number, static_cast<std::uint64_t>(color)};
  return hash(words, sizeof words);
}

template <typename R, typename... Args>
int leave(const R& real, Op op, Comm comm, bool ends, std::uint64_t caller, Args... args) {
  const Fields fields = about(op, identity(comm), -1, 0, caller);
  append(fields, 0, kSuccess);
  const int result = is_stub() ? kSuccess : real(comm, args...);
  append(fields, 1, result);
  if (ends && result == kSuccess) forget(comm);
  return result;
}

}  // namespace
}  // namespace planguard::preload

using namespace planguard::preload;  // NOLINT: the exported names have C linkage

PLANGUARD_API int ncclGetUniqueId(UniqueId* id) {
  static const Real<UniqueId*> real("ncclGetUniqueId");
  if (!is_stub()) return real(id);
  const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  const bool filled =
      file >= 0 && read(file, id->internal, sizeof id->internal) == sizeof id->internal;
  if (file >= 0) close(file);
  return filled ? kSuccess : kSystemError;
}

PLANGUARD_API int ncclCommInitRank(Comm* comm, int size, UniqueId unique, int rank) {
  static const Real<Comm*, int, UniqueId, int> real("ncclCommInitRank");
  const std::uint64_t id = hash(&unique, sizeof unique);
  return create(comm, about(Op::kCommInitRank, id, rank, size, PLANGUARD_CALLER), id, rank, size,
                [&] { return real(comm, size, unique, rank); });
}

PLANGUARD_API int ncclCommInitRankConfig(Comm* comm, int size, UniqueId unique, int rank,
                                         void* config) {
  static const Real<Comm*, int, UniqueId, int, void*> real("ncclCommInitRankConfig");
  const std::uint64_t id = hash(&unique, sizeof unique);
  return create(comm, about(Op::kCommInitRankConfig, id, rank, size, PLANGUARD_CALLER), id, rank,
                size, [&] { return real(comm, size, unique, rank, config); });
}

PLANGUARD_API int ncclCommInitRankScalable(Comm* comm, int size, int rank, int ids,
                                           UniqueId* uniques, void* config) {
  static const Real<Comm*, int, int, int, UniqueId*, void*> real("ncclCommInitRankScalable");
  const std::uint64_t id = hash(uniques, sizeof(UniqueId) * static_cast<std::size_t>(ids));
  return create(comm, about(Op::kCommInitRankScalable, id, rank, size, PLANGUARD_CALLER), id, rank,
                size, [&] { return real(comm, size, rank, ids, uniques, config); });
}

PLANGUARD_API int ncclCommInitAll(Comm* comms, int count, const int* devices) {
  static const Real<Comm*, int, const int*> real("ncclCommInitAll");
  UniqueId unique{};
  std::snprintf(unique.internal, sizeof unique.internal, "all-%ld-%p",
                static_cast<long>(getpid()), static_cast<void*>(comms));
  const std::uint64_t id = hash(&unique, sizeof unique);
  const Fields fields = about(Op::kCommInitAll, id, 0, count, PLANGUARD_CALLER);
  append(fields, 0, kSuccess);
  int result = kSuccess;
  if (is_stub()) {
    for (int rank = 0; rank < count; ++rank) comms[rank] = make_stub(id, rank, count);
  } else {
    result = real(comms, count, devices);
  }
  append(fields, 1, result);
  for (int rank = 0; result == kSuccess && rank < count; ++rank) {
    learn(comms[rank], id, rank, count);
  }
  return result;
}

PLANGUARD_API int ncclCommSplit(Comm comm, int color, int key, Comm* made, void* config) {
  static const Real<Comm, int, int, Comm*, void*> real("ncclCommSplit");
  const std::uint32_t number = next_child(comm);
  const Fields fields =
      about(Op::kCommSplit, identity(comm), color, static_cast<std::uint64_t>(key),
            PLANGUARD_CALLER);
  append(fields, 0, kSuccess);
  int result = kSuccess;
  int rank = -1;
  int size = 0;
  if (!is_stub()) {
    result = real(comm, color, key, made, config);
  } else if (color == kNoColor) {
    *made = nullptr;
  } else if (told(number, color, &rank, &size)) {
    *made = make_stub(child_id(comm, number, color), rank, size);
  } else {
    result = refuse("ncclCommSplit");
  }
  append(fields, 1, result);
  if (!is_made(result) || color == kNoColor) return result;
  if (is_stub()) {
    learn(*made, child_id(comm, number, color), rank, size);
  } else {
    // Its members chose rank and size: NCCL is asked for them, as soon as it is done.
    promise(made, child_id(comm, number, color), -1, 0);
    if (*made != nullptr) identity(*made);
  }
  return result;
}

PLANGUARD_API int ncclCommShrink(Comm comm, int* excluded, int count, Comm* made, void* config,
                                 int flags) {
  static const Real<Comm, int*, int, Comm*, void*, int> real("ncclCommShrink");
  const std::uint32_t number = next_child(comm);
  const Fields fields = about(Op::kCommShrink, identity(comm), -1,
                              static_cast<std::uint64_t>(count), PLANGUARD_CALLER);
  append(fields, 0, kSuccess);
  const Known parent = known(comm);
  int result = kSuccess;
  int rank = parent.rank;
  for (int i = 0; i < count; ++i) rank -= excluded[i] < parent.rank ? 1 : 0;
  if (is_stub()) {
    *made = make_stub(child_id(comm, number, 0), rank, parent.size - count);
  } else {
    result = real(comm, excluded, count, made, config, flags);
  }
  append(fields, 1, result);
  if (is_made(result)) {
    promise(made, child_id(comm, number, 0), rank, parent.size - count);
    if (*made != nullptr) identity(*made);
  }
  return result;
}

PLANGUARD_API int ncclCommGrow(Comm comm, int size, const UniqueId* unique, int rank, Comm* made,
                               void* config) {
  static const Real<Comm, int, const UniqueId*, int, Comm*, void*> real("ncclCommGrow");
  // A member that stays has no unique id; its rank stays what it was.
  const int own = comm == nullptr ? rank : known(comm).rank;
  const std::uint64_t id =
      unique == nullptr ? child_id(comm, next_child(comm), size) : hash(unique, sizeof *unique);
  return create(made, about(Op::kCommGrow, id, own, static_cast<std::uint64_t>(size),
                            PLANGUARD_CALLER),
                id, own, size, [&] { return real(comm, size, unique, rank, made, config); });
}

PLANGUARD_API int ncclCommFinalize(Comm comm) {
  static const Real<Comm> real("ncclCommFinalize");
  return leave(real, Op::kCommFinalize, comm, false, PLANGUARD_CALLER);
}

PLANGUARD_API int ncclCommDestroy(Comm comm) {
  static const Real<Comm> real("ncclCommDestroy");
  return leave(real, Op::kCommDestroy, comm, true, PLANGUARD_CALLER);
}

PLANGUARD_API int ncclCommAbort(Comm comm) {
  static const Real<Comm> real("ncclCommAbort");
  return leave(real, Op::kCommAbort, comm, true, PLANGUARD_CALLER);
}

PLANGUARD_API int ncclCommRevoke(Comm comm, int flags) {
  static const Real<Comm, int> real("ncclCommRevoke");
  return leave(real, Op::kCommRevoke, comm, false, PLANGUARD_CALLER, flags);
}

PLANGUARD_API int ncclCommSuspend(Comm comm, int flags) {
  static const Real<Comm, int> real("ncclCommSuspend");
  return leave(real, Op::kCommSuspend, comm, false, PLANGUARD_CALLER, flags);
}

PLANGUARD_API int ncclCommResume(Comm comm) {
  static const Real<Comm> real("ncclCommResume");
  return leave(real, Op::kCommResume, comm, false, PLANGUARD_CALLER);
}

// Questions about a communicator: passed on, or answered from the stub's own handle.

PLANGUARD_API int ncclCommCount(Comm comm, int* count) {
  static const Real<Comm, int*> real("ncclCommCount");
  if (!is_stub()) return real(comm, count);
  *count = known(comm).size;
  return kSuccess;
}

PLANGUARD_API int ncclCommUserRank(Comm comm, int* rank) {
  static const Real<Comm, int*> real("ncclCommUserRank");
  if (!is_stub()) return real(comm, rank);
  *rank = known(comm).rank;
  return kSuccess;
}

PLANGUARD_API int ncclCommCuDevice(Comm comm, int* device) {
  static const Real<Comm, int*> real("ncclCommCuDevice");
  if (!is_stub()) return real(comm, device);
  *device = 0;
  return kSuccess;
}

PLANGUARD_API int ncclCommGetAsyncError(Comm comm, int* error) {
  static const Real<Comm, int*> real("ncclCommGetAsyncError");
  if (!is_stub()) {
    const int result = real(comm, error);
    if (result == kSuccess && *error == kSuccess) identity(comm);  // it may just have been made
    return result;
  }
  *error = kSuccess;
  return kSuccess;
}

// Memory, windows and reduce operations: passed on; a stub's handle must not reach the library.

PLANGUARD_API int ncclCommGetUniqueId(Comm comm, UniqueId* id) {
  static const Real<Comm, UniqueId*> real("ncclCommGetUniqueId");
  return is_stub() ? ncclGetUniqueId(id) : real(comm, id);
}

PLANGUARD_API int ncclCommRegister(Comm comm, void* data, std::size_t bytes, void** handle) {
  static const Real<Comm, void*, std::size_t, void**> real("ncclCommRegister");
  if (!is_stub()) return real(comm, data, bytes, handle);
  *handle = data;
  return kSuccess;
}

PLANGUARD_API int ncclCommDeregister(Comm comm, void* handle) {
  static const Real<Comm, void*> real("ncclCommDeregister");
  return is_stub() ? kSuccess : real(comm, handle);
}

PLANGUARD_API int ncclCommWindowRegister(Comm comm, void* data, std::size_t bytes, Window* window,
                                         int flags) {
  static const Real<Comm, void*, std::size_t, Window*, int> real("ncclCommWindowRegister");
  if (!is_stub()) return real(comm, data, bytes, window, flags);
  *window = data;
  return kSuccess;
}

PLANGUARD_API int ncclCommWindowDeregister(Comm comm, Window window) {
  static const Real<Comm, Window> real("ncclCommWindowDeregister");
  return is_stub() ? kSuccess : real(comm, window);
}

PLANGUARD_API int ncclWinGetUserPtr(Comm comm, Window window, void** data) {
  static const Real<Comm, Window, void**> real("ncclWinGetUserPtr");
  if (!is_stub()) return real(comm, window, data);
  *data = window;
  return kSuccess;
}

PLANGUARD_API int ncclCommMemStats(Comm comm, int stat, std::uint64_t* value) {
  static const Real<Comm, int, std::uint64_t*> real("ncclCommMemStats");
  if (!is_stub()) return real(comm, stat, value);
  *value = 0;
  return kSuccess;
}

PLANGUARD_API int ncclRedOpCreatePreMulSum(int* op, void* scalar, int dtype, int residence,
                                           Comm comm) {
  static const Real<int*, void*, int, int, Comm> real("ncclRedOpCreatePreMulSum");
  if (!is_stub()) return real(op, scalar, dtype, residence, comm);
  *op = 5;  // the first number behind the built-in operations
  return kSuccess;
}

PLANGUARD_API int ncclRedOpDestroy(int op, Comm comm) {
  static const Real<int, Comm> real("ncclRedOpDestroy");
  return is_stub() ? kSuccess : real(op, comm);
}

PLANGUARD_API const char* ncclGetLastError(Comm comm) {
  if (is_stub()) return "";
  using Function = const char* (*)(Comm);
  void* found = find_real("ncclGetLastError");
  return found == nullptr ? "" : reinterpret_cast<Function>(found)(comm);
}
