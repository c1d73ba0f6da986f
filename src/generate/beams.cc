// Beams as in transformers: scores are sums of logarithms of probabilities, those of finished answers over a power of
// their lengths.
//
// Letters: B beams, R rows, which are the beams of all prompts, V vocabulary.
#include "generate/beams.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "generate/answer.h"
#include "generate/engine.h"
#include "generate/form.h"
#include "generate/restraints.h"
#include "hone/error.h"
#include "hone/layers.h"
#include "nn/finite.h"
#include "nn/kv_cache.h"
#include "tensor/host.h"

namespace hone::generate {
namespace {

constexpr float kImpossible = -1e9f;

struct Beam {
  std::vector<std::int32_t> ids;  // of the answer
  float score = 0;
  std::optional<FormPlace> form = {};  // where it is held to one
};

// A way for a beam to go on.
struct Continuation {
  std::size_t beam = 0;
  std::int32_t id = 0;
  float score = 0;
  bool ends = false;
};

// Of one prompt.
class Search {
 public:
  Search(const BeamSearch& search, const AskedOfBeams& asked) : s_(search), c_(search.config), most_(asked.most) {
    const Seq2SeqLm* reader = s_.model.seq2seq_lm();
    if (reader)
      before_ = {reader->decoder_start()};
    else
      before_.assign(asked.prompt.begin(), asked.prompt.end());
    // All but one are impossible, so that they part.
    running_.assign(static_cast<std::size_t>(c_.num_beams), {{}, kImpossible});
    running_[0].score = 0;
    if (!c_.ignore_eos) ends_ = c_.eos_token_id;
    if (!c_.ignore_eos && ends_.empty() && s_.tokenizer.eos_id) ends_.push_back(*s_.tokenizer.eos_id);
    const auto form = form_of(c_, s_.tokenizer, s_.model.vocab_size());
    const auto text = std::span(before_).first(reader ? 0 : before_.size());
    for (Beam& beam : running_)
      if (form) beam.form.emplace(form, s_.tokenizer, c_, text, ends_);
  }

  // Takes what the model says of each beam's next token, and changes it. Returns which beam each of the new ones goes
  // on from; none: the search is over.
  std::vector<std::int64_t> step(const Tensor& log_probs_BV) {
    const std::vector<Continuation> best = likeliest_continuations(log_probs_BV);
    take_finished(best);
    if (std::ranges::all_of(best, &Continuation::ends)) return {};
    std::vector<std::int64_t> from = go_on(best);
    ++made_;
    may_improve_ = may_improve_ && can_improve();
    if (!may_improve_ || (c_.early_stopping == EarlyStopping::yes && is_full())) return {};
    return from;
  }

  const std::vector<Beam>& running() const { return running_; }
  const Beam& best() const {
    HONE_ASSERT(!finished_.empty());
    return finished_[0];
  }
  static bool is_complete(const Beam& beam) { return beam.form && beam.form->is_complete(); }
  bool is_end(std::int32_t id) const { return std::ranges::find(ends_, id) != ends_.end(); }

 private:
  // What the configuration makes of a beam's logarithms of probabilities.
  void restrain_beam(std::span<float> log_probs, const Beam& beam) const {
    std::vector<std::int32_t> text = before_;
    text.insert(text.end(), beam.ids.begin(), beam.ids.end());
    if (c_.repetition_penalty != 1) {
      std::vector<bool> seen(log_probs.size());
      for (const std::int32_t id : text) seen[static_cast<std::size_t>(id)] = true;
      for (std::size_t id = 0; id < seen.size(); ++id)
        if (seen[id]) log_probs[id] *= static_cast<float>(c_.repetition_penalty);
    }
    restrain(log_probs, c_, text, made_, ends_);
    if (beam.form) beam.form->restrain(log_probs);
    std::optional<std::int64_t> forced;
    if (made_ == 0) forced = c_.forced_bos_token_id;
    if (made_ + 1 == most_ && c_.forced_eos_token_id) forced = c_.forced_eos_token_id;
    if (!forced) return;
    std::fill(log_probs.begin(), log_probs.end(), -INFINITY);
    log_probs[static_cast<std::size_t>(*forced)] = 0;
  }

  // Of all beams, the best ones first: enough that as many as there are beams do not end.
  std::vector<Continuation> likeliest_continuations(const Tensor& log_probs_BV) const {
    const std::int64_t vocab = log_probs_BV.size(1);
    const std::span<float> all = host::mutable_values<float>(log_probs_BV);
    for (std::size_t b = 0; b < running_.size(); ++b) {
      const auto own = all.subspan(b * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab));
      restrain_beam(own, running_[b]);
      for (float& value : own) value += running_[b].score;
    }
    const std::int64_t wanted = std::max<std::int64_t>(2, 1 + std::ssize(ends_)) * c_.num_beams;
    const auto [scores, places] = log_probs_BV.flatten().topk(std::min(wanted, log_probs_BV.numel()));
    std::vector<Continuation> made;
    for (std::int64_t i = 0; i < scores.numel(); ++i) {
      const auto place = host::values<std::int64_t>(places)[static_cast<std::size_t>(i)];
      Continuation one{static_cast<std::size_t>(place / vocab), static_cast<std::int32_t>(place % vocab),
                       host::values<float>(scores)[static_cast<std::size_t>(i)]};
      if (running_[one.beam].form && FormPlace::is_outside(one.score)) continue;
      one.ends = is_end(one.id) || made_ + 1 == most_ || completes(one);
      made.push_back(one);
    }
    return made;
  }

  // Where no token ends an answer, its form does.
  bool completes(const Continuation& one) const {
    if (!running_[one.beam].form || !ends_.empty()) return false;
    return is_complete(continued(one));
  }

  bool is_full() const { return std::ssize(finished_) == c_.num_beams; }

  Beam continued(const Continuation& one) const {
    Beam beam = running_[one.beam];
    beam.ids.push_back(one.id);
    beam.score = one.score;
    if (beam.form) beam.form->take(one.id);
    return beam;
  }

  // Those that end and are among the best as many as there are beams.
  void take_finished(const std::vector<Continuation>& best) {
    if (c_.early_stopping == EarlyStopping::yes && is_full()) return;
    for (std::size_t i = 0; i < best.size() && i < running_.size(); ++i) {
      if (!best[i].ends) continue;
      Beam beam = continued(best[i]);
      beam.score /= std::pow(static_cast<float>(made_ + 1), static_cast<float>(c_.length_penalty));
      finished_.push_back(std::move(beam));
    }
    std::ranges::stable_sort(finished_, std::greater(), &Beam::score);
    if (std::ssize(finished_) > c_.num_beams) finished_.resize(static_cast<std::size_t>(c_.num_beams));
  }

  // With the best that do not end; where there are too few, some that do fill the rows, and where a form leaves fewer
  // ways, the first one again.
  std::vector<std::int64_t> go_on(const std::vector<Continuation>& best) {
    std::vector<Continuation> chosen;
    for (const bool ends : {false, true})
      for (const Continuation& one : best)
        if (one.ends == ends && chosen.size() < running_.size()) {
          chosen.push_back(one);
          if (ends) chosen.back().score += kImpossible;
        }
    for (Continuation again = chosen[0]; chosen.size() < running_.size();) {
      again.score += kImpossible;
      chosen.push_back(again);
    }
    std::vector<Beam> next;
    std::vector<std::int64_t> rows;
    for (const Continuation& one : chosen)
      next.push_back(continued(one)), rows.push_back(static_cast<std::int64_t>(one.beam));
    running_ = std::move(next);
    return rows;
  }

  // Whether the best beam may come to be better than the worst finished answer.
  bool can_improve() const {
    if (!is_full()) return true;
    const bool farthest = c_.early_stopping == EarlyStopping::never && c_.length_penalty > 0;
    const auto length = static_cast<float>(farthest ? most_ : made_);
    return running_[0].score / std::pow(length, static_cast<float>(c_.length_penalty)) > finished_.back().score;
  }

  const BeamSearch& s_;
  const GenerateConfig& c_;
  const std::int64_t most_;
  std::vector<std::int32_t> before_, ends_;
  std::vector<Beam> running_, finished_;  // the latter best first
  std::int64_t made_ = 0;  // tokens of each running beam
  bool may_improve_ = true;
};

}  // namespace

void check_beams(const GenerateConfig& config) {
  if (config.num_beams == 1) return;
  const auto refuse = [](const char* key, const char* why) {
    throw Error(ErrorKind::config, std::string(key) + ": not with num_beams: " + why).hint("num_beams 1 takes none");
  };
  if (config.temperature > 0) refuse("temperature", "beams are the likeliest answers, and nothing is drawn");
  if (!config.stop.empty()) refuse("stop", "beams end at tokens alone");
}

namespace {

// What the model says of the next token of each row. REQUIRES: no-grad.
Tensor next_log_probs(const BeamSearch& search, const std::vector<std::span<const std::int32_t>>& rows,
                      nn::KvCache& cache, std::int64_t made) {
  const Tensor logits_RV = next_logits(search.model, search.adapter, rows, cache).to(at::kFloat);
  const Tensor log_probs_RV = host::read(logits_RV.log_softmax(-1));
  if (!std::isfinite(host::own_number(log_probs_RV.sum())))
    throw nn::not_finite(search.model, "logits of beams after " + std::to_string(made) + " new tokens");
  return log_probs_RV;
}

// A search under way, and the number of what it answers.
struct Running {
  std::size_t number;
  Search search;
};

}  // namespace

Generated Beams::generated(std::span<const std::int32_t> prompt, std::vector<std::int32_t> ids, bool ended) const {
  Generated made;
  made.reason = ended ? FinishReason::eos : FinishReason::length;
  std::vector<std::int32_t> before;
  if (!search_.model.seq2seq_lm()) before.assign(prompt.begin(), prompt.end());
  Answer answer(search_.tokenizer, before, search_.config.stop);
  for (std::size_t i = 0; i + (ended ? 1 : 0) < ids.size(); ++i) answer.push(ids[i]);
  answer.finish();
  made.text = answer.text();
  made.ids = std::move(ids);
  return made;
}

void Beams::answer(const std::vector<AskedOfBeams>& asked, const std::function<void(std::size_t)>& each_step,
                   const Finished& finished, GenerateStats& stats) const {
  const std::int64_t beams = search_.config.num_beams;
  Stopwatch watch;
  nn::KvCache cache(search_.model.cache_spec(), std::ssize(asked));
  std::vector<std::span<const std::int32_t>> rows;
  std::vector<Running> running;
  std::vector<std::int64_t> kept;
  for (const AskedOfBeams& one : asked) {
    rows.push_back(one.prompt), stats.prompt_tokens += std::ssize(one.prompt);
    kept.insert(kept.end(), static_cast<std::size_t>(beams), std::ssize(running));
    running.push_back({running.size(), Search(search_, one)});
  }
  Tensor log_probs_RV = next_log_probs(search_, rows, cache, 0).repeat_interleave(beams, 0);
  cache.keep(kept);
  stats.prompt_seconds += watch.seconds();
  watch.restart();
  for (std::int64_t made = 1;; ++made) {
    std::vector<Running> others;
    kept.clear();
    for (std::size_t i = 0; i < running.size(); ++i) {
      auto& [number, search] = running[i];
      const std::int64_t first = static_cast<std::int64_t>(i) * beams;
      const std::vector<std::int64_t> from = search.step(log_probs_RV.narrow(0, first, beams));
      for (const std::int64_t beam : from) kept.push_back(first + beam);
      each_step(number);
      if (from.empty()) {
        const std::vector<std::int32_t>& ids = search.best().ids;
        Generated made_now = generated(asked[number].prompt, ids, search.is_end(ids.back()));
        if (Search::is_complete(search.best())) made_now.reason = FinishReason::stop;
        finished(number, made_now);
      } else {
        others.push_back(std::move(running[i]));
      }
    }
    const bool all_go_on = others.size() == running.size();
    running = std::move(others);
    if (running.empty()) break;
    cache.keep(kept, /*sources_stay=*/all_go_on);
    rows.clear();
    for (const Running& one : running)
      for (const Beam& beam : one.search.running()) rows.emplace_back(&beam.ids.back(), 1);
    log_probs_RV = next_log_probs(search_, rows, cache, made);
    stats.decoded_tokens += std::ssize(rows);
  }
  stats.decode_seconds += watch.seconds();
}

}  // namespace hone::generate
