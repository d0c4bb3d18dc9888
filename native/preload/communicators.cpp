#include "communicators.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "log.h"
#include "real.h"

namespace planguard::preload {
namespace {

struct Promise {
  Comm* at;
  Known what;
};

struct Table {
  std::shared_mutex lock;
  std::unordered_map<Comm, Known> known;
  std::vector<Promise> promised;
};

Table& table() {
  static auto* one = new Table;  // never destroyed: calls may come while the process exits
  return *one;
}

// One communicator after the other is the usual case: a call then costs no lock.
struct Last {
  Comm comm = nullptr;
  std::uint64_t id = 0;
  std::uint64_t epoch = 0;
};
thread_local Last last;
std::atomic<std::uint64_t> epoch{1};

// Where the handles of the communicators are written that this thread makes in the group it is in.
thread_local std::vector<Comm*> in_group;
thread_local int depth = 0;

void put(Comm comm, const Known& what) {
  Table& all = table();
  std::unique_lock<std::shared_mutex> lock(all.lock);
  all.known[comm] = what;
  epoch.fetch_add(1, std::memory_order_release);
}

void tell(const Known& what) {
  Fields info{Op::kCommInfo};
  info.comm = what.id;
  info.count = static_cast<std::uint64_t>(what.size);
  info.peer = what.rank;
  append(info, 1, kSuccess);
}

// Complete what is known of a communicator, if NCCL is done with it. Before that it must not be
// asked for more than its state: it would warn, and nonblocking creation may still fail.
Known complete(Comm comm, Known what) {
  static const Real<Comm, int*> state_of("ncclCommGetAsyncError");
  static const Real<Comm, int*> rank_of("ncclCommUserRank");
  static const Real<Comm, int*> size_of("ncclCommCount");
  int state = kSuccess;
  if (what.rank < 0) {
    if (state_of(comm, &state) != kSuccess || state != kSuccess) return what;
    if (rank_of(comm, &what.rank) != kSuccess || size_of(comm, &what.size) != kSuccess) {
      what.rank = -1;
      return what;
    }
  }
  what.told = true;
  Known before = known(comm);
  what.children = before.children;
  put(comm, what);
  if (!before.told) tell(what);
  return what;
}

// Take the promise whose handle this is, if there is one. Only its place is read, never an object
// behind a handle that the caller did not name: a promise that NCCL broke may point anywhere.
bool redeem(Comm comm, Known* what) {
  Table& all = table();
  std::unique_lock<std::shared_mutex> lock(all.lock);
  for (auto one = all.promised.begin(); one != all.promised.end(); ++one) {
    if (*one->at != comm) continue;
    *what = one->what;
    all.promised.erase(one);
    all.known[comm] = *what;
    epoch.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

// What is known of a handle, promises included; false where nothing is.
bool find(Comm comm, Known* what) {
  Table& all = table();
  bool found = false;
  bool waiting = false;
  {
    std::shared_lock<std::shared_mutex> lock(all.lock);
    const auto at = all.known.find(comm);
    found = at != all.known.end();
    if (found) *what = at->second;
    waiting = !all.promised.empty();
  }
  if (!found && waiting && comm != nullptr) found = redeem(comm, what);
  if (found && !what->told) *what = complete(comm, *what);
  return found;
}

}  // namespace

std::uint64_t hash(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) seed = (seed ^ at[i]) * 0x100000001b3u;
  return seed;
}

std::uint64_t identity(Comm comm) {
  const std::uint64_t now = epoch.load(std::memory_order_acquire);
  if (last.comm == comm && last.epoch == now) return last.id;
  Known what;
  const bool found = find(comm, &what);
  const std::uint64_t id = found ? what.id : reinterpret_cast<std::uint64_t>(comm);
  if (found && what.told) last = {comm, id, now};
  return id;
}

Known known(Comm comm) {
  Table& all = table();
  std::shared_lock<std::shared_mutex> lock(all.lock);
  const auto found = all.known.find(comm);
  return found == all.known.end() ? Known{} : found->second;
}

void learn(Comm comm, std::uint64_t id, int rank, int size) {
  const Known what{id, rank, size, 0, true};
  put(comm, what);
  tell(what);
}

void promise(Comm* at, std::uint64_t id, int rank, int size) {
  Table& all = table();
  std::unique_lock<std::shared_mutex> lock(all.lock);
  // A place that is used again: what was promised there before never came.
  all.promised.erase(std::remove_if(all.promised.begin(), all.promised.end(),
                                    [&](const Promise& one) { return one.at == at; }),
                     all.promised.end());
  all.promised.push_back({at, Known{id, rank, size, 0, false}});
  epoch.fetch_add(1, std::memory_order_release);
  if (depth > 0) in_group.push_back(at);
}

void enter_group() { ++depth; }

void leave_group() {
  if (depth > 0) --depth;
  if (depth > 0) return;
  for (Comm* at : in_group) {
    Known what;
    if (*at != nullptr) find(*at, &what);
  }
  in_group.clear();
}

std::uint32_t next_child(Comm comm) {
  const Known what{identity(comm), -1, 0, 0, true};
  Table& all = table();
  std::unique_lock<std::shared_mutex> lock(all.lock);
  return all.known.try_emplace(comm, what).first->second.children++;
}

void forget(Comm comm) {
  Table& all = table();
  std::unique_lock<std::shared_mutex> lock(all.lock);
  all.known.erase(comm);
  epoch.fetch_add(1, std::memory_order_release);
}

Comm make_stub(std::uint64_t id, int rank, int size) { return new Known{id, rank, size, 0, true}; }

}  // namespace planguard::preload
