// Vectors of many millions of elements: not cleared when they grow, on huge pages where the system
// has them. Filling the columns of 16,384 ranks takes 16,000 page faults of 4 KiB otherwise.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace planguard {

template <class T>
struct BigAllocator {
  using value_type = T;
  static constexpr size_t HUGE_PAGE = size_t(2) << 20;

  BigAllocator() = default;
  template <class U>
  BigAllocator(const BigAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(size_t count) {
    size_t bytes = count * sizeof(T);
#ifdef __linux__
    if (bytes >= 2 * HUGE_PAGE) {
      bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
      void* memory = std::aligned_alloc(HUGE_PAGE, bytes);
      if (!memory) throw std::bad_alloc();
      madvise(memory, bytes, MADV_HUGEPAGE);  // advice: a refusal costs time only
      return static_cast<T*>(memory);
    }
#endif
    void* memory = std::malloc(bytes ? bytes : 1);
    if (!memory) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }

  // resize() leaves new elements unset; assign() and push_back() set them.
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Args>
  void construct(U* place, Args&&... args) {
    ::new (static_cast<void*>(place)) U(std::forward<Args>(args)...);
  }

  template <class U>
  bool operator==(const BigAllocator<U>&) const { return true; }
  template <class U>
  bool operator!=(const BigAllocator<U>&) const { return false; }
};

template <class T>
using Big = std::vector<T, BigAllocator<T>>;

}  // namespace planguard
