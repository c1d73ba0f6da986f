// The files of the sentence-transformers package: modules.json, 1_Pooling, 2_Normalize, prompts.
#include "hub/sentence_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/env.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/error.h"
#include "hub/cross_encoder.h"
#include "hub/load_module.h"
#include "hub/text_length.h"
#include "hub/sentence_json.h"
#include "hub/token_vector_files.h"
#include "hub/vector_module_files.h"
#include "io/json.h"

namespace hone::hub {
namespace {

using nlohmann::ordered_json;

constexpr const char *kPooling = "1_Pooling", *kSplade = "1_SpladePooling", *kSparse = "SparseEncoder",
                     *kLate = "MultiVectorEncoder";

std::string read_text(const std::filesystem::path& folder, const std::string& name) {
  return Env::process().open_folder(folder).read_file(name);
}

// As pooling_mode says, or, in older folders, one of several keys that is true.
nn::Pooling pooling_in(const std::filesystem::path& file) {
  const nlohmann::json json = io::read_json_file(file);
  constexpr std::pair<const char*, const char*> kOld[] = {{"pooling_mode_cls_token", "cls"},
                                                          {"pooling_mode_mean_tokens", "mean"},
                                                          {"pooling_mode_lasttoken", "lasttoken"},
                                                          {"pooling_mode_max_tokens", "max"},
                                                          {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
                                                          {"pooling_mode_weightedmean_tokens", "weightedmean"}};
  std::vector<std::string> modes;
  if (const auto mode = json.find("pooling_mode"); mode != json.end()) {
    const nlohmann::json list = mode->is_array() ? *mode : nlohmann::json::array({*mode});
    for (const nlohmann::json& one : list) modes.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  } else {
    for (const auto& [key, name] : kOld)
      if (json.value(key, false)) modes.push_back(name);
  }
  if (modes.size() == 1 && modes[0] == "mean") return nn::Pooling::mean;
  if (modes.size() == 1 && modes[0] == "cls") return nn::Pooling::cls;
  if (modes.size() == 1 && modes[0] == "lasttoken") return nn::Pooling::last;
  throw not_had(file, fmt::format("pooling_mode: got {}, expected mean, cls or lasttoken",
                                  modes.empty() ? "none" : join(modes, ", ")));
}

template <class T>
T one_of(const std::filesystem::path& file, const nlohmann::json& json, const char* key, T usual) {
  if (!json.contains(key)) return usual;
  const std::string name = json.at(key).get<std::string>();
  for (const auto& [value, word] : config::enum_names<T>)
    if (word == name) return value;
  std::vector<std::string> known;
  for (const auto& one : config::enum_names<T>) known.emplace_back(one.second);
  throw not_had(file, fmt::format("{}: got {}, expected {}", key, hone::quoted(name), list_names(known)));
}

// How many logits the package holds at once (chunk_size) makes no difference.
nn::SpladeForm splade_in(const std::filesystem::path& file) {
  const nlohmann::json json = io::read_json_file(file);
  return {one_of(file, json, "pooling_strategy", nn::SpladeStrategy::max),
          one_of(file, json, "activation_function", nn::SpladeActivation::relu)};
}

std::string last_name(const nlohmann::json& module) {
  const std::string type = module.value("type", "");
  return type.substr(type.rfind('.') + 1);
}

// Of a sparse encoder: the model with its head for masked tokens, then SpladePooling. False: it is none.
bool read_splade(const std::filesystem::path& folder, const nlohmann::json& modules, SentenceFolder& made) {
  const std::filesystem::path file = folder / kModules, lengths = folder / kLengths;
  const auto is_sparse = [](const nlohmann::json& one) { return last_name(one) == "SpladePooling"; };
  if (std::none_of(modules.begin(), modules.end(), is_sparse)) return false;
  const nlohmann::json& first = modules.front();
  const bool two = modules.size() == 2 && is_sparse(modules.back()) && first.value("path", "").empty() &&
                   (last_name(first) == "MLMTransformer" || last_name(first) == "Transformer");
  if (!two)
    throw not_had(file, fmt::format("{} modules with SpladePooling among them; expected a Transformer or "
                                    "MLMTransformer in the folder itself, and SpladePooling behind it",
                                    modules.size()));
  const nlohmann::json task = std::filesystem::exists(lengths) ? io::read_json_file(lengths) : nlohmann::json::object();
  const bool named = last_name(first) == "MLMTransformer";
  if (const std::string got = task.value("transformer_task", named ? "fill-mask" : "feature-extraction");
      got != "fill-mask")
    throw not_had(lengths, fmt::format("transformer_task: got {}, expected fill-mask before SpladePooling",
                                       hone::quoted(got)));
  made.splade = splade_in(folder / modules.back().value("path", "") / "config.json");
  return true;
}

void read_modules(const std::filesystem::path& folder, SentenceFolder& made) {
  const std::filesystem::path file = folder / kModules;
  const nlohmann::json modules = io::read_json_file(file);
  if (read_splade(folder, modules, made)) return;
  if (are_of_tokens(folder, modules)) return read_token_vectors(folder, modules, made);
  bool pools = false;
  for (const nlohmann::json& module : modules) {
    const std::string type = module.value("type", ""), name = type.substr(type.rfind('.') + 1),
                      path = module.value("path", "");
    const bool first = &module == &modules.front();
    if (first != (name == "Transformer") || (first && !path.empty()))
      throw not_had(file, fmt::format("module {} in {}; expected Transformer in the folder itself, Pooling, Dense and "
                                      "LayerNorm, and Normalize",
                                      hone::quoted(type), path.empty() ? "the folder itself" : path));
    if (first) continue;
    const bool of_vectors = name == "Dense" || name == "LayerNorm";
    if ((name == "Pooling" && pools) || ((name == "Normalize" || of_vectors) && (!pools || made.normalize)))
      throw not_had(file, fmt::format("module {} in {}: hone has Transformer, Pooling, Dense and LayerNorm, and "
                                      "Normalize in this order; all but Dense and LayerNorm once",
                                      hone::quoted(type), path));
    if (name == "Pooling") {
      made.pooling = pooling_in(folder / path / "config.json");
      const nlohmann::json pooling = io::read_json_file(folder / path / "config.json");
      if (!pooling.value("include_prompt", true) && !made.prompts.empty())
        throw not_had(folder / path / "config.json",
                      "include_prompt: got false, expected true: hone pools over prompts, too");
      pools = true;
    } else if (name == "Normalize") {
      made.normalize = true;
    } else if (of_vectors) {
      add_vector_module(folder, path, {.norms = name == "LayerNorm"}, made);
    } else {
      throw not_had(file, fmt::format("module {}: hone has Transformer, Pooling, Dense, LayerNorm and Normalize",
                                      hone::quoted(type)));
    }
  }
  if (!pools) throw not_had(file, "no module Pooling");
}

void read_prompts(const std::filesystem::path& file, SentenceFolder& made) {
  if (!std::filesystem::exists(file)) return;
  const nlohmann::json json = io::read_json_file(file);
  if (const auto prompts = json.find("prompts"); prompts != json.end() && prompts->is_object())
    for (const auto& [name, text] : prompts->items())
      if (text.is_string() && !text.get_ref<const std::string&>().empty()) made.prompts[name] = text;
  if (const auto name = json.find("default_prompt_name"); name != json.end() && name->is_string()) {
    if (!json.contains("prompts") || !json["prompts"].contains(name->get<std::string>()))
      throw not_had(file, fmt::format("default_prompt_name: got {}, expected the name of one of its prompts",
                                      hone::quoted(name->get<std::string>())));
    if (made.prompts.contains(*name)) made.default_prompt = *name;
  }
  if (json.value("model_type", "") == kSparse) made.similarity = "dot";
  if (json.value("model_type", "") == kLate) made.similarity = "maxsim";
  if (const auto name = json.find("similarity_fn_name"); name != json.end() && name->is_string())
    made.similarity = *name;
  made.dims = count_in(file, json, "truncate_dim");
  made.max_active_dims = count_in(file, json, "max_active_dims");
}

void read_lengths(const std::filesystem::path& folder, SentenceFolder& made) {
  const std::filesystem::path file = folder / kLengths;
  if (std::filesystem::exists(file) && io::read_json_file(file).value("do_lower_case", false))
    throw not_had(file, "do_lower_case: got true, expected false: hone leaves that to the tokenizer");
  made.max_length = said_length(folder);
}

// config_sentence_transformers.json.
ordered_json settings_json(const SentenceFolder& folder) {
  ordered_json prompts = ordered_json::object();
  for (const auto& [name, text] : folder.prompts)
    if (!text.empty()) prompts[name] = text;
  ordered_json all = {{"__version__", ordered_json::object()},
                      {"model_type", folder.splade ? kSparse : folder.token_vectors ? kLate : "SentenceTransformer"}};
  all["prompts"] = prompts;
  all["default_prompt_name"] = folder.default_prompt.empty() ? ordered_json() : ordered_json(folder.default_prompt);
  all["similarity_fn_name"] = folder.splade || folder.token_vectors ? folder.similarity : "cosine";
  return all;
}

std::map<std::string, std::string> splade_files(const SentenceFolder& folder, std::int64_t width) {
  constexpr const char* kPackage = "sentence_transformers.sparse_encoder.models.";
  std::map<std::string, std::string> files;
  ordered_json modules = ordered_json::array();
  for (const auto& [path, type] : {std::pair{"", "MLMTransformer"}, {kSplade, "SpladePooling"}}) {
    const std::size_t index = modules.size();
    modules.push_back({{"idx", index},
                       {"name", std::to_string(index)},
                       {"path", path},
                       {"type", kPackage + std::string(type)}});
  }
  files[kModules] = dumped(modules);
  const auto word = [](auto value) { return config::Values<decltype(value)>::write(value).text(); };
  const ordered_json pooling = {{"pooling_strategy", word(folder.splade->strategy)},
                                {"activation_function", word(folder.splade->activation)},
                                {"word_embedding_dimension", width}};
  files[std::string(kSplade) + "/config.json"] = dumped(pooling);
  files[kPrompts] = dumped(settings_json(folder));
  ordered_json lengths = {{"max_seq_length", nullptr}, {"do_lower_case", false}};
  if (folder.max_length) lengths["max_seq_length"] = *folder.max_length;
  files[kLengths] = dumped(lengths);
  return files;
}

ordered_json module_json(int index, const std::string& path, const std::string& type) {
  return {{"idx", index},
          {"name", std::to_string(index)},
          {"path", path},
          {"type", "sentence_transformers.models." + type}};
}

}  // namespace

std::optional<SentenceFolder> read_sentence_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  refuse_colbert(folder);
  if (!std::filesystem::exists(folder / kModules, ignored) || is_cross_encoder(folder)) return std::nullopt;
  SentenceFolder made;
  try {
    read_prompts(folder / kPrompts, made);
    read_modules(folder, made);
    read_lengths(folder, made);
  } catch (const nlohmann::json::exception& error) {
    throw not_had(folder / kModules,
                  fmt::format("it, or a file that it names, has a value of another kind: {}", error.what()));
  }
  return made;
}

std::map<std::string, std::string> sentence_files(const SentenceFolder& folder, std::int64_t width) {
  if (folder.splade) return splade_files(folder, width);
  std::map<std::string, std::string> files;
  if (folder.token_vectors) {
    files = token_vector_files(folder);
    files[kPrompts] = dumped(settings_json(folder));
    return files;
  }
  ordered_json modules = {module_json(0, "", "Transformer"), module_json(1, kPooling, "Pooling")};
  for (const SentenceModule& one : folder.modules)
    modules.push_back(module_json(static_cast<int>(modules.size()), one.path, one.form.norms ? "LayerNorm" : "Dense"));
  const int last = static_cast<int>(modules.size());
  if (folder.normalize) modules.push_back(module_json(last, fmt::format("{}_Normalize", last), "Normalize"));
  files[kModules] = dumped(modules);
  ordered_json pooling = {{"word_embedding_dimension", width}};
  for (const auto& [key, own] : {std::pair{"pooling_mode_cls_token", nn::Pooling::cls},
                                 {"pooling_mode_mean_tokens", nn::Pooling::mean},
                                 {"pooling_mode_lasttoken", nn::Pooling::last}})
    pooling[key] = folder.pooling == own;
  for (const char* other :
       {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"})
    pooling[other] = false;
  pooling["include_prompt"] = true;
  files[std::string(kPooling) + "/config.json"] = dumped(pooling);
  files[kPrompts] = dumped(settings_json(folder));
  ordered_json lengths = {{"max_seq_length", nullptr}, {"do_lower_case", false}};
  if (folder.max_length) lengths["max_seq_length"] = *folder.max_length;
  files[kLengths] = dumped(lengths);
  return files;
}

void keep_settings(const std::filesystem::path& source, std::map<std::string, std::string>& files) {
  const std::optional<SentenceFolder> before = read_sentence_folder(source);
  if (!before || !std::filesystem::exists(source / kPrompts) || !files.contains(kPrompts)) return;
  ordered_json kept = ordered_json::parse(read_text(source, kPrompts));
  const ordered_json made = ordered_json::parse(files[kPrompts]), &own = made.at("prompts");
  const bool is_sparse = made.at("model_type") == kSparse, is_late = made.at("model_type") == kLate;
  if (before->splade.has_value() != is_sparse || before->token_vectors.has_value() != is_late)
    return;  // it compares other vectors
  if (is_late) kept["model_type"] = kLate, kept["similarity_fn_name"] = made["similarity_fn_name"];
  constexpr const char* kSimilarity = "similarity_fn_name";
  if (is_sparse) kept["model_type"] = kSparse;
  if (is_sparse && (!kept.contains(kSimilarity) || kept[kSimilarity].is_null())) kept[kSimilarity] = made[kSimilarity];
  ordered_json& prompts = kept["prompts"];
  if (!prompts.is_object()) prompts = ordered_json::object();
  const std::string query = own.value("query", ""), document = own.value("document", "");
  if (query != before->prompt({"query"})) prompts["query"] = query;
  if (document != before->prompt({"document", "passage"})) {
    prompts["document"] = document;
    if (prompts.contains("passage")) prompts["passage"] = document;
  }
  files[kPrompts] = dumped(kept);
}

std::map<std::string, std::string> copied_sentence_files(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  if (!read_sentence_folder(folder)) return cross_encoder_files(folder);
  for (const char* name : {kModules, kPrompts, kLengths})
    if (std::filesystem::exists(folder / name)) files[name] = read_text(folder, name);
  for (const nlohmann::json& module : io::read_json_file(folder / kModules)) {
    const std::string path = module.value("path", "");
    const std::string config = path + "/config.json";
    if (!path.empty() && std::filesystem::exists(folder / config))
      files[config] = read_text(folder / path, "config.json");
    const std::string weights = path + "/model.safetensors";  // of Dense and LayerNorm
    if (!path.empty() && std::filesystem::exists(folder / weights))
      files[weights] = read_text(folder / path, "model.safetensors");
  }
  return files;
}

void set_vector_modules(Model& model, const SentenceFolder& folder) {
  for (const SentenceModule& one : folder.modules)
    model.set_beside(one.path, std::make_shared<nn::VectorModule>(one.form));
  if (!folder.modules.empty() && folder.modules.front().form.in != nn::pooled_width(model))
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: it reads vectors of {} numbers, expected {}, the model's hidden size",
                            folder.modules.front().path, folder.modules.front().form.in, nn::pooled_width(model)));
}

void load_vector_modules(Model& model, const std::filesystem::path& folder, Precision precision) {
  const std::optional<SentenceFolder> said = read_sentence_folder(folder);
  if (!said || said->modules.empty()) return;
  set_vector_modules(model, *said);
  model.set_device(model.device());
  for (const auto& [name, one] : model.beside())
    if (one->as_vector_module()) load_module(*one, folder / name, precision);
}

}  // namespace hone::hub
