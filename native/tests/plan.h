// A plan as the Python side compiles it, built by hand: what the tests and the fuzzer of the core use.
#pragma once
#include <utility>
#include <vector>

#include "planguard/lanes.h"

namespace planguard {

template <class T>
inline View<T> view(const std::vector<T>& data) {
  return {data.data(), data.size()};
}

// A plan as the Python side compiles it; `world` is group 0.
struct Plan {
  uint32_t world_size;
  std::vector<uint32_t> mesh_sizes, group_mask{0}, group_off{0}, group_members;
  std::vector<uint8_t> group_kind{0};
  std::vector<int32_t> refs;
  std::vector<std::vector<uint32_t>> programs;
  std::vector<uint32_t> n_slots, rank_program, label_pool, aux;
  std::vector<uint8_t> sig_kind{0}, sig_dtype{0}, sig_redop{0};
  std::vector<uint64_t> sig_bytes{UNKNOWN_SIZE};
  std::vector<uint32_t> sig_root{NONE}, sig_layout{0}, sig_splits{0};

  explicit Plan(uint32_t size) : world_size(size) {
    for (uint32_t rank = 0; rank < size; ++rank) group_members.push_back(rank);
    group_off.push_back(size);
  }
  uint32_t ref(int32_t type, int32_t group, int32_t mode, int32_t a, int32_t b, int32_t tag) {
    refs.insert(refs.end(), {type, group, mode, a, b, tag});
    return static_cast<uint32_t>(refs.size() / 6 - 1);
  }
  uint32_t sig(uint8_t kind, uint64_t bytes, uint32_t root = NONE) {
    sig_kind.push_back(kind);
    sig_bytes.push_back(bytes);
    sig_root.push_back(root);
    sig_dtype.push_back(0);
    sig_redop.push_back(0);
    sig_layout.push_back(0);
    sig_splits.push_back(0);
    return static_cast<uint32_t>(sig_kind.size() - 1);
  }
  uint32_t family(uint32_t mask) {
    group_kind.push_back(1);
    group_mask.push_back(mask);
    group_off.push_back(group_off.back());
    return static_cast<uint32_t>(group_kind.size() - 1);
  }
  void program(std::vector<uint32_t> code, uint32_t slots = 4) {
    programs.push_back(std::move(code));
    n_slots.push_back(slots);
  }
  Columns columns() const {
    Compiled plan;
    plan.world_size = world_size;
    plan.mesh_sizes = view(mesh_sizes);
    plan.group_kind = view(group_kind);
    plan.group_mask = view(group_mask);
    plan.group_off = view(group_off);
    plan.group_members = view(group_members);
    plan.refs = view(refs);
    for (const auto& code : programs) plan.programs.push_back(view(code));
    plan.n_slots = view(n_slots);
    plan.rank_program = view(rank_program);
    plan.sig_root = view(sig_root);
    plan.label_pool = view(label_pool);
    plan.aux = view(aux);
    return expand(plan);
  }
  Signatures signatures() const {
    return {view(sig_kind),  view(sig_dtype),  view(sig_redop), view(sig_bytes),
            view(sig_root), view(sig_layout), view(sig_splits)};
  }
};

inline Rules rules_of(Family family) {
  Rules rules;
  rules.family = family;
  for (uint8_t kind = 0; kind < 64; ++kind) rules.slot_class[kind] = rules.spelling[kind] = kind;
  return rules;
}

inline Rules gloo() {
  Rules rules = rules_of(Family::host);
  rules.kind_slots = true;
  rules.degree[BROADCAST] = Degree::tree;
  rules.degree[GATHER] = rules.degree[SCATTER] = Degree::flat;
  return rules;
}

}  // namespace planguard
