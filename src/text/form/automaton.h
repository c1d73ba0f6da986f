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

// Steps are remembered, within some memory; not thread-safe. A text is never led where it cannot be finished.
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
  bool left_out() const { return left_out_; }  // that there were more ways at a time than are followed
  bool accepts(std::string_view text);

  static constexpr std::size_t kMostWeight = 1'000'000;  // places, ways and steps that are remembered
  static constexpr std::size_t kMostPlaces = 4096;       // of a state
  static constexpr std::int32_t kMostDepth = 400;        // rules in rules

 private:
  using Place = FormState::Place;
  class Closure;

  void trim_heights(const std::array<bool, 256>* usable);
  void find_nullable();
  void order_rules();
  void classify_bytes();
  bool lives(std::int32_t node, std::int32_t depth) const {
    return heights_[static_cast<std::size_t>(node)] <= kMostDepth - depth;
  }
  std::shared_ptr<const Frame> frame_of(std::vector<Frame::Way> ways);
  std::shared_ptr<FormState> state_of(std::vector<Place> places, bool may_end);
  std::shared_ptr<FormState> closed(std::vector<Place> kernel);

  Grammar grammar_;
  std::vector<std::int32_t> heights_;  // rules in rules that a text needs at least from a node on; kNever: no end
  std::vector<bool> nullable_, is_exit_;
  std::vector<std::int32_t> order_, turn_;  // rules, those that begin with others before them; where each is in that
  std::array<std::uint16_t, 256> class_of_ = {};
  std::size_t classes_ = 0;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<FormState>> states_;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<const Frame>> frames_;
  std::uint32_t serials_ = 0, generation_ = 1;
  std::size_t weight_ = 0;
  bool left_out_ = false;
  FormState unknown_;
  std::shared_ptr<FormState> start_;
};

}  // namespace hone::text
