// Follows a text byte by byte through a grammar: where it may stand, what may come next, whether it may end.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/form/grammar.h"
#include "text/form/grammar_facts.h"

namespace hone::text {

// Who is to go on when a rule's text ends: all that called it at the same place of the text share it, so that a text of
// n bytes has no more of them than n times the rules, whatever its ways through the grammar.
struct Frame {
  struct Way {
    std::int32_t to;
    std::shared_ptr<const Frame> behind;  // null: the whole text
  };
  std::vector<Way> ways;
  std::uint32_t serial = 0;
  std::int32_t depth = 0;
};

class Automaton;

// All places where a text may stand; immutable for who holds it.
class FormState : public std::enable_shared_from_this<FormState> {
 public:
  bool may_end() const { return may_end_; }
  bool may_go_on() const { return !places_.empty(); }

 private:
  friend class Automaton;
  struct Place {
    std::int32_t node;
    std::shared_ptr<const Frame> frame;
  };
  std::vector<Place> places_;  // nodes that bytes lead on from
  bool may_end_ = false;
  std::uint32_t generation_ = 0;       // of what is noted of next steps
  std::vector<FormState*> next_ = {};  // by the class of the byte; Automaton::unknown_ where it was not asked for
};

// Steps are remembered, within some memory; not thread-safe. A text is never led where it cannot be finished, and every
// way that it may have is followed: what that takes may be limited by allow().
class Automaton {
 public:
  // usable: bytes that can be written one by one; a text is finished by those alone. Default: all.
  explicit Automaton(Grammar grammar, const std::array<bool, 256>* usable = nullptr);

  bool is_empty() const { return !start_->may_end() && !start_->may_go_on(); }  // no text can be finished
  const std::shared_ptr<FormState>& start() const { return start_; }
  // Null: no text goes on so. What is returned lives as long as someone holds it, else until forget().
  FormState* step(FormState& from, std::uint8_t byte);
  // Whether so much is remembered that forget() is due.
  bool is_full() const { return weight_ > kMostWeight; }
  void forget();
  // What may be done from now on, in places looked at. Where it is not enough, a step throws TooMuch, and nothing of it
  // is remembered.
  struct TooMuch {};
  void allow(std::size_t work) { work_left_ = work; }
  std::size_t work_left() const { return work_left_; }
  bool accepts(std::string_view text);

  static constexpr std::size_t kMostWeight = 1'000'000;  // places, ways and steps that are remembered
  static constexpr std::int32_t kMostDepth = 400;        // rules in rules

 private:
  using Place = FormState::Place;
  class Closure;
  static constexpr std::size_t kWorkOfState = 8;  // what making it takes, besides its places

  void classify_bytes();
  bool lives(std::int32_t node, std::int32_t depth) const {
    return facts_.heights[static_cast<std::size_t>(node)] <= kMostDepth - depth;
  }
  void spend(std::size_t work) {
    if (work > work_left_) throw TooMuch();
    work_left_ -= work;
  }
  std::shared_ptr<const Frame> frame_of(std::vector<Frame::Way> ways);
  std::shared_ptr<FormState> state_of(std::vector<Place> places, bool may_end);
  std::shared_ptr<FormState> closed(std::vector<Place> kernel);

  Grammar grammar_;
  GrammarFacts facts_;
  std::vector<std::uint64_t> seen_;  // of nodes: the last closure that came to it, of those that were made
  std::uint64_t closures_ = 0;
  std::array<std::uint16_t, 256> class_of_ = {};
  std::size_t classes_ = 0;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<FormState>> states_;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<const Frame>> frames_;
  std::uint32_t serials_ = 0, generation_ = 1;
  std::size_t weight_ = 0;
  std::size_t work_left_ = SIZE_MAX;
  FormState unknown_;
  std::shared_ptr<FormState> start_;
};

}  // namespace hone::text
