// Lanes that can go on. The last one woken runs first: what it touches is in the cache.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace planguard {

class Ready {
 public:
  Ready(uint32_t n, const std::vector<uint32_t>& order) : lanes_(n) {
    for (uint32_t place = n; place-- > 0;) push(order.empty() ? place : order[place]);
  }
  bool empty() const { return !size_; }
  void push(uint32_t lane) { lanes_[size_++] = lane; }
  uint32_t pop() { return lanes_[--size_]; }

 private:
  std::vector<uint32_t> lanes_;
  size_t size_ = 0;
};

}  // namespace planguard
