// What configurations of models of texts and pictures have alike.
#include "models/picture_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "hone/error.h"
#include "models/hf_values.h"
#include "models/sections.h"

namespace hone::models {

std::int32_t picture_token(std::int64_t token, const char* key, std::int64_t vocab, Problems& problems) {
  problems.require(token < vocab, key, fmt::format("got {}, expected a token below vocab_size ({})", token, vocab));
  return static_cast<std::int32_t>(token);
}

void check_type_of_texts(const std::string& type, std::initializer_list<const char*> known, Problems& problems) {
  std::string names = join({known.begin(), known.end() - 1}, ", ");
  if (!names.empty()) names += " or ";
  problems.require(std::find(known.begin(), known.end(), type) != known.end(), "text_config.model_type",
                   fmt::format("got \"{}\", expected {}{}", type, names, *(known.end() - 1)));
}

void refuse_labels(const HeadRequest& head, const std::string& model_type) {
  if (head.labels.empty() && !head.masked_lm) return;
  throw Error(ErrorKind::config, fmt::format("a model of type {} has a language-model head and no other", model_type))
      .hint("objective causal_lm trains it");
}

void warn_left_out(const std::vector<std::string>& ids, std::int64_t vocab) {
  if (!ids.empty())
    log::warning("config.json: no tokens of the model, and left out: {}; it has {}", join(ids, ", "), vocab);
}

config::Node section_of_texts(config::Node written, bool tied) {
  config::Node section = without(std::move(written), {"architectures"});
  section.at_or_add("tie_word_embeddings") = hf_flag(tied);
  return section;
}

}  // namespace hone::models
