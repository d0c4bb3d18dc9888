// Lowering: columns + rules of one execution model -> lanes and matches (docs/adr/0017).
//
// A lane is a sequence that blocks alone: the host program, a stream, or the queue of a
// communicator. Its instructions ARRIVE at a match, AWAIT it, or both. A match is complete when
// `need` arrivals were made; edges inside a rank (stream order, events, host gates) are matches
// too. Every guard only asks for more arrivals, so all maximal runs end in the same state.
#pragma once
#include <cstdint>
#include <vector>

#include "planguard/columns.h"
#include "planguard/hash.h"

namespace planguard {

constexpr uint32_t ARRIVE = 1, AWAIT = 2;

enum class Family : uint8_t { host = 0, worker = 1, device = 2 };
enum class Degree : uint8_t { all = 0, flat = 1, tree = 2 };
enum class NewGroup : uint8_t { free = 0, members = 1, world = 2, entering = 3 };

// What one execution model says; planguard/semantics holds the nine tables.
struct Rules {
  Family family = Family::host;
  bool single_queue = false;    // device family: K = 1, one FIFO per device
  bool use_tags = true;         // tags separate channels
  bool pair_comm = false;       // unbatched point-to-point uses a pair communicator
  bool lazy_init = false;       // first use of a communicator blocks the host of all members
  bool kind_slots = false;      // collectives of different kinds never meet
  bool pre_barrier = false;     // every collective first synchronizes its group on the host
  bool barrier_last = false;    // a barrier starts after the rank's earlier rounds of its group
  bool counts_messages = false;  // a collective carries the messages its member made before it
  bool sync_is_a_kind = false;  // a blocking call never matches a nonblocking one
  bool send_modes = false;      // MPI's buffered and synchronous sends are honored
  bool eager = false;           // sends of up to eager_bytes, or of unknown size, may finish early
  bool poison_drops = false;    // a dropped point-to-point handle dies before its match
  bool exit_withdraws = false;  // `exit` takes the rank's unwaited actions with it
  NewGroup new_group = NewGroup::free;
  uint64_t eager_bytes = 0;
  Degree degree[64] = {};
  bool empty_alone[64] = {};    // of nothing, these return at once and alone
  uint8_t spelling[64] = {};    // kinds with one spelling are one operation
  uint8_t slot_class[64] = {};  // kinds of one class meet when kind_slots is set
};

struct Signatures {
  View<uint8_t> kind, dtype, redop;
  View<uint64_t> bytes;
  View<uint32_t> root, layout, splits;
};

enum class Why : uint8_t {
  send = 0,
  recv = 1,
  collective = 2,
  wait_handle = 3,
  stream_edge = 4,
  event = 5,
  queue = 6,
  dependency = 7,
  init = 8,
  gate = 9,
};

// Types of matches above `ext_base` (Key.a >> 24); the rest of the key says which one.
enum class Ext : uint32_t { edge = 1, init = 2, new_group = 3, token = 4, probe = 5, dead = 6 };

struct Lanes {
  Big<uint32_t> code;  // match << 2 | flags
  std::vector<uint64_t> lane_off;
  std::vector<uint32_t> lane_rank;
  std::vector<uint8_t> lane_kind;   // 0 program or stream, 1 queue, 2 host
  std::vector<uint64_t> lane_soft;  // first instruction at which being stuck does not block the host
  std::vector<uint32_t> order;  // in which lanes start; empty for their own order
  Big<uint32_t> need;
  Big<uint32_t> origin;  // entry of every instruction, NONE when synthetic
  Big<uint8_t> why;
  std::vector<uint32_t> comm_base, comm_ginst;    // round matches: comm_base[comm] + round
  std::vector<uint32_t> class_base, class_chan;   // pairs: class_base[class] + position
  uint32_t p2p_base = 0, ext_base = 0;
  std::vector<Key> ext;
  std::vector<uint32_t> mismatched, split_rounds, mixed_async, broken;
  uint64_t n_mismatched = 0;
  bool overflow = false;
};

struct LowerOptions {
  bool check = true;     // compare signatures
  bool origins = false;  // keep origin and why
  View<uint32_t> forced;  // rounds whose members meet whatever they issue there
  // The calls of a host are those of several threads, which are told apart later: nothing that
  // holds the host up holds up what is launched behind it.
  bool threads = false;
};

Lanes lower(const Columns& columns, const Signatures& sigs, const Rules& rules,
            const LowerOptions& options);

struct RunState {
  std::vector<uint64_t> pc;    // per lane
  Big<uint32_t> need;  // arrivals still missing, per match
  uint64_t executed = 0;
  uint32_t stuck_lanes = 0;
};

RunState run(const Lanes& lanes);

// (match, lane, instruction) of every arrival that stuck lanes still owe to a match somebody waits at.
struct Blockers {
  std::vector<uint32_t> lane, match;                        // stuck lane, match it waits at
  std::vector<uint32_t> owed_match, owed_lane;              // who would arrive
  std::vector<uint64_t> owed_at;
};

Blockers blockers(const Lanes& lanes, const RunState& state);

}  // namespace planguard
