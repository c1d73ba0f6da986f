// Text generation with a key/value cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/text.h"

namespace hone {

// HF's names and meanings. temperature 0 is greedy.
struct GenerateConfig {
  std::int64_t max_new_tokens = 128;
  std::optional<std::int64_t> max_length = {};
  double temperature = 0.0;
  std::int64_t top_k = 0;
  double top_p = 1.0, min_p = 0.0, repetition_penalty = 1.0;
  std::vector<std::string> stop;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> eos_token_id;  // empty: the tokenizer's
  bool ignore_eos = false;
  std::int64_t batch_size = 16;
  static constexpr auto fields() {
    using C = GenerateConfig;
    return std::tuple{
        field("max_new_tokens", &C::max_new_tokens, "Tokens to generate at most.", at_least(0)),
        field("max_length", &C::max_length, "Tokens of a prompt and its answer together at most; default: no limit.",
              at_least(1)),
        field("temperature", &C::temperature,
              "Logits are divided by it before sampling; 0 = always the likeliest token.", at_least(0)),
        field("top_k", &C::top_k, "Sample among the k likeliest tokens; 0 = all.", at_least(0)),
        field("top_p", &C::top_p, "Sample among the likeliest tokens that together have this probability; 1 = all.",
              {.low = 0, .high = 1}),
        field("min_p", &C::min_p, "Leave out tokens less likely than this share of the likeliest one.",
              {.low = 0, .high = 1}),
        field("repetition_penalty", &C::repetition_penalty, "Above 1: tokens already in the text become less likely.",
              {.low = 1e-6, .high = 1e6}),
        field("stop", &C::stop, "Texts that end the generation; they are not part of the answer."),
        field("seed", &C::seed, "Seed of the sampling; the same seed gives the same text."),
        field("eos_token_id", &C::eos_token_id,
              "Tokens that end the generation; default: the tokenizer's end-of-sequence token.", at_least(0)),
        field("ignore_eos", &C::ignore_eos, "Go on after the end-of-sequence token."),
        field("batch_size", &C::batch_size, "Prompts that are continued at the same time.", at_least(1))};
  }
};

enum class FinishReason { length, eos, stop };
struct Generated {
  std::vector<std::int32_t> ids;  // without the prompt; with the final eos if that ended it
  std::string text;               // stop strings and special tokens left out
  FinishReason reason = FinishReason::length;
};

// What generate() did, in two phases: the passes over the prompts, which also give each its first token, and those that
// add one token to each row.
struct GenerateStats {
  std::int64_t prompt_tokens = 0, decoded_tokens = 0;  // decoded: those of the second phase
  double prompt_seconds = 0, decode_seconds = 0;
};

// Generates for one or more prompts; not thread-safe. A prompt's answer depends on its number in the list (which, with
// the configuration's seed, seeds its sampling; or each has a seed of its own), not on the batch it is computed in.
class HONE_API Generator {
 public:
  // REQUIRES: model outlives it. Error(config): it has no language-model head. Error(usage): no tokenizer
  Generator(const Model& model, std::shared_ptr<const Tokenizer> tokenizer);
  ~Generator();
  // Called for each new token of row `prompt`, with the text that has become final by it, which may be empty. What it
  // throws ends the generation. Empty function = no streaming.
  using Stream = std::function<void(std::size_t prompt, const std::string& text)>;
  // An answer once it is finished; those of a batch come as they finish.
  using Answered = std::function<void(std::size_t prompt, const Generated& answer)>;
  // Which of the model's adapters is taken from now on; "": none. Default: kDefaultAdapter, where there is one.
  void use_adapter(const std::string& name);
  const GenerateStats& stats() const;  // of the last generate()
  void be_silent();  // no warnings of texts that are longer than the model was made for
  // seeds, most: of each prompt its own instead of config.seed, and the most new tokens beside config.max_new_tokens
  // (at least 1); empty: none has.
  std::vector<Generated> generate(const std::vector<std::vector<std::int32_t>>& prompts, const GenerateConfig& config,
                                  const Stream& stream = {}, const Answered& answered = {},
                                  std::span<const std::uint64_t> seeds = {}, std::span<const std::int64_t> most = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Defaults that a model folder's generation_config.json sets (do_sample, temperature, top_k, ...), else greedy; where
// there is no such file, config.json's eos_token_id.
// vocab_size: the model's; a token id beyond it is an Error(config), as is a key of a wrong type or range.
HONE_API GenerateConfig generation_defaults(const std::string& model_folder, std::int64_t vocab_size);

}  // namespace hone
