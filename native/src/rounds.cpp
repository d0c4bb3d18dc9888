// Are rounds in order whatever order a block takes? (docs/explanation/every-order.md, T1)
#include <algorithm>
#include <vector>

#include "planguard/weak.h"

namespace planguard {

namespace {

bool is_marker(uint8_t kind) { return kind >= FIRST_MARKER && kind <= BIND; }

// One rank after the other: every communicator and channel may be used once per block.
class RoundScan {
 public:
  RoundScan(const Columns& columns, View<uint32_t> queue, View<uint8_t> in_block)
      : columns_(columns), queue_(queue), in_block_(in_block) {
    slots_.assign(columns.slot_rank.size(), 0);
    uint32_t classes = 0;
    for (size_t channel = 0; channel < queue.size; ++channel)
      classes = std::max(classes, queue[channel] + 1);
    channels_.assign(size_t(classes) * 2, 0);
    known_.resize(columns.templates.size());
  }

  OpenRounds run() {
    for (rank_ = 0; rank_ < columns_.world_size; ++rank_) {
      Known* known = known_program();
      if (known && known->fine && known->alias == alias_) continue;
      if (!scan()) return out_;
      if (known) *known = {true, alias_};
    }
    return out_;
  }

 private:
  // The answer for a program holds for every rank on which the same references coincide.
  struct Known {
    bool fine = false;
    std::vector<uint32_t> alias;
  };

  bool scan() {
    begin_ = columns_.rank_off[rank_];
    block_ = NONE;
    uint32_t count = static_cast<uint32_t>(columns_.rank_off[rank_ + 1] - begin_);
    for (uint32_t entry = 0; entry < count; ++entry)
      if (!step(entry)) return false;
    return true;
  }

  // What is known of the program that this rank shares with others; none if it shares none.
  Known* known_program() {
    uint32_t index = columns_.rank_template.empty() ? NONE : columns_.rank_template[rank_];
    if (index == NONE) return nullptr;
    if (!known_[index].fine) find_uses(index);
    const uint32_t* local = columns_.local.data() + columns_.local_off[rank_];
    size_t count = columns_.local_off[rank_ + 1] - columns_.local_off[rank_];
    alias_.assign(count, 0);
    for (uint32_t ref = 0; ref < count; ++ref) {
      uint32_t* owner = stamp_of(uses_[index][ref], local[ref]);
      if (owner && !*owner) *owner = ref + 1;
      alias_[ref] = owner ? *owner - 1 : ref;
    }
    for (uint32_t ref = 0; ref < count; ++ref)
      if (uint32_t* owner = stamp_of(uses_[index][ref], local[ref])) *owner = 0;
    return &known_[index];
  }

  void find_uses(uint32_t index) {
    uses_.resize(known_.size());
    const std::vector<uint32_t>& refs = columns_.templates[index];
    uses_[index].assign(columns_.local_off[rank_ + 1] - columns_.local_off[rank_], NOP);
    for (size_t entry = 0; entry < refs.size(); ++entry) {
      uint8_t kind = columns_.op[columns_.rank_off[rank_] + entry] & KIND_MASK;
      if (refs[entry] != NONE && (is_p2p(kind) || is_collective(kind)))
        uses_[index][refs[entry]] = kind;
    }
  }

  bool fail(OpenStatus status) {
    out_.status = status;
    out_.mixed = false;
    return false;
  }

  bool step(uint32_t entry) {
    uint8_t op = columns_.op[begin_ + entry], kind = op & KIND_MASK;
    bool member = op & MEMBER;
    if (!member && is_marker(kind)) return marker(entry, kind);
    if (block_ == NONE) return true;
    if (!member) {
      leaf_ = entry;
      ++leaves_;
      uint8_t what = in_block_[op];
      waits_ |= what != static_cast<uint8_t>(InBlock::free);
      refused_ |= what == static_cast<uint8_t>(InBlock::refused);
      if (refers_inside(entry, kind)) return fail(OpenStatus::inapplicable);
    }
    return take(entry, kind);
  }

  bool marker(uint32_t entry, uint8_t kind) {
    if (kind == UNORDERED_BEGIN && block_ == NONE) {
      block_ = entry;
      leaves_ = 0;
      waits_ = refused_ = false;
      return true;
    }
    if (kind != UNORDERED_END || block_ == NONE) return fail(OpenStatus::inapplicable);
    block_ = NONE;
    if (leaves_ > 1 && refused_) return fail(OpenStatus::inapplicable);
    out_.mixed |= leaves_ > 1 && waits_;
    return true;
  }

  // A wait, or a computation, that comes after something of its own block.
  bool refers_inside(uint32_t entry, uint8_t kind) const {
    uint32_t arg = columns_.arg[begin_ + entry];
    if (kind == WAIT) return arg >= block_;
    if ((kind != WAIT_MANY && kind != COMPUTE) || arg == NONE) return false;
    for (uint32_t at = arg + 1; at <= arg + columns_.aux[arg]; ++at)
      if (columns_.aux[at] >= block_) return true;
    return false;
  }

  // Where the last leaf that used a communicator or one side of a channel is kept, plus one.
  uint32_t* stamp_of(uint8_t kind, uint32_t arg) {
    if (is_p2p(kind)) return &channels_[size_t(queue_[arg]) * 2 + (kind == RECV || kind == PROBE)];
    return is_collective(kind) ? &slots_[arg] : nullptr;
  }

  bool take(uint32_t entry, uint8_t kind) {
    uint32_t* stamp = stamp_of(kind, columns_.arg[begin_ + entry]);
    if (!stamp) return true;
    if (*stamp > block_ + 1 && *stamp != leaf_ + 1) {
      out_.rank = rank_;
      out_.first = *stamp - 1;
      out_.second = leaf_;
      return fail(OpenStatus::swappable);
    }
    *stamp = leaf_ + 1;
    return true;
  }

  const Columns& columns_;
  View<uint32_t> queue_;
  View<uint8_t> in_block_;
  std::vector<uint32_t> slots_, channels_;
  std::vector<Known> known_;                // per template
  std::vector<std::vector<uint8_t>> uses_;  // per template and reference: a kind that uses it
  std::vector<uint32_t> alias_;  // per reference of this rank: the first that means the same queue
  OpenRounds out_;
  uint64_t begin_ = 0;
  uint32_t rank_ = 0, block_ = NONE, leaf_ = 0, leaves_ = 0;
  bool waits_ = false, refused_ = false;
};

}  // namespace

OpenRounds open_rounds(const Columns& columns, View<uint32_t> queue, View<uint8_t> in_block) {
  return RoundScan(columns, queue, in_block).run();
}

}  // namespace planguard
