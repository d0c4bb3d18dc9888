// Weak orders over columns and lanes (docs/explanation/every-order.md, T1 and T3).
#include "planguard/weak.h"

#include <vector>

namespace planguard {

namespace {

constexpr uint32_t NOTHING = 0xFFFFFFFFu;
constexpr uint8_t MEMBER_BIT = 64;
constexpr uint8_t KIND_BITS = 63;
constexpr uint8_t OPEN = 49, CLOSE = 50, LAST_MARKER = 59;

bool is_marker(uint8_t kind) { return kind >= OPEN && kind <= LAST_MARKER; }

// One rank: every communicator and channel may be used once per block.
class RoundScan {
 public:
  RoundScan(const Columns& columns, View<uint32_t> queue, View<uint8_t> in_block)
      : columns_(columns), queue_(queue), in_block_(in_block) {
    slots_.assign(columns.slot_rank.size(), 0);
    uint32_t classes = 0;
    for (size_t channel = 0; channel < queue.size; ++channel)
      classes = queue[channel] + 1 > classes ? queue[channel] + 1 : classes;
    channels_.assign(size_t(classes) * 2, 0);
  }

  OpenRounds run() {
    for (uint32_t rank = 0; rank < columns_.world_size; ++rank) {
      rank_ = rank;
      begin_ = columns_.rank_off[rank];
      block_ = NOTHING;
      uint32_t count = static_cast<uint32_t>(columns_.rank_off[rank + 1] - begin_);
      for (uint32_t entry = 0; entry < count; ++entry)
        if (!step(entry)) return out_;
    }
    return out_;
  }

 private:
  bool fail(OpenStatus status) {
    out_.status = status;
    out_.mixed = false;
    return false;
  }

  bool step(uint32_t entry) {
    uint8_t op = columns_.op[begin_ + entry], kind = op & KIND_BITS;
    bool member = op & MEMBER_BIT;
    if (!member && is_marker(kind)) return marker(entry, kind);
    if (block_ == NOTHING) return true;
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
    if (kind == OPEN && block_ == NOTHING) {
      block_ = entry;
      leaves_ = 0;
      waits_ = refused_ = false;
      return true;
    }
    if (kind != CLOSE || block_ == NOTHING) return fail(OpenStatus::inapplicable);
    block_ = NOTHING;
    if (leaves_ > 1 && refused_) return fail(OpenStatus::inapplicable);
    out_.mixed |= leaves_ > 1 && waits_;
    return true;
  }

  // A wait, or a computation, that comes after something of its own block.
  bool refers_inside(uint32_t entry, uint8_t kind) const {
    uint32_t arg = columns_.arg[begin_ + entry];
    if (kind == WAIT) return arg >= block_;
    if ((kind != WAIT_MANY && kind != COMPUTE) || arg == NOTHING) return false;
    for (uint32_t at = arg + 1; at <= arg + columns_.aux[arg]; ++at)
      if (columns_.aux[at] >= block_) return true;
    return false;
  }

  bool take(uint32_t entry, uint8_t kind) {
    uint32_t arg = columns_.arg[begin_ + entry];
    uint32_t* stamp = nullptr;
    if (kind >= SEND && kind <= PROBE)
      stamp = &channels_[size_t(queue_[arg]) * 2 + (kind == RECV || kind == PROBE)];
    else if (kind >= ALL_REDUCE && kind <= LAST_OPERATION)
      stamp = &slots_[arg];
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
  std::vector<uint32_t> slots_, channels_;  // last leaf that used it, plus one
  OpenRounds out_;
  uint64_t begin_ = 0;
  uint32_t rank_ = 0, block_ = NOTHING, leaf_ = 0, leaves_ = 0;
  bool waits_ = false, refused_ = false;
};

// Resolves, as far as it goes, what no order can hold up. A stand is resolved when every other
// arrival of its match is; an arrival when every other stand of its bag and all bags before are.
class Peel {
 public:
  Peel(const Columns& columns, const Lanes& lanes) : columns_(columns), lanes_(lanes) {}

  WeakOrders run() {
    WeakOrders out;
    if (!build()) {
      out.status = OpenStatus::inapplicable;
      return out;
    }
    // Nobody else is in the match of a group of one.
    for (const Match& match : matches_)
      if (match.late == 1 && lanes_.code[match.last] & AWAIT) pass(match.last);
    for (uint32_t bag = 0; bag < bags_.size(); ++bag)
      if (bags_[bag].first_of_lane) {
        open(bag);
        drain();
      }
    out.left = bags_.size() - passed_;
    if (out.left) out.status = OpenStatus::stuck;
    return out;
  }

 private:
  struct Bag {
    uint32_t words = 0;   // its first word
    uint32_t stands = 0;  // not resolved
    uint32_t last = 0;    // exclusive or of their words
    bool first_of_lane = false, is_open = false;
  };
  struct Match {
    uint32_t late = 0, last = 0;  // arrivals not resolved, exclusive or of their words
    uint32_t waits = NOTHING;     // first word that waits for it
  };

  bool build() {
    size_t words = lanes_.code.size(), ranks = columns_.world_size;
    if (lanes_.lane_rank.size() != ranks || words >= NOTHING) return false;
    bag_of_.resize(words);
    next_.resize(words);
    done_.assign(words, 0);
    matches_.resize(lanes_.need.size());
    bags_.reserve(words + 1);
    for (Match& match : matches_) match = Match();
    for (uint32_t lane = 0; lane < ranks; ++lane)
      if (lanes_.lane_rank[lane] != lane || !lane_words(lane)) return false;
    for (size_t match = 0; match < matches_.size(); ++match)
      if (matches_[match].waits != NOTHING && matches_[match].late != lanes_.need[match]) return false;
    return true;
  }

  // Put the words of a lane into bags: those of a block of several together, others alone.
  bool lane_words(uint32_t lane) {
    uint64_t begin = columns_.rank_off[lane], end = columns_.rank_off[lane + 1], at = begin;
    uint32_t before = NOTHING, last_flags = 0;
    uint32_t bag = NOTHING;  // of the block we are in
    bool first = true, several = false;
    for (uint64_t word = lanes_.lane_off[lane]; word < lanes_.lane_off[lane + 1]; ++word) {
      uint32_t entry = lanes_.origin[word], flags = lanes_.code[word] & 3;
      if (entry == NOTHING || begin + entry >= end) return false;
      if (before != NOTHING && entry < before) return false;
      for (; at < begin + entry; ++at) {
        uint8_t kind = columns_.op[at] & KIND_BITS;
        if (columns_.op[at] & MEMBER_BIT) continue;
        if (kind == OPEN) several = has_several(at + 1, end), bag = NOTHING;
        if (kind == CLOSE) several = false;
      }
      if (several && entry == before && (flags != last_flags || flags == 3)) return false;
      if (!several || bag == NOTHING) {
        bag = static_cast<uint32_t>(bags_.size());
        bags_.push_back({static_cast<uint32_t>(word), 0, 0, first, false});
        first = false;
      }
      put(static_cast<uint32_t>(word), bag, flags);
      before = entry;
      last_flags = flags;
    }
    return true;
  }

  bool has_several(uint64_t at, uint64_t end) const {
    uint32_t leaves = 0;
    for (; at < end && leaves < 2; ++at) {
      uint8_t op = columns_.op[at];
      if (op & MEMBER_BIT) continue;
      if ((op & KIND_BITS) == CLOSE) break;
      ++leaves;
    }
    return leaves > 1;
  }

  void put(uint32_t word, uint32_t bag, uint32_t flags) {
    bag_of_[word] = bag;
    Match& match = matches_[lanes_.code[word] >> 2];
    if (flags & ARRIVE) {
      ++match.late;
      match.last ^= word;
    }
    if (flags & AWAIT) {
      next_[word] = match.waits;
      match.waits = word;
      ++bags_[bag].stands;
      bags_[bag].last ^= word;
    }
  }

  // --- resolving ---------------------------------------------------------------------------

  uint32_t end_of(uint32_t bag) const {
    return bag + 1 < bags_.size() ? bags_[bag + 1].words : static_cast<uint32_t>(bag_of_.size());
  }

  void open(uint32_t bag) {
    for (;; ++bag) {
      bags_[bag].is_open = true;
      if (!look(bag)) return;
      if (bag + 1 == bags_.size() || bags_[bag + 1].first_of_lane) return;
    }
  }

  // Whether a bag is passed; what it resolves goes on the stack.
  bool look(uint32_t bag) {
    Bag& one = bags_[bag];
    if (one.stands > 1) return false;
    if (one.stands == 1) {
      arrive(one.last);
      return false;
    }
    ++passed_;
    for (uint32_t word = one.words, end = end_of(bag); word < end; ++word) arrive(word);
    return true;
  }

  void arrive(uint32_t word) {
    if (!(lanes_.code[word] & ARRIVE) || done_[word] & ARRIVE) return;
    done_[word] |= ARRIVE;
    stack_.push_back(word);
  }

  void drain() {
    while (!stack_.empty()) {
      uint32_t word = stack_.back();
      stack_.pop_back();
      Match& match = matches_[lanes_.code[word] >> 2];
      match.last ^= word;
      --match.late;
      if (match.late == 1 && lanes_.code[match.last] & AWAIT) pass(match.last);
      if (match.late == 0)
        for (uint32_t other = match.waits; other != NOTHING; other = next_[other]) pass(other);
    }
  }

  void pass(uint32_t word) {
    if (done_[word] & AWAIT) return;
    done_[word] |= AWAIT;
    uint32_t bag = bag_of_[word];
    Bag& one = bags_[bag];
    --one.stands;
    one.last ^= word;
    if (!one.is_open || !look(bag)) return;
    if (bag + 1 < bags_.size() && !bags_[bag + 1].first_of_lane) open(bag + 1);
  }

  const Columns& columns_;
  const Lanes& lanes_;
  Big<uint32_t> bag_of_, next_;
  std::vector<uint8_t> done_;
  Big<Match> matches_;
  std::vector<Bag> bags_;
  std::vector<uint32_t> stack_;
  uint64_t passed_ = 0;
};

}  // namespace

OpenRounds open_rounds(const Columns& columns, View<uint32_t> queue, View<uint8_t> in_block) {
  return RoundScan(columns, queue, in_block).run();
}

WeakOrders weak_orders(const Columns& columns, const Lanes& lanes) {
  return Peel(columns, lanes).run();
}

}  // namespace planguard
