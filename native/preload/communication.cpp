// Communication: every call is recorded before and after. A hang never returns, so the record
// before the call is the one that matters.
#include <dlfcn.h>

#include "communicators.h"
#include "log.h"
#include "real.h"

#define PLANGUARD_API extern "C" __attribute__((visibility("default")))
#define PLANGUARD_CALLER reinterpret_cast<std::uint64_t>(__builtin_return_address(0))

namespace planguard::preload {
namespace {

template <typename R, typename... Args>
int around(const R& real, const Fields& fields, Args... args) {
  append(fields, 0, kSuccess);
  const int result = is_stub() ? kSuccess : real(args...);
  append(fields, 1, result);
  return result;
}

Fields fields_of(Op op, Comm comm, std::size_t count, int dtype, std::int32_t peer, int redop,
                 Stream stream, std::uint64_t caller) {
  Fields fields{op};
  fields.comm = identity(comm);
  fields.count = count;
  fields.stream = reinterpret_cast<std::uint64_t>(stream);
  fields.peer = peer;
  fields.dtype = static_cast<std::uint8_t>(dtype);
  fields.redop = static_cast<std::uint32_t>(redop);
  fields.caller = caller;
  return fields;
}

}  // namespace
}  // namespace planguard::preload

using namespace planguard::preload;  // NOLINT: the exported names have C linkage

// A collective without a root, with and without the per-call configuration of NCCL 2.32.
#define PLANGUARD_PLAIN(NAME)                                                                    \
  PLANGUARD_API int nccl##NAME(const void* in, void* out, std::size_t count, int dtype,          \
                               Comm comm, Stream stream) {                                       \
    static const Real<const void*, void*, std::size_t, int, Comm, Stream> real("nccl" #NAME);    \
    return around(real,                                                                          \
                  fields_of(Op::k##NAME, comm, count, dtype, -1, 0, stream, PLANGUARD_CALLER),   \
                  in, out, count, dtype, comm, stream);                                          \
  }                                                                                              \
  PLANGUARD_API int nccl##NAME##Config(const void* in, void* out, std::size_t count, int dtype,  \
                                       Comm comm, Stream stream, const void* config) {           \
    static const Real<const void*, void*, std::size_t, int, Comm, Stream, const void*> real(     \
        "nccl" #NAME "Config");                                                                  \
    return around(real,                                                                          \
                  fields_of(Op::k##NAME, comm, count, dtype, -1, 0, stream, PLANGUARD_CALLER),   \
                  in, out, count, dtype, comm, stream, config);                                  \
  }

// One that reduces.
#define PLANGUARD_REDUCING(NAME)                                                                 \
  PLANGUARD_API int nccl##NAME(const void* in, void* out, std::size_t count, int dtype, int op,  \
                               Comm comm, Stream stream) {                                       \
    static const Real<const void*, void*, std::size_t, int, int, Comm, Stream> real(             \
        "nccl" #NAME);                                                                           \
    return around(real,                                                                          \
                  fields_of(Op::k##NAME, comm, count, dtype, -1, op, stream, PLANGUARD_CALLER),  \
                  in, out, count, dtype, op, comm, stream);                                      \
  }                                                                                              \
  PLANGUARD_API int nccl##NAME##Config(const void* in, void* out, std::size_t count, int dtype,  \
                                       int op, Comm comm, Stream stream, const void* config) {   \
    static const Real<const void*, void*, std::size_t, int, int, Comm, Stream, const void*>      \
        real("nccl" #NAME "Config");                                                             \
    return around(real,                                                                          \
                  fields_of(Op::k##NAME, comm, count, dtype, -1, op, stream, PLANGUARD_CALLER),  \
                  in, out, count, dtype, op, comm, stream, config);                              \
  }

// One with a root.
#define PLANGUARD_ROOTED(NAME)                                                                   \
  PLANGUARD_API int nccl##NAME(const void* in, void* out, std::size_t count, int dtype,          \
                               int root, Comm comm, Stream stream) {                             \
    static const Real<const void*, void*, std::size_t, int, int, Comm, Stream> real(             \
        "nccl" #NAME);                                                                           \
    return around(real,                                                                          \
                  fields_of(Op::k##NAME, comm, count, dtype, root, 0, stream, PLANGUARD_CALLER), \
                  in, out, count, dtype, root, comm, stream);                                    \
  }                                                                                              \
  PLANGUARD_API int nccl##NAME##Config(const void* in, void* out, std::size_t count, int dtype,  \
                                       int root, Comm comm, Stream stream, const void* config) { \
    static const Real<const void*, void*, std::size_t, int, int, Comm, Stream, const void*>      \
        real("nccl" #NAME "Config");                                                             \
    return around(real,                                                                          \
                  fields_of(Op::k##NAME, comm, count, dtype, root, 0, stream, PLANGUARD_CALLER), \
                  in, out, count, dtype, root, comm, stream, config);                            \
  }

PLANGUARD_REDUCING(AllReduce)
PLANGUARD_REDUCING(ReduceScatter)
PLANGUARD_PLAIN(AllGather)
PLANGUARD_PLAIN(AlltoAll)
PLANGUARD_ROOTED(Broadcast)
PLANGUARD_ROOTED(Gather)
PLANGUARD_ROOTED(Scatter)

PLANGUARD_API int ncclReduce(const void* in, void* out, std::size_t count, int dtype, int op,
                             int root, Comm comm, Stream stream) {
  static const Real<const void*, void*, std::size_t, int, int, int, Comm, Stream> real(
      "ncclReduce");
  return around(real,
                fields_of(Op::kReduce, comm, count, dtype, root, op, stream, PLANGUARD_CALLER), in,
                out, count, dtype, op, root, comm, stream);
}

PLANGUARD_API int ncclReduceConfig(const void* in, void* out, std::size_t count, int dtype, int op,
                                   int root, Comm comm, Stream stream, const void* config) {
  static const Real<const void*, void*, std::size_t, int, int, int, Comm, Stream, const void*> real(
      "ncclReduceConfig");
  return around(real,
                fields_of(Op::kReduce, comm, count, dtype, root, op, stream, PLANGUARD_CALLER), in,
                out, count, dtype, op, root, comm, stream, config);
}

PLANGUARD_API int ncclBcast(void* data, std::size_t count, int dtype, int root, Comm comm,
                            Stream stream) {
  static const Real<void*, std::size_t, int, int, Comm, Stream> real("ncclBcast");
  return around(real, fields_of(Op::kBcast, comm, count, dtype, root, 0, stream, PLANGUARD_CALLER),
                data, count, dtype, root, comm, stream);
}

PLANGUARD_API int ncclSend(const void* data, std::size_t count, int dtype, int peer, Comm comm,
                           Stream stream) {
  static const Real<const void*, std::size_t, int, int, Comm, Stream> real("ncclSend");
  return around(real, fields_of(Op::kSend, comm, count, dtype, peer, 0, stream, PLANGUARD_CALLER),
                data, count, dtype, peer, comm, stream);
}

PLANGUARD_API int ncclRecv(void* data, std::size_t count, int dtype, int peer, Comm comm,
                           Stream stream) {
  static const Real<void*, std::size_t, int, int, Comm, Stream> real("ncclRecv");
  return around(real, fields_of(Op::kRecv, comm, count, dtype, peer, 0, stream, PLANGUARD_CALLER),
                data, count, dtype, peer, comm, stream);
}

PLANGUARD_API int ncclPutSignal(const void* data, std::size_t count, int dtype, int peer,
                                Window window, std::size_t offset, int signal, int context,
                                unsigned int flags, Comm comm, Stream stream) {
  static const Real<const void*, std::size_t, int, int, Window, std::size_t, int, int, unsigned int,
                    Comm, Stream>
      real("ncclPutSignal");
  return around(real,
                fields_of(Op::kPutSignal, comm, count, dtype, peer, 0, stream, PLANGUARD_CALLER),
                data, count, dtype, peer, window, offset, signal, context, flags, comm, stream);
}

PLANGUARD_API int ncclSignal(int peer, int signal, int context, unsigned int flags, Comm comm,
                             Stream stream) {
  static const Real<int, int, int, unsigned int, Comm, Stream> real("ncclSignal");
  return around(real, fields_of(Op::kSignal, comm, 0, 255, peer, 0, stream, PLANGUARD_CALLER), peer,
                signal, context, flags, comm, stream);
}

PLANGUARD_API int ncclWaitSignal(int count, void* descriptions, Comm comm, Stream stream) {
  static const Real<int, void*, Comm, Stream> real("ncclWaitSignal");
  return around(real,
                fields_of(Op::kWaitSignal, comm, static_cast<std::size_t>(count), 255, -1, 0,
                          stream, PLANGUARD_CALLER),
                count, descriptions, comm, stream);
}

PLANGUARD_API int ncclGroupStart() {
  static const Real<> real("ncclGroupStart");
  enter_group();
  return around(real, fields_of(Op::kGroupStart, nullptr, 0, 255, -1, 0, nullptr, PLANGUARD_CALLER));
}

PLANGUARD_API int ncclGroupEnd() {
  static const Real<> real("ncclGroupEnd");
  const int result = around(
      real, fields_of(Op::kGroupEnd, nullptr, 0, 255, -1, 0, nullptr, PLANGUARD_CALLER));
  leave_group();
  return result;
}

PLANGUARD_API int ncclGroupSimulateEnd(void* info) {
  static const Real<void*> real("ncclGroupSimulateEnd");
  const int result = around(
      real, fields_of(Op::kGroupSimulateEnd, nullptr, 0, 255, -1, 0, nullptr, PLANGUARD_CALLER),
      info);
  leave_group();
  return result;
}
