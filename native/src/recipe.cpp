#include "recipe.h"

#include <algorithm>
#include <cstring>

namespace planguard {

Recipes::Use Recipes::use_at(uint64_t at) const {
  uint8_t kind = columns_.op[at] & KIND_MASK;
  if (is_collective(kind)) return Use::round;
  if (!is_p2p(kind)) return Use::none;
  return is_send(kind) ? Use::send : Use::recv;
}

uint32_t Recipes::base(Use use, uint32_t arg) const {
  if (use == Use::round) return lanes_.comm_base[layout_.comm(arg)];
  return lanes_.class_base[layout_.channel_class(arg, use == Use::send, false)];
}

void Recipes::start() {
  size_t n = columns_.templates.size();
  recipes_.assign(n, Recipe());
  uses_.resize(n);
  sequences_.resize(n);
  comm_sequence_.assign(lanes_.comm_ginst.size(), UNSEEN);
  send_sequence_.assign(lanes_.class_base.size(), UNSEEN);
  recv_sequence_.assign(lanes_.class_base.size(), UNSEEN);
  for (uint32_t rank = 0; rank < columns_.world_size; ++rank) {
    uint32_t index = columns_.rank_template[rank];
    if (index != NONE && uses_[index].empty()) find_sequences(index, rank);
    mark_members(rank);
  }
}

void Recipes::find_sequences(uint32_t index, uint32_t rank) {
  const std::vector<uint32_t>& refs = columns_.templates[index];
  size_t n = columns_.local_off[rank + 1] - columns_.local_off[rank];
  std::vector<std::vector<uint64_t>> found(n);
  std::vector<uint8_t> split(n, 0);
  uses_[index].assign(std::max<size_t>(n, 1), Use::none);
  uint64_t begin = columns_.rank_off[rank];
  for (size_t entry = 0; entry < refs.size(); ++entry) {
    uint64_t at = begin + entry;
    Use use = use_at(at);
    if (use == Use::none) continue;
    uint32_t sig = columns_.sig[at], label = columns_.label.empty() ? 0 : columns_.label[at];
    uint64_t mark = use == Use::round ? columns_.op[at] & ASYNC : 0;
    uses_[index][refs[entry]] = use;
    found[refs[entry]].push_back(uint64_t(sig) << 32 | label);
    found[refs[entry]].push_back(mark);
    split[refs[entry]] |= use == Use::round && sigs_.splits[sig] != 0;
  }
  for (size_t ref = 0; ref < n; ++ref) {
    uint32_t fresh = static_cast<uint32_t>(known_sequences_.size()) + 1;
    uint32_t number = known_sequences_.emplace(std::move(found[ref]), fresh).first->second;
    sequences_[index].push_back(split[ref] ? DIRTY : number);
  }
}

void Recipes::mark_use(Use use, uint32_t arg, uint32_t sequence) {
  if (use == Use::round) return mark(comm_sequence_[layout_.comm(arg)], sequence);
  uint32_t cls = layout_.channel_class(arg, use == Use::send, false);
  // Two references that share a class interleave: no sequence of one describes it.
  uint32_t& seen = (use == Use::send ? send_sequence_ : recv_sequence_)[cls];
  seen = seen == UNSEEN ? sequence : DIRTY;
}

void Recipes::mark_members(uint32_t rank) {
  uint32_t index = columns_.rank_template[rank];
  if (index == NONE) {
    for (uint64_t at = columns_.rank_off[rank]; at < columns_.rank_off[rank + 1]; ++at)
      if (use_at(at) != Use::none) mark_use(use_at(at), columns_.arg[at], DIRTY);
    return;
  }
  const uint32_t* local = columns_.local.data() + columns_.local_off[rank];
  for (size_t ref = 0; ref < sequences_[index].size(); ++ref)
    if (uses_[index][ref] != Use::none)
      mark_use(uses_[index][ref], local[ref], sequences_[index][ref]);
}

bool Recipes::is_clean(Use use, uint32_t arg) const {
  if (use == Use::round) return comm_sequence_[layout_.comm(arg)] != DIRTY;
  uint32_t cls = layout_.channel_class(arg, use == Use::send, false);
  uint32_t sent = send_sequence_[cls], received = recv_sequence_[cls];
  if (sent == DIRTY || received == DIRTY) return false;
  return sent == UNSEEN || received == UNSEEN || sent == received;
}

// References that mean the same numbers take positions in turn: two ranks run the same code only
// if the same references coincide on both.
void Recipes::find_aliases(uint32_t rank, std::vector<uint32_t>& alias) {
  uint32_t index = columns_.rank_template[rank];
  const uint32_t* local = columns_.local.data() + columns_.local_off[rank];
  const std::vector<Use>& uses = uses_[index];
  order_.clear();
  for (uint32_t ref = 0; ref < sequences_[index].size(); ++ref) {
    uint64_t number = ref;
    if (uses[ref] == Use::round) number = layout_.comm(local[ref]);
    else if (uses[ref] != Use::none)
      number = layout_.channel_class(local[ref], uses[ref] == Use::send, false);
    order_.push_back({static_cast<uint64_t>(uses[ref]) << 32 | number, ref});
  }
  std::sort(order_.begin(), order_.end());
  alias.assign(order_.size(), 0);
  for (size_t place = 0; place < order_.size(); ++place) {
    bool same = place && order_[place - 1].first == order_[place].first;
    alias[order_[place].second] = same ? alias[order_[place - 1].second] : order_[place].second;
  }
}

void Recipes::learn(uint32_t rank, bool plain) {
  uint32_t index = columns_.rank_template[rank];
  if (index == NONE || recipes_[index].known) return;
  Recipe& recipe = recipes_[index];
  recipe.known = true;
  if (!plain) return;
  find_aliases(rank, recipe.alias);
  recipe.usable = learn_words(recipe, rank);
  if (recipe.usable) learn_members(recipe, rank);
}

bool Recipes::learn_words(Recipe& recipe, uint32_t rank) {
  uint32_t index = columns_.rank_template[rank];
  const uint32_t* local = columns_.local.data() + columns_.local_off[rank];
  order_.clear();  // (first number, reference) of every range of numbers
  for (uint32_t ref = 0; ref < recipe.alias.size(); ++ref)
    if (recipe.alias[ref] == ref && uses_[index][ref] != Use::none)
      order_.push_back({base(uses_[index][ref], local[ref]), ref});
  std::sort(order_.begin(), order_.end());
  uint64_t begin = lanes_.lane_off.back();
  for (uint64_t at = begin; at < lanes_.code.size(); ++at) {
    uint32_t match = lanes_.code[at] >> 2;
    if (match >= lanes_.ext_base) return false;
    auto above = std::upper_bound(order_.begin(), order_.end(), std::make_pair(uint64_t(match), NONE));
    if (above == order_.begin()) return false;
    auto [first, ref] = *(above - 1);
    recipe.word_ref.push_back(ref);
    recipe.word_add.push_back(lanes_.code[at] - static_cast<uint32_t>(first << 2));
  }
  if (!lanes_.lane_soft.empty()) recipe.soft = lanes_.lane_soft.back() - begin;
  if (lanes_.origin.size() == lanes_.code.size()) {
    recipe.origin.assign(lanes_.origin.begin() + static_cast<ptrdiff_t>(begin), lanes_.origin.end());
    recipe.why.assign(lanes_.why.begin() + static_cast<ptrdiff_t>(begin), lanes_.why.end());
  }
  return true;
}

void Recipes::learn_members(Recipe& recipe, uint32_t rank) {
  const std::vector<uint32_t>& refs = columns_.templates[columns_.rank_template[rank]];
  std::vector<uint32_t> taken(recipe.alias.size(), 0);
  for (size_t entry = 0; entry < refs.size(); ++entry) {
    bool member = use_at(columns_.rank_off[rank] + entry) != Use::none;
    uint32_t ref = member ? recipe.alias[refs[entry]] : NONE;
    recipe.member_ref.push_back(ref);
    recipe.member_at.push_back(member ? taken[ref]++ : 0);
  }
}

void Recipes::compare_members(const Recipe& recipe, uint32_t rank, MeetCheck& check) const {
  uint64_t begin = columns_.rank_off[rank];
  for (size_t entry = 0; entry < recipe.member_ref.size(); ++entry) {
    uint32_t ref = recipe.member_ref[entry];
    if (ref != NONE) check.add(base_[ref] + recipe.member_at[entry], begin + entry);
  }
}

bool Recipes::emit(uint32_t rank, MeetCheck& check) {
  uint32_t index = columns_.rank_template[rank];
  if (index == NONE || !recipes_[index].usable) return false;
  const Recipe& recipe = recipes_[index];
  find_aliases(rank, alias_);
  if (alias_ != recipe.alias) return false;
  const uint32_t* local = columns_.local.data() + columns_.local_off[rank];
  bool clean = true;
  base_.assign(alias_.size(), 0);
  for (size_t ref = 0; ref < alias_.size(); ++ref) {
    Use use = uses_[index][ref];
    if (use == Use::none) continue;
    base_[ref] = base(use, local[ref]);
    clean = clean && is_clean(use, local[ref]);
  }
  if (!clean) compare_members(recipe, rank, check);
  for (uint32_t& base : base_) base <<= 2;
  size_t begin = lanes_.code.size(), count = recipe.word_ref.size();
  lanes_.code.resize(begin + count);
  uint32_t* code = lanes_.code.data() + begin;
  for (size_t word = 0; word < count; ++word)
    code[word] = base_[recipe.word_ref[word]] + recipe.word_add[word];
  if (recipe.origin.size() != count || !count) return true;
  lanes_.origin.resize(begin + count);
  lanes_.why.resize(begin + count);
  std::memcpy(lanes_.origin.data() + begin, recipe.origin.data(), count * sizeof(uint32_t));
  std::memcpy(lanes_.why.data() + begin, recipe.why.data(), count);
  return true;
}

}  // namespace planguard
