// The entries of a Flight Recorder dump as columns, read from the pickle in one walk.
//
// Only what recorders write is understood: plain opcodes, text as keys, numbers where numbers
// belong. Of anything else `Dump::read` says no, and the general reader decides what it is: it
// unpickles, and knows how to say what is wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "planguard/columns.h"

namespace planguard {

enum class Tag : uint8_t { none, truth, number, real, text, list, tuple, dict, nothing };

// A value of a pickle. `at`: the number itself, or the index of a text or a node. `nothing` is none:
// a place of the memo that was never set.
struct Value {
  Tag tag = Tag::none;
  int64_t at = 0;
};

struct Text {
  uint64_t first = 0;
  uint32_t size = 0;
  uint32_t name = 0;  // number of the text among the distinct ones; 0: not asked yet
  int8_t field = -2;  // which field of an entry it names; -1 none, -2 not asked yet
  bool is_ascii = true;
};

// A list, a tuple, or a dictionary whose keys and values alternate: a part of the pool.
struct Node {
  uint64_t first = 0, size = 0, room = 0;
  uint32_t name = 0;  // number of its content among the distinct ones; 0: not asked yet
};

constexpr int kRowFields = 7;
constexpr int kGroupField = 1;  // the group; the other fields say what was called

// Where an entry stands: index into `Dump::rows`, and its numbers.
struct EntryColumns {
  std::vector<uint32_t> row;
  std::vector<int64_t> record, created, collective, pair, op;
  std::vector<int64_t> process_group;  // number of its process group, -1 where it has none
  std::vector<uint8_t> state;     // 0 scheduled, 1 started, 2 completed, 3 anything else
  std::vector<uint8_t> is_retired, is_pair;
};

class Dump {
 public:
  // False: not of the plain kind; nothing that was found so far counts. What was found refers to
  // the data. Reading again forgets what was found and keeps the memory for it: asking the system
  // for pages takes longer than reading a dump.
  bool read(View<uint8_t> data);

  // Gives back the memory of an unusual dump.
  void shrink() {
    if (std::max({pool.capacity(), stack.capacity(), memo.capacity()}) > kKept) *this = Dump();
  }

  std::string_view text(const Text& one) const {
    return {reinterpret_cast<const char*>(data_.data) + one.first, one.size};
  }

  Value version, library, groups, status, rank;  // of the dump itself; none where it lacks them
  std::vector<Value> rows;                     // kRowFields values for each distinct entry
  EntryColumns columns;                        // entries by their record numbers
  std::vector<Text> texts;
  std::vector<Node> nodes;
  std::vector<Value> pool;

  // Of the walk: its stack, where its marks stand, and what it was told to keep.
  std::vector<Value> stack, memo;
  std::vector<uint64_t> marks;

 private:
  static constexpr size_t kKept = size_t(1) << 22;

  void clear();

  View<uint8_t> data_;
};

}  // namespace planguard
