// From the arena of a dump to columns: every distinct entry once, and which one each entry is.
#include "planguard/dump.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string_view>
#include <unordered_map>

#include "unpickle.h"

namespace planguard {
namespace {

constexpr int kDeepest = 12;  // frames of an entry are four levels deep
constexpr int64_t kLargest = int64_t(1) << 62;

enum Field : int8_t {
  profiling_name, process_group, frames, input_sizes, output_sizes, input_dtypes, output_dtypes,
  record_id, time_created_ns, collective_seq_id, p2p_seq_id, op_id, pg_id, state, retired, is_p2p,
  kFields
};
constexpr std::string_view kNames[kFields] = {
    "profiling_name", "process_group", "frames", "input_sizes", "output_sizes", "input_dtypes",
    "output_dtypes", "record_id", "time_created_ns", "collective_seq_id", "p2p_seq_id", "op_id",
    "pg_id", "state", "retired", "is_p2p"};
static_assert(record_id == kRowFields && process_group == kGroupField);

// The seed keeps whoever writes a dump from choosing what collides.
uint64_t seed() {
  static const uint64_t chosen = (uint64_t(std::random_device()()) << 32) ^ std::random_device()();
  return chosen;
}

struct Mix {
  uint64_t chosen = seed();
  size_t operator()(uint64_t key) const {
    key = (key ^ chosen) * 0x9E3779B97F4A7C15ull;
    key = (key ^ (key >> 29)) * 0xBF58476D1CE4E5B9ull;
    return size_t(key ^ (key >> 32));
  }
  size_t operator()(std::string_view text) const {
    uint64_t hash = text.size();
    for (const char letter : text) hash = (*this)(hash ^ uint8_t(letter));
    return size_t(hash);
  }
};

constexpr int kCompared = 256;  // parts of two values that are compared before they are numbered

// Tells whether two values are equal; false as well where that takes long to find out.
class Equal {
 public:
  explicit Equal(const Dump& dump) : dump_(dump) {}

  bool operator()(const Value& left, const Value& right) {
    if (left.tag != right.tag) return false;
    if (left.at == right.at) return true;
    switch (left.tag) {
      case Tag::none: return true;
      case Tag::text:
        return dump_.text(dump_.texts[size_t(left.at)]) == dump_.text(dump_.texts[size_t(right.at)]);
      case Tag::list: case Tag::tuple: case Tag::dict: return nodes(left.at, right.at);
      default: return false;
    }
  }

 private:
  bool nodes(int64_t left, int64_t right) {
    const Node &one = dump_.nodes[size_t(left)], &two = dump_.nodes[size_t(right)];
    if (one.size != two.size || one.size > uint64_t(left_)) return false;
    left_ -= int(one.size) + 1;
    for (uint64_t i = 0; i < one.size; ++i)
      if (!(*this)(dump_.pool[one.first + i], dump_.pool[two.first + i])) return false;
    return true;
  }

  const Dump& dump_;
  int left_ = kCompared;
};

// Numbers values so that equal ones, and only those, have one number. Nodes are numbered once, so
// that parts that are shared many times cost nothing more.
class Names {
 public:
  explicit Names(Dump& dump) : dump_(dump) {
    pairs_.reserve(256);
    texts_.reserve(256);
  }

  // 0: what no field of a call holds: truths and fractions, which equal numbers, and cycles.
  uint32_t of(const Value& value, int depth = 0) {
    switch (value.tag) {
      case Tag::none: return 1;
      case Tag::number: return numbered(numbers_.try_emplace(uint64_t(value.at), next_));
      case Tag::text: return text(dump_.texts[size_t(value.at)]);
      case Tag::list: case Tag::tuple: case Tag::dict: return node(value, depth);
      default: return 0;
    }
  }

  uint32_t pair(uint32_t first, uint32_t second) {
    return numbered(pairs_.try_emplace(uint64_t(first) << 32 | second, next_));
  }

  static constexpr uint32_t kRow = 2;

 private:
  template <class Place>
  uint32_t numbered(const Place& place) {
    next_ += place.second;
    return place.first->second;
  }

  uint32_t text(Text& one) {
    if (!one.name) one.name = numbered(texts_.try_emplace(dump_.text(one), next_));
    return one.name;
  }

  uint32_t node(const Value& value, int depth) {
    Node& node = dump_.nodes[size_t(value.at)];
    if (node.name || depth > kDeepest) return depth > kDeepest ? 0 : node.name;
    uint32_t name = uint32_t(value.tag);
    for (uint64_t i = node.first; i < node.first + node.size; ++i) {
      const uint32_t part = of(dump_.pool[i], depth + 1);
      if (!part) return 0;
      name = pair(name, part);
    }
    // Without a part it is named by what it is; those names are below the first one given.
    return node.name = name;
  }

  Dump& dump_;
  uint32_t next_ = 16;
  std::unordered_map<uint64_t, uint32_t, Mix> pairs_, numbers_;
  std::unordered_map<std::string_view, uint32_t, Mix> texts_;
};

class Reader {
 public:
  explicit Reader(Dump& dump) : dump_(dump), names_(dump) {}

  bool read(const Value& top) {
    if (top.tag != Tag::dict) return false;
    Value entries;
    const Node& node = dump_.nodes[size_t(top.at)];
    for (uint64_t i = node.first; i < node.first + node.size; i += 2) {
      const auto key = dump_.text(dump_.texts[size_t(dump_.pool[i].at)]);
      const Value& value = dump_.pool[i + 1];
      if (key == "version") dump_.version = value;
      if (key == "comm_lib_version") dump_.library = value;
      if (key == "pg_config") dump_.groups = value;
      if (key == "pg_status") dump_.status = value;
      if (key == "rank") dump_.rank = value;
      if (key == "entries") entries = value;
    }
    if (entries.tag != Tag::list) return false;
    const Node& list = dump_.nodes[size_t(entries.at)];
    reserve(list.size);
    for (uint64_t i = list.first; i < list.first + list.size; ++i)
      if (!entry(dump_.pool[i])) return false;
    sort();
    return true;
  }

 private:
  void reserve(uint64_t count) {
    auto& c = dump_.columns;
    c.row.reserve(count);
    for (auto* column : {&c.record, &c.created, &c.collective, &c.pair, &c.op, &c.process_group})
      column->reserve(count);
    for (auto* column : {&c.state, &c.is_retired, &c.is_pair}) column->reserve(count);
  }

  bool entry(const Value& value) {
    if (value.tag != Tag::dict) return false;
    const Node& node = dump_.nodes[size_t(value.at)];
    const Value* found[kFields] = {};
    for (uint64_t i = node.first; i < node.first + node.size; i += 2) {
      const int8_t field = field_of(dump_.texts[size_t(dump_.pool[i].at)]);
      if (field >= 0) found[field] = &dump_.pool[i + 1];
    }
    auto& c = dump_.columns;
    if (!row(found)) return false;
    if (!number(found[record_id], c.record) || !number(found[time_created_ns], c.created) ||
        !number(found[collective_seq_id], c.collective) || !number(found[p2p_seq_id], c.pair) ||
        !number(found[op_id], c.op) ||
        !(found[pg_id] ? number(found[pg_id], c.process_group) : absent(c.process_group)))
      return false;
    return truth(found[retired], c.is_retired) && truth(found[is_p2p], c.is_pair) &&
           progress(found[state]);
  }

  int8_t field_of(Text& key) {
    if (key.field == -2) {
      const auto* found = std::find(kNames, kNames + kFields, dump_.text(key));
      key.field = found == kNames + kFields ? int8_t(-1) : int8_t(found - kNames);
    }
    return key.field;
  }

  // The general reader takes an entry that lacks a field for one of another kind of dump.
  bool row(const Value* const* found) {
    // Steps repeat: most often it is the row that followed the one before the last time.
    auto& column = dump_.columns.row;
    uint32_t& after = column.empty() ? first_ : after_[column.back()];
    if (is_row(found, after)) {
      column.push_back(after);
      return true;
    }
    uint32_t name = Names::kRow;
    for (int field = 0; field < kRowFields; ++field) {
      const uint32_t part = found[field] ? names_.of(*found[field]) : 0;
      if (!part) return false;
      name = names_.pair(name, part);
    }
    const uint32_t fresh = uint32_t(dump_.rows.size() / kRowFields);
    const auto [known, is_new] = rows_.try_emplace(name, fresh);
    after = known->second;
    column.push_back(known->second);
    if (is_new) {
      for (int field = 0; field < kRowFields; ++field) dump_.rows.push_back(*found[field]);
      after_.push_back(0);
    }
    return true;
  }

  bool is_row(const Value* const* found, uint32_t row) {
    const size_t first = size_t(row) * kRowFields;
    if (first >= dump_.rows.size()) return false;
    Equal equal(dump_);
    for (size_t field = 0; field < kRowFields; ++field)
      if (!found[field] || !equal(*found[field], dump_.rows[first + field])) return false;
    return true;
  }

  static bool number(const Value* value, std::vector<int64_t>& column) {
    if (!value || value->tag != Tag::number || value->at < -1 || value->at >= kLargest)
      return false;
    column.push_back(value->at);
    return true;
  }

  static bool absent(std::vector<int64_t>& column) {
    column.push_back(-1);
    return true;
  }

  static bool truth(const Value* value, std::vector<uint8_t>& column) {
    if (value && value->tag != Tag::truth) return false;
    column.push_back(value && value->at);
    return true;
  }

  bool progress(const Value* value) {
    if (value && value->tag != Tag::text) return false;
    const auto said = value ? dump_.text(dump_.texts[size_t(value->at)]) : std::string_view();
    dump_.columns.state.push_back(said == "scheduled" ? 0
                                  : said == "started" ? 1
                                  : said == "completed" ? 2 : 3);
    return true;
  }

  // By record numbers, equal ones as they were written. Rows are numbered in that order, too.
  void sort() {
    auto& c = dump_.columns;
    if (std::is_sorted(c.record.begin(), c.record.end())) return;
    std::vector<uint32_t> order(c.record.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return c.record[a] < c.record[b]; });
    const auto arrange = [&](auto& column) {
      auto old = column;
      for (size_t i = 0; i < order.size(); ++i) column[i] = old[order[i]];
    };
    arrange(c.row);
    for (auto* column : {&c.record, &c.created, &c.collective, &c.pair, &c.op, &c.process_group})
      arrange(*column);
    for (auto* column : {&c.state, &c.is_retired, &c.is_pair}) arrange(*column);
    renumber();
  }

  void renumber() {
    const size_t count = dump_.rows.size() / kRowFields;
    std::vector<uint32_t> fresh(count, uint32_t(count));
    std::vector<Value> rows;
    uint32_t next = 0;
    for (uint32_t& row : dump_.columns.row) {
      if (fresh[row] == count) {
        fresh[row] = next++;
        const auto first = dump_.rows.begin() + int64_t(row) * kRowFields;
        rows.insert(rows.end(), first, first + kRowFields);
      }
      row = fresh[row];
    }
    dump_.rows = std::move(rows);
  }

  Dump& dump_;
  Names names_;
  std::unordered_map<uint32_t, uint32_t> rows_;
  uint32_t first_ = 0;            // the row that is expected first
  std::vector<uint32_t> after_;  // for each row the one that followed it the last time
};

}  // namespace

void Dump::clear() {
  version = library = groups = status = rank = Value();
  columns.row.clear();
  for (auto* column : {&columns.record, &columns.created, &columns.collective, &columns.pair,
                       &columns.op, &columns.process_group})
    column->clear();
  for (auto* column : {&columns.state, &columns.is_retired, &columns.is_pair}) column->clear();
  texts.clear();
  nodes.clear();
  for (auto* values : {&rows, &pool}) values->clear();
  marks.clear();
}

bool Dump::read(View<uint8_t> data) {
  clear();
  data_ = data;
  Value top;
  return Unpickler(data_, *this).load(top) && Reader(*this).read(top);
}

}  // namespace planguard
