// Answers that are not to be short, and texts that are not to repeat themselves.
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

}  // namespace

bool restrains(const GenerateConfig& config) {
  return config.no_repeat_ngram_size > 0 || config.min_length > 0 || config.min_new_tokens > 0 ||
         !config.suppress_tokens.empty();
}

void restrain(std::span<float> logits, const GenerateConfig& config, std::span<const std::int32_t> text,
              std::int64_t made, std::span<const std::int32_t> ends) {
  for (const std::int32_t id : config.suppress_tokens) forbid(logits, id);
  if (config.no_repeat_ngram_size > 0)
    forbid_repeats(logits, text, static_cast<std::size_t>(config.no_repeat_ngram_size));
  if (std::ssize(text) < config.min_length || made < config.min_new_tokens)
    for (const std::int32_t end : ends) forbid(logits, end);
}

}  // namespace hone::generate
