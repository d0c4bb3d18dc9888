// A pickle of plain values as an arena: no object is made, nothing is called.
#pragma once

#include <algorithm>

#include "planguard/dump.h"

namespace planguard {

constexpr uint64_t kLongestDumpKey = 1 << 17;

class Unpickler {
 public:
  Unpickler(View<uint8_t> data, Dump& dump)
      : at_(data.data), end_(data.data + data.size), start_(data.data), dump_(dump),
        stack_(dump.stack), memo_(dump.memo), marks_(dump.marks) {}

  // False: an opcode that no recorder writes, a key that is no short text, or a damaged pickle.
  bool load(Value& result) {
    if (end_ - start_ > int64_t(1) << 30) return false;
    uint64_t n = 0;
    bool is_fine = true;
    // One switch in one loop: a function for each opcode would keep the place in memory.
    while (is_fine && at_ != end_) {
      const uint8_t op = *at_++;
      switch (op) {
        case '.':
          if (!marks_.empty() || size_ != 1) return false;
          result = stack_[0];
          return true;
        case 'h': is_fine = number<1>(n) && get(n); break;
        case 'K': is_fine = number<1>(n) && push(Tag::number, int64_t(n)); break;
        case 'M': is_fine = number<2>(n) && push(Tag::number, int64_t(n)); break;
        case 'J': is_fine = number<4>(n) && push(Tag::number, int32_t(uint32_t(n))); break;
        case 0x8a: is_fine = long1(); break;
        case 'N': is_fine = push(Tag::none, 0); break;
        case 0x88: is_fine = push(Tag::truth, 1); break;
        case 0x89: is_fine = push(Tag::truth, 0); break;
        case 'G': is_fine = skip(8) && push(Tag::real, 0); break;
        case ']': is_fine = make(Tag::list); break;
        case '}': is_fine = make(Tag::dict); break;
        case ')': is_fine = make(Tag::tuple); break;
        case '(': marks_.push_back(size_); break;
        case 'q': is_fine = number<1>(n) && put(n); break;
        case 'r': is_fine = number<4>(n) && put(n); break;
        case 'j': is_fine = number<4>(n) && get(n); break;
        case 0x94: is_fine = put(known_); break;
        case 0x8c: is_fine = number<1>(n) && text(n); break;
        case 'X': is_fine = number<4>(n) && text(n); break;
        case 'a': is_fine = fenced(2) && add(Tag::list, size_ - 1); break;
        case 's': is_fine = fenced(3) && add(Tag::dict, size_ - 2); break;
        case 'e': is_fine = marked(n) && add(Tag::list, n); break;
        case 'u': is_fine = marked(n) && add(Tag::dict, n); break;
        case 't': is_fine = marked(n) && tuple(n); break;
        case 0x85: case 0x86: case 0x87:
          is_fine = fenced(uint64_t(op) - 0x84) && tuple(size_ - (uint64_t(op) - 0x84));
          break;
        case 0x80: is_fine = number<1>(n) && n <= 5; break;
        case 0x95: is_fine = number<8>(n) && n <= left(); break;
        default: return false;
      }
    }
    return false;
  }

 private:
  uint64_t left() const { return uint64_t(end_ - at_); }

  bool skip(uint64_t count) {
    if (count > left()) return false;
    at_ += count;
    return true;
  }

  template <unsigned kBytes>
  bool number(uint64_t& n) {
    if (kBytes > left()) return false;
    n = little(kBytes);
    return true;
  }

  uint64_t little(unsigned bytes) {
    uint64_t n = 0;
    for (unsigned i = 0; i < bytes; ++i) n |= uint64_t(at_[i]) << (8 * i);
    at_ += bytes;
    return n;
  }

  bool long1() {
    uint64_t size = 0;
    if (!number<1>(size) || size > 8 || size > left()) return false;
    uint64_t n = little(unsigned(size));
    if (size && size < 8 && (n >> (8 * size - 1) & 1)) n |= ~uint64_t(0) << (8 * size);
    return push(Tag::number, int64_t(n));
  }

  bool text(uint64_t size) {
    Text one;
    one.first = uint64_t(at_ - start_);
    if (!skip(size)) return false;
    one.size = uint32_t(size);
    one.is_ascii = is_ascii(at_ - size, at_);
    dump_.texts.push_back(one);
    return push(Tag::text, int64_t(dump_.texts.size() - 1));
  }

  static bool is_ascii(const uint8_t* at, const uint8_t* end) {
    uint8_t all = 0;
    for (; at != end; ++at) all |= *at;
    return all < 0x80;
  }

  bool push(Tag tag, int64_t at) { return push({tag, at}); }

  bool push(const Value& value) {
    // Grown by doubling and never shrunk: what lies behind size_ is not looked at.
    if (size_ == stack_.size()) stack_.resize(std::max<size_t>(256, 2 * size_));
    stack_[size_++] = value;
    return true;
  }

  bool make(Tag tag) {
    dump_.nodes.emplace_back();
    return push(tag, int64_t(dump_.nodes.size() - 1));
  }

  uint64_t fence() const { return marks_.empty() ? 0 : marks_.back(); }

  bool fenced(uint64_t count) const { return size_ >= fence() + count; }

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
    node.size = node.room = size_ - first;
    dump_.pool.insert(dump_.pool.end(), &stack_[0] + first, &stack_[0] + size_);
    size_ = first;
    dump_.nodes.push_back(node);
    return push(Tag::tuple, int64_t(dump_.nodes.size() - 1));
  }

  // Moves what stands from `first` into the list or dictionary below it.
  bool add(Tag tag, uint64_t first) {
    if (first <= fence() || stack_[first - 1].tag != tag) return false;
    const uint64_t count = size_ - first;
    if (tag == Tag::dict && !are_keys(first)) return false;
    Node& node = dump_.nodes[size_t(stack_[first - 1].at)];
    auto& pool = dump_.pool;
    const Value* const begin = &stack_[0] + first;
    if (node.size + count <= node.room) {
      std::copy(begin, begin + count, pool.begin() + int64_t(node.first + node.size));
    } else {
      const bool is_last = node.size && node.first + node.size == pool.size();
      if (!is_last) move(node, count);
      if (count == 1) pool.push_back(*begin);
      else pool.insert(pool.end(), begin, begin + count);
      node.room = node.size + count;
      // Twice as much as it holds where it had to move: moving then costs no more than writing.
      if (!is_last && node.size) {
        node.room *= 2;
        pool.resize(node.first + node.room);
      }
    }
    node.size += count;
    size_ = first;
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
    for (uint64_t i = first; i < size_; i += 2)
      if (stack_[i].tag != Tag::text || dump_.texts[size_t(stack_[i].at)].size > kLongestDumpKey)
        return false;
    return (size_ - first) % 2 == 0;
  }

  bool put(uint64_t index) {
    if (!fenced(1) || index >= uint64_t(end_ - start_)) return false;
    if (index >= memo_.size()) memo_.resize(std::max<size_t>(index + 1, 2 * memo_.size()));
    // Writers count: nothing is left between what is kept and what comes, most often.
    for (; kept_ <= index; ++kept_) memo_[kept_].tag = Tag::nothing;
    known_ += memo_[index].tag == Tag::nothing;
    memo_[index] = stack_[size_ - 1];
    return true;
  }

  bool get(uint64_t index) {
    return index < kept_ && memo_[index].tag != Tag::nothing && push(memo_[index]);
  }

  const uint8_t *at_, *const end_, *const start_;
  Dump& dump_;
  uint64_t size_ = 0;              // of the stack
  uint64_t kept_ = 0, known_ = 0;  // places of the memo, and those of them that were set
  std::vector<Value>&stack_, &memo_;
  std::vector<uint64_t>& marks_;
};

}  // namespace planguard
