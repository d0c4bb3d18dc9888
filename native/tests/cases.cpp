// Hand-built plans through expand, lower, run and blockers. The Python tests compare far more plans;
// these need no interpreter, so that sanitizers see every access.
#include <cstdio>
#include <string>
#include <vector>

#include "plan.h"
#include "planguard/dump.h"
#include "planguard/meetings.h"
#include "planguard/pickle.h"
#include "planguard/weak.h"

using namespace planguard;

namespace {

int failures = 0;

#define CHECK(claim)                                                       \
  do {                                                                     \
    if (!(claim)) {                                                        \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #claim);              \
      ++failures;                                                          \
    }                                                                      \
  } while (false)

RunState end_of(const Plan& plan, const Rules& rules, bool origins = true) {
  Columns columns = plan.columns();
  CHECK(columns.failure.kind == ExpandError::none);
  LowerOptions options;
  options.origins = origins;
  Lanes lanes = lower(columns, plan.signatures(), rules, options);
  RunState state = run(lanes);
  Blockers blocked = blockers(lanes, state);
  CHECK(blocked.lane.empty() || state.stuck_lanes || !lanes.lane_soft.empty());
  return state;
}

bool completes(const Plan& plan, const Rules& rules) {
  bool exact = end_of(plan, rules).stuck_lanes == 0;
  CHECK(exact == (end_of(plan, rules, false).stuck_lanes == 0));
  return exact;
}

// One instruction: op, a, b, signature, label, stream.
std::vector<uint32_t> words(std::initializer_list<std::vector<uint32_t>> list) {
  std::vector<uint32_t> code;
  for (const auto& instruction : list) {
    code.insert(code.end(), instruction.begin(), instruction.end());
    code.resize((code.size() + 5) / 6 * 6, 0);
  }
  return code;
}

// Two sends that wait for each other hang without buffers and pass with them.
void head_to_head() {
  Plan plan(2);
  uint32_t sig = plan.sig(0, 8);
  for (int32_t peer : {1, 0}) {
    uint32_t send = plan.ref(1, 0, 0, peer, 0, 0), recv = plan.ref(2, 0, 0, peer, 0, 0);
    plan.program(words({{SEND, send, 0, sig}, {RECV, recv, 0, sig}}));
  }
  plan.rank_program = {0, 1};
  Rules rules = gloo();
  CHECK(end_of(plan, rules).stuck_lanes == 2);
  rules.eager = true;
  rules.eager_bytes = 8;
  CHECK(completes(plan, rules));
  CHECK(!completes(plan, rules_of(Family::device)));
}

// On a device isend and recv of both sides share one queue; as a batch they pass.
void exchange(bool batch, bool expected) {
  Plan plan(2);
  uint32_t sig = plan.sig(0, 8);
  for (int32_t peer : {1, 0}) {
    uint32_t send = plan.ref(1, 0, 0, peer, 0, 0), recv = plan.ref(2, 0, 0, peer, 0, 0);
    if (batch)
      plan.program(words({{BATCH | ASYNC, 2, 1}, {SEND | MEMBER, send, 0, sig},
                          {RECV | MEMBER, recv, 0, sig}, {WAIT, 0}}));
    else
      plan.program(words({{SEND | ASYNC, send, 1, sig}, {RECV, recv, 0, sig}, {WAIT, 0}}));
  }
  plan.rank_program = {0, 1};
  CHECK(completes(plan, gloo()));
  CHECK(completes(plan, rules_of(Family::device)) == expected);
  Rules serialized = rules_of(Family::device);
  serialized.single_queue = true;
  CHECK(completes(plan, serialized) == expected);
}

// 2 x 3 ranks: a ring over the second dimension, loops, reductions over families; one text.
void mesh() {
  Plan plan(6);
  plan.mesh_sizes = {2, 3};
  uint32_t pp = plan.family(1), tp = plan.family(2);
  uint32_t row = plan.ref(0, int32_t(tp), 0, 0, 0, 0), column = plan.ref(0, int32_t(pp), 0, 0, 0, 0);
  uint32_t next = plan.ref(1, int32_t(tp), 1, 1, 1 * 2 + 1, 0);
  uint32_t previous = plan.ref(2, int32_t(tp), 1, 1, -1 * 2 + 1, 0);
  uint32_t reduce = plan.sig(ALL_REDUCE, 64), message = plan.sig(0, 8);
  plan.program(words({{REPEAT, 3, 6},
                      {ALL_REDUCE, row, 0, reduce},
                      {ALL_REDUCE, row, 0, reduce},
                      {SEND | ASYNC, next, 1, message},
                      {RECV, previous, 0, message},
                      {ALL_REDUCE | ASYNC, column, 2, reduce},
                      {WAIT, 0},
                      {WAIT, 1}}));
  plan.rank_program.assign(6, 0);
  CHECK(plan.columns().op.size() == 6 * 19);
  CHECK(completes(plan, gloo()));
  CHECK(!completes(plan, rules_of(Family::device)));  // one queue holds isend and recv
  Columns columns = plan.columns();
  LowerOptions options;
  CHECK(lower(columns, plan.signatures(), gloo(), options).mismatched.empty());
  // A seventh reduction on one rank: the others of its row never issue it.
  plan.programs.push_back(plan.programs[0]);
  std::vector<uint32_t> more = words({{ALL_REDUCE, row, 0, reduce}});
  plan.programs[1].insert(plan.programs[1].end(), more.begin(), more.end());
  plan.n_slots.push_back(4);
  plan.rank_program[4] = 1;
  CHECK(end_of(plan, gloo()).stuck_lanes == 1);
}

// A broadcast reaches a leaf through its parent; the root needs its own children only.
void tree() {
  Plan plan(4);
  uint32_t all = plan.ref(0, 0, 0, 0, 0, 0), sig = plan.sig(BROADCAST, 8, 0);
  plan.program(words({{BROADCAST, all, 0, sig}}));
  plan.program({});
  plan.rank_program = {0, 0, 0, 1};
  // 0 -> {1, 2}, 1 -> {3}: without rank 3 its parent hangs, the root and rank 2 pass.
  CHECK(end_of(plan, gloo()).stuck_lanes == 1);
  plan.programs[1] = words({{BROADCAST | ASYNC, all, 1, sig}});
  CHECK(completes(plan, gloo()));
}

// Members that disagree are reported; the plan may still run to its end.
void mismatch() {
  Plan plan(2);
  uint32_t all = plan.ref(0, 0, 0, 0, 0, 0);
  uint32_t small = plan.sig(ALL_REDUCE, 8), large = plan.sig(ALL_REDUCE, 16);
  plan.program(words({{ALL_REDUCE, all, 0, small}}));
  plan.program(words({{ALL_REDUCE, all, 0, large}}));
  plan.rank_program = {0, 1};
  LowerOptions options;
  Columns columns = plan.columns();
  Lanes lanes = lower(columns, plan.signatures(), gloo(), options);
  CHECK(lanes.n_mismatched == 1 && lanes.mismatched.size() == 1);
  CHECK(completes(plan, gloo()));
}

// Two calls of one bag hold each other up if two ranks share both; a call among one's own does not.
void bags() {
  for (bool alone : {false, true}) {
    Plan plan(4);
    plan.mesh_sizes = {2, 2};
    uint32_t row = plan.ref(0, static_cast<int32_t>(plan.family(2)), 0, 0, 0, 0);
    uint32_t all = plan.ref(0, 0, 0, 0, 0, 0), sig = plan.sig(ALL_REDUCE, 4);
    uint32_t many = alone ? NOP : ALL_REDUCE;
    plan.program(words({{UNORDERED_BEGIN}, {ALL_REDUCE, row, 0, sig}, {many, all, 0, sig},
                        {UNORDERED_END}, {ALL_REDUCE, all, 0, sig}}));
    plan.rank_program.assign(4, 0);
    Columns columns = plan.columns();
    std::vector<uint32_t> queue;
    std::vector<uint8_t> waits(256, static_cast<uint8_t>(InBlock::waits));
    OpenRounds rounds = open_rounds(columns, view(queue), view(waits));
    CHECK(rounds.status == OpenStatus::fine && rounds.mixed);
    LowerOptions options;
    options.origins = true;
    Lanes lanes = lower(columns, plan.signatures(), gloo(), options);
    CHECK(run(lanes).stuck_lanes == 0);
    WeakOrders weak = weak_orders(columns, lanes);
    CHECK(weak.status == (alone ? OpenStatus::fine : OpenStatus::stuck));
    CHECK(weak.left == (alone ? 0u : 8u));
  }
}

void refusals() {
  Plan plan(2);
  plan.program(words({{WAIT, 0}}));
  plan.rank_program = {0, 0};
  CHECK(plan.columns().failure.kind == ExpandError::unbound_handle);
  Plan edge(2);
  edge.mesh_sizes = {2};
  edge.program(words({{SEND, edge.ref(1, 0, 1, 0, 1 * 2, 0)}}));
  edge.rank_program = {0, 0};
  Failure failure = edge.columns().failure;
  CHECK(failure.kind == ExpandError::peer_off_mesh && failure.rank == 1);
  Plan endless(1);
  endless.program(words({{REPEAT, 0xFFFFFFF0u, 2}, {REPEAT, 0xFFFFFFF0u, 1}, {NOP}}));
  endless.rank_program = {0};
  CHECK(endless.columns().failure.kind == ExpandError::too_large);
}

int64_t refused(std::string text) {
  return refused_opcode({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// Any bytes end, and nothing beyond them is read; a key is short text or refused.
void pickles() {
  CHECK(refused("}U\x01kNs.") == -1);
  CHECK(refused("}K\x01Ns.") == 4);
  CHECK(refused("(}q\x07tU\xff") == -1 && refused("h\x07.") == 0 && refused("\x8f.") == 0);
  const std::string hot = "()]}tludsea012N\x85\x86\x87hqgprjp\x94KJ\x8c\x8a\x8dTX.I\n1\xff";
  uint32_t state = 1;
  for (int run = 0; run < 50000; ++run) {
    std::string text;
    for (int i = 0; i < 24; ++i) {
      state = state * 1664525u + 1013904223u;
      text += state >> 31 ? hot[(state >> 8) % hot.size()] : char(state >> 16);
    }
    text.shrink_to_fit();
    CHECK(refused(text) < int64_t(text.size()));
  }
}

// Any bytes end, and what a dump holds lies within it; one that is cut anywhere is none.
void dumps() {
  Dump dump;
  const auto reads = [&](const std::string& text) {
    return dump.read({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  const std::string empty("}(X\x07\0\0\0entries]u.", 17);
  CHECK(reads(empty) && dump.rows.empty() && dump.columns.row.empty());
  for (size_t end = 0; end < empty.size(); ++end) CHECK(!reads(empty.substr(0, end)));
  const std::string hot = "()]}tuesa.N\x85\x86\x87hqrj\x94KMJ\x8c\x8a\x88X\x01\x02";
  uint32_t state = 3;
  for (int run = 0; run < 50000; ++run) {
    std::string text = "}(\x8c\x07" "entries]((}";
    for (int i = 0; i < 32; ++i) {
      state = state * 1664525u + 1013904223u;
      text += state >> 30 ? hot[(state >> 8) % hot.size()] : char(state >> 16);
    }
    text += "eu.";
    text.shrink_to_fit();
    reads(text);
    for (const Node& node : dump.nodes) CHECK(node.first + node.size <= dump.pool.size());
    for (const Text& one : dump.texts) CHECK(one.first + one.size <= text.size());
  }
}

// A master takes a message from each of two workers, and answers the first: the other may be stuck.
void meetings() {
  MeetingColumns columns;
  constexpr uint32_t both = ARRIVE | AWAIT;
  // Matches 0 and 1 are receives, 2 and 3 sends, all apart; 4 is the answer.
  columns.code = {0 << 2 | both, 4 << 2 | both, 1 << 2 | both, 2 << 2 | both, 4 << 2 | both,
                  3 << 2 | both};
  columns.lane_off = {0, 3, 5, 6};
  columns.lane_end = {3, 5, 6};
  columns.lane_rank = {0, 1, 2};
  columns.need.assign(5, 2);
  columns.eager.assign(5, NONE);
  columns.look.assign(columns.code.size(), NONE);
  columns.look_off = columns.handle_off = {0};
  columns.kind = {1, 1, 0, 0};
  columns.rank = {0, 0, 1, 2};
  columns.home = columns.tag = columns.said = {0, 0, 0, 0};
  columns.peer = {NONE, NONE, 0, 0};
  columns.match = {0, 1, 2, 3};
  CHECK(columns.is_sound());
  MeetingSearch search(columns);
  while (search.advance(1)) {
  }
  MeetingEnds ends = search.ends();
  CHECK(ends.pair_off.size() == 3);  // one is stuck, one completes
  CHECK(ends.pairs.size() == 2 + 4);
  columns.eager[2] = 1;  // the first worker may go on before it is heard
  MeetingSearch early(columns);
  CHECK(!early.advance(1000));
  CHECK(early.ends().buffered.size() >= 1);
  columns.match[0] = 9;
  CHECK(!columns.is_sound());
}

}  // namespace

int main() {
  head_to_head();
  exchange(false, false);
  exchange(true, true);
  mesh();
  tree();
  mismatch();
  bags();
  refusals();
  pickles();
  dumps();
  meetings();
  if (!failures) std::printf("all cases hold\n");
  return failures ? 1 : 0;
}
