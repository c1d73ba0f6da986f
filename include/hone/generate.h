// Text generation with a key/value cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/text.h"

namespace hone {

// Of a search by beams: whether it ends when there are as many finished answers as beams; else it goes on while a beam
// may become better than they are, by its score so far, or (never) by the best that it may come to.
enum class EarlyStopping { no, yes, never };
template <>
inline constexpr auto config::enum_names<EarlyStopping> = std::to_array<std::pair<EarlyStopping, std::string_view>>(
    {{EarlyStopping::no, "false"}, {EarlyStopping::yes, "true"}, {EarlyStopping::never, "never"}});

// HF's names and meanings. temperature 0 is greedy.
struct GenerateConfig {
  std::int64_t max_new_tokens = 128;
  std::optional<std::int64_t> max_length = {};
  double temperature = 0.0;
  std::int64_t top_k = 0;
  double top_p = 1.0, min_p = 0.0, repetition_penalty = 1.0;
  double presence_penalty = 0.0, frequency_penalty = 0.0;  // OpenAI's names and meanings
  std::vector<std::string> stop;
  std::string regex, json_schema;  // a form that an answer is held to, from its first token; at most one of both
  std::uint64_t seed = 0;
  std::vector<std::int32_t> eos_token_id;  // empty: the tokenizer's
  bool ignore_eos = false;
  std::optional<std::int64_t> forced_bos_token_id = {}, forced_eos_token_id = {};
  std::int64_t min_length = 0, min_new_tokens = 0, no_repeat_ngram_size = 0, num_beams = 1;
  std::vector<std::int32_t> suppress_tokens;
  std::vector<std::pair<std::int32_t, double>> logit_bias;  // is added to these tokens' logits; set by programs alone
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::no;
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
        field("presence_penalty", &C::presence_penalty,
              "Is taken from the logits of tokens that the answer already has.", {.low = -100, .high = 100}),
        field("frequency_penalty", &C::frequency_penalty,
              "Is taken from the logits of tokens of the answer as often as it has them.", {.low = -100, .high = 100}),
        field("stop", &C::stop, "Texts that end the generation; they are not part of the answer."),
        field("regex", &C::regex, "Regular expression that an answer matches as a whole; default: none."),
        field("json_schema", &C::json_schema, "JSON Schema that an answer is JSON by; {}: any; default: none."),
        field("seed", &C::seed, "Seed of the sampling; the same seed gives the same text."),
        field("eos_token_id", &C::eos_token_id,
              "Tokens that end the generation; default: the tokenizer's end-of-sequence token.", at_least(0)),
        field("ignore_eos", &C::ignore_eos, "Go on after the end-of-sequence token."),
        field("forced_bos_token_id", &C::forced_bos_token_id,
              "Token that an answer of a model with an encoder begins with, such as a language's; default: any.",
              at_least(0)),
        field("forced_eos_token_id", &C::forced_eos_token_id,
              "Token that an answer of such a model ends with where it is as long as it may be; default: any.",
              at_least(0)),
        field("min_length", &C::min_length, "Tokens of a prompt and its answer together at least.",
              at_least(0)),
        field("min_new_tokens", &C::min_new_tokens, "Tokens of an answer at least, without the last one that ends it.",
              at_least(0)),
        field("no_repeat_ngram_size", &C::no_repeat_ngram_size,
              "So many tokens in a row come once in a text at most; 0 = any number of times.", at_least(0)),
        field("suppress_tokens", &C::suppress_tokens, "Tokens that are never chosen.", at_least(0)),
        field("num_beams", &C::num_beams,
              "Answers that are followed side by side for a prompt, of which the likeliest is given; 1 = none.",
              {.low = 1, .high = 1024}),
        field("length_penalty", &C::length_penalty,
              "Of beams: the logarithm of an answer's probability is divided by its length to this power."),
        field("early_stopping", &C::early_stopping,
              "Of beams: end when there are as many finished answers as beams; never: when none can become better."),
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
  std::int64_t prompt_tokens = 0, decoded_tokens = 0;  // prompt: that were read; decoded: those of the second phase
  double prompt_seconds = 0, decode_seconds = 0;
};

// Generates for one or more prompts; not thread-safe. A prompt's answer depends on its number in the list (which, with
// the configuration's seed, seeds its sampling; or each has a seed of its own), not on what is in the batch it is
// computed in; how many tokens of prompts are read together, up to 16 or more, decides in which order sums are made,
// and so how they are rounded: in 16 bits two words that are about as likely can change places by it.
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
  // Tokens are drawn from the geometric mixture with another model from now on: logits are 1 - share times this model's
  // and share times the other's. REQUIRES: it outlives this, and reads the same tokens.
  void mix_with(const Model& other, const std::string& adapter, double share);
  // From now on what texts have left in the cache is kept, each for one prompt that begins with all that was read of it
  // and goes on: a conversation's next turn is read from where the last one ended. Of `most` texts; those of more are
  // read anew. REQUIRES: no mix_with(), no model with an encoder; the weights stay as they are.
  void keep_texts(std::int64_t most);
  void forget_text(std::span<const std::int32_t> ids);  // of a conversation that has ended, as far as it was read
  const GenerateStats& stats() const;  // of the last generate()
  void be_silent();  // no warnings of texts that are longer than the model was made for
  // seeds, most: of each prompt its own instead of config.seed, and the most new tokens beside config.max_new_tokens
  // (at least 1); pictures: of each prompt, as documents have them; empty: none has.
  std::vector<Generated> generate(const std::vector<std::vector<std::int32_t>>& prompts, const GenerateConfig& config,
                                  const Stream& stream = {}, const Answered& answered = {},
                                  std::span<const std::uint64_t> seeds = {}, std::span<const std::int64_t> most = {},
                                  std::span<const std::vector<DocPicture>> pictures = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Defaults that a model folder's generation_config.json sets (do_sample, temperature, top_k, ...), else greedy; where
// there is no such file, config.json's eos_token_id.
// vocab_size: the model's; a token id beyond it is an Error(config), as is a key of a wrong type or range.
HONE_API GenerateConfig generation_defaults(const std::string& model_folder, std::int64_t vocab_size);

}  // namespace hone
