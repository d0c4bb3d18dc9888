// A pickle of plain values as an arena: no object is made, nothing is called.
#pragma once

#include <algorithm>

#include "planguard/dump.h"

namespace planguard {

constexpr uint64_t kLongestDumpKey = 1 << 17;

class Unpickler {
 public:
  Unpickler(View<uint8_t> data, Dump& dump)
      : data_(data), dump_(dump), stack_(dump.stack), memo_(dump.memo), is_set_(dump.is_set),
        marks_(dump.marks) {}

  // False: an opcode that no recorder writes, a key that is no short text, or a damaged pickle.
  bool load(Value& result) {
    if (data_.size > uint64_t(1) << 30) return false;
    while (at_ < data_.size) {
      const uint8_t op = data_[at_++];
      if (op == '.') {
        if (!marks_.empty() || stack_.size() != 1) return false;
        result = stack_.back();
        return true;
      }
      if (!step(op)) return false;
    }
    return false;
  }

 private:
  bool step(uint8_t op) {
    uint64_t n = 0;
    switch (op) {
      case 'h': return number(1, n) && get(n);
      case 'K': return number(1, n) && push(Tag::number, int64_t(n));
      case 'M': return number(2, n) && push(Tag::number, int64_t(n));
      case 'J': return number(4, n) && push(Tag::number, int32_t(uint32_t(n)));
      case 0x8a: return long1();
      case 'N': return push(Tag::none, 0);
      case 0x88: return push(Tag::truth, 1);
      case 0x89: return push(Tag::truth, 0);
      case 'G': return skip(8) && push(Tag::real, 0);
      case ']': return make(Tag::list);
      case '}': return make(Tag::dict);
      case ')': return make(Tag::tuple);
      case '(': marks_.push_back(stack_.size()); return true;
      case 'q': return number(1, n) && put(n);
      case 'r': return number(4, n) && put(n);
      case 'j': return number(4, n) && get(n);
      case 0x94: return put(known_);
      case 0x8c: return number(1, n) && text(n);
      case 'X': return number(4, n) && text(n);
      case 'a': return fenced(2) && add(Tag::list, stack_.size() - 1);
      case 's': return fenced(3) && add(Tag::dict, stack_.size() - 2);
      case 'e': return marked(n) && add(Tag::list, n);
      case 'u': return marked(n) && add(Tag::dict, n);
      case 't': return marked(n) && tuple(n);
      case 0x85: case 0x86: case 0x87:
        return fenced(uint64_t(op) - 0x84) && tuple(stack_.size() - (uint64_t(op) - 0x84));
      case 0x80: return number(1, n) && n <= 5;
      case 0x95: return number(8, n) && n <= data_.size - at_;
      default: return false;
    }
  }

  bool skip(uint64_t count) {
    if (count > data_.size - at_) return false;
    at_ += count;
    return true;
  }

  bool number(unsigned bytes, uint64_t& n) {
    if (bytes > data_.size - at_) return false;
    n = 0;
    for (unsigned i = 0; i < bytes; ++i) n |= uint64_t(data_[at_ + i]) << (8 * i);
    at_ += bytes;
    return true;
  }

  bool long1() {
    uint64_t size = 0, n = 0;
    if (!number(1, size) || size > 8 || !number(unsigned(size), n)) return false;
    if (size && size < 8 && (n >> (8 * size - 1) & 1)) n |= ~uint64_t(0) << (8 * size);
    return push(Tag::number, int64_t(n));
  }

  bool text(uint64_t size) {
    const uint64_t first = at_;
    if (!skip(size)) return false;
    Text one;
    one.first = first;
    one.size = uint32_t(size);
    one.is_ascii = is_ascii(first, size);
    dump_.texts.push_back(one);
    return push(Tag::text, int64_t(dump_.texts.size() - 1));
  }

  bool is_ascii(uint64_t first, uint64_t size) const {
    uint8_t all = 0;
    for (uint64_t i = first; i < first + size; ++i) all |= data_[i];
    return all < 0x80;
  }

  bool push(Tag tag, int64_t at) {
    stack_.push_back({tag, at});
    return true;
  }

  bool make(Tag tag) {
    dump_.nodes.emplace_back();
    return push(tag, int64_t(dump_.nodes.size() - 1));
  }

  uint64_t fence() const { return marks_.empty() ? 0 : marks_.back(); }

  bool fenced(uint64_t count) const { return stack_.size() >= fence() + count; }

  // Takes the last mark away; the first place behind it.
  bool marked(uint64_t& first) {
    if (marks_.empty()) return false;
    first = marks_.back();
    marks_.pop_back();
    return true;
  }

  bool tuple(uint64_t first) {
    Node node;
    node.first = dump_.pool.size();
    node.size = node.room = stack_.size() - first;
    dump_.pool.insert(dump_.pool.end(), stack_.begin() + int64_t(first), stack_.end());
    stack_.resize(first);
    dump_.nodes.push_back(node);
    return push(Tag::tuple, int64_t(dump_.nodes.size() - 1));
  }

  // Moves what stands from `first` into the list or dictionary below it.
  bool add(Tag tag, uint64_t first) {
    if (first <= fence() || stack_[first - 1].tag != tag) return false;
    const uint64_t count = stack_.size() - first;
    if (tag == Tag::dict && !are_keys(first)) return false;
    Node& node = dump_.nodes[size_t(stack_[first - 1].at)];
    auto& pool = dump_.pool;
    const auto begin = stack_.begin() + int64_t(first);
    if (node.size + count <= node.room) {
      std::copy(begin, stack_.end(), pool.begin() + int64_t(node.first + node.size));
    } else {
      const bool is_last = node.size && node.first + node.size == pool.size();
      if (!is_last) move(node, count);
      pool.insert(pool.end(), begin, stack_.end());
      node.room = node.size + count;
      // Twice as much as it holds where it had to move: moving then costs no more than writing.
      if (!is_last && node.size) {
        node.room *= 2;
        pool.resize(node.first + node.room);
      }
    }
    node.size += count;
    stack_.resize(first);
    return true;
  }

  // Moves what a node holds to the end of the pool.
  void move(Node& node, uint64_t count) {
    auto& pool = dump_.pool;
    const uint64_t moved = node.first;
    node.first = pool.size();
    if (!node.size) return;
    pool.reserve(std::max(pool.capacity(), pool.size() + node.size + count));
    for (uint64_t i = 0; i < node.size; ++i) pool.push_back(pool[moved + i]);
  }

  bool are_keys(uint64_t first) const {
    for (uint64_t i = first; i < stack_.size(); i += 2)
      if (stack_[i].tag != Tag::text || dump_.texts[size_t(stack_[i].at)].size > kLongestDumpKey)
        return false;
    return (stack_.size() - first) % 2 == 0;
  }

  bool put(uint64_t index) {
    if (!fenced(1) || index >= data_.size) return false;
    if (index >= memo_.size()) {
      memo_.resize(index + 1);
      is_set_.resize(index + 1);
    }
    known_ += !is_set_[index];
    is_set_[index] = 1;
    memo_[index] = stack_.back();
    return true;
  }

  bool get(uint64_t index) {
    if (index >= memo_.size() || !is_set_[index]) return false;
    stack_.push_back(memo_[index]);
    return true;
  }

  View<uint8_t> data_;
  Dump& dump_;
  uint64_t at_ = 0, known_ = 0;
  std::vector<Value>&stack_, &memo_;
  std::vector<uint8_t>& is_set_;
  std::vector<uint64_t>& marks_;
};

}  // namespace planguard
