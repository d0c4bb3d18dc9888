// The binding of the search over who meets whom.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "planguard/meetings.h"

namespace planguard {

namespace nb = nanobind;

template <class T>
void read_column(nb::dict given, const char* name, std::vector<T>& into) {
  using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  auto column = nb::cast<Column>(given[name]);
  into.assign(column.data(), column.data() + column.size());
}

inline MeetingColumns meeting_columns(nb::dict given) {
  MeetingColumns columns;
  read_column(given, "lane_off", columns.lane_off);
  read_column(given, "lane_end", columns.lane_end);
  read_column(given, "look_behind", columns.look_behind);
  read_column(given, "kind", columns.kind);
  const std::pair<const char*, std::vector<uint32_t>*> narrow[] = {
      {"code", &columns.code},           {"lane_rank", &columns.lane_rank},
      {"need", &columns.need},           {"rank", &columns.rank},
      {"home", &columns.home},           {"peer", &columns.peer},
      {"tag", &columns.tag},             {"said", &columns.said},
      {"match", &columns.match},         {"eager", &columns.eager},
      {"look", &columns.look},           {"look_off", &columns.look_off},
      {"handle_entry", &columns.handle_entry}, {"handle_off", &columns.handle_off},
      {"handle_match", &columns.handle_match}};
  for (const auto& [name, column] : narrow) read_column(given, name, *column);
  columns.posted = nb::cast<bool>(given["posted"]);
  if (!columns.is_sound()) throw nb::value_error("columns of a search that do not fit together");
  return columns;
}

}  // namespace planguard
