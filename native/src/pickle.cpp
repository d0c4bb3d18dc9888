// Follows a pickle's stack without making an object. A tuple of tuples that share their parts is a
// few bytes long and takes forever to hash; integers can be chosen to collide. Text does neither.
#include "planguard/pickle.h"

#include <unordered_map>
#include <vector>

namespace planguard {
namespace {

constexpr uint64_t kLongestKey = 1 << 17;
constexpr int64_t kFine = -1;
constexpr uint8_t kNothing = 2;

class Follower {
 public:
  explicit Follower(View<uint8_t> data) : data_(data) {}

  int64_t follow() {
    while (at_ < data_.size && !done_) {
      const uint64_t place = at_;
      if (!step(data_[at_++])) return int64_t(place);
    }
    return kFine;
  }

 private:
  // False: refused. What a reader of recordings refuses by itself sets done_.
  bool step(uint8_t op) {
    switch (op) {
      case 0x80: return skip(1);                                        // PROTO
      case 0x95: return skip(8);                                        // FRAME
      case '(': marks_.push_back(stack_.size()); return true;           // MARK
      case 'N': case 0x88: case 0x89: case ')': case ']': case '}': return push(false);
      case 'K': return skip(1) && push(false);                          // BININT1
      case 'M': return skip(2) && push(false);                          // BININT2
      case 'J': return skip(4) && push(false);                          // BININT
      case 'G': return skip(8) && push(false);                          // BINFLOAT
      case 'I': case 'L': case 'F': return line() && push(false);
      case 0x8a: case 'C': return sized(1) && push(false);              // LONG1, SHORT_BINBYTES
      case 0x8b: case 'B': return sized(4) && push(false);              // LONG4, BINBYTES
      case 0x8e: case 0x96: return sized(8) && push(false);             // BINBYTES8, BYTEARRAY8
      case 'S': case 'V': return line() && push(length_ <= kLongestKey);
      case 'U': case 0x8c: return sized(1) && push(true);               // SHORT_BIN(STRING|UNICODE)
      case 'T': case 'X': return sized(4) && push(length_ <= kLongestKey);
      case 0x8d: return sized(8) && push(length_ <= kLongestKey);       // BINUNICODE8
      case 0x85: case 0x86: case 0x87: return pop(op - 0x84) && push(false);
      case 't': case 'l': return to_mark() && push(false);              // TUPLE, LIST
      case 'd': return to_mark() && keys(popped_) && push(false);       // DICT
      case 'u': return to_mark() && keys(popped_) && stack_.size() > fence();
      case 'e': return to_mark() && stack_.size() > fence();            // APPENDS
      case '1': return to_mark();                                       // POP_MARK
      case 'a': return pop(1) && stack_.size() > fence();               // APPEND
      case 's': return pop(2) && keys(popped_) && stack_.size() > fence();
      case '0':                                                         // POP
        if (marks_.empty() || marks_.back() != stack_.size()) return pop(1);
        marks_.pop_back();
        return true;
      case '2': return stack_.size() > fence() && push(stack_.back());  // DUP
      case 'q': return number(1) && put(length_);
      case 'r': return number(4) && put(length_);
      case 'p': return decimal() && put(length_);
      case 0x94: return put(known_);                                    // MEMOIZE
      case 'h': return number(1) && get(length_);
      case 'j': return number(4) && get(length_);
      case 'g': return decimal() && get(length_);
      case 'c': case 0x93: case 'i': case 'R': case 'o': case 0x81: case 0x92: case 'P': case 'Q':
      case 0x82: case 0x83: case 0x84: case '.':
        done_ = true;
        return true;
      default: return false;
    }
  }

  uint64_t fence() const { return marks_.empty() ? 0 : marks_.back(); }

  bool push(uint8_t is_text) {
    stack_.push_back(is_text);
    return true;
  }

  bool pop(uint64_t count) {
    if (stack_.size() < fence() + count) return false;
    popped_.assign(stack_.end() - int64_t(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return true;
  }

  bool to_mark() {
    if (marks_.empty()) return false;
    const uint64_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    popped_.assign(stack_.end() - int64_t(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return true;
  }

  static bool keys(const std::vector<uint8_t>& pairs) {
    for (size_t i = 0; i < pairs.size(); i += 2)
      if (!pairs[i]) return false;
    return pairs.size() % 2 == 0;
  }

  bool put(uint64_t index) {
    if (done_) return true;
    if (stack_.size() <= fence()) return false;
    uint8_t& held = cell(index);
    known_ += held == kNothing;
    held = stack_.back();
    return true;
  }

  bool get(uint64_t index) {
    if (done_) return true;
    const uint8_t held = cell(index);
    return held != kNothing && push(held);
  }

  // Writers count from 0; what is far beyond that is kept apart, or a few bytes would ask for much.
  uint8_t& cell(uint64_t index) {
    if (index >= data_.size) return far_.try_emplace(index, kNothing).first->second;
    if (index >= memo_.size()) memo_.resize(index + 1, kNothing);
    return memo_[index];
  }

  // The end of the data is the reader's to refuse.
  bool skip(uint64_t count) {
    if (count > data_.size - at_) {
      done_ = true;
      at_ = data_.size;
    } else {
      at_ += count;
    }
    return true;
  }

  bool number(int bytes) {
    length_ = 0;
    const uint64_t first = at_;
    skip(uint64_t(bytes));
    for (int i = 0; !done_ && i < bytes; ++i) length_ |= uint64_t(data_[first + i]) << (8 * i);
    return true;
  }

  bool sized(int bytes) { return number(bytes) && (done_ || skip(length_)); }

  bool line() {
    const uint64_t first = at_;
    while (at_ < data_.size && data_[at_] != '\n') ++at_;
    length_ = at_ - first;
    return skip(1);
  }

  // Only digits: the reader also takes blanks and underscores, which nobody writes.
  bool decimal() {
    const uint64_t first = at_;
    line();
    if (done_) return true;
    if (length_ == 0 || length_ > 18) return false;
    uint64_t value = 0;
    for (uint64_t i = first; i < first + length_; ++i) {
      if (data_[i] < '0' || data_[i] > '9') return false;
      value = 10 * value + uint64_t(data_[i] - '0');
    }
    length_ = value;
    return true;
  }

  View<uint8_t> data_;
  uint64_t at_ = 0, length_ = 0;
  bool done_ = false;
  std::vector<uint8_t> stack_, popped_;
  std::vector<uint64_t> marks_;
  std::vector<uint8_t> memo_;
  std::unordered_map<uint64_t, uint8_t> far_;
  uint64_t known_ = 0;
};

}  // namespace

int64_t refused_opcode(View<uint8_t> data) { return Follower(data).follow(); }

}  // namespace planguard
