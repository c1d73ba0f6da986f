// What nothing would come of is refused.
#include "cli/generation_flags.h"

#include <fmt/format.h>

#include <utility>

#include "hone/model.h"

namespace hone::cli {

void GenerationFlags::take(GenerateConfig& config, bool has_max_new_tokens, bool ignores_eos) const {
  if (max_length && has_max_new_tokens)
    throw Error(ErrorKind::usage, "--max-length and --max-new-tokens: expected one of them");
  if (max_length) config.max_new_tokens = *max_length;
  if (!eos_token_id.empty() && ignores_eos)
    throw Error(ErrorKind::usage, "--eos-token-id: with --ignore-eos no token ends an answer");
  if (!suppress_tokens.empty()) config.suppress_tokens = suppress_tokens;
  if (!eos_token_id.empty()) config.eos_token_id = eos_token_id;
  if (min_new_tokens && *min_new_tokens > config.max_new_tokens)
    throw Error(ErrorKind::usage, fmt::format("--min-new-tokens: got {}, expected at most {}, the tokens that an "
                                              "answer may have",
                                              *min_new_tokens, config.max_new_tokens))
        .hint("--max-new-tokens says how many");
  for (const auto& [flag, given] : {std::pair{"--length-penalty", length_penalty.has_value()},
                                    {"--early-stopping", early_stopping.has_value()}})
    if (given && config.num_beams == 1)
      throw Error(ErrorKind::usage, fmt::format("{}: of beams alone; expected it beside --num-beams", flag));
}

void GenerationFlags::check(const Model& model) const {
  if (forced_bos_token_id || forced_eos_token_id)
    require_seq2seq_lm(model, "--forced-bos-token-id and --forced-eos-token-id");
  const auto require_id = [&](const char* flag, std::int64_t id) {
    if (id < model.vocab_size()) return;
    throw Error(ErrorKind::usage, fmt::format("{}: got {}, expected a token of the model, from 0 to {}", flag, id,
                                              model.vocab_size() - 1));
  };
  for (const std::int32_t id : suppress_tokens) require_id("--suppress-tokens", id);
  for (const std::int32_t id : eos_token_id) require_id("--eos-token-id", id);
  if (forced_bos_token_id) require_id("--forced-bos-token-id", *forced_bos_token_id);
  if (forced_eos_token_id) require_id("--forced-eos-token-id", *forced_eos_token_id);
}

}  // namespace hone::cli
