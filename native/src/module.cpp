// The nanobind unit: argument checks and array views, no policy.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "planguard/lanes.h"
#include "planguard/pickle.h"
#include "planguard/weak.h"
#include "module_dump.h"
#include "module_meetings.h"

namespace nb = nanobind;
using namespace planguard;

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
View<T> view(const Array<T>& array) {
  return {array.data(), array.size()};
}

// A read-only memoryview of a vector that lives as long as its owner.
template <class Vector>
nb::object share(nb::handle owner, const Vector& data) {
  using T = typename Vector::value_type;
  static const T empty{};
  const T* first = data.empty() ? &empty : data.data();
  size_t shape[1] = {data.size()};
  return nb::cast(nb::ndarray<nb::memview, const T, nb::ndim<1>>(first, 1, shape, owner));
}

#define SHARE(Class, field) \
  def_prop_ro(#field, [](nb::handle self) { return share(self, nb::cast<const Class&>(self).field); })

Rules make_rules(nb::dict given) {
  Rules rules;
  auto flag = [&](const char* name) { return nb::cast<bool>(given[name]); };
  auto number = [&](const char* name) { return nb::cast<uint64_t>(given[name]); };
  rules.family = static_cast<Family>(number("family"));
  rules.single_queue = flag("single_queue");
  rules.use_tags = flag("use_tags");
  rules.pair_comm = flag("pair_comm");
  rules.lazy_init = flag("lazy_init");
  rules.kind_slots = flag("kind_slots");
  rules.pre_barrier = flag("pre_barrier");
  rules.barrier_last = flag("barrier_last");
  rules.counts_messages = flag("counts_messages");
  rules.sync_is_a_kind = flag("sync_is_a_kind");
  rules.send_modes = flag("send_modes");
  rules.eager = flag("eager");
  rules.poison_drops = flag("poison_drops");
  rules.exit_withdraws = flag("exit_withdraws");
  rules.new_group = static_cast<NewGroup>(number("new_group"));
  rules.eager_bytes = number("eager_bytes");
  const char* names[4] = {"degree", "slot_class", "spelling", "empty_alone"};
  nb::bytes table[4];
  for (int index = 0; index < 4; ++index) {
    table[index] = nb::cast<nb::bytes>(given[names[index]]);
    if (table[index].size() != 64) throw nb::value_error("tables of kinds have 64 bytes");
  }
  for (size_t kind = 0; kind < 64; ++kind) {
    rules.degree[kind] = static_cast<Degree>(table[0].c_str()[kind]);
    rules.slot_class[kind] = static_cast<uint8_t>(table[1].c_str()[kind]);
    rules.spelling[kind] = static_cast<uint8_t>(table[2].c_str()[kind]);
    rules.empty_alone[kind] = table[3].c_str()[kind] != 0;
  }
  return rules;
}

Columns bind_expand(uint32_t world_size, Array<uint32_t> mesh_sizes, Array<uint8_t> group_kind,
                    Array<uint32_t> group_mask, Array<uint32_t> group_off,
                    Array<uint32_t> group_members, Array<int32_t> refs,
                    std::vector<Array<uint32_t>> programs, Array<uint32_t> n_slots,
                    Array<uint32_t> rank_program, Array<uint32_t> sig_root,
                    Array<uint32_t> label_pool, Array<uint32_t> aux, uint64_t max_entries) {
  Compiled plan;
  plan.world_size = world_size;
  plan.mesh_sizes = view(mesh_sizes);
  plan.group_kind = view(group_kind);
  plan.group_mask = view(group_mask);
  plan.group_off = view(group_off);
  plan.group_members = view(group_members);
  plan.refs = view(refs);
  for (const auto& program : programs) plan.programs.push_back(view(program));
  plan.n_slots = view(n_slots);
  plan.rank_program = view(rank_program);
  plan.sig_root = view(sig_root);
  plan.label_pool = view(label_pool);
  plan.aux = view(aux);
  plan.max_entries = max_entries;
  if (plan.rank_program.size != world_size) throw nb::value_error("rank_program: one entry a rank");
  nb::gil_scoped_release release;
  return expand(plan);
}


Lanes bind_lower(const Columns& columns, Array<uint8_t> kind, Array<uint64_t> bytes,
                 Array<uint8_t> dtype, Array<uint8_t> redop, Array<uint32_t> root,
                 Array<uint32_t> layout, Array<uint32_t> splits, nb::dict rules_given, bool origins,
                 Array<uint32_t> forced, bool threads) {
  Signatures sigs{view(kind), view(dtype), view(redop), view(bytes),
                  view(root), view(layout), view(splits)};
  Rules rules = make_rules(rules_given);
  LowerOptions options;
  options.origins = origins;
  options.forced = view(forced);
  options.threads = threads;
  nb::gil_scoped_release release;
  return lower(columns, sigs, rules, options);
}

void bind_columns(nb::module_& module) {
  nb::class_<Columns>(module, "Columns")
      .def_ro("world_size", &Columns::world_size)
      .SHARE(Columns, rank_off)
      .SHARE(Columns, op)
      .SHARE(Columns, arg)
      .SHARE(Columns, sig)
      .SHARE(Columns, label)
      .SHARE(Columns, stream)
      .SHARE(Columns, aux)
      .SHARE(Columns, ginst_group)
      .SHARE(Columns, ginst_off)
      .SHARE(Columns, slot_rank)
      .SHARE(Columns, slot_ginst)
      .SHARE(Columns, slot_count)
      .SHARE(Columns, chan_ginst)
      .SHARE(Columns, chan_src)
      .SHARE(Columns, chan_src_slot)
      .SHARE(Columns, chan_dst_slot)
      .SHARE(Columns, chan_dst)
      .SHARE(Columns, chan_tag)
      .SHARE(Columns, send_count)
      .SHARE(Columns, recv_count)
      .def_ro("has_markers", &Columns::has_markers)
      .def_ro("has_new_group", &Columns::has_new_group)
      .def_ro("has_any_source", &Columns::has_any_source)
      .def_ro("has_any_tag", &Columns::has_any_tag)
      .def_ro("has_wait_choice", &Columns::has_wait_choice)
      .def_ro("has_drop", &Columns::has_drop)
      .def_ro("has_probe", &Columns::has_probe)
      .def_ro("has_stream", &Columns::has_stream)
      .def_prop_ro("failure", [](const Columns& columns) {
        const Failure& failure = columns.failure;
        return std::make_tuple(static_cast<uint32_t>(failure.kind), failure.rank, failure.program,
                               failure.instruction, failure.value);
      });
}

void bind_lanes(nb::module_& module) {
  nb::class_<Lanes>(module, "Lanes")
      .SHARE(Lanes, code)
      .SHARE(Lanes, lane_off)
      .SHARE(Lanes, lane_rank)
      .SHARE(Lanes, lane_kind)
      .SHARE(Lanes, lane_soft)
      .SHARE(Lanes, need)
      .SHARE(Lanes, origin)
      .SHARE(Lanes, why)
      .SHARE(Lanes, comm_base)
      .SHARE(Lanes, comm_ginst)
      .SHARE(Lanes, class_base)
      .SHARE(Lanes, class_chan)
      .SHARE(Lanes, mismatched)
      .SHARE(Lanes, split_rounds)
      .SHARE(Lanes, mixed_async)
      .def_ro("p2p_base", &Lanes::p2p_base)
      .def_ro("ext_base", &Lanes::ext_base)
      .def_ro("n_mismatched", &Lanes::n_mismatched)
      .def_ro("overflow", &Lanes::overflow)
      .def("ext", [](const Lanes& lanes, uint32_t match) {
        if (match < lanes.ext_base || match - lanes.ext_base >= lanes.ext.size())
          throw nb::index_error("not an extra match");
        const Key& key = lanes.ext[match - lanes.ext_base];
        return std::make_tuple(key.a, key.b, key.c, key.d);
      });
  nb::class_<RunState>(module, "RunState")
      .SHARE(RunState, pc)
      .SHARE(RunState, need)
      .def_ro("executed", &RunState::executed)
      .def_ro("stuck_lanes", &RunState::stuck_lanes);
  nb::class_<Blockers>(module, "Blockers")
      .SHARE(Blockers, lane)
      .SHARE(Blockers, match)
      .SHARE(Blockers, owed_match)
      .SHARE(Blockers, owed_lane)
      .SHARE(Blockers, owed_at);
}

void bind_weak(nb::module_& module) {
  nb::class_<OpenRounds>(module, "OpenRounds")
      .def_prop_ro("status", [](const OpenRounds& found) { return uint32_t(found.status); })
      .def_ro("rank", &OpenRounds::rank)
      .def_ro("first", &OpenRounds::first)
      .def_ro("second", &OpenRounds::second)
      .def_ro("mixed", &OpenRounds::mixed);
  nb::class_<WeakOrders>(module, "WeakOrders")
      .def_prop_ro("status", [](const WeakOrders& found) { return uint32_t(found.status); })
      .def_ro("left", &WeakOrders::left);
  module.def(
      "open_rounds",
      [](const Columns& columns, Array<uint32_t> queue, Array<uint8_t> in_block) {
        if (in_block.size() != 256) throw nb::value_error("one entry per op byte");
        if (queue.size() != columns.chan_src.size()) throw nb::value_error("one entry a channel");
        nb::gil_scoped_release release;
        return open_rounds(columns, view(queue), view(in_block));
      },
      nb::arg("columns"), nb::arg("queue"), nb::arg("in_block"));
  module.def(
      "weak_orders",
      [](const Columns& columns, const Lanes& lanes) {
        if (lanes.origin.size() != lanes.code.size()) throw nb::value_error("lanes with origins");
        nb::gil_scoped_release release;
        return weak_orders(columns, lanes);
      },
      nb::arg("columns"), nb::arg("lanes"));
}

void bind_meetings(nb::module_& module) {
  nb::class_<MeetingEnds>(module, "MeetingEnds")
      .SHARE(MeetingEnds, at)
      .SHARE(MeetingEnds, pair_off)
      .SHARE(MeetingEnds, pairs)
      .SHARE(MeetingEnds, seen_off)
      .SHARE(MeetingEnds, seen)
      .SHARE(MeetingEnds, buffered_off)
      .SHARE(MeetingEnds, buffered)
      .SHARE(MeetingEnds, looked_off)
      .SHARE(MeetingEnds, looked);
  nb::class_<MeetingSearch>(module, "MeetingSearch")
      .def("__init__",
           [](MeetingSearch* self, nb::dict columns) {
             new (self) MeetingSearch(meeting_columns(columns));
           },
           nb::arg("columns"))
      .def("advance", &MeetingSearch::advance, nb::arg("count"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("ends", &MeetingSearch::ends)
      .def_prop_ro("states", &MeetingSearch::states)
      .def_prop_ro("bytes", &MeetingSearch::bytes);
}

}  // namespace

NB_MODULE(_native, module) {
  module.doc() = "C++ kernels of PlanGuard: columns in, columns out.";
  // What a traceback still holds when Python ends is no leak of ours, and the words would stand at
  // the end of a user's program.
  nb::set_leak_warnings(false);
  bind_columns(module);
  bind_lanes(module);
  bind_weak(module);
  bind_meetings(module);
  module.def("expand", &bind_expand);
  module.def("lower", &bind_lower, nb::arg("columns"), nb::arg("sig_kind"), nb::arg("sig_bytes"),
             nb::arg("sig_dtype"), nb::arg("sig_redop"), nb::arg("sig_root"), nb::arg("sig_layout"),
             nb::arg("sig_splits"), nb::arg("rules"), nb::arg("origins"), nb::arg("forced"),
             nb::arg("threads") = false);
  module.def("run", [](const Lanes& lanes) {
    nb::gil_scoped_release release;
    return run(lanes);
  });
  module.def("blockers", [](const Lanes& lanes, const RunState& state) {
    nb::gil_scoped_release release;
    return blockers(lanes, state);
  });
  module.def("refused_opcode", [](nb::bytes data) {
    const View<uint8_t> bytes{reinterpret_cast<const uint8_t*>(data.c_str()), data.size()};
    nb::gil_scoped_release release;
    return refused_opcode(bytes);
  });
  module.def("dump_columns", &dump_columns,
             nb::sig("def dump_columns(arg0: bytes, arg1: dict, /) -> tuple | None"));
}
