// Generation: one pass over all prompts of a batch fills the cache, then one token per row and pass.
//
// Rows keep their own length in the cache, so prompts of different lengths cost nothing; finished rows leave the batch.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "generate/answer.h"
#include "generate/sampling.h"
#include "hone/generate.h"
#include "hone/layers.h"
#include "hone/random.h"
#include "nn/decoding/choose.h"
#include "nn/finite.h"
#include "nn/kv_cache.h"
#include "ops/likeliest.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone {
namespace {

// How long the answer to a prompt of so many tokens may be.
std::int64_t most_tokens(const GenerateConfig& config, std::int64_t prompt) {
  return config.max_length ? std::min(config.max_new_tokens, *config.max_length - prompt) : config.max_new_tokens;
}

// One prompt's answer in the making.
struct Line {
  Line(std::size_t number, const std::vector<std::int32_t>& prompt, const GenerateConfig& config, const Model& model,
       Random random)
      : number(number),
        most(most_tokens(config, std::ssize(prompt))),
        sampler(config, model.vocab_size()),
        random(std::move(random)) {
    for (const std::int32_t id : prompt) sampler.seen(id);
    // The last token of an answer is never read, so that it needs no position.
    if (model.positions_are_learned()) most = std::min(most, model.max_positions() - std::ssize(prompt) + 1);
  }
  std::size_t number;
  std::int64_t most;  // tokens of the answer
  std::optional<generate::Answer> answer;  // there once the prompt is on its way: it decodes all of it
  generate::Sampler sampler;
  Random random;
  Generated result;
};

using Lines = std::vector<std::unique_ptr<Line>>;

// Rows of ids, padded on the right; `docs` says where the real tokens are.
Batch make_batch(const std::vector<std::span<const std::int32_t>>& rows) {
  std::size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  Batch batch;
  batch.ids_BT = at::zeros({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)}, at::kLong);
  const auto ids = host::mutable_values<std::int64_t>(batch.ids_BT).begin();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(), ids + r * longest);
    Doc doc;
    doc.row = static_cast<std::int32_t>(r);
    doc.end = static_cast<std::int32_t>(rows[r].size());
    batch.docs.push_back(doc);
    batch.tokens += doc.end;
  }
  return batch;
}

// Logits [rows, V] of each row's last token, on the model's device.
Tensor next_logits(const CausalLm& model, const std::string& adapter,
                   const std::vector<std::span<const std::int32_t>>& rows, nn::KvCache& cache) {
  const Batch batch = make_batch(rows).to(model.device());
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
void choose(const Lines& lines, std::span<float> logits, std::vector<std::int32_t>& ids) {
  const std::size_t vocab = logits.size() / lines.size();
  ids.resize(lines.size());
  at::parallel_for(0, std::ssize(lines), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      Line& line = *lines[r];
      ids[r] = line.sampler.choose(logits.subspan(r * vocab, vocab), line.random.uniform(line.result.ids.size()));
    }
  });
}

// Where only the likeliest is wanted, a device finds it, and the host reads nothing else.
void choose_next(const Lines& lines, const Tensor& logits_RV, bool greedy, std::vector<std::int32_t>& ids) {
  if (!greedy || logits_RV.is_cpu())
    return choose(lines, host::mutable_values<float>(host::read(logits_RV.to(at::kFloat))), ids);
  const Tensor likeliest_R = host::read(ops::likeliest(logits_RV));
  const auto found = host::values<std::int64_t>(likeliest_R);
  ids.assign(found.begin(), found.end());
}

// The same from each line's highest logits, where they are cheaper to have and enough. False: nothing was chosen.
bool choose_among_highest(const Lines& lines, nn::Decoder& decoder, std::vector<std::int32_t>& ids) {
  constexpr std::int64_t kBeyond = 4;  // logits are often equal, in bf16, and all that are as the lowest count
  const std::int64_t needed = lines[0]->sampler.highest_needed();
  const nn::Decoder::Highest highest = needed > 0 ? decoder.highest(kBeyond * needed) : nn::Decoder::Highest{};
  if (highest.ids.empty()) return false;
  const std::size_t each = highest.ids.size() / lines.size();
  std::vector<std::int32_t> chosen(decoder.likeliest().begin(), decoder.likeliest().end());
  for (std::size_t r = 0; r < lines.size(); ++r) {
    Line& line = *lines[r];
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

bool is_greedy(const GenerateConfig& config) { return config.temperature == 0 && config.repetition_penalty == 1; }

}  // namespace

struct Generator::State {
  const CausalLm& model;
  std::shared_ptr<const Tokenizer> tokenizer;
  GenerateStats stats = {};
  std::string adapter = kDefaultAdapter;
  bool silent = false;
  using Prompts = std::vector<std::vector<std::int32_t>>;

  void check(const Prompts& prompts, const GenerateConfig& config) const;
  void run(const Prompts& prompts, Lines lines, const GenerateConfig& config, const Stream& stream,
           const Answered& finished);
  void begin(const Prompts& prompts, const Lines& lines, std::optional<nn::KvCache>& cache,
             const GenerateConfig& config, std::vector<std::int32_t>& ids);
  void go_on(const Lines& lines, nn::Decoder* decoder, nn::KvCache& cache, bool greedy, std::vector<std::int32_t>& ids);
  void check_finite(const Lines& lines, const std::vector<std::int32_t>& ids) const;
  bool take(Line& line, std::int32_t id, const GenerateConfig& config, const Stream& stream) const;
  void drop_finished(Lines& lines, std::vector<std::int32_t>& ids, nn::KvCache& cache) const;
  bool ends(std::int32_t id, const GenerateConfig& config) const;
  void warn_of_length(const Prompts& prompts, const std::vector<Generated>& results,
                      const GenerateConfig& config) const;
};

// What was read of each text is all of it but its last token.
void Generator::State::warn_of_length(const Prompts& prompts, const std::vector<Generated>& results,
                                      const GenerateConfig& config) const {
  const std::int64_t most = model.max_positions();
  std::int64_t beyond = 0, ended = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::int64_t prompt = std::ssize(prompts[i]), answer = std::ssize(results[i].ids);
    beyond += prompt + answer - 1 > most;
    ended += results[i].reason == FinishReason::length && answer < most_tokens(config, prompt);
  }
  const std::string all = counted(std::ssize(prompts), "text");
  if (ended > 0) log::warning("{} of {} ended early: this model has learned {} positions", ended, all, most);
  if (beyond > 0) log::warning("{} of {} went beyond the {} tokens that the model was made for", beyond, all, most);
}

void Generator::State::check(const Prompts& prompts, const GenerateConfig& config) const {
  generate::check_stop_strings(*tokenizer, config.stop);
  for (const std::int32_t id : config.eos_token_id)
    if (id < 0 || id >= model.vocab_size())
      throw Error(ErrorKind::config,
                  fmt::format("eos_token_id: got {}, expected 0 to {}, the model's ids", id, model.vocab_size() - 1));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty())
      throw Error(ErrorKind::data, fmt::format("prompt {}: no tokens; expected at least one", i + 1))
          .hint("give it some text, or a tokenizer with a beginning-of-sequence token");
    if (model.positions_are_learned() && std::ssize(prompts[i]) > model.max_positions())
      throw Error(ErrorKind::data,
                  fmt::format("prompt {}: {} tokens; expected at most {}, the positions that this model "
                              "has learned",
                              i + 1, prompts[i].size(), model.max_positions()));
    if (config.max_length && std::ssize(prompts[i]) >= *config.max_length)
      throw Error(ErrorKind::data, fmt::format("prompt {}: {} tokens; expected fewer than max_length {}, which counts "
                                               "prompt and answer together",
                                               i + 1, prompts[i].size(), *config.max_length))
          .hint("max_new_tokens takes the place of max_length, which generation_config.json may set");
    for (const std::int32_t id : prompts[i])
      if (id < 0 || id >= model.vocab_size())
        throw Error(ErrorKind::data, fmt::format("prompt {}: token id {} is beyond the model's vocabulary of {}", i + 1,
                                                 id, model.vocab_size()));
  }
}

bool Generator::State::ends(std::int32_t id, const GenerateConfig& config) const {
  if (config.ignore_eos) return false;
  if (config.eos_token_id.empty()) return tokenizer->eos_id == id;
  return std::find(config.eos_token_id.begin(), config.eos_token_id.end(), id) != config.eos_token_id.end();
}

void Generator::State::check_finite(const Lines& lines, const std::vector<std::int32_t>& ids) const {
  for (std::size_t r = 0; r < ids.size(); ++r)
    if (ids[r] < 0)
      throw nn::not_finite(model, fmt::format("logits of prompt {} after {} new tokens", lines[r]->number + 1,
                                              lines[r]->result.ids.size()));
}

// Adds the line's next token; true: the line is finished.
bool Generator::State::take(Line& line, std::int32_t id, const GenerateConfig& config, const Stream& stream) const {
  Generated& result = line.result;
  result.ids.push_back(id);
  line.sampler.seen(id);
  const bool eos = ends(id, config);
  std::string text = eos ? "" : line.answer->push(id);
  const bool done = eos || line.answer->stopped() || std::ssize(result.ids) >= line.most;
  if (done) text += line.answer->finish();
  if (stream) stream(line.number, text);
  if (done) {
    result.reason = line.answer->stopped() ? FinishReason::stop : eos ? FinishReason::eos : FinishReason::length;
    result.text = line.answer->text();
  }
  return done;
}

// One pass over the prompts: their first tokens. What is asked several times in a row is read once. While a device
// makes it, the host reads how the answers' texts go on.
void Generator::State::begin(const Prompts& prompts, const Lines& lines, std::optional<nn::KvCache>& cache,
                             const GenerateConfig& config, std::vector<std::int32_t>& ids) {
  const Stopwatch watch;
  std::vector<std::span<const std::int32_t>> input;
  std::vector<std::int64_t> rows;  // of `input`, for each line
  for (const auto& line : lines) {
    const std::vector<std::int32_t>& prompt = prompts[line->number];
    if (input.empty() || !std::ranges::equal(input.back(), prompt)) input.emplace_back(prompt);
    rows.push_back(std::ssize(input) - 1);
  }
  cache.emplace(model.cache_spec(), std::ssize(input));
  Tensor logits_RV = next_logits(model, adapter, input, *cache);
  if (input.size() < lines.size()) {
    cache->keep(rows);
    logits_RV = logits_RV.index_select(0, devices::sent(at::tensor(rows, at::kLong), logits_RV.device()));
  }
  for (const auto& line : lines) line->answer.emplace(*tokenizer, prompts[line->number], config.stop);
  choose_next(lines, logits_RV, is_greedy(config), ids);
  for (const auto& row : input) stats.prompt_tokens += std::ssize(row);
  stats.prompt_seconds += watch.seconds();
}

// From each line's last token to its next one.
void Generator::State::go_on(const Lines& lines, nn::Decoder* decoder, nn::KvCache& cache, bool greedy,
                             std::vector<std::int32_t>& ids) {
  stats.decoded_tokens += std::ssize(ids);
  if (decoder && decoder->step(ids, cache)) {
    if (greedy)
      ids.assign(decoder->likeliest().begin(), decoder->likeliest().end());
    else if (!choose_among_highest(lines, *decoder, ids))
      choose(lines, decoder->logits(), ids);
  } else {
    std::vector<std::span<const std::int32_t>> input;
    for (const std::int32_t& id : ids) input.emplace_back(&id, 1);
    choose_next(lines, next_logits(model, adapter, input, cache), greedy, ids);
  }
}

// Lines that have gone to the results leave the batch.
void Generator::State::drop_finished(Lines& lines, std::vector<std::int32_t>& ids, nn::KvCache& cache) const {
  std::vector<std::int64_t> rows;
  for (std::size_t r = 0; r < lines.size(); ++r) {
    if (!lines[r]) continue;
    ids[rows.size()] = ids[r];
    rows.push_back(static_cast<std::int64_t>(r));
  }
  ids.resize(rows.size());
  std::erase(lines, nullptr);
  if (!rows.empty()) cache.keep(rows);
}

void Generator::State::run(const Prompts& prompts, Lines lines, const GenerateConfig& config, const Stream& stream,
                           const Answered& finished) {
  std::optional<nn::KvCache> cache;
  const std::unique_ptr<nn::Decoder> decoder = nn::maybe_make_decoder(model, std::ssize(lines), adapter);
  std::vector<std::int32_t> ids;
  begin(prompts, lines, cache, config, ids);
  const Stopwatch watch;
  for (;;) {
    bool any_finished = false;
    check_finite(lines, ids);
    for (std::size_t r = 0; r < lines.size(); ++r) {
      if (!take(*lines[r], ids[r], config, stream)) continue;
      finished(lines[r]->number, lines[r]->result);
      lines[r].reset();
      any_finished = true;
    }
    if (any_finished) drop_finished(lines, ids, *cache);
    if (lines.empty()) break;
    go_on(lines, decoder.get(), *cache, is_greedy(config), ids);
  }
  stats.decode_seconds += watch.seconds();
}

Generator::Generator(const Model& model, std::shared_ptr<const Tokenizer> tokenizer)
    : state_(std::make_unique<State>(State{require_causal_lm(model, "generate"), std::move(tokenizer)})) {
  if (!state_->tokenizer)
    throw Error(ErrorKind::usage, "generate: no tokenizer; expected one, as load_tokenizer() gives it");
}
Generator::~Generator() = default;

void Generator::use_adapter(const std::string& name) {
  bool there = name.empty();
  state_->model.each_weight(
      [&](const std::string&, const Weight& weight) { there |= weight.adapter(name) != nullptr; });
  if (!there) throw Error(ErrorKind::config, "the model has no adapter named " + hone::quoted(name));
  state_->adapter = name;
}

const GenerateStats& Generator::stats() const { return state_->stats; }

void Generator::be_silent() { state_->silent = true; }

std::vector<Generated> Generator::generate(const std::vector<std::vector<std::int32_t>>& prompts,
                                           const GenerateConfig& config, const Stream& stream,
                                           const Answered& answered, std::span<const std::uint64_t> seeds) {
  HONE_ASSERT(seeds.empty() || seeds.size() == prompts.size());
  const at::NoGradGuard no_grad;
  state_->stats = {};
  state_->check(prompts, config);
  std::vector<Generated> results(prompts.size());
  const Answered finished = [&](std::size_t prompt, const Generated& answer) {
    results[prompt] = answer;
    if (answered) answered(prompt, answer);
  };
  if (config.max_new_tokens == 0) {
    for (std::size_t i = 0; i < prompts.size(); ++i) finished(i, {});
    return results;
  }
  const auto random_of = [&](std::size_t i) {
    return seeds.empty() ? Random(config.seed, fmt::format("generate/{}", i)) : Random(seeds[i], "generate");
  };
  const auto batch_size = static_cast<std::size_t>(config.batch_size);
  for (std::size_t begin = 0; begin < prompts.size(); begin += batch_size) {
    Lines lines;
    for (std::size_t i = begin; i < std::min(begin + batch_size, prompts.size()); ++i)
      lines.push_back(std::make_unique<Line>(i, prompts[i], config, state_->model, random_of(i)));
    state_->run(prompts, std::move(lines), config, stream, finished);
  }
  if (!state_->silent) state_->warn_of_length(prompts, results, config);
  return results;
}

}  // namespace hone
