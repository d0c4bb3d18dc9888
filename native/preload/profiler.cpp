// The NCCL profiler plugin: the preferred source on clusters. NCCL names communicator, rank and
// sequence number itself and tells when the kernels of an operation have ended, which no wrapper of
// the calls can see. Versions 4 to 6 of the plugin interface are exported; NCCL picks the newest.
//
// Phase 0: the operation was enqueued. 1: the host is done with it. 2: its kernels have ended.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "log.h"

namespace planguard::preload {
namespace {

constexpr int kColl = 1 << 1;
constexpr int kP2p = 1 << 2;
constexpr int kKernelChannel = 1 << 6;
constexpr int kCeColl = 1 << 12;

struct Context {
  std::uint64_t comm;
  int rank;
};

// An operation, or one channel of its kernel (then `operation` is set).
struct Event {
  Fields fields{Op::kNone};
  Event* operation = nullptr;
  std::atomic<int> open{1};  // channels that have not ended, and one for the host
  std::atomic<int> channels{0};
};

struct Name {
  const char* text;
  int number;
};

constexpr Name kFunctions[] = {
    {"AllReduce", 1}, {"Broadcast", 2}, {"Reduce", 4},   {"AllGather", 5}, {"ReduceScatter", 6},
    {"AlltoAll", 7},  {"AllToAll", 7},  {"Gather", 8},   {"Scatter", 9},   {"Send", 10},
    {"Recv", 11},
};

constexpr Name kTypes[] = {
    {"ncclInt8", 0},    {"ncclUint8", 1},    {"ncclInt32", 2},   {"ncclUint32", 3},
    {"ncclInt64", 4},   {"ncclUint64", 5},   {"ncclFloat16", 6}, {"ncclFloat32", 7},
    {"ncclFloat64", 8}, {"ncclBfloat16", 9}, {"ncclFloat8e4m3", 10}, {"ncclFloat8e5m2", 11},
};

template <std::size_t N>
int number_of(const Name (&names)[N], const char* text, int otherwise) {
  for (const Name& name : names) {
    if (text != nullptr && std::strcmp(name.text, text) == 0) return name.number;
  }
  return otherwise;
}

// The descriptors of the interface, as far as they are read. The union starts at one offset in
// versions 5 and 6; version 4 has a narrower first field and the same layout behind it.
struct Coll {
  std::uint64_t sequence;
  const char* function;
  const void* in;
  void* out;
  std::size_t count;
  int root;
  const char* dtype;
  std::uint8_t channels;
};

struct P2p {
  const char* function;
  void* data;
  const char* dtype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};

struct Description {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    char room[128];
  };
};

std::atomic<std::uint64_t> operations{0};

Event* open_operation(Context* context, const Description& said, int type) {
  auto* event = new Event;
  Fields& fields = event->fields;
  const bool pair = type == kP2p;
  const char* function = pair ? said.p2p.function : said.coll.function;
  fields.op = static_cast<Op>(number_of(kFunctions, function, 0));
  fields.comm = context->comm;
  fields.count = pair ? said.p2p.count : said.coll.count;
  fields.peer = pair ? said.p2p.peer : said.coll.root;
  fields.dtype = static_cast<std::uint8_t>(
      number_of(kTypes, pair ? said.p2p.dtype : said.coll.dtype, 255));
  fields.redop = 0xffffffffu;  // the interface does not tell the reduce operation
  fields.stream = operations.fetch_add(1, std::memory_order_relaxed) + 1;
  fields.caller = pair ? 0 : said.coll.sequence;
  append(fields, 0, kSuccess);
  return event;
}

void close_one(Event* operation) {
  if (operation->open.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (operation->channels.load(std::memory_order_relaxed) > 0) {
    append(operation->fields, 2, kSuccess);
  }
  delete operation;
}

int init(void** context, std::uint64_t comm, int* mask, int size, int rank) {
  *context = new Context{comm, rank};
  *mask = kColl | kP2p | kKernelChannel | kCeColl;
  mark_profiler();
  Fields info{Op::kCommInfo};
  info.comm = comm;
  info.count = static_cast<std::uint64_t>(size);
  info.peer = rank;
  append(info, 1, kSuccess);
  return kSuccess;
}

int init_v6(void** context, std::uint64_t comm, int* mask, const char*, int, int size, int rank,
            void*) {
  return init(context, comm, mask, size, rank);
}

int init_v4(void** context, int* mask, const char*, std::uint64_t comm, int, int size, int rank,
            void*) {
  return init(context, comm, mask, size, rank);
}

int start(void* context, void** handle, const Description& said, int type) {
  *handle = nullptr;
  if (type == kColl || type == kP2p || type == kCeColl) {
    *handle = open_operation(static_cast<Context*>(context), said, type);
    // Copy-engine collectives have no kernel: their own end is the end of the operation.
    if (type == kCeColl) static_cast<Event*>(*handle)->channels = 1;
  } else if (type == kKernelChannel && said.parent != nullptr) {
    auto* operation = static_cast<Event*>(said.parent);
    operation->open.fetch_add(1, std::memory_order_acq_rel);
    operation->channels.fetch_add(1, std::memory_order_relaxed);
    auto* channel = new Event;
    channel->operation = operation;
    *handle = channel;
  }
  return kSuccess;
}

int start_v6(void* context, void** handle, const Description* said) {
  return start(context, handle, *said, static_cast<int>(said->type));
}

int start_v4(void* context, void** handle, const Description* said) {
  // The type is the first byte; what stands behind it up to the parent is padding.
  std::uint8_t type = 0;
  std::memcpy(&type, said, 1);
  return start(context, handle, *said, type);
}

int stop(void* handle) {
  auto* event = static_cast<Event*>(handle);
  if (event == nullptr) return kSuccess;
  if (event->operation != nullptr) {
    close_one(event->operation);
    delete event;
    return kSuccess;
  }
  append(event->fields, 1, kSuccess);
  close_one(event);
  return kSuccess;
}

int state(void*, int, void*) { return kSuccess; }

int finalize(void* context) {
  delete static_cast<Context*>(context);
  return kSuccess;
}

struct PluginV6 {
  const char* name;
  int (*init)(void**, std::uint64_t, int*, const char*, int, int, int, void*);
  int (*start)(void*, void**, const Description*);
  int (*stop)(void*);
  int (*state)(void*, int, void*);
  int (*finalize)(void*);
};

struct PluginV4 {
  const char* name;
  int (*init)(void**, int*, const char*, std::uint64_t, int, int, int, void*);
  int (*start)(void*, void**, const Description*);
  int (*stop)(void*);
  int (*state)(void*, int, void*);
  int (*finalize)(void*);
};

}  // namespace
}  // namespace planguard::preload

#define PLANGUARD_API extern "C" __attribute__((visibility("default")))
namespace pg = planguard::preload;

PLANGUARD_API const pg::PluginV6 ncclProfiler_v6;
PLANGUARD_API const pg::PluginV6 ncclProfiler_v5;
PLANGUARD_API const pg::PluginV4 ncclProfiler_v4;

const pg::PluginV6 ncclProfiler_v6 = {"planguard", pg::init_v6, pg::start_v6,
                                      pg::stop,    pg::state,   pg::finalize};
const pg::PluginV6 ncclProfiler_v5 = ncclProfiler_v6;
const pg::PluginV4 ncclProfiler_v4 = {"planguard", pg::init_v4, pg::start_v4,
                                      pg::stop,    pg::state,   pg::finalize};
