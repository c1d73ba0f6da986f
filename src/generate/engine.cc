// One pass over all new prompts fills a cache, then one token per row and pass.
//
// Rows keep their own length in the cache, so prompts of different lengths cost nothing; finished rows leave it, and
// those of new prompts are put behind the others.
#include "generate/engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "generate/answer.h"
#include "generate/rows.h"
#include "generate/sampling.h"
#include "hone/layers.h"
#include "nn/decoding/choose.h"
#include "nn/finite.h"
#include "nn/kv_cache.h"
#include "ops/likeliest.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::generate {

// One prompt's answer in the making.
struct Engine::Line {
  Line(const Asked& asked, std::int64_t vocab_size)
      : number(asked.number),
        config(asked.config),
        most(asked.most),
        log_probs(asked.log_probs),
        length(std::ssize(asked.prompt)),
        sampler(*config, vocab_size),
        random(asked.random) {
    for (const std::int32_t id : asked.prompt) sampler.seen(id);
  }
  bool greedy() const { return config->temperature == 0 && config->repetition_penalty == 1 && log_probs < 0; }

  std::size_t number;
  std::shared_ptr<const GenerateConfig> config;
  std::int64_t most, log_probs, length;  // tokens of the answer; as asked; tokens of prompt and answer
  std::optional<Answer> answer;          // there once the prompt is on its way: it decodes all of it
  Sampler sampler;
  Random random;
  TokenLogProbs newest;  // of the token that is yet to be told
  Generated result;
};

namespace {

// Logits [rows, V] of each row's last token, on the model's device.
Tensor next_logits(const CausalLm& model, const std::string& adapter,
                   const std::vector<std::span<const std::int32_t>>& rows, nn::KvCache& cache) {
  const Batch batch = rows_of_ids(rows).to(model.device());
  Pass pass(batch);
  pass.cache = &cache, pass.adapter = adapter;
  const Tensor hidden_BTD = model.forward(batch, pass).hidden_BTD;
  Tensor hidden_RD = hidden_BTD.flatten(0, 1);
  if (batch.length() > 1) {
    std::vector<std::int64_t> last;
    for (std::size_t r = 0; r < rows.size(); ++r)
      last.push_back(static_cast<std::int64_t>(r) * batch.length() + static_cast<std::int64_t>(rows[r].size()) - 1);
    hidden_RD = hidden_RD.index_select(0, devices::sent(at::tensor(last, at::kLong), hidden_RD.device()));
  }
  return model.head().logits(hidden_RD, pass);
}

// Each line's next token, from logits [lines, V]. Rows are independent: the threads share them.
template <class Lines>
void choose(const Lines& lines, std::span<float> logits, std::vector<std::int32_t>& ids) {
  const std::size_t vocab = logits.size() / lines.size();
  ids.resize(lines.size());
  at::parallel_for(0, std::ssize(lines), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      auto& line = *lines[r];
      const std::span<float> own = logits.subspan(r * vocab, vocab);
      std::vector<float> given;  // choosing changes them
      if (line.log_probs >= 0) given.assign(own.begin(), own.end());
      ids[r] = line.sampler.choose(own, line.random.uniform(line.result.ids.size()));
      if (line.log_probs >= 0 && ids[r] >= 0) line.newest = log_probs_of(given, ids[r], line.log_probs);
    }
  });
}

template <class Lines>
bool all_greedy(const Lines& lines) {
  return std::all_of(lines.begin(), lines.end(), [](const auto& line) { return line->greedy(); });
}

// How many of each line's highest logits are enough for all of them; 0: all are needed.
template <class Lines>
std::int64_t highest_needed(const Lines& lines) {
  std::int64_t most = 0;
  for (const auto& line : lines) {
    const std::int64_t own = line->log_probs >= 0 ? 0 : line->sampler.highest_needed();
    if (own == 0) return 0;
    most = std::max(most, own);
  }
  return most;
}

// The same as choose() from each line's highest logits, where they are cheaper to have and enough. False: nothing was
// chosen.
template <class Lines>
bool choose_among_highest(const Lines& lines, nn::Decoder& decoder, std::vector<std::int32_t>& ids) {
  constexpr std::int64_t kBeyond = 4;  // logits are often equal, in bf16, and all that are as the lowest count
  const std::int64_t needed = highest_needed(lines);
  const nn::Decoder::Highest highest = needed > 0 ? decoder.highest(kBeyond * needed) : nn::Decoder::Highest{};
  if (highest.ids.empty()) return false;
  const std::size_t each = highest.ids.size() / lines.size();
  std::vector<std::int32_t> chosen(decoder.likeliest().begin(), decoder.likeliest().end());
  for (std::size_t r = 0; r < lines.size(); ++r) {
    auto& line = *lines[r];
    if (chosen[r] < 0) continue;  // not all are finite
    const auto own = [&](const auto& all) { return all.subspan(r * each, each); };
    const double uniform = line.random.uniform(line.result.ids.size());
    const auto id = line.sampler.choose_among(own(highest.logits), own(highest.ids), uniform);
    if (!id) return false;
    chosen[r] = *id;
  }
  ids = std::move(chosen);
  return true;
}

}  // namespace

TokenLogProbs log_probs_of(std::span<const float> logits, std::int32_t id, std::int64_t count) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  const double whole = highest + std::log(sum);
  TokenLogProbs made;
  made.chosen = logits[static_cast<std::size_t>(id)] - whole;
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto wanted =
      static_cast<std::ptrdiff_t>(std::min<std::int64_t>(std::max<std::int64_t>(count, 0), std::ssize(order)));
  std::partial_sort(order.begin(), order.begin() + wanted, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (std::ptrdiff_t i = 0; i < wanted; ++i)
    made.likeliest.emplace_back(order[i], logits[static_cast<std::size_t>(order[i])] - whole);
  return made;
}

std::int64_t most_tokens(const GenerateConfig& config, std::int64_t prompt) {
  return config.max_length ? std::min(config.max_new_tokens, *config.max_length - prompt) : config.max_new_tokens;
}

std::int64_t answer_limit(const Model& model, const GenerateConfig& config, std::int64_t prompt) {
  const std::int64_t most = most_tokens(config, prompt);
  return model.positions_are_learned() ? std::min(most, model.max_positions() - prompt + 1) : most;
}

void check_prompt(const Model& model, const GenerateConfig& config, std::span<const std::int32_t> prompt,
                  const std::string& where) {
  if (prompt.empty())
    throw Error(ErrorKind::data, fmt::format("{}: no tokens; expected at least one", where))
        .hint("give it some text, or a tokenizer with a beginning-of-sequence token");
  if (model.positions_are_learned() && std::ssize(prompt) > model.max_positions())
    throw Error(ErrorKind::data,
                fmt::format("{}: {} tokens; expected at most {}, the positions that this model has learned", where,
                            prompt.size(), model.max_positions()));
  if (config.max_length && std::ssize(prompt) >= *config.max_length)
    throw Error(ErrorKind::data,
                fmt::format("{}: {} tokens; expected fewer than max_length {}, which counts prompt and "
                            "answer together",
                            where, prompt.size(), *config.max_length))
        .hint("max_new_tokens takes the place of max_length, which generation_config.json may set");
  for (const std::int32_t id : prompt)
    if (id < 0 || id >= model.vocab_size())
      throw Error(ErrorKind::data,
                  fmt::format("{}: token id {} is beyond the model's vocabulary of {}", where, id, model.vocab_size()));
}

void check_ends(const Model& model, const Tokenizer& tokenizer, const GenerateConfig& config) {
  check_stop_strings(tokenizer, config.stop);
  for (const std::int32_t id : config.eos_token_id)
    if (id < 0 || id >= model.vocab_size())
      throw Error(ErrorKind::config,
                  fmt::format("eos_token_id: got {}, expected 0 to {}, the model's ids", id, model.vocab_size() - 1));
}

Engine::Engine(const CausalLm& model, const Tokenizer& tokenizer, std::string adapter, std::int64_t rows)
    : model_(model), tokenizer_(tokenizer), adapter_(std::move(adapter)), most_rows_(rows) {}
Engine::~Engine() = default;

bool Engine::ends(std::int32_t id, const GenerateConfig& config) const {
  if (config.ignore_eos) return false;
  if (config.eos_token_id.empty()) return tokenizer_.eos_id == id;
  return std::find(config.eos_token_id.begin(), config.eos_token_id.end(), id) != config.eos_token_id.end();
}

void Engine::check_finite() const {
  for (std::size_t r = 0; r < ids_.size(); ++r)
    if (ids_[r] < 0)
      throw nn::not_finite(model_, fmt::format("logits of prompt {} after {} new tokens", lines_[r]->number + 1,
                                               lines_[r]->result.ids.size()));
}

std::int64_t Engine::longest() const {
  std::int64_t most = 0;
  for (const auto& line : lines_) most = std::max(most, line->length);
  return most;
}

// Where only the likeliest is wanted, a device finds it, and the host reads nothing else.
void Engine::choose_first(const Lines& lines, const Tensor& logits_RV, std::vector<std::int32_t>& ids) {
  if (!all_greedy(lines) || logits_RV.is_cpu())
    return choose(lines, host::mutable_values<float>(host::read(logits_RV.to(at::kFloat))), ids);
  const Tensor likeliest_R = host::read(ops::likeliest(logits_RV));
  const auto found = host::values<std::int64_t>(likeliest_R);
  ids.assign(found.begin(), found.end());
}

// While a device makes the pass, the host reads how the answers' texts go on.
std::unique_ptr<nn::KvCache> Engine::begin(const std::vector<Asked>& asked, const Lines& lines,
                                           std::vector<std::int32_t>& ids) {
  std::vector<std::span<const std::int32_t>> input;
  std::vector<std::int64_t> rows;  // of `input`, for each line
  for (const Asked& one : asked) {
    if (input.empty() || !std::ranges::equal(input.back(), one.prompt)) input.emplace_back(one.prompt);
    rows.push_back(std::ssize(input) - 1);
  }
  auto cache = std::make_unique<nn::KvCache>(model_.cache_spec(), std::ssize(input));
  Tensor logits_RV = next_logits(model_, adapter_, input, *cache);
  if (input.size() < lines.size()) {
    cache->keep(rows);
    logits_RV = logits_RV.index_select(0, devices::sent(at::tensor(rows, at::kLong), logits_RV.device()));
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::span<const std::int32_t> prompt = asked[i].prompt;
    lines[i]->answer.emplace(tokenizer_, std::vector<std::int32_t>(prompt.begin(), prompt.end()),
                             lines[i]->config->stop);
  }
  choose_first(lines, logits_RV, ids);
  for (const auto& row : input) stats_.prompt_tokens += std::ssize(row);
  return cache;
}

void Engine::add(const std::vector<Asked>& asked) {
  if (asked.empty()) return;
  HONE_ASSERT(rows() + std::ssize(asked) <= most_rows_);
  const Stopwatch watch;
  Lines lines;
  for (const Asked& one : asked) lines.push_back(std::make_unique<Line>(one, model_.vocab_size()));
  std::vector<std::int32_t> ids;
  std::unique_ptr<nn::KvCache> cache = begin(asked, lines, ids);
  if (lines_.empty()) {
    // What the short way knows of a cache is of one that is there no longer.
    decoder_ = nn::maybe_make_decoder(model_, most_rows_, adapter_);
    cache_ = std::move(cache);
  } else {
    cache_->add_rows(std::move(*cache));
  }
  for (auto& line : lines) lines_.push_back(std::move(line));
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  stats_.prompt_seconds += watch.seconds();
}

// From each line's last token to its next one.
void Engine::go_on() {
  stats_.decoded_tokens += std::ssize(ids_);
  if (decoder_ && decoder_->step(ids_, *cache_)) {
    if (all_greedy(lines_))
      ids_.assign(decoder_->likeliest().begin(), decoder_->likeliest().end());
    else if (!choose_among_highest(lines_, *decoder_, ids_))
      choose(lines_, decoder_->logits(), ids_);
    return;
  }
  std::vector<std::span<const std::int32_t>> input;
  for (const std::int32_t& id : ids_) input.emplace_back(&id, 1);
  const Tensor logits_RV = next_logits(model_, adapter_, input, *cache_);
  choose_first(lines_, logits_RV, ids_);
}

// Adds the line's next token; true: the line is finished.
bool Engine::take(Line& line, std::int32_t id, const Told& told) {
  Generated& result = line.result;
  result.ids.push_back(id);
  ++line.length;
  line.sampler.seen(id);
  const bool eos = ends(id, *line.config);
  std::string text = eos ? "" : line.answer->push(id);
  const bool done = eos || line.answer->stopped() || std::ssize(result.ids) >= line.most;
  if (done) text += line.answer->finish();
  if (told) told(line.number, id, text, line.log_probs >= 0 ? &line.newest : nullptr);
  if (!done) return false;
  result.reason = line.answer->stopped() ? FinishReason::stop : eos ? FinishReason::eos : FinishReason::length;
  result.text = line.answer->text();
  return true;
}

void Engine::step(const Told& told, const Finished& finished) {
  const Stopwatch watch;
  check_finite();
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    if (!lines_[r] || !take(*lines_[r], ids_[r], told)) continue;
    finished(lines_[r]->number, lines_[r]->result);
    lines_[r].reset();
  }
  drop_finished();
  if (!lines_.empty()) go_on();
  stats_.decode_seconds += watch.seconds();
}

void Engine::leave(std::size_t number) {
  for (auto& line : lines_)
    if (line->number == number) line.reset();
  drop_finished();
}

// Lines that are there no longer leave the batch; the last ones take their places.
void Engine::drop_finished() {
  for (std::size_t r = 0; r < lines_.size();) {
    if (lines_[r]) {
      ++r;
      continue;
    }
    cache_->drop(static_cast<std::int64_t>(r));
    lines_[r] = std::move(lines_.back()), ids_[r] = ids_.back();
    lines_.pop_back(), ids_.pop_back();
  }
  if (lines_.empty()) cache_.reset();
}

}  // namespace hone::generate
