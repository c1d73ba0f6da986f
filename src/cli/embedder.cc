#include "cli/embedder.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "cli/text_length.h"
#include "hone/data.h"
#include "nn/finite.h"
#include "nn/token_vectors.h"
#include "tensor/host.h"
#include "train/inputs.h"

namespace hone::cli {
namespace {

constexpr std::int64_t kNoTarget = -100;  // of a token from which nothing is learnt

// What the folder says, else what is usual.
hub::SentenceFolder said_by_folder(const ModelPlace& place, const Model& model) {
  if (const auto found = hub::read_sentence_folder(embedding_folder(place))) return *found;
  hub::SentenceFolder usual;
  usual.pooling = nn::usual_pooling(model), usual.normalize = true;
  return usual;
}

}  // namespace

std::unique_ptr<Model> load_embedding_model(const ModelPlace& place, const ModelFlags& flags) {
  std::unique_ptr<Model> model = load_model(place, flags);
  const Precision precision = flags.precision.value_or(stored_precision(place.folder));
  hub::load_vector_modules(*model, embedding_folder(place), precision);
  return model;
}

Embedder::Embedder(const ModelPlace& place, const ModelFlags& flags, const EmbedderOptions& options)
    : model_(load_embedding_model(place, flags)),
      tokenizer_(tokenizer_of(place, options.tokenizer)),
      folder_(said_by_folder(place, *model_)),
      pooling_(options.pooling.value_or(folder_.pooling)),
      normalize_(options.normalize.value_or(folder_.normalize)),
      again_(options.dims || options.normalize.value_or(false)),
      width_(nn::embedding_width(*model_)) {
  longest_ = text_length(place, *model_, options.max_length);
  model_->check_length(longest_, "--max-length");
  check_sparse(options);
  check_tokens(options);
  dims_ = std::min(options.dims.value_or(folder_.dims.value_or(width_)), width_);
  if (options.dims.value_or(1) > width_)
    throw Error(ErrorKind::usage, fmt::format("--dims: got {}, expected at most {}, the size of the model's vectors",
                                              *options.dims, width_));
}

void Embedder::check_sparse(const EmbedderOptions& options) {
  if (!is_sparse()) {
    if (options.max_active_dims)
      throw Error(ErrorKind::usage, "--max-active-dims: the model's vectors are dense; expected a sparse encoder");
    return;
  }
  for (const auto& [flag, is_given] : {std::pair{"--pooling", options.pooling.has_value()},
                                       {"--normalize", options.normalize.has_value()},
                                       {"--dims", options.dims.has_value()}})
    if (is_given)
      throw Error(ErrorKind::usage, fmt::format("{}: not of a sparse encoder, whose vectors are of the vocabulary",
                                            flag))
          .hint("--max-active-dims keeps the largest weights");
  require_masked_lm(*model_, "a sparse encoder");
  width_ = model_->vocab_size();
  active_ = options.max_active_dims.value_or(folder_.max_active_dims.value_or(width_));
}

void Embedder::check_tokens(const EmbedderOptions& options) {
  if (!gives_tokens()) return;
  for (const auto& [flag, is_given] : {std::pair{"--pooling", options.pooling.has_value()},
                                       {"--normalize", options.normalize.has_value()},
                                       {"--dims", options.dims.has_value()}})
    if (is_given)
      throw Error(ErrorKind::usage, fmt::format("{}: not of a late-interaction model, whose texts have a vector of "
                                                "each token",
                                                flag));
  Dataset::Options how;
  how.max_length = longest_, how.token_vectors = folder_.token_vectors;
  token_texts_ = data::token_vector_texts(how, *tokenizer_);
}

std::string Embedder::prompt(const std::string& name, const std::string& flag) const {
  const std::string wanted = name.empty() ? folder_.default_prompt : name;
  if (wanted.empty()) return "";
  const auto found = folder_.prompts.find(wanted);
  if (found != folder_.prompts.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, prompt] : folder_.prompts) names.push_back(known);
  throw Error(ErrorKind::usage, fmt::format("{}: the model has no prompt {}; it has {}", flag, hone::quoted(wanted),
                                            names.empty() ? "none" : list_names(names)));
}

void require_room_behind(const Embedder& embedder, const std::string& prompt) {
  if (prompt.empty()) return;
  const std::int64_t tokens = std::ssize(embedder.tokenizer().encode_fitting({.first = prompt, .second = {}}, 0).ids);
  if (tokens < embedder.max_length()) return;
  throw Error(ErrorKind::usage, fmt::format("the prompt before each text has {} tokens and --max-length is {}: "
                                            "nothing of a text is left; expected a shorter prompt",
                                            tokens, embedder.max_length()))
      .hint("--max-length takes more, where the model has the positions; --prompt \"\" puts nothing before");
}

Embedder::Tokens Embedder::read(const std::string& text, const std::string& prompt, const std::string& where,
                                Role role) const {
  const auto longest = static_cast<std::size_t>(longest_);
  const FittedEncoding made = tokenizer_->encode_fitting({.first = prompt + text, .second = {}},
                                                         token_texts_ ? token_texts_->most(role, longest) : longest);
  if (made.ids.empty())
    throw Error(ErrorKind::data,
                where + ": nothing to embed; the text has no tokens, and the tokenizer puts none around it");
  Tokens tokens{.ids = {made.ids.begin(), made.ids.end()}, .is_cut = made.cut > 0};
  const std::int64_t highest = *std::max_element(tokens.ids.begin(), tokens.ids.end());
  if (highest >= model_->vocab_size())
    throw Error(ErrorKind::data, fmt::format("{}: token id {}; expected less than the model's vocabulary of {}", where,
                                             highest, model_->vocab_size()))
        .hint("is this the model's tokenizer?");
  return tokens;
}

Tensor Embedder::made(const Output& output, const Batch& batch, Pass& pass, std::optional<std::int64_t> dims) const {
  if (is_sparse()) return nn::largest(nn::splade(*model_, output, batch, *folder_.splade, pass), active_);
  const std::int64_t kept = dims.value_or(dims_);
  const Tensor whole_SD = nn::vectors_of(*model_, output, batch, pooling_, pass);
  const Tensor unit_SD = !normalize_ ? whole_SD : nn::unit_rows(whole_SD, again_ || dims ? kept : 0);
  return unit_SD.narrow(1, 0, kept);
}

Batch Embedder::batch_of(const std::vector<HostRow>& rows) const {
  return to_batch(pad(rows, training::pad_id_of(*tokenizer_, model_->vocab_size()))).to(model_->device());
}

Tensor Embedder::on_host(const Tensor& vectors) const {
  const Tensor here = host::read(vectors.to(at::kFloat).contiguous());
  const auto values = host::values<float>(here);
  if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
    throw nn::not_finite(*model_, "a vector");
  return here;
}

Tensor Embedder::vectors(const std::vector<std::vector<std::int32_t>>& texts, std::optional<std::int64_t> dims) const {
  const c10::NoGradGuard no_grad;
  std::vector<HostRow> rows;
  for (const std::vector<std::int32_t>& ids : texts) {
    HostDoc doc{.ids = {ids.begin(), ids.end()}, .targets = {}};
    doc.targets.assign(ids.size(), kNoTarget);
    rows.push_back({std::move(doc)});
  }
  const Batch batch = batch_of(rows);
  Pass pass(batch);
  return on_host(made(model_->forward(batch, pass), batch, pass, dims));
}

std::vector<Tensor> Embedder::token_vectors(std::vector<std::vector<std::int32_t>> texts, Role role) const {
  const c10::NoGradGuard no_grad;
  std::vector<HostRow> rows;
  for (std::vector<std::int32_t>& ids : texts) {
    const std::int64_t real = std::ssize(ids);
    token_texts_->expand(role, ids);
    HostDoc doc{.ids = {ids.begin(), ids.end()}, .targets = {}, .role = role};
    doc.targets.assign(ids.size(), kNoTarget);
    token_texts_->put(real, doc);
    rows.push_back({std::move(doc)});
  }
  const Batch batch = batch_of(rows);
  Pass pass(batch);
  const nn::TokenVectors found =
      nn::token_vectors(*model_, model_->forward(batch, pass), batch, folder_.normalize, pass);
  const Tensor made = on_host(found.vector_SLD);
  const Tensor counts = host::read(found.counts_SL.sum(1).to(at::kLong).contiguous());
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < made.size(0); ++i)
    all.push_back(made[i].narrow(0, 0, host::values<std::int64_t>(counts)[static_cast<std::size_t>(i)]).contiguous());
  return all;
}

}  // namespace hone::cli
