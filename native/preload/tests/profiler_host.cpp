// Plays NCCL towards a profiler plugin: profiler_host PLUGIN VERSION RANK.
// Two collectives and a send; the kernels of the second collective never end.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

struct Coll {
  std::uint64_t sequence;
  const char* function;
  const void* in;
  void* out;
  std::size_t count;
  int root;
  const char* dtype;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
  void* group;
};
struct P2p {
  const char* function;
  void* data;
  const char* dtype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;
};
template <typename Type>
struct Description {
  Type type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    char room[128];
  };
};
struct V6 {
  const char* name;
  int (*init)(void**, std::uint64_t, int*, const char*, int, int, int, void*);
  int (*start)(void*, void**, void*);
  int (*stop)(void*);
  int (*state)(void*, int, void*);
  int (*finalize)(void*);
};
struct V4 {
  const char* name;
  int (*init)(void**, int*, const char*, std::uint64_t, int, int, int, void*);
  int (*start)(void*, void**, void*);
  int (*stop)(void*);
  int (*state)(void*, int, void*);
  int (*finalize)(void*);
};

template <typename Type, typename Plugin>
static void play(const Plugin& plugin, void* context, int rank) {
  const auto begin = [&](int type, void* parent, auto fill) {
    Description<Type> said;
    // The bytes between the fields are not initialized by NCCL either.
    std::memset(static_cast<void*>(&said), 0xee, sizeof said);
    said.type = static_cast<Type>(type);
    said.parent = parent;
    said.rank = rank;
    fill(said);
    void* handle = nullptr;
    plugin.start(context, &handle, &said);
    return handle;
  };
  const auto collective = [&](const char* function, std::uint64_t sequence, std::size_t count,
                              bool ends) {
    void* op = begin(1 << 1, nullptr, [&](auto& said) {
      said.coll = Coll{sequence, function, nullptr, nullptr, count, 0, "ncclFloat32", 2, 4,
                       "RING",   "SIMPLE", nullptr};
    });
    void* channels[2];
    for (void*& channel : channels) channel = begin(1 << 6, op, [](auto&) {});
    plugin.stop(op);
    for (void* channel : channels) {
      plugin.state(channel, 22, nullptr);
      if (ends) plugin.stop(channel);
    }
  };
  collective("AllReduce", 0, 1024, true);
  void* pair = begin(1 << 2, nullptr, [&](auto& said) {
    said.p2p = P2p{rank == 0 ? "Send" : "Recv", nullptr, "ncclBfloat16", 64, 1 - rank, 1, nullptr};
  });
  void* channel = begin(1 << 6, pair, [](auto&) {});
  plugin.stop(pair);
  plugin.stop(channel);
  collective("Broadcast", 1, 512, false);
  plugin.finalize(context);
}

int main(int, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const std::string version = argv[2];
  const int rank = std::atoi(argv[3]);
  void* symbol = dlsym(library, ("ncclProfiler_v" + version).c_str());
  if (symbol == nullptr) return 2;
  void* context = nullptr;
  int mask = 0;
  if (version == "4") {
    const auto& plugin = *static_cast<V4*>(symbol);
    plugin.init(&context, &mask, "world", 77, 1, 2, rank, nullptr);
    play<std::uint8_t>(plugin, context, rank);
  } else {
    const auto& plugin = *static_cast<V6*>(symbol);
    plugin.init(&context, 77, &mask, "world", 1, 2, rank, nullptr);
    play<std::uint64_t>(plugin, context, rank);
  }
  std::printf("mask %d\n", mask);
  return 0;
}
