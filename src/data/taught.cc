// A teacher's log-probabilities: laid on a record's tokens, and all of a file.
#include "data/taught.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/hash.h"
#include "base/strings.h"
#include "data/new_token_file.h"
#include "hone/error.h"

namespace hone::data {
namespace {

constexpr std::int32_t kNotLearnt = -100;
constexpr float kRounding = 1e-5f;  // so far above 0 is the logarithm of a probability of 1, rounded
constexpr float kNothing = -std::numeric_limits<float>::infinity();

using Fail = std::function<void(const std::string& fact)>;  // throws

// Of each place of what was said its token: all of the record's, or those that are learnt.
std::vector<std::uint64_t> tokens_of_places(const Tokens& tokens, std::size_t places, const Fail& fail) {
  std::vector<std::uint64_t> all(tokens.ids.size()), learnt;
  std::iota(all.begin(), all.end(), 0);
  if (places == all.size()) return all;
  for (const std::uint64_t i : all)
    if (tokens.labels[i] != kNotLearnt) learnt.push_back(i);
  if (places != learnt.size())
    fail(fmt::format("of {}; expected {}, or the {} that are learnt",
                     counted(static_cast<std::int64_t>(places), "token"),
                     all.size() == 1 ? "the 1 of the record" : fmt::format("all {} of the record", all.size()),
                     learnt.size()));
  return learnt;
}

// One place's tokens, the likeliest first.
class SaidThere {
 public:
  SaidThere(const TeacherLogProbs& said, std::size_t begin, std::size_t count)
      : said_(said), order_(count) {
    std::iota(order_.begin(), order_.end(), begin);
  }
  void check(const Fail& fail) {
    for (const std::size_t i : order_) {
      const float log_prob = said_.log_probs[i];
      if (!std::isfinite(log_prob) || log_prob > kRounding)
        fail(fmt::format("got the log-probability {}, expected a number of 0 at most", log_prob));
      if (said_.ids[i] < 0) fail(fmt::format("got the token id {}, expected one of 0 at least", said_.ids[i]));
    }
    std::sort(order_.begin(), order_.end(), [&](auto a, auto b) { return said_.ids[a] < said_.ids[b]; });
    for (std::size_t i = 1; i < order_.size(); ++i)
      if (said_.ids[order_[i]] == said_.ids[order_[i - 1]])
        fail(fmt::format("got token {} twice, expected each once", said_.ids[order_[i]]));
    std::stable_sort(order_.begin(), order_.end(),
                     [&](auto a, auto b) { return said_.log_probs[a] > said_.log_probs[b]; });
  }
  void put(DocTeacher& made) const {
    for (std::size_t i = 0; i < made.width; ++i) {
      made.ids.push_back(static_cast<std::uint32_t>(said_.ids[order_[i]]));
      made.log_probs.push_back(std::min(said_.log_probs[order_[i]], 0.0f));
    }
  }

 private:
  const TeacherLogProbs& said_;
  std::vector<std::size_t> order_;
};

// So many are kept of each place. fail_uneven: where it is not as many as of others.
void take_width(DocTeacher& made, std::uint64_t count, std::uint64_t top_k, const Fail& fail,
                const Fail& fail_uneven) {
  if (top_k > 0 && count < top_k)
    fail(fmt::format("got {}, expected at least top_k {}", counted(static_cast<std::int64_t>(count), "token"), top_k));
  const std::uint64_t width = top_k > 0 ? top_k : count;
  if (made.width > 0 && width != made.width)
    fail_uneven(fmt::format("got {}, expected {} as at the places before",
                            counted(static_cast<std::int64_t>(width), "token"), made.width));
  made.width = width;
}

}  // namespace

FileTeacher::FileTeacher(const DataFile& file, bool read, double of_others)
    : scale_(static_cast<float>(file.teacher_temperature.value_or(of_others) / of_others)) {
  if (file.teacher_temperature && !read)
    throw Error(ErrorKind::config, fmt::format("{}: teacher_temperature: no log-probabilities of a teacher are read",
                                               file.path.empty() ? file.source.type : file.path))
        .hint("objective distillation reads them with teacher_logprobs: true");
}

// Up to a summand that all tokens of a place have in common, which the loss takes away.
void FileTeacher::bring(Record& record) const {
  if (scale_ == 1 || !record.teacher) return;
  for (float& one : record.teacher->log_probs) one *= scale_;
}

DocTeacher laid_on(const Tokens& tokens, const TeacherLogProbs& said, std::int64_t top_k,
                   const std::function<std::string()>& place) {
  DocTeacher made;
  const auto error = [&](const std::string& fact) {
    return Error(ErrorKind::data, fmt::format("{}: log-probabilities {}", place(), fact));
  };
  const auto fail_size = [&](const std::string& fact) {
    throw error(fact).hint("was the teacher asked with this tokenizer and chat template? hone teach asks it so");
  };
  const std::vector<std::uint64_t> token_of = tokens_of_places(tokens, said.counts.size(), fail_size);
  HONE_ASSERT(std::reduce(said.counts.begin(), said.counts.end(), std::size_t{0}) == said.ids.size());
  HONE_ASSERT(said.ids.size() == said.log_probs.size());
  bool any_learnt = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < said.counts.size(); begin += said.counts[i], ++i) {
    const bool learnt = token_of[i] > 0 && tokens.labels[token_of[i]] != kNotLearnt;
    any_learnt |= learnt;
    if (said.counts[i] == 0) continue;
    const auto error_here = [&](const std::string& fact) { return error(fmt::format("of place {}: {}", i + 1, fact)); };
    const auto fail = [&](const std::string& fact) { throw error_here(fact); };
    const auto fail_uneven = [&](const std::string& fact) {
      throw error_here(fact).hint("objective.top_k takes so many of each, the likeliest");
    };
    take_width(made, said.counts[i], static_cast<std::uint64_t>(top_k), fail, fail_uneven);
    SaidThere there(said, begin, said.counts[i]);
    there.check(fail);
    if (!learnt) continue;
    made.places.push_back(token_of[i]);
    there.put(made);
  }
  if (any_learnt && made.places.empty()) throw error("of no token that is learnt; expected some");
  if (made.places.empty()) made = {};
  return made;
}

void TaughtColumns::expect(std::uint64_t width, const std::function<std::string()>& place) {
  there_ = true;
  if (width == 0) return;
  if (width_ != 0 && width != width_)
    throw Error(ErrorKind::data, fmt::format("{}: log-probabilities of {} at each place, expected {} as in the records "
                                             "before",
                                             place(), counted(static_cast<std::int64_t>(width), "token"), width_))
        .hint("objective.top_k takes so many of each, the likeliest");
  width_ = width;
}

void TaughtColumns::add(const DocTeacher& said, std::uint64_t base) {
  if (said.width == 0) return;
  HONE_ASSERT(said.width == width_ && said.ids.size() == said.places.size() * said.width);
  for (const std::uint64_t place : said.places) places_.push_back(base + place);
  ids_.append(std::span(said.ids));
  log_probs_.append(std::span(said.log_probs));
  highest_id_ = std::max(highest_id_, std::int64_t{*std::max_element(said.ids.begin(), said.ids.end())});
}

struct TaughtColumns::Away {
  std::unique_ptr<NewTokenFile> places, ids, log_probs;
  std::uint64_t count = 0;  // of places that are in all of them
};

std::uint64_t TaughtColumns::places() const { return places_.size() + (away_ ? away_->count : 0); }

std::uint64_t TaughtColumns::bytes_in_memory() const {
  return places_.all().size_bytes() + ids_.all().size_bytes() + log_probs_.all().size_bytes();
}

void TaughtColumns::each_array(
    const std::function<void(const NewTokenFile*, std::span<const std::byte>)>& visit) const {
  visit(away_ ? away_->places.get() : nullptr, std::as_bytes(places_.all()));
  visit(away_ ? away_->ids.get() : nullptr, std::as_bytes(ids_.all()));
  visit(away_ ? away_->log_probs.get() : nullptr, std::as_bytes(log_probs_.all()));
}

void TaughtColumns::put_away(const NewTokenFile& beside) {
  if (!away_)
    away_ = std::make_shared<Away>(Away{beside.second("places"), beside.second("ids"), beside.second("logprobs")});
  away_->places->out().write(std::as_bytes(places_.all()));
  away_->ids->out().write(std::as_bytes(ids_.all()));
  away_->log_probs->out().write(std::as_bytes(log_probs_.all()));
  away_->count += places_.size();
  places_.assign({}), ids_.assign({}), log_probs_.assign({});  // not cleared: a vector keeps its room
}

void TaughtColumns::take_back() {
  if (!away_) return;
  const auto take = [&](const NewTokenFile& file, auto& column, std::uint64_t width) {
    std::vector<std::decay_t<decltype(column[0])>> all(away_->count * width);
    file.open().read(0, std::as_writable_bytes(std::span(all)));
    all.insert(all.end(), column.begin(), column.end());
    column.assign(std::move(all));
  };
  take(*away_->places, places_, 1), take(*away_->ids, ids_, width_), take(*away_->log_probs, log_probs_, width_);
  away_.reset();
}

std::size_t TaughtColumns::first_from(std::uint64_t position) const {
  return static_cast<std::size_t>(std::lower_bound(places_.begin(), places_.end(), position) - places_.begin());
}

std::int64_t TaughtColumns::highest_id(std::uint64_t begin, std::uint64_t end) const {
  const std::size_t first = first_from(begin) * width_, last = first_from(end) * width_;
  return first == last ? -1 : std::int64_t{*std::max_element(ids_.begin() + first, ids_.begin() + last)};
}

TaughtTargets TaughtColumns::targets(std::uint64_t begin, std::uint64_t end, std::uint64_t count) const {
  HONE_ASSERT(end - begin <= count);
  TaughtTargets made{static_cast<std::int64_t>(width_)};
  made.ids.assign(count * width_, 0);
  made.log_probs.assign(count * width_, kNothing);
  for (std::size_t i = first_from(begin); i < places_.size() && places_[i] < end; ++i) {
    const std::size_t from = i * width_, to = (places_[i] - begin) * width_;
    std::copy_n(ids_.begin() + from, width_, made.ids.begin() + static_cast<std::ptrdiff_t>(to));
    std::copy_n(log_probs_.begin() + from, width_, made.log_probs.begin() + static_cast<std::ptrdiff_t>(to));
  }
  return made;
}

void TaughtColumns::add_content(Hasher& hasher, std::uint64_t begin, std::uint64_t end) const {
  const std::size_t first = first_from(begin), count = first_from(end) - first;
  hasher.update_int(width_).update_int(count);
  for (std::size_t i = first; i < first + count; ++i) hasher.update_int(places_[i] - begin);
  hasher.update(std::as_bytes(ids_.all().subspan(first * width_, count * width_)));
  hasher.update(std::as_bytes(log_probs_.all().subspan(first * width_, count * width_)));
}

void TaughtColumns::lie_at(std::uint64_t width, std::span<const std::uint64_t> places,
                           std::span<const std::uint32_t> ids, std::span<const float> log_probs) {
  there_ = true, width_ = width;
  places_.lie_at(places), ids_.lie_at(ids), log_probs_.lie_at(log_probs);
  away_.reset();
  if (highest_id_ < 0 && !ids.empty()) highest_id_ = std::int64_t{*std::max_element(ids.begin(), ids.end())};
}

bool TaughtColumns::fits(std::uint64_t tokens) const {
  const auto is_after = [](std::uint64_t a, std::uint64_t b) { return b <= a; };
  return std::adjacent_find(places_.begin(), places_.end(), is_after) == places_.end() &&
         (places_.empty() || (width_ > 0 && places_.back() < tokens)) &&
         highest_id_ <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace hone::data
