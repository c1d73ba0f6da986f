// PEFT's adapter_config.json, read and written.
#include "hub/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/env.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "io/json.h"
#include "nn/lora_targets.h"

namespace hone::hub {
namespace {

using nlohmann::json;

// Keys that say nothing of what an adapter computes.
constexpr std::array kHarmless = std::to_array<std::string_view>(
    {"auto_mapping", "base_model_name_or_path", "revision", "task_type", "inference_mode", "peft_version",
     "megatron_core", "fan_in_fan_out", "target_modules", "exclude_modules", "target_parameters", "layers_to_transform",
     "layers_pattern", "qalora_group_size", "loftq_config", "ensure_weight_tying", "runtime_config",
     // How it began, which its weights have behind them; see takes_from_base() for when they have not.
     "eva_config", "corda_config", "lora_ga_config"});

bool says_nothing(const json& value) {
  return value.is_null() || value == false || value == "none" ||
         ((value.is_object() || value.is_array()) && value.empty());
}

[[noreturn]] void refuse(const std::string& file, const std::string& key, const json& value,
                         const std::string& expected) {
  throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got {}, expected {}", file, key, value.dump(), expected));
}

template <class T>
T number(const json& config, const char* key, T standard, const std::string& file) {
  if (!config.contains(key)) return standard;
  const json& value = config.at(key);
  const bool fits = std::is_floating_point_v<T> ? value.is_number() : value.is_number_integer();
  if (!fits) refuse(file, key, value, "a number");
  return value.template get<T>();
}

bool flag(const json& config, const char* key, const std::string& file) {
  if (!config.contains(key) || config.at(key).is_null()) return false;
  if (!config.at(key).is_boolean()) refuse(file, key, config.at(key), "true or false");
  return config.at(key).get<bool>();
}

using Patterns = std::vector<std::pair<std::string, double>>;

// In the file's order.
Patterns patterns(const nlohmann::ordered_json& config, const char* key, const std::string& file) {
  Patterns all;
  if (!config.contains(key) || config.at(key).is_null()) return all;
  if (!config.at(key).is_object()) refuse(file, key, json(config.at(key)), "an object of numbers");
  for (const auto& [pattern, value] : config.at(key).items()) {
    if (!value.is_number()) refuse(file, key, json(value), "a number");
    all.emplace_back(pattern, value.get<double>());
  }
  return all;
}

template <class T>
std::map<std::string, T> by_name(const Patterns& patterns) {
  std::map<std::string, T> all;
  for (const auto& [pattern, value] : patterns) all[pattern] = static_cast<T>(value);
  return all;
}

std::vector<std::string> names(const json& config, const char* key, const std::string& file) {
  std::vector<std::string> all;
  if (!config.contains(key) || config.at(key).is_null()) return all;
  const json& value = config.at(key);
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) refuse(file, key, value, "names");
  for (const json& one : value) {
    if (!one.is_string()) refuse(file, key, one, "a name");
    all.push_back(one.get<std::string>());
  }
  return all;
}

// Of the table of embeddings: a list, or one under the table's name.
std::vector<std::string> token_numbers(const json& config, const std::string& file) {
  constexpr const char* kKey = "trainable_token_indices";
  json listed = config.value(kKey, json());
  if (listed.is_object() && listed.size() == 1) listed = listed.begin().value();
  if (says_nothing(listed)) return {};
  const bool fits = listed.is_array() && std::all_of(listed.begin(), listed.end(), [](const json& one) {
    return one.is_number_integer();
  });
  if (!fits) refuse(file, kKey, config.at(kKey), "numbers of tokens, for one table");
  std::vector<std::string> all;
  for (const json& one : listed) all.push_back(std::to_string(one.get<std::int64_t>()));
  return all;
}

// true: PEFT's own start; another matters only where training begins.
std::string start_of(const json& config) {
  const auto found = config.find("init_lora_weights");
  return found != config.end() && found->is_string() ? to_lower(found->get<std::string>()) : "default";
}

void check_expressions_of(const json& config, const char* key, const std::string& file) {
  if (!config.contains(key) || !config.at(key).is_object()) return;
  for (const auto& [pattern, value] : config.at(key).items()) try {
      const std::regex expression(pattern);
    } catch (const std::regex_error& error) {
      refuse(file, key, pattern, std::string("a regular expression as in ECMAScript: ") + error.what());
    }
}

// Ends of module names in a list. Empty where it is something else: one expression, or PEFT's rules for layers.
std::vector<std::string> plain_names(const json& config, const char* key) {
  const json listed = config.value(key, json());
  std::vector<std::string> all;
  for (const json& one : listed.is_array() ? listed : json::array()) {
    if (!one.is_string() || nn::is_expression(one.get_ref<const std::string&>())) return {};
    all.push_back(one.get<std::string>());
  }
  return all;
}

// The ends of module names where each end means adapted modules only; all is what the model could have.
std::vector<std::string> without_repeats(const std::vector<std::string>& modules) {
  std::set<std::string> ends(modules.begin(), modules.end());
  return {ends.begin(), ends.end()};
}

}  // namespace

bool is_adapter_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder / kAdapterConfig, ignored);
}

AdapterConfig read_adapter_config(const std::filesystem::path& folder) {
  const std::string file = (folder / kAdapterConfig).string();
  const auto ordered = io::parse_ordered_json(InFile(file, ErrorKind::checkpoint).read_all(io::kConfigJson.bytes), file,
                                              io::kConfigJson);
  const json config(ordered);
  if (!config.is_object()) throw Error(ErrorKind::checkpoint, file + ": expected an object");
  const json type = config.value("peft_type", json());
  if (type != "LORA") refuse(file, "peft_type", type, "\"LORA\"");
  AdapterConfig read;
  LoraConfig& lora = read.lora;
  lora.rank = number<std::int64_t>(config, "r", 8, file);
  lora.alpha = number<double>(config, "lora_alpha", 8, file);
  lora.dropout = number<double>(config, "lora_dropout", 0, file);
  lora.rslora = flag(config, "use_rslora", file);
  lora.dora = flag(config, "use_dora", file);
  lora.init = start_of(config);
  read.ranks = patterns(ordered, "rank_pattern", file), read.alphas = patterns(ordered, "alpha_pattern", file);
  lora.rank_pattern = by_name<std::int64_t>(read.ranks);
  lora.alpha_pattern = by_name<double>(read.alphas);
  lora.modules_to_save = names(config, "modules_to_save", file);
  lora.trainable_token_indices = token_numbers(config, file);
  if (lora.rank < 1) refuse(file, "r", lora.rank, "at least 1");
  check_expressions_of(config, "rank_pattern", file), check_expressions_of(config, "alpha_pattern", file);
  read.selection = AdapterSelection(config, file);
  if (says_nothing(config.value("layers_to_transform", json())) &&
      says_nothing(config.value("exclude_modules", json())))
    read.targets = plain_names(config, "target_modules");
  if (config.contains("base_model_name_or_path") && config.at("base_model_name_or_path").is_string())
    read.base = config.at("base_model_name_or_path").get<std::string>();
  const std::set<std::string_view> known = {"peft_type",       "r",
                                            "lora_alpha",      "lora_dropout",
                                            "use_rslora",      "use_dora",
                                            "rank_pattern",    "alpha_pattern",
                                            "modules_to_save", "init_lora_weights",
                                            "trainable_token_indices"};
  for (const auto& [key, value] : config.items()) {
    const bool harmless = std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end();
    if (known.contains(key) || harmless || says_nothing(value)) continue;
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: {}: {} is not supported", file, key, escape_for_terminal(value.dump(), 60)))
        .hint("merge the adapter with PEFT, and give hone the merged model");
  }
  return read;
}

std::string adapter_config_json(const AdapterConfig& config, const AdapterModules& modules) {
  const LoraConfig& lora = config.lora;
  nlohmann::ordered_json made;
  made["alpha_pattern"] = lora.alpha_pattern;
  made["auto_mapping"] = nullptr;
  made["base_model_name_or_path"] =
      config.base.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(config.base);
  made["bias"] = "none";
  if (modules.tied_tokens) made["ensure_weight_tying"] = true;
  made["fan_in_fan_out"] = modules.in_out;
  made["inference_mode"] = true;
  made["init_lora_weights"] = true;  // the weights are all there
  const double alpha = lora.alpha.value_or(2.0 * static_cast<double>(lora.rank));
  const auto whole = static_cast<std::int64_t>(alpha);
  made["lora_alpha"] =
      static_cast<double>(whole) == alpha ? nlohmann::ordered_json(whole) : nlohmann::ordered_json(alpha);
  made["lora_dropout"] = lora.dropout;
  made["modules_to_save"] =
      modules.saved.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(without_repeats(modules.saved));
  made["peft_type"] = "LORA";
  made["r"] = lora.rank;
  made["rank_pattern"] = lora.rank_pattern;
  made["target_modules"] = without_repeats(modules.adapted);
  made["target_parameters"] = modules.parameters.empty() ? nlohmann::ordered_json()
                                                         : nlohmann::ordered_json(without_repeats(modules.parameters));
  made["task_type"] = modules.task.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(modules.task);
  if (!modules.tokens.empty()) made["trainable_token_indices"] = modules.tokens;
  made["use_dora"] = lora.dora;
  made["use_rslora"] = lora.rslora;
  return made.dump(2) + "\n";
}

}  // namespace hone::hub
