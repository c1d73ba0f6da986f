#include "cli/served_scores.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/classify_tokens.h"
#include "cli/text_length.h"
#include "hub/cross_encoder.h"
#include "hub/text_length.h"
#include "nn/finite.h"
#include "tensor/host.h"
#include "text/tokenizer/token_types.h"
#include "train/inputs.h"

namespace hone::cli {
namespace {

constexpr std::int64_t kLongestPair = 8192;  // of models that are made for any length

// The package takes the tokenizer's length of any such model, and so does this.
std::int64_t longest_pair(const ModelPlace& place, const Model& model) {
  if (const auto own = folder_length(place, model)) return std::min(*own, model.max_positions());
  const std::int64_t said = hub::said_length(tokenizer_folder(place)).value_or(kLongestPair);
  return std::min({said, model.max_positions(), kLongestPair});
}

serve::ScoredPair read_pair(const Model& model, const Tokenizer& tokenizer, const TextPair& texts, std::int64_t most,
                            const std::string& where) {
  const FittedEncoding made = tokenizer.encode_fitting(texts, static_cast<std::size_t>(most));
  document_of(made.ids, model, {where, 0});  // that the model knows them
  const bool typed = text::gives_token_types(tokenizer);
  const auto second = std::ranges::find_if(made.type_ids, [&](auto type) { return typed && type != 0; });
  return {made.ids, static_cast<std::size_t>(second - made.type_ids.begin()), made.cut > 0};
}

HostRow row_of(const Model& model, const serve::ScoredPair& pair) {
  HostDoc doc = document_of(pair.ids, model, {"pair", 0});
  if (pair.second < doc.ids.size()) {
    std::vector<std::int64_t>& types = doc.per_token["token_type_ids"];
    types.assign(doc.ids.size(), 0);
    std::fill(types.begin() + static_cast<std::ptrdiff_t>(pair.second), types.end(), 1);
  }
  return {std::move(doc)};
}

std::vector<double> scores_of(const Model& model, const Tokenizer& tokenizer,
                              const std::vector<serve::ScoredPair>& pairs) {
  const c10::NoGradGuard no_grad;
  std::vector<HostRow> rows;
  for (const serve::ScoredPair& pair : pairs) rows.push_back(row_of(model, pair));
  const Batch batch =
      to_batch(pad(rows, training::pad_id_of(tokenizer, model.vocab_size()))).to(model.device());
  Pass pass(batch);
  const Tensor logits_SL =
      host::read(model.classifier()->logits(model.forward(batch, pass), pass).to(at::kDouble).contiguous());
  const auto values = host::values<double>(logits_SL);
  if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
    throw nn::not_finite(model, "a score");
  return {values.begin(), values.end()};
}

}  // namespace

serve::Scores served_scores(const Model& model, std::shared_ptr<const Tokenizer> tokenizer, const ModelPlace& place,
                            serve::FrontOptions front, const ScoreOptions& options) {
  front.max_length = options.max_length.value_or(longest_pair(place, model));
  model.check_length(front.max_length, "--max-length");
  serve::Scores scores;
  scores.front = std::move(front);
  scores.pairs = options.pairs, scores.queue = options.queue, scores.tokenizer = tokenizer;
  scores.shows_sigmoid = hub::shows_sigmoid(model, place.folder, /*otherwise=*/true);
  const std::int64_t most = scores.front.max_length;
  tokenizer->encode_fitting({.first = "a", .second = "b"}, static_cast<std::size_t>(most));  // that it joins texts
  scores.read = [&model, tokenizer, most](const std::string& query, const std::string& document,
                                          const std::string& where) {
    return read_pair(model, *tokenizer, {.first = query, .second = document}, most, where);
  };
  scores.scores = [&model, tokenizer](const std::vector<serve::ScoredPair>& pairs) {
    return scores_of(model, *tokenizer, pairs);
  };
  return scores;
}

}  // namespace hone::cli
