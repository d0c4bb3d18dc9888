// The functions of the library that is interposed.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "abi.h"

namespace planguard::preload {

// ncclX of a library, else its alias pncclX.
inline void* find_in(void* library, const char* name) {
  void* found = dlsym(library, name);
  return found != nullptr ? found : dlsym(library, (std::string("p") + name).c_str());
}

struct Sought {
  const char* name;
  void* found;
};

// Look into one loaded library whose file is called something with "nccl" (libnccl.so.2).
inline int look_into(dl_phdr_info* loaded, std::size_t, void* data) {
  auto* sought = static_cast<Sought*>(data);
  const char* slash = std::strrchr(loaded->dlpi_name, '/');
  if (std::strstr(slash == nullptr ? loaded->dlpi_name : slash, "nccl") == nullptr) return 0;
  void* library = dlopen(loaded->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  sought->found = find_in(library, sought->name);
  dlclose(library);  // the reference of this look only: who loaded it holds it
  return sought->found != nullptr ? 1 : 0;
}

// Find a function behind this library. RTLD_NEXT sees the libraries of the global scope only. Python
// loads its extension modules, and with them torch's libnccl, RTLD_LOCAL, so the libraries that are
// loaded are looked through as well.
inline void* find_real(const char* name) {
  Sought sought{name, find_in(RTLD_NEXT, name)};
  if (sought.found == nullptr) dl_iterate_phdr(look_into, &sought);
  return sought.found;
}

template <typename... Args>
class Real {
 public:
  explicit Real(const char* name) : name_(name) {}

  int operator()(Args... args) const {
    using Function = int (*)(Args...);
    static_assert(sizeof(Function) == sizeof(void*));
    void* found = at_.load(std::memory_order_acquire);
    if (found == nullptr) {
      found = find_real(name_);
      if (found == nullptr) {
        std::fprintf(stderr, "planguard preload: %s is in no library that is loaded\n", name_);
        return kSystemError;
      }
      at_.store(found, std::memory_order_release);
    }
    return reinterpret_cast<Function>(found)(args...);
  }

 private:
  const char* name_;
  mutable std::atomic<void*> at_{nullptr};
};

}  // namespace planguard::preload
