// Models that are trained with a run's model.
#include "train/trained_beside.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hone/hub.h"
#include "hub/load_module.h"
#include "hub/memory.h"
#include "hub/own_tokenizer.h"
#include "hub/sentence_files.h"
#include "nn/prefix_scores.h"
#include "nn/text_embedding.h"
#include "nn/vector_module.h"
#include "train/check_models.h"
#include "train/give_head.h"
#include "train/meta_twin.h"

namespace hone::training {
namespace {

namespace fs = std::filesystem;

const HeadRequest& score_head() {
  static const HeadRequest head{.labels = {"LABEL_0"}};
  return head;
}

fs::path beside_source_of(const std::string& role, const std::string& folder, const BesideFrom& from) {
  if (!from.checkpoint.empty()) return from.checkpoint / role;
  if (folder.empty()) return from.source;
  const ModelPlace place = find_model(folder);
  if (!place.adapter.empty())
    throw Error(ErrorKind::config,
                fmt::format("objective.{}: {}: an adapter, and a model is trained in full", role, folder))
        .hint("hone merge makes a model of it and the one below it");
  return place.folder;
}

void check_trained_beside(const std::string& role, const fs::path& source, const Model& made, const BesideFrom& from,
                          const Model& model) {
  const std::string option = "objective." + role;
  nn::require_prefix_scores(made, option);
  check_lengths(made, option + ": ", from.needs, from.recipe);
  if (made.vocab_size() < model.vocab_size())
    throw Error(ErrorKind::config, fmt::format("{}: {} has a vocabulary of {}, and the model one of {}", option,
                                               source.string(), made.vocab_size(), model.vocab_size()))
        .hint("both are asked about the same token ids");
  if (!from.needs.trained_beside.at(role).empty()) hub::check_same_tokens(from.tokenizer, source, option);
}

// Where a folder of sentence-transformers is that the run begins with; "": there is none.
fs::path sentence_source(const BesideFrom& from) {
  if (from.in_memory || from.source.empty()) return {};
  if (!from.checkpoint.empty()) return from.checkpoint;
  if (const std::string& adapter = from.recipe.adapter.path; !adapter.empty())
    if (const fs::path own = find_adapter_folder(adapter); hub::read_sentence_folder(own)) return own;
  return from.source;
}

// What makes vectors of a model's hidden states of tokens: Dense of the folder, be it of a model whose texts have one
// vector each, or else a new one.
void add_projection(const BesideFrom& from, const fs::path& folder, hub::SentenceFolder said, Model& model,
                    BesideSources& sources) {
  const bool is_new = !said.token_vectors && said.modules.empty();
  if (is_new)
    said.modules.push_back({"1_Dense", {.in = nn::pooled_width(model), .out = from.needs.token_vectors->dimension,
                                        .bias = false}});
  for (hub::SentenceModule& one : said.modules) {
    if (one.form.norms)
      throw Error(ErrorKind::config, fmt::format("objective {}: the model's folder has {}, a LayerNorm; expected Dense",
                                                 from.recipe.objective.type, one.path));
    one.form.of_tokens = true;
    sources[one.path] = {is_new ? fs::path() : folder / one.path, false};
  }
  hub::set_vector_modules(model, said);
}

// Dense and LayerNorm of a folder of sentence-transformers, which are trained with the model that embeds.
void add_vector_modules(const BesideFrom& from, Model& model, BesideSources& sources) {
  const bool of_tokens = from.needs.token_vectors.has_value();
  if (from.recipe.objective.type != "embedding" && !of_tokens) return;
  const fs::path folder = sentence_source(from);
  const auto said = folder.empty() ? std::nullopt : hub::read_sentence_folder(folder);
  if (of_tokens) return add_projection(from, folder, said.value_or(hub::SentenceFolder{}), model, sources);
  if (!said) return;
  if (said->token_vectors)
    throw Error(ErrorKind::config, fmt::format("{}: its texts have a vector of each token, and objective {} makes one "
                                               "of a text",
                                               folder.string(), from.recipe.objective.type))
        .hint("objective: {type: late_interaction} trains it");
  hub::set_vector_modules(model, *said);
  for (const hub::SentenceModule& one : said->modules) sources[one.path] = {folder / one.path, false};
}

}  // namespace

BesideSources add_beside(const BesideFrom& from, Model& model) {
  const auto& wanted = from.needs.trained_beside;
  if (from.in_memory && !wanted.empty())
    throw Error(ErrorKind::config, fmt::format("objective {}: not with a model in memory, which has no {} beside it",
                                               from.recipe.objective.type, wanted.begin()->first));
  BesideSources sources;
  for (const auto& [role, folder] : wanted)
    during("looking for the " + role, [&, &its = role, &named = folder] {
      const fs::path source = beside_source_of(its, named, from);
      const bool is_new = from.checkpoint.empty(), as_model = is_new && named.empty();
      const std::string own = as_model ? from.file : (source / "config.json").string();
      const config::Node its_config = as_model ? from.config : config::read_file(own);
      std::shared_ptr<Model> made = build_model(its_config, own, score_head());
      if (is_new) check_trained_beside(its, source, *made, from, model);
      model.set_beside(its, std::move(made));
      sources[its] = {source, has_other_labels(*build_model(its_config, own), score_head())};
    });
  add_vector_modules(from, model, sources);
  return sources;
}

void fill_beside(Model& model, const BesideSources& sources, std::uint64_t seed,
                 const std::function<WeightTypes(const std::filesystem::path&)>& types) {
  for (const auto& [name, one] : model.beside())
    during("loading the " + name, [&, &own = *one, &its = name] {
      const auto& [folder, other_labels] = sources.at(its);
      Model* made = own.as_model();
      if (!made && folder.empty()) return hub::init_module(own, seed, types(folder));
      if (!made) return hub::load_module(own, folder, types(folder));
      if (folder.empty()) return init_weights(*made, seed, types(folder));
      load_weights(*made, folder, types(folder), FreshWeights{seed, other_labels, false});
    });
}

void add_meta_beside(const Model& model, WeightTypes types, Model& twin) {
  for (const auto& [name, own] : model.beside()) {
    if (const Model* made = own->as_model()) twin.set_beside(name, meta_twin(*made, "", types));
    if (const nn::VectorModule* module = own->as_vector_module()) {
      auto made = std::make_shared<nn::VectorModule>(module->form());
      made->each_weight([&](const std::string&, Weight& weight) { fill_meta(weight, types); });
      twin.set_beside(name, std::move(made));
    }
  }
}

std::vector<BesideFiles> files_of_beside(const Model& model, const Tokenizer* tokenizer, at::ScalarType type) {
  std::vector<BesideFiles> all;
  for (const auto& [name, own] : model.beside()) {
    hub::ModelFiles files;
    if (Model* made = own->as_model()) files = hub::model_files(*made, "", tokenizer, {.type = type});
    else files.texts = {{"config.json", config::to_json(own->hf_config()) + "\n"}};
    all.push_back({name, own.get(), std::move(files)});
  }
  return all;
}

}  // namespace hone::training
