// Answers of earlier steps that were worth comparing, kept to be learnt from again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hone/batch.h"

namespace hone::objectives {

// A prompt's answers and what they were worth.
struct KeptGroup {
  struct Said {
    std::vector<std::int32_t> ids = {};
    bool complete = true;
    bool operator==(const Said&) const = default;
  };
  double score = 0;  // how much there was to learn from them
  std::int64_t record = 0;
  std::vector<std::int32_t> prompt = {};
  std::vector<Said> answers = {};
  std::vector<std::vector<double>> rewards = {};  // [reward][answer]; NaN: it says nothing
};

// As numbers, one group behind the other; and back. Throws Error(checkpoint) where they are none.
std::vector<double> numbers_of(const std::vector<KeptGroup>& groups);
std::vector<KeptGroup> groups_in(const std::vector<double>& numbers);

// The groups with the highest scores, and of equals those that came first; the same on all ranks. Not thread-safe.
class ReplayBuffer {
 public:
  // most: groups. Of long answers it holds fewer: a checkpoint keeps all of them, in state/train.json.
  explicit ReplayBuffer(std::int64_t most) : most_(most) {}
  bool is_wanted() const { return most_ > 0; }
  void add(std::vector<KeptGroup> groups);
  // Groups of other numbers than these, as a run that goes on with another recipe has them.
  void leave_out_unlike(std::size_t answers, std::size_t rewards);
  const std::vector<KeptGroup>& groups() const { return groups_; }
  // One of them, as often as its score is a share of all scores; at: in [0, 1). REQUIRES: there is one.
  std::size_t drawn(double at) const;

  Sums state() const;  // Objective::state()
  void set_state(const Sums& state);

 private:
  std::int64_t most_;
  std::vector<KeptGroup> groups_;  // highest score first
  bool has_warned_ = false;
};

}  // namespace hone::objectives
