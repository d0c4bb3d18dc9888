// The native stack of another thread of this process, for the report of the live guard: where a rank
// stands inside gloo, NCCL or a kernel launch, which its Python stack does not show.
//
// A signal makes the thread walk its own stack. The handler stays installed: one that comes late
// finds a place to write to that nobody reads any more.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#define PLANGUARD_API extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kMost = 128;
constexpr int kSelf = 2;  // the handler, and the frame that the kernel puts below it

struct Walk {
  void* frames[kMost];
  std::atomic<int> count{-1};
};

std::atomic<Walk*> wanted{nullptr};
std::mutex one_at_a_time;

void handler(int, siginfo_t*, void*) {
  Walk* walk = wanted.exchange(nullptr, std::memory_order_acq_rel);
  if (walk != nullptr) walk->count.store(backtrace(walk->frames, kMost), std::memory_order_release);
}

int signal_number() {
  static const int number = [] {
    void* room[4];
    backtrace(room, 4);  // loads what it needs now, and not inside the handler
    const int free = SIGRTMAX - 3;
    struct sigaction action {};
    struct sigaction before {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (sigaction(free, nullptr, &before) != 0) return -1;
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return -1;  // somebody's own
    return sigaction(free, &action, nullptr) == 0 ? free : -1;
  }();
  return number;
}

}  // namespace

// Write the return addresses of a thread, innermost first; their number, or -1 when the thread is
// gone, does not answer in time, or the signal is taken.
PLANGUARD_API int planguard_stack(long thread, void** frames, int most, int milliseconds) {
  std::lock_guard<std::mutex> lock(one_at_a_time);
  const int number = signal_number();
  if (number < 0) return -1;
  auto* walk = new Walk;  // leaked when the thread does not answer: it may do so later
  wanted.store(walk, std::memory_order_release);
  if (syscall(SYS_tgkill, getpid(), thread, number) != 0) {
    wanted.store(nullptr, std::memory_order_release);
    delete walk;
    return -1;
  }
  const timespec pause{0, 1'000'000};
  for (int waited = 0; waited < milliseconds; ++waited) {
    if (walk->count.load(std::memory_order_acquire) >= 0) break;
    nanosleep(&pause, nullptr);
  }
  const int count = walk->count.load(std::memory_order_acquire);
  if (count < 0) {
    wanted.store(nullptr, std::memory_order_release);
    return -1;
  }
  int written = 0;
  for (int at = kSelf; at < count && written < most; ++at) frames[written++] = walk->frames[at];
  delete walk;
  return written;
}

// Write "function in library" for a return address; 0 when nothing is known of it.
PLANGUARD_API int planguard_symbol(void* address, char* text, int room) {
  Dl_info info{};
  if (room < 1 || dladdr(address, &info) == 0) return 0;
  const char* slash = info.dli_fname == nullptr ? nullptr : std::strrchr(info.dli_fname, '/');
  const char* library = slash == nullptr ? info.dli_fname : slash + 1;
  int status = -1;
  char* plain = info.dli_sname == nullptr
                    ? nullptr
                    : abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  const char* name = status == 0 ? plain : info.dli_sname;
  std::snprintf(text, static_cast<std::size_t>(room), "%s in %s", name == nullptr ? "?" : name,
                library == nullptr ? "?" : library);
  std::free(plain);
  return 1;
}
