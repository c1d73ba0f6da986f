// Answers that are not to be short, texts that are not to repeat themselves, tokens that are wanted more or less.
#include "generate/restraints.h"

#include <algorithm>

namespace hone::generate {
namespace {

constexpr float kNever = -1e30f;  // finite, as what is not is no logit, and so whatever it is divided by

void forbid(std::span<float> logits, std::int32_t id) {
  if (id >= 0 && id < std::ssize(logits)) logits[static_cast<std::size_t>(id)] = kNever;
}

// Where the text's last n - 1 tokens stood before, what followed them.
void forbid_repeats(std::span<float> logits, std::span<const std::int32_t> text, std::size_t n) {
  if (text.size() < n) return;
  const auto last = text.last(n - 1);
  for (std::size_t begin = 0; begin + n <= text.size(); ++begin)
    if (std::ranges::equal(text.subspan(begin, n - 1), last)) forbid(logits, text[begin + n - 1]);
}

// Of tokens of the answer: once for being there, and once for each time.
void take_penalties(std::span<float> logits, const GenerateConfig& config, std::span<const std::int32_t> answer) {
  std::vector<std::int32_t> ids(answer.begin(), answer.end());
  std::ranges::sort(ids);
  for (auto begin = ids.begin(); begin != ids.end();) {
    const auto end = std::upper_bound(begin, ids.end(), *begin);
    logits[static_cast<std::size_t>(*begin)] -= static_cast<float>(
        config.presence_penalty + config.frequency_penalty * static_cast<double>(end - begin));
    begin = end;
  }
}

}  // namespace

bool restrains(const GenerateConfig& config) {
  return config.presence_penalty != 0 || config.frequency_penalty != 0 || !config.logit_bias.empty() ||
         config.no_repeat_ngram_size > 0 || config.min_length > 0 || config.min_new_tokens > 0 ||
         !config.suppress_tokens.empty() || !config.regex.empty() || !config.json_schema.empty();
}

void restrain(std::span<float> logits, const GenerateConfig& config, std::span<const std::int32_t> text,
              std::int64_t made, std::span<const std::int32_t> ends) {
  for (const auto& [id, bias] : config.logit_bias) logits[static_cast<std::size_t>(id)] += static_cast<float>(bias);
  if (config.presence_penalty != 0 || config.frequency_penalty != 0)
    take_penalties(logits, config, text.last(static_cast<std::size_t>(made)));
  for (const std::int32_t id : config.suppress_tokens) forbid(logits, id);
  if (config.no_repeat_ngram_size > 0)
    forbid_repeats(logits, text, static_cast<std::size_t>(config.no_repeat_ngram_size));
  if (std::ssize(text) < config.min_length || made < config.min_new_tokens)
    for (const std::int32_t end : ends) forbid(logits, end);
}

}  // namespace hone::generate
