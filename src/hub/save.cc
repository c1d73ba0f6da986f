// Writes a model as a Hugging Face folder.
#include "hub/save.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/signals.h"
#include "base/strings.h"
#include "config/texts_half.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hub/special_ids.h"
#include "nn/rope.h"
#include "nn/token_ids.h"
#include "tensor/dtype.h"
#include "tensor/host.h"
#include "text/tokenizer/token_types.h"

namespace hone::hub {
namespace {

constexpr std::uint64_t kTextLimit = 16'000'000;

// transformers 5 is strict about floats: 1.0, not 1. Which they are, the model's options say.
config::Node with_points(config::Node config) {
  const config::Node* type = config.find("model_type");
  const auto options = type ? registries().models.options(type->text()) : nullptr;
  if (!options) return config;
  for (const config::OptionInfo& option : options->describe()) {
    config::Node* value = option.type == "number" ? config.find(option.path) : nullptr;
    const auto number =
        value && value->kind() == config::Node::Kind::scalar ? parse_double(value->text()) : std::nullopt;
    if (number) *value = nn::hf_float(*number);
  }
  return config;
}

// transformers makes the same from config.json when a folder has none.
std::string made_generation_config(const config::Node& whole) {
  const config::Node& hf_config = config::of_words(whole);
  config::Node node = config::Node::map();
  node.at_or_add("_from_model_config") = config::Values<bool>::write(true);
  for (const char* key : {"bos_token_id", "decoder_start_token_id", "eos_token_id", "forced_bos_token_id",
                          "forced_eos_token_id", "pad_token_id"})
    if (const config::Node* value = hf_config.find(key); value && !value->is_null()) node.at_or_add(key) = *value;
  return config::to_json(node) + "\n";
}

// As it lies there, checked.
std::string generation_config(const std::filesystem::path& source, const config::Node& hf_config) {
  std::error_code ignored;
  const std::filesystem::path file = source / "generation_config.json";
  if (source.empty() || !std::filesystem::is_regular_file(file, ignored)) return made_generation_config(hf_config);
  const std::string content = InFile(file).read_all(kTextLimit);
  Problems problems;
  const config::Node node = config::parse_json(content, file.string(), problems);
  std::int64_t vocab_size = 0;
  if (const config::Node* size = config::of_words(hf_config).find("vocab_size"))
    vocab_size = parse_int(size->text()).value_or(0);
  if (node.is_map() && vocab_size > 0) nn::check_token_ids(node, vocab_size, problems);
  problems.raise(file.string());
  return content;
}

// What both files say, and what was changed of them; a generation_config.json that needs no change stays as it was.
struct ConfigTexts {
  config::Node config;
  std::string generation;
  std::vector<std::string> aligned;
};

ConfigTexts config_texts(const Model& model, const std::filesystem::path& source, const Tokenizer* tokenizer,
                         const FilesHow& how) {
  ConfigTexts made{with_points(model.hf_config()), "", {}};
  const bool aligns = how.align_ids && tokenizer;
  if (aligns && model.classifier()) made.aligned = name_padding(made.config, *tokenizer);
  if (!model.causal_lm()) return made;
  made.generation = generation_config(how.generation_from.empty() ? source : how.generation_from, made.config);
  if (!aligns && !how.turn_end) return made;
  Problems problems;
  config::Node generation = config::parse_json(made.generation, "generation_config.json", problems);
  problems.require(generation.is_map(), "generation_config.json", "expected an object");
  problems.raise("the model");
  if (aligns) made.aligned = align_ids(made.config, generation, *tokenizer);
  const bool added = how.turn_end && add_end(generation, made.config, *how.turn_end);
  if (added || !made.aligned.empty()) made.generation = config::to_json(generation) + "\n";
  return made;
}

}  // namespace

std::vector<std::string> aligned_ids(const Model& model, const std::filesystem::path& source,
                                     const Tokenizer& tokenizer) {
  return config_texts(model, source, &tokenizer, {.align_ids = true}).aligned;
}

namespace {

// What leaves the types of a pair's tokens out in transformers although the model was trained with them is told so, or
// the model would then read other texts. Where the tokenizer gives none, its own files say that.
std::string with_token_types(const std::string& tokenizer_config, const Model& model, const Tokenizer& tokenizer) {
  const config::Node hf_config = model.hf_config();
  const config::Node *types = hf_config.find("type_vocab_size"), *type = hf_config.find("model_type");
  if (!types || types->text() == "0" || types->text() == "1") return tokenizer_config;
  if (!text::gives_token_types(tokenizer)) return tokenizer_config;
  auto json = nlohmann::ordered_json::parse(tokenizer_config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.contains("model_input_names")) return tokenizer_config;
  if (text::says_token_types(tokenizer_config, type ? type->text() : "")) return tokenizer_config;
  json["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
  return json.dump(2) + "\n";
}

}  // namespace

ModelFiles model_files(Model& model, const std::filesystem::path& source, const Tokenizer* tokenizer,
                       const FilesHow& how) {
  ConfigTexts made = config_texts(model, source, tokenizer, how);
  if (how.type) made.config.at_or_add("dtype") = config::Values<std::string>::write(hf_name(*how.type));
  ModelFiles files;
  files.texts.emplace_back("config.json", config::to_json(made.config) + "\n");
  if (model.causal_lm()) files.texts.emplace_back("generation_config.json", std::move(made.generation));
  if (!tokenizer) return files;
  std::set<std::string> names{"config.json", "generation_config.json"};
  for (const auto& [name, content] : tokenizer->files)
    if (names.insert(name).second)
      files.texts.emplace_back(
          name, name == "tokenizer_config.json" ? with_token_types(content, model, *tokenizer) : content);
  return files;
}

SavedWeights weights_of(const Module& model) {
  SavedWeights weights;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    HONE_ASSERT(weight.layout().count < 0);
    weights.push_back({name, weight.whole().detach(), weight.use().scalar_type(), weight.is_buffer()});
  });
  return weights;
}

void add_model(io::FolderCommit& commit, const SavedWeights& weights, const ModelFiles& files,
               const std::function<void()>& before_each) {
  for (const auto& [name, content] : files.texts) commit.add_file(name, content);
  io::ModelSave save{.tensors = {}, .max_shard_bytes = files.max_shard_bytes};
  std::map<std::string, const SavedWeight*> by_name;
  for (const SavedWeight& weight : weights) {
    save.tensors.push_back({weight.name, safetensors_name(weight.type), weight.value.sizes().vec()});
    by_name.emplace(weight.name, &weight);
  }
  Tensor held;  // what the span points into, until the next call
  commit.add_model(save, [&](const io::TensorSpec& spec) {
    if (before_each) before_each();
    const SavedWeight& weight = *by_name.at(spec.name);
    held = host::read(weight.value.to(weight.type));
    return host::bytes(held);
  });
}

void save_model_folder(const std::filesystem::path& folder, Model& model, const ModelFiles& files,
                       SaveOptions options) {
  io::FolderCommit commit = io::commit_to(folder, options.replace);
  add_model(commit, weights_of(model), files, [&] { StopSignal::check("writing " + folder.string()); });
  commit.commit({});
}

}  // namespace hone::hub
