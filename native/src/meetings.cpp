// The search over who meets whom (meetings.h; the reference is planguard/kernels/twin_meetings.py).
// Above 400 lines: the loop and both of its reductions read the same state, which no header shows.
#include "planguard/meetings.h"

#include <algorithm>
#include <cstring>

#include "planguard/lanes.h"

namespace planguard {

namespace {

constexpr uint32_t kSend = 0, kReceive = 1, kProbe = 2;

enum class Step : uint32_t { start = 0, pick = 1, early = 2 };

// How a state was reached, so that who met whom need not be kept with it.
struct Node {
  uint32_t parent = 0;
  Step step = Step::start;
  uint32_t a = 0, b = 0;     // receive and send; or the match whose send finished early
  uint64_t extra = 0;        // probes that saw a send, handles that let a wait pass
  uint32_t n_extra = 0;
};

struct Extra {
  uint32_t is_look, a, b;
};

struct Pick {
  uint32_t receive, send;
};

// Fixed-size keys in blocks: no copy of all of them when they grow.
class Keys {
 public:
  explicit Keys(size_t width) : width_(width), per_block_(std::max<size_t>(1, (1u << 18) / width)) {}

  const uint32_t* at(size_t index) const {
    return blocks_[index / per_block_].get() + index % per_block_ * width_;
  }
  void push(const uint32_t* key) {
    if (size_ % per_block_ == 0) blocks_.emplace_back(new uint32_t[per_block_ * width_]);
    std::memcpy(blocks_.back().get() + size_ % per_block_ * width_, key, width_ * sizeof *key);
    ++size_;
  }
  size_t size() const { return size_; }
  size_t bytes() const { return blocks_.size() * per_block_ * width_ * sizeof(uint32_t); }

 private:
  size_t width_, per_block_, size_ = 0;
  std::vector<std::unique_ptr<uint32_t[]>> blocks_;
};

bool bit(const uint32_t* bits, size_t index) { return bits[index >> 5] >> (index & 31) & 1; }
void set(uint32_t* bits, size_t index) { bits[index >> 5] |= 1u << (index & 31); }

}  // namespace

bool MeetingColumns::is_sound() const {
  size_t lanes = lane_rank.size(), messages = kind.size();
  if (lane_off.size() != lanes + 1 || lane_end.size() != lanes || lane_off.front() != 0 ||
      lane_off.back() != code.size() || look.size() != code.size() || eager.size() != need.size() ||
      code.size() >= NONE / 2)
    return false;
  for (size_t lane = 0; lane < lanes; ++lane)
    if (lane_off[lane] > lane_off[lane + 1] || lane_end[lane] < lane_off[lane] ||
        lane_end[lane] > lane_off[lane + 1])
      return false;
  for (uint32_t word : code)
    if (word >> 2 >= need.size()) return false;
  for (const auto* column : {&rank, &home, &peer, &tag, &said, &match})
    if (column->size() != messages) return false;
  for (size_t m = 0; m < messages; ++m)
    if (match[m] >= need.size() || kind[m] > kProbe || home[m] >= messages) return false;
  size_t looks = look_behind.size(), handles = handle_entry.size();
  if (look_off.size() != looks + 1 || handle_off.size() != handles + 1 || look_off.front() != 0 ||
      look_off.back() != handles || handle_off.front() != 0 ||
      handle_off.back() != handle_match.size() || !std::is_sorted(look_off.begin(), look_off.end()) ||
      !std::is_sorted(handle_off.begin(), handle_off.end()))
    return false;
  for (size_t lane = 0; lane < lanes; ++lane)
    for (uint64_t at = lane_off[lane]; at < lane_off[lane + 1]; ++at)
      if (look[at] != NONE && (look[at] >= looks || look_behind[look[at]] <= at ||
                               look_behind[look[at]] > lane_off[lane + 1]))
        return false;
  return std::all_of(handle_match.begin(), handle_match.end(),
                     [&](uint32_t one) { return one < need.size(); });
}

class MeetingSearch::Inside {
 public:
  explicit Inside(MeetingColumns columns)
      : c_(std::move(columns)), lanes_(c_.lane_rank.size()), messages_(c_.kind.size()) {
    number_parts();
    width_ = lanes_ + words_of(messages_) + words_of(pairs_.size()) + words_of(early_.size());
    keys_ = std::make_unique<Keys>(std::max<size_t>(1, width_));
    table_.assign(1 << 10, 0);
    now_.assign(width_, 0);
    for (size_t lane = 0; lane < lanes_; ++lane) now_[lane] = 2 * uint32_t(c_.lane_off[lane]);
    need_of(now_.data());
    next_ = now_;
    next_need_ = need_;
    settle(Node{});
  }

  bool advance(uint64_t count) {
    uint64_t until = keys_->size() + count;
    while (!todo_.empty() && keys_->size() < until) {
      uint32_t node = todo_.back();
      todo_.pop_back();
      visit(node);
    }
    return !todo_.empty();
  }

  uint64_t states() const { return keys_->size(); }

  uint64_t bytes() const {
    return keys_->bytes() + table_.capacity() * 4 + nodes_.capacity() * sizeof(Node) +
           extras_.capacity() * sizeof(Extra);
  }

  MeetingEnds ends() const {
    MeetingEnds found;
    for (auto* offsets : {&found.pair_off, &found.seen_off, &found.buffered_off, &found.looked_off})
      offsets->push_back(0);
    for (uint32_t end : ends_) {
      found.at.insert(found.at.end(), keys_->at(end), keys_->at(end) + lanes_);
      for (uint32_t node = end;; node = nodes_[node].parent) {
        const Node& one = nodes_[node];
        if (one.step == Step::pick) append(found.pairs, one.a, one.b);
        if (one.step == Step::early) found.buffered.push_back(one.a);
        for (uint64_t at = one.extra; at < one.extra + one.n_extra; ++at)
          append(extras_[at].is_look ? found.looked : found.seen, extras_[at].a, extras_[at].b);
        if (one.step == Step::start) break;
      }
      found.pair_off.push_back(found.pairs.size() / 2);
      found.seen_off.push_back(found.seen.size() / 2);
      found.buffered_off.push_back(found.buffered.size());
      found.looked_off.push_back(found.looked.size() / 2);
    }
    return found;
  }

 private:
  static size_t words_of(size_t bits) { return (bits + 31) / 32; }
  static void append(std::vector<uint32_t>& into, uint32_t a, uint32_t b) {
    into.push_back(a);
    into.push_back(b);
  }

  // --- what is known before the search -----------------------------------------------------------

  void number_parts() {
    by_match_.assign(c_.need.size(), NONE);
    arrivals_.resize(c_.need.size());
    for (uint32_t m = 0; m < messages_; ++m) by_match_[c_.match[m]] = m;
    behind_.assign(c_.code.size() + 1, 0);
    for (uint32_t lane = 0; lane < lanes_; ++lane)
      for (uint64_t at = c_.lane_off[lane + 1]; at-- > c_.lane_off[lane];) {
        // Whether somebody may wait for what stands behind a word of its lane.
        bool last = at + 1 == c_.lane_off[lane + 1];
        behind_[at] = last ? 0 : uint8_t(behind_[at + 1] | (c_.code[at + 1] & ARRIVE));
      }
    for (uint32_t lane = 0; lane < lanes_; ++lane)
      for (uint64_t at = c_.lane_off[lane]; at < c_.lane_off[lane + 1]; ++at)
        if (c_.code[at] & ARRIVE) arrivals_[c_.code[at] >> 2].push_back({lane, uint32_t(at)});
    uint32_t homes = 0;
    for (uint32_t home : c_.home) homes = std::max(homes, home + 1);
    at_home_.resize(homes);
    for (uint32_t m = 0; m < messages_; ++m) at_home_[c_.home[m]].push_back(m);
    pair_at_.assign(messages_, {});
    for (const auto& mine : at_home_)
      for (uint32_t receive : mine)
        for (uint32_t send : mine)
          if (c_.kind[receive] == kReceive && c_.kind[send] == kSend && accepts(receive, send) &&
              c_.said[receive] != c_.said[send]) {
            pair_at_[receive].push_back({send, uint32_t(pairs_.size())});
            pairs_.push_back({receive, send});
          }
    early_at_.assign(c_.need.size(), NONE);
    for (uint32_t match = 0; match < c_.eager.size(); ++match)
      if (c_.eager[match] != NONE) {
        early_at_[match] = uint32_t(early_.size());
        early_.push_back(match);
      }
    std::vector<uint32_t> ranks(c_.lane_rank);
    std::sort(ranks.begin(), ranks.end());
    shares_rank_.resize(lanes_);
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      auto range = std::equal_range(ranks.begin(), ranks.end(), c_.lane_rank[lane]);
      shares_rank_[lane] = range.second - range.first > 1;
    }
    has_probes_ = std::count(c_.kind.begin(), c_.kind.end(), kProbe) > 0;
    is_plain_ = !(has_probes_ || !early_.empty() || !c_.look_behind.empty());
    met_ = lanes_;
    odd_ = met_ + words_of(messages_);
    buffered_ = odd_ + words_of(pairs_.size());
  }

  bool accepts(uint32_t receive, uint32_t send) const {
    return c_.home[receive] == c_.home[send] &&
           (c_.peer[receive] == NONE || c_.peer[receive] == c_.rank[send]) &&
           (c_.tag[receive] == NONE || c_.tag[receive] == c_.tag[send]);
  }

  // --- lanes ---------------------------------------------------------------------------------------

  // The arrivals that every match still misses in a state.
  void need_of(const uint32_t* state) {
    need_.assign(c_.need.begin(), c_.need.end());
    for (uint32_t lane = 0; lane < lanes_; ++lane)
      for (uint64_t at = c_.lane_off[lane], end = (uint64_t(state[lane]) + 1) / 2; at < end; ++at)
        if (c_.code[at] & ARRIVE) --need_[c_.code[at] >> 2];
    for (uint32_t m = 0; m < messages_; ++m)
      if (bit(state + met_, m)) --need_[c_.match[m]];
  }

  // Takes every step that is no pick from `next_`, then keeps the state if it is a new one.
  void settle(Node node) {
    node.extra = extras_.size();
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t lane = 0; lane < lanes_; ++lane) moved |= advance_lane(lane);
      if (has_probes_) moved |= look_around();
    }
    node.n_extra = uint32_t(extras_.size() - node.extra);
    if (!keep(node)) extras_.resize(node.extra);
  }

  bool advance_lane(uint32_t lane) {
    bool moved = false;
    uint64_t end = 2 * c_.lane_off[lane + 1];
    uint32_t& place = next_[lane];
    while (place < end) {
      uint32_t at = place / 2;
      if (c_.look[at] != NONE) {
        uint32_t entry = done_handle(lane, c_.look[at]);
        if (entry == NONE) return moved;
        extras_.push_back({1, c_.lane_rank[lane], entry});
        place = 2 * uint32_t(c_.look_behind[c_.look[at]]);
        moved = true;
        continue;
      }
      uint32_t word = c_.code[at];
      if ((word & ARRIVE) && !(place & 1)) {
        --next_need_[word >> 2];
        ++place;
        moved = true;
      }
      if ((word & AWAIT) && !is_open(lane, word >> 2)) return moved;
      place = 2 * at + 2;
      moved = true;
    }
    return moved;
  }

  bool is_open(uint32_t lane, uint32_t match) const {
    if (next_need_[match] == 0) return true;
    return early_at_[match] != NONE && bit(next_.data() + buffered_, early_at_[match]) &&
           c_.eager[match] == c_.lane_rank[lane];
  }

  uint32_t done_handle(uint32_t lane, uint32_t look) const {
    for (uint32_t handle = c_.look_off[look]; handle < c_.look_off[look + 1]; ++handle) {
      bool open = true;
      for (uint32_t at = c_.handle_off[handle]; at < c_.handle_off[handle + 1] && open; ++at)
        open = is_open(lane, c_.handle_match[at]);
      if (open) return c_.handle_entry[handle];
    }
    return NONE;
  }

  // Every probe sees the first message that no receive wants.
  bool look_around() {
    free_messages(next_.data(), next_need_);
    bool moved = false;
    for (uint32_t probe : free_) {
      if (c_.kind[probe] != kProbe) continue;
      for (uint32_t send : free_sends_) {
        bool wanted = std::any_of(free_receives_.begin(), free_receives_.end(),
                                  [&](uint32_t receive) { return accepts(receive, send); });
        if (!accepts(probe, send) || wanted) continue;
        extras_.push_back({0, probe, send});
        set(next_.data() + met_, probe);
        --next_need_[c_.match[probe]];
        moved = true;
        break;
      }
    }
    return moved;
  }

  // --- picks ---------------------------------------------------------------------------------------

  // The competing operations that are there and have met nobody.
  void free_messages(const uint32_t* state, const std::vector<uint32_t>& need) {
    free_.clear();
    free_sends_.clear();
    free_receives_.clear();
    for (uint32_t m = 0; m < messages_; ++m)
      if (need[c_.match[m]] == 1 && !bit(state + met_, m)) {
        free_.push_back(m);
        if (c_.kind[m] == kSend) free_sends_.push_back(m);
        if (c_.kind[m] == kReceive) free_receives_.push_back(m);
      }
  }

  void visit(uint32_t node) {
    std::memcpy(now_.data(), keys_->at(node), width_ * sizeof(uint32_t));
    need_of(now_.data());
    free_messages(now_.data(), need_);
    picks_.clear();
    for (uint32_t receive : free_receives_)
      for (uint32_t send : free_sends_)
        if (accepts(receive, send) && is_in_order(receive, send)) picks_.push_back({receive, send});
    early_now_.clear();
    if (!sure_pick()) {
      if (is_plain_) persistent();
      if (!early_.empty()) finish_early(picks_.empty());
    }
    if (picks_.empty()) ends_.push_back(node);
    for (const Pick& pick : picks_) {
      next_ = now_;
      next_need_ = need_;
      for (uint32_t m : {pick.receive, pick.send}) {
        set(next_.data() + met_, m);
        --next_need_[c_.match[m]];
      }
      for (const auto& [send, pair] : pair_at_[pick.receive])
        if (send == pick.send) set(next_.data() + odd_, pair);
      settle({node, Step::pick, pick.receive, pick.send});
    }
    for (uint32_t match : early_now_) {
      next_ = now_;
      next_need_ = need_;
      set(next_.data() + buffered_, early_at_[match]);
      settle({node, Step::early, match, 0});
    }
  }

  // Neither overtakes another one that would fit as well.
  bool is_in_order(uint32_t receive, uint32_t send) const {
    for (uint32_t other : free_sends_) {
      if (other >= send) break;
      if (c_.rank[other] == c_.rank[send] && accepts(receive, other)) return false;
    }
    for (uint32_t other : free_receives_) {
      if (other >= receive) break;
      bool first = c_.posted ||
                   (c_.peer[other] == c_.peer[receive] && c_.tag[other] == c_.tag[receive]);
      if (first && c_.rank[other] == c_.rank[receive] && accepts(other, send)) return false;
    }
    return true;
  }

  // Sends that finish with nobody there. One that nobody waits behind commutes with all that
  // happens: it comes last, and one after the other.
  void finish_early(bool last) {
    uint32_t idle = NONE;
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      uint64_t at = now_[lane] / 2;
      if (!(now_[lane] < 2 * c_.lane_end[lane] || at + 1 < c_.lane_off[lane + 1])) continue;
      bool enables = !c_.look_behind.empty() || shares_rank_[lane] || behind_[at];
      auto ask = [&](uint32_t match) {
        if (c_.eager[match] != c_.lane_rank[lane] || !need_[match] ||
            bit(now_.data() + buffered_, early_at_[match]))
          return;
        if (enables) early_now_.push_back(match);
        else if (idle == NONE) idle = match;
      };
      if (c_.look[at] == NONE) {
        ask(c_.code[at] >> 2);
        continue;
      }
      uint32_t first = c_.look_off[c_.look[at]], end = c_.look_off[c_.look[at] + 1];
      for (uint32_t word = c_.handle_off[first]; word < c_.handle_off[end]; ++word)
        ask(c_.handle_match[word]);
    }
    if (last && idle != NONE) early_now_.push_back(idle);
  }

  // --- one pick that stands for all (planguard/kernels/twin_persistent.py has the argument) --------

  // Keeps one pick alone if every execution makes it, and may as well make it now.
  bool sure_pick() {
    if (!c_.look_behind.empty()) return false;
    uint32_t asked = NONE;
    for (const Pick& pick : picks_) {
      if (c_.home[pick.receive] == asked) continue;
      asked = c_.home[pick.receive];
      if (!is_sure(pick.receive)) continue;
      picks_ = {Pick(pick)};
      return true;
    }
    return false;
  }

  bool is_sure(uint32_t first) {
    uint32_t lane = lane_of(c_.rank[first]);
    if (lane == NONE || !find_run(first, lane)) return false;
    uint64_t beyond = end_of_run(lane);
    if (!c_.posted && is_crossed(first, beyond)) return false;
    size_t sends = 0;
    for (uint32_t m : at_home_[c_.home[first]]) {
      if (c_.kind[m] != kSend || bit(now_.data() + met_, m) || !accepts(first, m)) continue;
      if (!is_there(m) && comes_behind(m, lane, beyond)) continue;
      if (c_.said[m] != c_.said[first]) return false;
      ++sends;
    }
    return sends <= run_.size();
  }

  // The lane of a rank that has one only.
  uint32_t lane_of(uint32_t rank) const {
    auto found = std::find(c_.lane_rank.begin(), c_.lane_rank.end(), rank);
    if (found == c_.lane_rank.end()) return NONE;
    uint32_t lane = uint32_t(found - c_.lane_rank.begin());
    return shares_rank_[lane] ? NONE : lane;
  }

  bool is_there(uint32_t m) const { return need_[c_.match[m]] == 1; }

  bool is_like(uint32_t one, uint32_t other) const {
    return c_.kind[one] == kReceive && c_.home[one] == c_.home[other] &&
           c_.peer[one] == c_.peer[other] && c_.tag[one] == c_.tag[other] &&
           c_.said[one] == c_.said[other];
  }

  // The receives that are there, and those that follow the one the lane stands at, with nothing in
  // between. False: one of them is another kind of receive, or a probe looks on.
  bool find_run(uint32_t first, uint32_t lane) {
    run_.clear();
    for (uint32_t m : at_home_[c_.home[first]]) {
      if (bit(now_.data() + met_, m) || c_.kind[m] == kSend) continue;
      if (c_.kind[m] == kProbe || (is_there(m) && !is_like(m, first))) return false;
      if (is_there(m)) run_.push_back(m);
    }
    uint64_t end = c_.lane_off[lane + 1];
    for (uint64_t at = now_[lane] / 2; at < end; ++at) {
      uint32_t m = by_match_[c_.code[at] >> 2];
      if (m == NONE || (c_.code[at] & 3) != (ARRIVE | AWAIT) || !is_like(m, first)) break;
      if (at != now_[lane] / 2) run_.push_back(m);
    }
    return true;
  }

  // The word behind which the lane has waited for the whole run.
  uint64_t end_of_run(uint32_t lane) const {
    std::vector<uint32_t> left;
    for (uint32_t m : run_) left.push_back(c_.match[m]);
    for (uint64_t at = now_[lane] / 2; at < c_.lane_off[lane + 1]; ++at) {
      if (c_.code[at] & AWAIT)
        left.erase(std::remove(left.begin(), left.end(), c_.code[at] >> 2), left.end());
      if (left.empty()) return at + 1;
    }
    return c_.lane_off[lane + 1];
  }

  // Whether another kind of receive comes before the run has ended, and may be served before it.
  bool is_crossed(uint32_t first, uint64_t beyond) const {
    for (uint32_t m : at_home_[c_.home[first]]) {
      if (c_.kind[m] != kReceive || bit(now_.data() + met_, m) || is_like(m, first)) continue;
      for (const Arrival& arrival : arrivals_[c_.match[m]])
        if (c_.lane_rank[arrival.lane] == c_.rank[m] && arrival.at < beyond) return true;
    }
    return false;
  }

  // Whether a send waits, before it is issued, for what a lane does behind a word.
  bool comes_behind(uint32_t send, uint32_t lane, uint64_t beyond) const {
    uint32_t own = lane_of(c_.rank[send]);
    if (own == NONE) return false;
    for (uint64_t at = now_[own] / 2; at < c_.lane_off[own + 1]; ++at) {
      uint32_t match = c_.code[at] >> 2;
      if (match == c_.match[send] && (c_.code[at] & ARRIVE)) return false;
      if (!(c_.code[at] & AWAIT) || c_.eager[match] == c_.rank[send]) continue;
      for (const auto& [other, place] : arrivals_[match])
        if (other == lane && place >= beyond) return true;
    }
    return false;
  }

  // --- a persistent set of picks (planguard/kernels/twin_persistent.py has the argument) -----------

  void persistent() {
    homes_.clear();
    for (const Pick& pick : picks_)
      if (std::find(homes_.begin(), homes_.end(), c_.home[pick.receive]) == homes_.end())
        homes_.push_back(c_.home[pick.receive]);
    if (homes_.size() < 2) return;
    size_t least = picks_.size();
    std::vector<uint8_t> best;
    for (uint32_t home : homes_) {
      close(home);
      size_t mine = 0;
      for (const Pick& pick : picks_) mine += closed_[c_.home[pick.receive]];
      if (mine < least) {
        least = mine;
        best = closed_;
      }
    }
    if (best.empty()) return;
    picks_.erase(std::remove_if(picks_.begin(), picks_.end(),
                                [&](const Pick& pick) { return !best[c_.home[pick.receive]]; }),
                 picks_.end());
  }

  void close(uint32_t home) {
    closed_.assign(at_home_.size(), 0);
    looked_at_.assign(lanes_, 0);
    std::vector<uint32_t> todo{home};
    while (!todo.empty()) {
      uint32_t one = todo.back();
      todo.pop_back();
      if (closed_[one]) continue;
      closed_[one] = 1;
      for (uint32_t receive : at_home_[one]) {
        if (c_.kind[receive] != kReceive || bit(now_.data() + met_, receive)) continue;
        for (uint32_t send : at_home_[one]) {
          if (c_.kind[send] != kSend || bit(now_.data() + met_, send) || !accepts(receive, send))
            continue;
          for (uint32_t m : {receive, send})
            if (need_[c_.match[m]] != 1) {
              come_first(c_.match[m], todo);
              break;
            }
        }
      }
    }
  }

  // The receivers whose picks have to come before an arrival at a match.
  void come_first(uint32_t match, std::vector<uint32_t>& homes) {
    for (uint32_t lane = coming(match); lane != NONE && !looked_at_[lane];) {
      looked_at_[lane] = 1;
      uint32_t awaited = c_.code[now_[lane] / 2] >> 2;
      if (by_match_[awaited] != NONE) {
        homes.push_back(c_.home[by_match_[awaited]]);
        return;
      }
      lane = coming(awaited);
    }
  }

  // The first lane that is still to arrive at a match.
  uint32_t coming(uint32_t match) const {
    for (const auto& [lane, at] : arrivals_[match])
      if (at >= (now_[lane] + 1) / 2) return lane;
    return NONE;
  }

  // --- states --------------------------------------------------------------------------------------

  uint64_t hash(const uint32_t* key) const {
    uint64_t sum = 0x9E3779B97F4A7C15ull;
    for (size_t index = 0; index < width_; ++index) {
      sum = (sum ^ key[index]) * 0xD6E8FEB86659FD93ull;
      sum ^= sum >> 32;
    }
    return sum;
  }

  bool keep(const Node& node) {
    if ((keys_->size() + 1) * 2 > table_.size()) grow();
    size_t mask = table_.size() - 1, place = hash(next_.data()) & mask;
    for (; table_[place]; place = (place + 1) & mask)
      if (!std::memcmp(keys_->at(table_[place] - 1), next_.data(), width_ * sizeof(uint32_t)))
        return false;
    keys_->push(next_.data());
    nodes_.push_back(node);
    table_[place] = uint32_t(keys_->size());
    todo_.push_back(uint32_t(keys_->size() - 1));
    return true;
  }

  void grow() {
    std::vector<uint32_t> wider(table_.size() * 2, 0);
    size_t mask = wider.size() - 1;
    for (uint32_t index = 0; index < keys_->size(); ++index) {
      size_t place = hash(keys_->at(index)) & mask;
      while (wider[place]) place = (place + 1) & mask;
      wider[place] = index + 1;
    }
    table_.swap(wider);
  }

  struct Arrival {
    uint32_t lane, at;
  };
  struct Odd {
    uint32_t send, pair;
  };

  MeetingColumns c_;
  size_t lanes_, messages_, width_ = 0, met_ = 0, odd_ = 0, buffered_ = 0;
  bool has_probes_ = false, is_plain_ = false;
  std::vector<uint32_t> by_match_, early_, early_at_;
  std::vector<uint8_t> behind_, shares_rank_;
  std::vector<std::vector<Arrival>> arrivals_;
  std::vector<std::vector<uint32_t>> at_home_;
  std::vector<std::vector<Odd>> pair_at_;
  std::vector<Pick> pairs_;

  std::unique_ptr<Keys> keys_;
  std::vector<uint32_t> table_, todo_, ends_;
  std::vector<Node> nodes_;
  std::vector<Extra> extras_;

  std::vector<uint32_t> now_, need_, next_, next_need_;
  std::vector<uint32_t> free_, free_sends_, free_receives_, early_now_, homes_;
  std::vector<Pick> picks_;
  std::vector<uint32_t> run_;
  std::vector<uint8_t> closed_, looked_at_;
};

MeetingSearch::MeetingSearch(MeetingColumns columns)
    : inside_(std::make_unique<Inside>(std::move(columns))) {}
MeetingSearch::MeetingSearch(MeetingSearch&&) noexcept = default;
MeetingSearch::~MeetingSearch() = default;
bool MeetingSearch::advance(uint64_t count) { return inside_->advance(count); }
uint64_t MeetingSearch::states() const { return inside_->states(); }
uint64_t MeetingSearch::bytes() const { return inside_->bytes(); }
MeetingEnds MeetingSearch::ends() const { return inside_->ends(); }

}  // namespace planguard
