// Open-addressing map from a 128-bit key to a dense index; keys live in insertion order.
#pragma once
#include <cstdint>
#include <vector>

namespace planguard {

struct Key {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  bool operator==(const Key& other) const {
    return a == other.a && b == other.b && c == other.c && d == other.d;
  }
};

class DenseMap {
 public:
  DenseMap() : table_(64, 0) {}

  // Index of `key`, inserted when new.
  uint32_t intern(const Key& key) {
    if ((keys_.size() + 1) * 2 > table_.size()) grow();
    size_t place = find(key);
    if (!table_[place]) {
      keys_.push_back(key);
      table_[place] = static_cast<uint32_t>(keys_.size());
    }
    return table_[place] - 1;
  }

  // Index of `key`, or size() when it was never inserted.
  uint32_t lookup(const Key& key) const {
    uint32_t found = table_[find(key)];
    return found ? found - 1 : size();
  }

  const std::vector<Key>& keys() const { return keys_; }
  uint32_t size() const { return static_cast<uint32_t>(keys_.size()); }

 private:
  static uint64_t mix(const Key& key) {
    uint64_t h = (uint64_t(key.a) << 32 | key.b) * 0x9E3779B97F4A7C15ull;
    h ^= (uint64_t(key.c) << 32 | key.d) * 0xC2B2AE3D27D4EB4Full;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9ull;
    return h ^ (h >> 32);
  }
  size_t find(const Key& key) const {
    size_t mask = table_.size() - 1, place = mix(key) & mask;
    while (table_[place] && !(keys_[table_[place] - 1] == key)) place = (place + 1) & mask;
    return place;
  }
  void grow() {
    table_.assign(table_.size() * 2, 0);
    for (uint32_t index = 0; index < keys_.size(); ++index) table_[find(keys_[index])] = index + 1;
  }
  std::vector<Key> keys_;
  std::vector<uint32_t> table_;
};

}  // namespace planguard
