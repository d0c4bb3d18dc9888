// Lowering once what many ranks run: ranks of one program differ only in which communicators and
// channels their references mean, so the code of one is that of another with other match numbers.
// The twin has no such path; both give equal lanes (tests/property/test_twin.py).
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "layout.h"
#include "meet.h"

namespace planguard {

// The lanes of one program: word i is base(word_ref[i]) * 4 + word_add[i].
struct Recipe {
  bool known = false, usable = false;
  std::vector<uint32_t> alias;  // per reference: the first that means the same numbers
  std::vector<uint32_t> word_ref, word_add;
  std::vector<uint32_t> origin;  // of every word, where origins are kept
  std::vector<uint8_t> why;
  std::vector<uint32_t> member_ref, member_at;  // per entry, for comparing members: ref and position
  uint64_t soft = 0;                            // relative to the first word
};

class Recipes {
 public:
  Recipes(const Columns& columns, const Signatures& sigs, const Layout& layout, Lanes& lanes)
      : columns_(columns), sigs_(sigs), layout_(layout), lanes_(lanes) {}

  // Finds the communicators and channels whose members need no comparison.
  void start();
  // Learn from a rank that was lowered word by word; `plain` when nothing but rounds and pairs of
  // its own references occurs on its only lane.
  void learn(uint32_t rank, bool plain);
  // Emit the code of a rank whose program is known; false when it must be lowered word by word.
  bool emit(uint32_t rank, MeetCheck& check);

  // Relative end of what the host waits for (ProcessGroupMPI).
  uint64_t soft(uint32_t rank) const { return recipes_[columns_.rank_template[rank]].soft; }

 private:
  static constexpr uint32_t UNSEEN = 0, DIRTY = 0xFFFFFFFFu;
  enum class Use : uint32_t { none = 0, round = 1, send = 2, recv = 3 };

  // Sequence of signatures at the positions of one reference, as an interned number.
  void find_sequences(uint32_t index, uint32_t rank);
  void mark_members(uint32_t rank);
  void mark(uint32_t& seen, uint32_t sequence) {
    if (seen == UNSEEN) seen = sequence;
    else if (seen != sequence) seen = DIRTY;
  }
  void mark_use(Use use, uint32_t arg, uint32_t sequence);
  bool is_clean(Use use, uint32_t arg) const;
  Use use_at(uint64_t at) const;
  uint32_t base(Use use, uint32_t arg) const;
  void find_aliases(uint32_t rank, std::vector<uint32_t>& alias);
  bool learn_words(Recipe& recipe, uint32_t rank);
  void learn_members(Recipe& recipe, uint32_t rank);
  void compare_members(const Recipe& recipe, uint32_t rank, MeetCheck& check) const;

  const Columns& columns_;
  const Signatures& sigs_;
  const Layout& layout_;
  Lanes& lanes_;
  std::vector<Recipe> recipes_;
  std::vector<std::vector<Use>> uses_;            // per template and reference
  std::vector<std::vector<uint32_t>> sequences_;  // per template and reference
  std::map<std::vector<uint64_t>, uint32_t> known_sequences_;
  std::vector<uint32_t> comm_sequence_, send_sequence_, recv_sequence_;
  std::vector<uint32_t> alias_, base_;
  std::vector<std::pair<uint64_t, uint32_t>> order_;
};

}  // namespace planguard
