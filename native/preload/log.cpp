#include "log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace planguard::preload {
namespace {

constexpr std::uint64_t kDefaultRecords = 1u << 18;  // 16 MiB, half as many calls
constexpr std::uint64_t kMostRecords = 1u << 28;

struct Log {
  Header* header = nullptr;
  Record* records = nullptr;
};

std::atomic<Log*> current{nullptr};
std::atomic<bool> settled{false};
std::mutex opening;

std::uint64_t now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

std::int32_t number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == 0 ? -1 : static_cast<std::int32_t>(std::atoi(text));
}

std::uint64_t wanted_records() {
  const char* text = std::getenv("PLANGUARD_PRELOAD_RECORDS");
  if (text == nullptr) return kDefaultRecords;
  const unsigned long long n = std::strtoull(text, nullptr, 10);
  return n < 1 ? 1 : (n > kMostRecords ? kMostRecords : n);
}

// Make a folder and the folders above it; where one cannot be made, opening the log says why.
void make_folders(const char* folder) {
  char path[4096];
  if (std::snprintf(path, sizeof path, "%s", folder) >= static_cast<int>(sizeof path)) return;
  for (char* at = path + 1; *at != 0; ++at) {
    if (*at != '/') continue;
    *at = 0;
    mkdir(path, 0777);
    *at = '/';
  }
  mkdir(path, 0777);
}

Log* open_log(const char* folder) {
  char path[4096];
  char draft[4096 + 8];
  make_folders(folder);
  const int length =
      std::snprintf(path, sizeof path, "%s/nccl-%ld.pglog", folder, static_cast<long>(getpid()));
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) return nullptr;
  std::snprintf(draft, sizeof draft, "%s.new", path);
  const int file = open(draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    std::perror("planguard preload: cannot open its log");
    return nullptr;
  }
  const std::uint64_t capacity = wanted_records();
  const std::size_t bytes = kHeaderBytes + capacity * sizeof(Record);
  // posix_fallocate, not ftruncate: a full disk is an error now and not a SIGBUS in the middle.
  const int full = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* at = full != 0 ? MAP_FAILED
                       : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                              file, 0);
  close(file);
  if (at == MAP_FAILED) {
    std::fprintf(stderr, "planguard preload: no room for a log of %zu bytes; nothing is recorded\n",
                 bytes);
    unlink(draft);
    return nullptr;
  }
  auto* header = static_cast<Header*>(at);
  std::memcpy(header->magic, "PGNCCL1", 8);
  header->version = 1;
  header->record_bytes = sizeof(Record);
  header->capacity = capacity;
  header->pid = static_cast<std::uint64_t>(getpid());
  header->realtime_ns = now(CLOCK_REALTIME);
  header->monotonic_ns = now(CLOCK_MONOTONIC);
  header->rank = number_of("RANK");
  header->world_size = number_of("WORLD_SIZE");
  header->flags.store(is_stub() ? 1 : 0, std::memory_order_relaxed);
  // It takes its name when the header is whole: a log is readable from its first moment.
  if (std::rename(draft, path) != 0) {
    std::perror("planguard preload: cannot name its log");
    munmap(at, bytes);
    unlink(draft);
    return nullptr;
  }
  // Never freed: calls may come until the last instruction of the process.
  return new Log{header, reinterpret_cast<Record*>(static_cast<char*>(at) + kHeaderBytes)};
}

void in_child() {
  // The mapping of the parent is shared with it: a forked process starts a log of its own.
  current.store(nullptr, std::memory_order_relaxed);
  settled.store(false, std::memory_order_release);
}

Log* settle() {
  std::lock_guard<std::mutex> lock(opening);
  if (settled.load(std::memory_order_acquire)) return current.load(std::memory_order_acquire);
  static const bool registered = pthread_atfork(nullptr, nullptr, in_child) == 0;
  (void)registered;
  const char* folder = std::getenv("PLANGUARD_PRELOAD_LOG");
  Log* log = folder == nullptr || *folder == 0 ? nullptr : open_log(folder);
  current.store(log, std::memory_order_release);
  settled.store(true, std::memory_order_release);
  return log;
}

std::uint32_t thread_number() {
  static thread_local const auto id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  return id;
}

}  // namespace

bool is_stub() {
  static const bool stub = [] {
    const char* text = std::getenv("PLANGUARD_PRELOAD_STUB");
    return text != nullptr && *text != 0 && std::strcmp(text, "0") != 0;
  }();
  return stub;
}

namespace {

Log* log_of_process() {
  return settled.load(std::memory_order_acquire) ? current.load(std::memory_order_acquire)
                                                 : settle();
}

void mark(std::uint32_t flag) {
  Log* log = log_of_process();
  if (log != nullptr) log->header->flags.fetch_or(flag, std::memory_order_relaxed);
}

}  // namespace

void mark_profiler() { mark(2); }

void mark_mpi() { mark(4); }

void append(const Fields& fields, int phase, int result) {
  Log* log = log_of_process();
  if (log == nullptr) return;
  const std::uint64_t at = log->header->head.fetch_add(1, std::memory_order_relaxed);
  if (at >= log->header->capacity) return;  // head counts it: the reader marks the log INCOMPLETE
  Record& record = log->records[at];
  record.op = static_cast<std::uint16_t>(fields.op);
  record.phase = static_cast<std::uint8_t>(phase);
  record.dtype = fields.dtype;
  record.time = now(CLOCK_MONOTONIC);
  record.comm = fields.comm;
  record.count = fields.count;
  record.stream = fields.stream;
  record.peer = fields.peer;
  record.thread = thread_number();
  record.result = result;
  record.redop = fields.redop;
  record.caller = fields.caller;
  record.commit.store(static_cast<std::uint32_t>(at) | 0x80000000u, std::memory_order_release);
}

}  // namespace planguard::preload
