// Beams as in transformers: scores are sums of logarithms of probabilities, those of finished answers over a power of
// their lengths.
//
// Letters: B beams, V vocabulary.
#include "generate/beams.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "generate/answer.h"
#include "generate/restraints.h"
#include "generate/rows.h"
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
};

// A way for a beam to go on.
struct Continuation {
  std::size_t beam = 0;
  std::int32_t id = 0;
  float score = 0;
  bool ends = false;
};

class Search {
 public:
  Search(const BeamSearch& search, std::span<const std::int32_t> prompt, std::int64_t most)
      : s_(search), c_(search.config), most_(most), cache_(search.model.cache_spec(), 1) {
    const Seq2SeqLm* reader = s_.model.seq2seq_lm();
    before_ = reader ? std::vector{reader->decoder_start()} : std::vector<std::int32_t>(prompt.begin(), prompt.end());
    if (c_.ignore_eos) return;
    ends_ = c_.eos_token_id;
    if (ends_.empty() && s_.tokenizer.eos_id) ends_.push_back(*s_.tokenizer.eos_id);
  }

  void begin(std::span<const std::int32_t> prompt) {
    const Seq2SeqLm* reader = s_.model.seq2seq_lm();
    const std::vector<std::span<const std::int32_t>> row{prompt};
    const Batch batch = reader ? sources_with_starts(row, reader->decoder_start()) : rows_of_ids(row);
    take_log_probs(batch);
    // All but one are impossible, so that they part.
    log_probs_BV_ = log_probs_BV_.expand({c_.num_beams, -1}).contiguous();
    cache_.keep(std::vector<std::int64_t>(static_cast<std::size_t>(c_.num_beams), 0));
    running_.assign(static_cast<std::size_t>(c_.num_beams), {{}, kImpossible});
    running_[0].score = 0;
  }

  // false: the search is over.
  bool step() {
    const std::vector<Continuation> best = likeliest_continuations();
    take_finished(best);
    if (std::ranges::all_of(best, &Continuation::ends)) return false;
    go_on(best);
    ++made_;
    may_improve_ = may_improve_ && can_improve();
    return may_improve_ && !(c_.early_stopping == EarlyStopping::yes && is_full());
  }

  void read_newest() {
    std::vector<std::span<const std::int32_t>> rows;
    for (const Beam& beam : running_) rows.emplace_back(&beam.ids.back(), 1);
    take_log_probs(rows_of_ids(rows));
  }

  const Beam& best() const {
    HONE_ASSERT(!finished_.empty());
    return finished_[0];
  }
  bool is_end(std::int32_t id) const { return std::ranges::find(ends_, id) != ends_.end(); }
  std::int64_t made() const { return made_; }

 private:
  void take_log_probs(const Batch& given) {
    const Batch batch = given.to(s_.model.device());
    Pass pass(batch);
    pass.cache = &cache_, pass.adapter = s_.adapter;
    const Tensor hidden_BTD = s_.model.forward(batch, pass).hidden_BTD;
    const Tensor logits_BV = s_.model.head().logits(hidden_BTD.select(1, -1), pass).to(at::kFloat);
    log_probs_BV_ = host::read(logits_BV.log_softmax(-1));
    if (!std::isfinite(host::own_number(log_probs_BV_.sum())))
      throw nn::not_finite(s_.model, "logits of beams after " + std::to_string(made_) + " new tokens");
  }

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
    std::optional<std::int64_t> forced;
    if (made_ == 0) forced = c_.forced_bos_token_id;
    if (made_ + 1 == most_ && c_.forced_eos_token_id) forced = c_.forced_eos_token_id;
    if (!forced) return;
    std::fill(log_probs.begin(), log_probs.end(), -INFINITY);
    log_probs[static_cast<std::size_t>(*forced)] = 0;
  }

  // Of all beams, the best ones first: enough that as many as there are beams do not end.
  std::vector<Continuation> likeliest_continuations() {
    const std::int64_t vocab = log_probs_BV_.size(1);
    const std::span<float> all = host::mutable_values<float>(log_probs_BV_);
    for (std::size_t b = 0; b < running_.size(); ++b) {
      const auto own = all.subspan(b * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab));
      restrain_beam(own, running_[b]);
      for (float& value : own) value += running_[b].score;
    }
    const std::int64_t wanted = std::max<std::int64_t>(2, 1 + std::ssize(ends_)) * c_.num_beams;
    const auto [scores, places] = log_probs_BV_.flatten().topk(std::min(wanted, log_probs_BV_.numel()));
    std::vector<Continuation> made;
    for (std::int64_t i = 0; i < scores.numel(); ++i) {
      const auto place = host::values<std::int64_t>(places)[static_cast<std::size_t>(i)];
      Continuation one{static_cast<std::size_t>(place / vocab), static_cast<std::int32_t>(place % vocab),
                       host::values<float>(scores)[static_cast<std::size_t>(i)]};
      one.ends = is_end(one.id) || made_ + 1 == most_;
      made.push_back(one);
    }
    return made;
  }

  bool is_full() const { return std::ssize(finished_) == c_.num_beams; }

  Beam continued(const Continuation& one) const {
    Beam beam = running_[one.beam];
    beam.ids.push_back(one.id);
    beam.score = one.score;
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

  // With the best that do not end; where there are too few, some that do fill the rows.
  void go_on(const std::vector<Continuation>& best) {
    std::vector<Continuation> chosen;
    for (const bool ends : {false, true})
      for (const Continuation& one : best)
        if (one.ends == ends && chosen.size() < running_.size()) {
          chosen.push_back(one);
          if (ends) chosen.back().score += kImpossible;
        }
    std::vector<Beam> next;
    std::vector<std::int64_t> rows;
    for (const Continuation& one : chosen)
      next.push_back(continued(one)), rows.push_back(static_cast<std::int64_t>(one.beam));
    running_ = std::move(next);
    cache_.keep(rows);
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
  nn::KvCache cache_;
  std::vector<std::int32_t> before_, ends_;
  std::vector<Beam> running_, finished_;  // the latter best first
  Tensor log_probs_BV_;
  std::int64_t made_ = 0;  // tokens of each running beam
  bool may_improve_ = true;
};

}  // namespace

void check_beams(const GenerateConfig& config) {
  if (config.num_beams == 1) return;
  const auto refuse = [](const char* key, const char* why) {
    throw Error(ErrorKind::config, std::string(key) + ": not with num_beams: " + why);
  };
  if (config.temperature > 0) refuse("temperature", "beams are the likeliest answers, and nothing is drawn");
  if (!config.stop.empty()) refuse("stop", "beams end at tokens alone");
}

Generated answer_by_beams(const BeamSearch& search, std::span<const std::int32_t> prompt, std::int64_t most,
                          GenerateStats& stats) {
  Stopwatch watch;
  Search beams(search, prompt, most);
  beams.begin(prompt);
  stats.prompt_tokens += std::ssize(prompt), stats.prompt_seconds += watch.seconds();
  watch.restart();
  while (beams.step()) {
    beams.read_newest();
    stats.decoded_tokens += search.config.num_beams;
  }
  stats.decode_seconds += watch.seconds();
  Generated made;
  made.ids = beams.best().ids;
  const bool ended = beams.is_end(made.ids.back());
  made.reason = ended ? FinishReason::eos : FinishReason::length;
  const std::vector<std::int32_t> before =
      search.model.seq2seq_lm() ? std::vector<std::int32_t>() : std::vector<std::int32_t>(prompt.begin(), prompt.end());
  Answer answer(search.tokenizer, before, search.config.stop);
  for (std::size_t i = 0; i + (ended ? 1 : 0) < made.ids.size(); ++i) answer.push(made.ids[i]);
  answer.finish();
  made.text = answer.text();
  return made;
}

}  // namespace hone::generate
