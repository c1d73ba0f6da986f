// A replay buffer's order, and its groups as numbers.
#include "objectives/replay_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "hone/error.h"

namespace hone::objectives {
namespace {

constexpr const char* kPrefix = "replay/";
constexpr std::size_t kMostNumbers = std::size_t{1} << 17;  // about 5 MB of JSON: 250,000 tokens
constexpr double kIds = 1 << 26;                            // two of them are one number
constexpr double kLeastScore = 1e-8;                        // so that each can be drawn

class Writer {
 public:
  void number(double value) { numbers.push_back(value); }
  void ids(const std::vector<std::int32_t>& all) {
    number(static_cast<double>(all.size()));
    for (std::size_t i = 0; i < all.size(); i += 2) number(all[i] + (i + 1 < all.size() ? kIds * all[i + 1] : 0.0));
  }
  std::vector<double> numbers;
};

class Reader {
 public:
  explicit Reader(const std::vector<double>& numbers) : numbers_(numbers) {}
  bool is_done() const { return at_ == numbers_.size(); }
  double number() {
    if (is_done()) fail();
    return numbers_[at_++];
  }
  std::size_t count() {
    const double value = number();
    if (!(value >= 0 && value <= 1e9 && value == std::floor(value))) fail();
    return static_cast<std::size_t>(value);
  }
  std::vector<std::int32_t> ids() {
    const std::size_t size = count();
    std::vector<std::int32_t> all;
    while (all.size() < size) {
      const double two = number();
      if (!(two >= 0 && two < kIds * kIds)) fail();
      all.push_back(static_cast<std::int32_t>(std::fmod(two, kIds)));
      if (all.size() < size) all.push_back(static_cast<std::int32_t>(std::floor(two / kIds)));
    }
    return all;
  }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorKind::checkpoint, "objective.replay_buffer_size: the checkpoint's answers cannot be read");
  }
  const std::vector<double>& numbers_;
  std::size_t at_ = 0;
};

void write(const KeptGroup& group, Writer& to) {
  to.number(group.score);
  to.number(static_cast<double>(group.record));
  to.ids(group.prompt);
  to.number(static_cast<double>(group.answers.size()));
  for (const KeptGroup::Said& said : group.answers) {
    to.number(said.complete);
    to.ids(said.ids);
  }
  to.number(static_cast<double>(group.rewards.size()));
  for (const auto& values : group.rewards)
    for (const double value : values) to.number(value);
}

std::size_t size_of(const KeptGroup& group) {
  Writer writer;
  write(group, writer);
  return writer.numbers.size();
}

}  // namespace

std::vector<double> numbers_of(const std::vector<KeptGroup>& groups) {
  Writer writer;
  for (const KeptGroup& group : groups) write(group, writer);
  return std::move(writer.numbers);
}

std::vector<KeptGroup> groups_in(const std::vector<double>& numbers) {
  Reader reader(numbers);
  std::vector<KeptGroup> groups;
  while (!reader.is_done()) {
    KeptGroup group{.score = reader.number(), .record = static_cast<std::int64_t>(reader.number())};
    group.prompt = reader.ids();
    group.answers.resize(reader.count());
    for (KeptGroup::Said& said : group.answers) {
      said.complete = reader.number() != 0;
      said.ids = reader.ids();
    }
    group.rewards.resize(reader.count(), std::vector<double>(group.answers.size()));
    for (auto& values : group.rewards)
      for (double& value : values) value = reader.number();
    groups.push_back(std::move(group));
  }
  return groups;
}

void ReplayBuffer::add(std::vector<KeptGroup> groups) {
  for (KeptGroup& group : groups) groups_.push_back(std::move(group));
  std::ranges::stable_sort(groups_, [](const KeptGroup& a, const KeptGroup& b) { return a.score > b.score; });
  std::size_t numbers = 0;
  std::vector<KeptGroup> kept;
  for (KeptGroup& group : groups_) {
    const std::size_t size = size_of(group);
    if (size > kMostNumbers && !std::exchange(has_warned_, true))
      log::warning("objective.replay_buffer_size: the answers to a prompt are too long to be kept, about {} tokens of "
                   "at most {}",
                   2 * size, 2 * kMostNumbers);
    if (std::cmp_equal(kept.size(), most_) || numbers + size > kMostNumbers) continue;
    numbers += size;
    kept.push_back(std::move(group));
  }
  groups_ = std::move(kept);
}

void ReplayBuffer::leave_out_unlike(std::size_t answers, std::size_t rewards) {
  const std::size_t gone = std::erase_if(groups_, [&](const KeptGroup& group) {
    return group.answers.size() != answers || group.rewards.size() != rewards;
  });
  if (gone > 0)
    log::warning("objective.replay_buffer_size: {} kept before, of other numbers of answers or rewards, are forgotten",
                 counted(static_cast<std::int64_t>(gone), "group"));
}

std::size_t ReplayBuffer::drawn(double at) const {
  double all = 0;
  for (const KeptGroup& group : groups_) all += std::max(group.score, kLeastScore);
  double below = 0;
  for (std::size_t i = 0; i + 1 < groups_.size(); ++i) {
    below += std::max(groups_[i].score, kLeastScore);
    if (at * all < below) return i;
  }
  return groups_.size() - 1;
}

Sums ReplayBuffer::state() const {
  Sums state;
  std::size_t place = 0;
  for (const double number : numbers_of(groups_)) state[fmt::format("{}{:06}", kPrefix, place++)] = number;
  return state;
}

void ReplayBuffer::set_state(const Sums& state) {
  std::vector<double> numbers;
  for (auto at = state.lower_bound(kPrefix); at != state.end() && at->first.starts_with(kPrefix); ++at)
    numbers.push_back(at->second);
  groups_ = groups_in(numbers);
}

}  // namespace hone::objectives
