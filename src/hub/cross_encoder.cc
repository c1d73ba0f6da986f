// What of a cross-encoder is not its model.
#include "hub/cross_encoder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/strings.h"
#include "hone/error.h"
#include "io/json.h"

namespace hone::hub {
namespace {

constexpr const char *kSettings = "config_sentence_transformers.json", *kModuleList = "modules.json",
                     *kInput = "sentence_bert_config.json";

// By what the model's configuration says, in its two forms; "": nothing.
std::string activation_of(const Model& model) {
  const config::Node config = model.hf_config();
  const config::Node* section = config.find("sentence_transformers");
  const config::Node* name = section && section->is_map() ? section->find("activation_fn") : nullptr;
  if (!name) name = config.find("sbert_ce_default_activation_function");
  return name && name->kind() == config::Node::Kind::scalar && !name->is_null() ? name->text() : "";
}

}  // namespace

bool is_cross_encoder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(folder / kSettings, ignored)) return false;
  const nlohmann::json json = io::read_json_file(folder / kSettings);
  return json.is_object() && json.contains("model_type") && json["model_type"] == "CrossEncoder";
}

bool says_cross_encoder(const Model& model, const std::filesystem::path& folder) {
  return model.classifier() && (is_cross_encoder(folder) || !activation_of(model).empty());
}

bool shows_sigmoid(const Model& model, const std::filesystem::path& folder, bool otherwise) {
  std::string name = activation_of(model);
  const bool is_own = is_cross_encoder(folder);
  if (name.empty() && is_own) {
    const nlohmann::json json = io::read_json_file(folder / kSettings);
    if (json.contains("activation_fn") && json["activation_fn"].is_string()) name = json["activation_fn"];
    if (name.empty()) return true;  // as the package takes it
  }
  const std::string end = name.substr(name.rfind('.') + 1);
  if (name.empty()) return otherwise;
  if (end == "Identity") return false;
  if (end == "Sigmoid") return true;
  throw Error(ErrorKind::config, fmt::format("{}: activation_fn: got {}, expected Sigmoid or Identity of torch.nn",
                                             folder.string(), hone::quoted(name)));
}

std::map<std::string, std::string> cross_encoder_files(const std::filesystem::path& folder,
                                                       std::optional<std::int64_t> max_length) {
  std::map<std::string, std::string> files;
  if (!is_cross_encoder(folder)) return files;
  for (const char* name : {kModuleList, kSettings, kInput})
    if (std::filesystem::exists(folder / name)) files[name] = Env::process().open_folder(folder).read_file(name);
  if (!max_length) return files;
  std::string& input = files[kInput];
  auto settings = input.empty() ? nlohmann::ordered_json::object() : nlohmann::ordered_json::parse(input);
  settings["max_seq_length"] = *max_length;  // counts before the tokenizer's own
  input = settings.dump(2) + "\n";
  return files;
}

}  // namespace hone::hub
