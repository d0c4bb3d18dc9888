// Weak orders over columns and lanes (docs/explanation/every-order.md, T3).
//
// Resolves, as far as it goes, what no order can hold up. A stand is resolved when every other
// arrival of its match is; an arrival when every other stand of its bag and all bags before are.
// A word outside a block is a bag alone, and there that is what `run` does: arrive, then wait.
#include <deque>
#include <vector>

#include "planguard/weak.h"
#include "ready.h"

namespace planguard {

namespace {

class BagRun {
 public:
  BagRun(const Columns& columns, const Lanes& lanes)
      : columns_(columns), lanes_(lanes), code_(lanes.code.data()), origin_(lanes.origin.data()),
        ready_(0, lanes.order) {}

  WeakOrders run() {
    WeakOrders out;
    out.status = OpenStatus::inapplicable;
    if (!start()) return out;
    while (!ready_.empty()) {
      uint32_t lane = ready_.pop();
      advance(lane);
      all_[lane].queued = false;
    }
    uint64_t left = 0;
    for (Lane& lane : all_) left += bags_left(lane);
    if (inapplicable_ || arrives_too_often()) return out;
    out.left = left;
    out.status = left ? OpenStatus::stuck : OpenStatus::fine;
    return out;
  }

 private:
  // Who waits at a match: a lane, or one stand of a bag of several (a node). The head of the list
  // says whether there is any node in it, because nodes also ask when one arrival is missing.
  static constexpr uint32_t NODE = 1u << 30, HAS_NODE = 1u << 31, PLACE = NODE - 1;

  struct Lane {
    uint32_t at, end;
    uint32_t next;        // who waits at the same match after this one
    uint32_t stands = 0;  // of the bag it is in, not resolved
    uint32_t last = 0;    // exclusive or of their words
    const uint32_t* block = nullptr;  // per entry: the block of several it is in, or NONE
    uint32_t arrived = NONE;          // the word of the bag that has arrived
    bool in_bag = false, queued = true;
  };
  struct Match {
    uint32_t need, waiter;
  };
  struct Node {
    uint32_t word, lane, next;
  };

  bool start() {
    uint32_t ranks = columns_.world_size;
    if (lanes_.lane_rank.size() != ranks || ranks >= PLACE || lanes_.code.size() >= PLACE)
      return false;
    all_.resize(ranks);
    blocks_of_template_.resize(columns_.templates.size());
    for (uint32_t lane = 0; lane < ranks; ++lane) {
      if (lanes_.lane_rank[lane] != lane || !is_in_order(lane)) return false;
      all_[lane].at = static_cast<uint32_t>(lanes_.lane_off[lane]);
      all_[lane].end = static_cast<uint32_t>(lanes_.lane_off[lane + 1]);
      all_[lane].block = blocks_of(lane);
    }
    matches_.resize(lanes_.need.size());
    for (size_t match = 0; match < matches_.size(); ++match)
      matches_[match] = {lanes_.need[match], 0};
    ready_ = Ready(ranks, lanes_.order);
    return true;
  }

  // Whether the words of a lane come in the order of its entries.
  bool is_in_order(uint32_t lane) const {
    uint64_t begin = lanes_.lane_off[lane], end = lanes_.lane_off[lane + 1];
    if (begin == end) return true;
    uint32_t falls = 0;
    for (uint64_t word = begin + 1; word < end; ++word) falls += origin_[word] < origin_[word - 1];
    return !falls && origin_[end - 1] < columns_.rank_off[lane + 1] - columns_.rank_off[lane];
  }

  // --- blocks ------------------------------------------------------------------------------

  // The block of several of every entry of a rank; none where the rank has no such block.
  const uint32_t* blocks_of(uint32_t rank) {
    uint32_t index = columns_.rank_template.empty() ? NONE : columns_.rank_template[rank];
    if (index == NONE) {
      blocks_.push_back(find_blocks(rank));
      return blocks_.back().empty() ? nullptr : blocks_.back().data();
    }
    Blocks& known = blocks_of_template_[index];
    if (!known.found) known = {true, find_blocks(rank)};
    return known.block.empty() ? nullptr : known.block.data();
  }

  std::vector<uint32_t> find_blocks(uint32_t rank) const {
    uint64_t begin = columns_.rank_off[rank], end = columns_.rank_off[rank + 1];
    std::vector<uint32_t> found;
    uint32_t block = NONE;
    for (uint64_t at = begin; at < end; ++at) {
      uint8_t op = columns_.op[at], kind = op & KIND_MASK;
      if (!(op & MEMBER)) {
        if (kind == UNORDERED_BEGIN && has_several(at + 1, end)) {
          block = static_cast<uint32_t>(at - begin);
          if (found.empty()) found.assign(end - begin, NONE);
          continue;  // the marker itself has no word
        }
        if (kind == UNORDERED_BEGIN || kind == UNORDERED_END) block = NONE;
      }
      if (block != NONE) found[at - begin] = block;
    }
    return found;
  }

  bool has_several(uint64_t at, uint64_t end) const {
    uint32_t leaves = 0;
    for (; at < end && leaves < 2; ++at) {
      uint8_t op = columns_.op[at];
      if (op & MEMBER) continue;
      if ((op & KIND_MASK) == UNORDERED_END) break;
      ++leaves;
    }
    return leaves > 1;
  }

  uint32_t block_at(const Lane& lane, uint32_t word) const {
    return lane.block ? lane.block[origin_[word]] : NONE;
  }

  uint32_t bag_end(const Lane& lane) const {
    uint32_t block = block_at(lane, lane.at), word = lane.at + 1;
    while (word < lane.end && block_at(lane, word) == block) ++word;
    return word;
  }

  // An action that stands between two matches, or at two, is not one of a bag.
  bool reads(uint32_t begin, uint32_t end) const {
    for (uint32_t word = begin + 1; word < end; ++word) {
      uint32_t flags = code_[word] & 3;
      if (origin_[word] == origin_[word - 1] &&
          (flags != (code_[word - 1] & 3) || flags == (ARRIVE | AWAIT)))
        return false;
    }
    return true;
  }

  // --- one lane ----------------------------------------------------------------------------

  void advance(uint32_t self) {
    Lane& lane = all_[self];
    if (lane.in_bag && !look(self)) return;
    while (lane.at < lane.end) {
      if (block_at(lane, lane.at) != NONE) {
        open(self);
        if (!look(self)) return;
        continue;
      }
      uint32_t word = code_[lane.at];
      Match& match = matches_[word >> 2];
      if (word & ARRIVE) arrive(match);
      if (match.need && word & AWAIT) {
        lane.next = match.waiter;
        match.waiter = (self + 1) | (match.waiter & HAS_NODE);
        return;
      }
      ++lane.at;
    }
  }

  void open(uint32_t self) {
    Lane& lane = all_[self];
    uint32_t end = bag_end(lane);
    inapplicable_ |= !reads(lane.at, end);
    lane.in_bag = true;
    lane.arrived = NONE;
    lane.stands = lane.last = 0;
    for (uint32_t at = lane.at; at < end; ++at) {
      uint32_t word = code_[at];
      Match& match = matches_[word >> 2];
      if (!(word & AWAIT) || match.need <= (word & ARRIVE)) continue;
      ++lane.stands;
      lane.last ^= at;
      uint32_t node = take_node();
      nodes_[node] = {at, self, match.waiter & ~HAS_NODE};
      match.waiter = (node + 1) | NODE | HAS_NODE;
    }
  }

  // Whether the bag of a lane is passed.
  bool look(uint32_t self) {
    Lane& lane = all_[self];
    if (lane.stands > 1) return false;
    if (lane.stands == 1 && lane.arrived == NONE) {
      lane.arrived = lane.last;
      uint32_t word = code_[lane.last];
      if (word & ARRIVE) arrive(matches_[word >> 2]);
    }
    if (lane.stands) return false;
    lane.in_bag = false;
    uint32_t end = bag_end(lane);
    for (uint32_t at = lane.at; at < end; ++at)
      if (code_[at] & ARRIVE && at != lane.arrived) arrive(matches_[code_[at] >> 2]);
    lane.at = end;
    return true;
  }

  // --- matches -----------------------------------------------------------------------------

  void arrive(Match& match) {
    uint32_t need = --match.need;
    if (need > 1 || !match.waiter) return;
    if (need == 0) wake_all(match);
    else if (match.waiter & HAS_NODE) wake_last(match);
  }

  void wake_all(Match& match) {
    uint32_t waiter = match.waiter & ~HAS_NODE;
    match.waiter = 0;
    while (waiter) {
      uint32_t place = (waiter & PLACE) - 1;
      if (waiter & NODE) {
        waiter = nodes_[place].next;
        resolve(place);
        continue;
      }
      Lane& lane = all_[place];
      ++lane.at;  // it has arrived already at the word it stands at
      waiter = lane.next & ~HAS_NODE;
      lane.queued = true;
      ready_.push(place);
    }
  }

  // One arrival is missing: if it is that of a stand, nobody else holds that stand up.
  void wake_last(Match& match) {
    uint32_t before = 0, waiter = match.waiter & ~HAS_NODE;
    while (waiter) {
      uint32_t place = (waiter & PLACE) - 1;
      uint32_t next = waiter & NODE ? nodes_[place].next : all_[place].next & ~HAS_NODE;
      if (waiter & NODE && code_[nodes_[place].word] & ARRIVE &&
          all_[nodes_[place].lane].arrived != nodes_[place].word) {
        if (!before) match.waiter = next ? next | HAS_NODE : 0;
        else if (before & NODE) nodes_[(before & PLACE) - 1].next = next;
        else all_[(before & PLACE) - 1].next = next;
        return resolve(place);
      }
      before = waiter;
      waiter = next;
    }
  }

  void resolve(uint32_t place) {
    Node node = nodes_[place];
    free_.push_back(place);
    Lane& lane = all_[node.lane];
    --lane.stands;
    lane.last ^= node.word;
    if (lane.stands > 1 || lane.queued) return;
    lane.queued = true;
    ready_.push(node.lane);
  }

  uint32_t take_node() {
    if (free_.empty()) {
      nodes_.emplace_back();
      return static_cast<uint32_t>(nodes_.size() - 1);
    }
    uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }

  // --- what is left ------------------------------------------------------------------------

  // Bags that may never be passed. What they would arrive at is counted, to see what no plan has.
  uint64_t bags_left(Lane& lane) {
    uint64_t left = 0;
    uint32_t stands_at = lane.in_bag ? lane.arrived : lane.at;
    while (lane.at < lane.end) {
      uint32_t end = block_at(lane, lane.at) == NONE ? lane.at + 1 : bag_end(lane);
      if (end > lane.at + 1) inapplicable_ |= !reads(lane.at, end);
      for (; lane.at < end; ++lane.at)
        if (code_[lane.at] & ARRIVE && lane.at != stands_at) --matches_[code_[lane.at] >> 2].need;
      ++left;
    }
    return left;
  }

  bool arrives_too_often() const {
    bool often = false;
    for (size_t match = 0; match < matches_.size(); ++match)
      often |= matches_[match].need > lanes_.need[match];
    return often;
  }

  struct Blocks {
    bool found = false;
    std::vector<uint32_t> block;
  };

  const Columns& columns_;
  const Lanes& lanes_;
  const uint32_t *code_, *origin_;
  Ready ready_;
  std::vector<Lane> all_;
  Big<Match> matches_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> free_;
  std::vector<Blocks> blocks_of_template_;
  std::deque<std::vector<uint32_t>> blocks_;
  bool inapplicable_ = false;
};

}  // namespace

WeakOrders weak_orders(const Columns& columns, const Lanes& lanes) {
  return BagRun(columns, lanes).run();
}

}  // namespace planguard
