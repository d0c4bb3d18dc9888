// The functions of the library that is interposed.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "abi.h"

namespace planguard::preload {

// Find a function behind this library: ncclX, else its alias pncclX.
inline void* find_real(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) found = dlsym(RTLD_NEXT, (std::string("p") + name).c_str());
  return found;
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
