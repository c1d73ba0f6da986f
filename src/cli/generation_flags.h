// Options of generate that a folder's generation_config.json has, too: of how long answers are, of what may be in them,
// and of beams.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "cli/model_place.h"
#include "hone/generate.h"

namespace hone::cli {

struct GenerationFlags : ModelFlags {
  using Base = ModelFlags;
  std::optional<std::int64_t> max_length, min_length, min_new_tokens, no_repeat_ngram_size;
  std::optional<std::int64_t> forced_bos_token_id, forced_eos_token_id;
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::vector<std::int32_t> suppress_tokens, eos_token_id;
  static constexpr auto fields() {
    using C = GenerationFlags;
    return std::tuple_cat(
        std::tuple{
            field("max_length", &C::max_length,
                  "Tokens of a prompt and its answer together at most, instead of --max-new-tokens.", at_least(1)),
            field("min_length", &C::min_length, "Tokens of a prompt and its answer together at least.", at_least(0)),
            field("min_new_tokens", &C::min_new_tokens,
                  "Tokens of an answer at least, without the last one that ends it.", at_least(0)),
            field("no_repeat_ngram_size", &C::no_repeat_ngram_size,
                  "So many tokens in a row come once in a text at most; 0 = any number of times.", at_least(0)),
            field("suppress_tokens", &C::suppress_tokens,
                  "Ids of tokens that are never chosen; may be given several times; default: suppress_tokens and "
                  "bad_words_ids of generation_config.json.",
                  at_least(0)),
            field("eos_token_id", &C::eos_token_id,
                  "Ids of tokens that end an answer; may be given several times; default: as generation_config.json "
                  "says, else the tokenizer's end-of-sequence token. With --chat the end of a turn does, too.",
                  at_least(0)),
            field("forced_bos_token_id", &C::forced_bos_token_id,
                  "Id of the token that an answer of a model with an encoder begins with; --tgt-lang says it by name.",
                  at_least(0)),
            field("forced_eos_token_id", &C::forced_eos_token_id,
                  "Id of the token that an answer of such a model ends with where it is as long as it may be.",
                  at_least(0)),
            field("length_penalty", &C::length_penalty,
                  "Of beams: the logarithm of an answer's probability is divided by its length to this power; above 0 "
                  "longer answers win, below 0 shorter ones."),
            field("early_stopping", &C::early_stopping,
                  "Of beams: true ends when there are as many finished answers as beams, never when none can become "
                  "better, false when that is unlikely.")},
        Base::fields());
  }

  // What take_given() does not. max_new_tokens, ignore_eos: whether these are given, too. Throws Error(usage).
  void take(GenerateConfig& config, bool max_new_tokens, bool ignore_eos) const;
  // Throws Error(usage): a token that the model has not, or what its kind of answers knows nothing of.
  void check(const Model& model) const;
};

}  // namespace hone::cli
