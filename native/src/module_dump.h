// The columns of a dump for Python: what is distinct becomes objects, the rest arrays of bytes.
#pragma once
#include <nanobind/nanobind.h>

#include <string>
#include <unordered_map>

#include "planguard/dump.h"

namespace planguard {

class Objects {
 public:
  explicit Objects(const Dump& dump) : dump_(dump) {}

  // Text that no reader would decode makes the whole dump one for the general reader.
  bool are_texts_fine() {
    for (size_t i = 0; i < dump_.texts.size(); ++i)
      if (!dump_.texts[i].is_ascii && !text(int64_t(i)).is_valid()) return false;
    return true;
  }

  // An invalid object: nested deeper than any recording, or a value that none holds.
  nanobind::object of(const Value& value, int depth = 0) {
    namespace nb = nanobind;
    switch (value.tag) {
      case Tag::none: return nb::none();
      case Tag::truth: return nb::bool_(value.at != 0);
      case Tag::number: return nb::int_(value.at);
      case Tag::text: return text(value.at);
      case Tag::real: return {};
      default: break;
    }
    const auto known = nodes_.find(value.at);
    if (known != nodes_.end()) return known->second;
    nb::object fresh;
    if (depth < kDeepest) fresh = made(value, depth);
    if (fresh.is_valid()) nodes_[value.at] = fresh;
    return fresh;
  }

 private:
  static constexpr int kDeepest = 16;

  nanobind::object text(int64_t at) {
    nanobind::object& known = texts_[at];
    if (!known.is_valid()) {
      const std::string_view said = dump_.text(dump_.texts[size_t(at)]);
      known = nanobind::steal(
          PyUnicode_DecodeUTF8(said.data(), Py_ssize_t(said.size()), "surrogatepass"));
      if (!known.is_valid()) PyErr_Clear();
    }
    return known;
  }

  nanobind::object made(const Value& value, int depth) {
    namespace nb = nanobind;
    const Node& node = dump_.nodes[size_t(value.at)];
    std::vector<nb::object> parts;
    parts.reserve(node.size);
    for (uint64_t i = node.first; i < node.first + node.size; ++i) {
      parts.push_back(of(dump_.pool[i], depth + 1));
      if (!parts.back().is_valid()) return {};
    }
    if (value.tag == Tag::dict) {
      nb::dict found;
      for (size_t i = 0; i < parts.size(); i += 2) found[parts[i]] = parts[i + 1];
      return found;
    }
    nb::list found;
    for (const auto& part : parts) found.append(part);
    if (value.tag == Tag::list) return found;
    return nb::tuple(found);
  }

  const Dump& dump_;
  std::unordered_map<int64_t, nanobind::object> texts_, nodes_;
};

template <class T>
nanobind::bytes as_bytes(const std::vector<T>& column) {
  return nanobind::bytes(reinterpret_cast<const char*>(column.data()), column.size() * sizeof(T));
}

// What a value is, as bytes: equal values, and only those, have equal ones.
class Content {
 public:
  explicit Content(const Dump& dump) : dump_(dump) {}

  // False: longer than what is kept over dumps.
  bool add(const Value& value) {
    if (bytes_.size() > kLongest) return false;
    bytes_.push_back(char(value.tag));
    switch (value.tag) {
      case Tag::none: return true;
      case Tag::truth: case Tag::number: number(uint64_t(value.at)); return true;
      case Tag::text: {
        const std::string_view said = dump_.text(dump_.texts[size_t(value.at)]);
        number(said.size());
        if (said.size() <= kLongest) bytes_ += said;
        return said.size() <= kLongest;
      }
      case Tag::list: case Tag::tuple: case Tag::dict: {
        const Node& node = dump_.nodes[size_t(value.at)];
        number(node.size);
        for (uint64_t i = node.first; i < node.first + node.size; ++i)
          if (!add(dump_.pool[i])) return false;
        return true;
      }
      default: return false;
    }
  }

  const std::string& bytes() const { return bytes_; }

 private:
  // Also bounds how deep `add` goes: each level has a byte of its own.
  static constexpr size_t kLongest = 4096;

  void number(uint64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }

  const Dump& dump_;
  std::string bytes_;
};

// A row for Python: its group; what `known` holds of its call, or else the call's fields as a tuple
// and the content that `known` may keep it under.
inline nanobind::object row_of(const Dump& dump, const Value* row, const nanobind::dict& known,
                               Objects& objects) {
  namespace nb = nanobind;
  const nb::object group = objects.of(row[kGroupField]);
  if (!group.is_valid()) return {};
  Content content(dump);
  bool is_short = true;
  for (size_t field = 0; is_short && field < kRowFields; ++field)
    if (field != kGroupField) is_short = content.add(row[field]);
  nb::object key = nb::none();
  if (is_short) {
    key = nb::bytes(content.bytes().data(), content.bytes().size());
    PyObject* found = PyDict_GetItemWithError(known.ptr(), key.ptr());
    if (found) return nb::make_tuple(group, nb::borrow(found), nb::none(), nb::none());
  }
  nb::list parts;
  for (size_t field = 0; field < kRowFields; ++field) {
    if (field == kGroupField) continue;
    const nb::object part = objects.of(row[field]);
    if (!part.is_valid()) return {};
    parts.append(part);
  }
  return nb::make_tuple(group, nb::none(), nb::tuple(parts), key);
}

// None where the dump is not of the plain kind; see twin_dump.py for the parts of the answer.
inline nanobind::object dump_columns(nanobind::bytes data, const nanobind::dict& known) {
  namespace nb = nanobind;
  static thread_local Dump dump;
  const View<uint8_t> bytes{reinterpret_cast<const uint8_t*>(data.c_str()), data.size()};
  bool is_plain = false;
  {
    nb::gil_scoped_release release;
    is_plain = dump.read(bytes);
  }
  Objects objects(dump);
  if (!is_plain || !objects.are_texts_fine()) return nb::none();
  nb::list rows;
  for (size_t first = 0; first < dump.rows.size(); first += kRowFields) {
    const nb::object row = row_of(dump, &dump.rows[first], known, objects);
    if (!row.is_valid()) return nb::none();
    rows.append(row);
  }
  nb::list head;
  for (const Value& value : {dump.version, dump.library, dump.groups, dump.status, dump.rank}) {
    const nb::object part = objects.of(value);
    if (!part.is_valid()) return nb::none();
    head.append(part);
  }
  const auto& c = dump.columns;
  const nb::object found = nb::make_tuple(nb::tuple(head), rows, as_bytes(c.row), as_bytes(c.record),
                        as_bytes(c.created), as_bytes(c.collective), as_bytes(c.pair),
                        as_bytes(c.op), as_bytes(c.process_group),
                        as_bytes(c.state), as_bytes(c.is_retired), as_bytes(c.is_pair));
  dump.shrink();
  return found;
}

}  // namespace planguard
