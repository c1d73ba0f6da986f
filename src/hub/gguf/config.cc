// Reading config.json for keys.
#include <fmt/format.h>

#include "base/strings.h"
#include "hub/gguf/family.h"

namespace hone::gguf {

bool Config::has(const std::string& key) const {
  const auto found = json_.find(key);
  return found != json_.end() && !found->is_null();
}

const nlohmann::json& Config::at(const std::string& key) const {
  if (!has(key)) throw Error(ErrorKind::config, fmt::format("config.json: {}: missing", key));
  return json_.at(key);
}

std::int64_t Config::integer(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number()) throw Error(ErrorKind::config, fmt::format("config.json: {}: expected a number", key));
  return static_cast<std::int64_t>(value.get<double>());
}

double Config::number(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number()) throw Error(ErrorKind::config, fmt::format("config.json: {}: expected a number", key));
  return value.get<double>();
}

std::string Config::text(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) throw Error(ErrorKind::config, fmt::format("config.json: {}: expected a text", key));
  return value.get<std::string>();
}

bool Config::flag(const std::string& key, bool absent) const {
  const auto found = json_.find(key);
  return found != json_.end() && found->is_boolean() ? found->get<bool>() : absent;
}

std::optional<std::int64_t> Config::maybe_integer(std::initializer_list<const char*> keys) const {
  for (const char* key : keys)
    if (has(key)) return integer(key);
  return std::nullopt;
}

std::optional<double> Config::maybe_number(std::initializer_list<const char*> keys) const {
  for (const char* key : keys)
    if (has(key)) return number(key);
  return std::nullopt;
}

std::int64_t Config::layers() const { return maybe_integer({"num_hidden_layers", "n_layer"}).value_or(0); }
std::int64_t Config::heads() const { return maybe_integer({"num_attention_heads", "n_head"}).value_or(1); }
std::int64_t Config::kv_heads() const { return maybe_integer({"num_key_value_heads"}).value_or(heads()); }

std::int64_t Config::head_size() const {
  if (const auto size = maybe_integer({"head_dim"})) return *size;
  return maybe_integer({"hidden_size", "n_embd"}).value_or(0) / heads();
}

Config Config::rope() const {
  if (!has("rope_parameters")) return Config(nlohmann::json::object());
  const nlohmann::json& all = at("rope_parameters");
  return Config(all.contains("full_attention") ? all["full_attention"] : all);
}

std::optional<Config> Config::sliding_rope() const {
  if (!has("rope_parameters")) return std::nullopt;
  const nlohmann::json& all = at("rope_parameters");
  if (!all.contains("sliding_attention")) return std::nullopt;
  return Config(all["sliding_attention"]);
}

std::string Config::rope_type() const {
  const Config own = rope();
  return own.has("rope_type") ? own.text("rope_type") : "default";
}

std::vector<bool> Config::sliding_layers() const {
  std::vector<bool> slides;
  if (has("layer_types"))
    for (const nlohmann::json& type : at("layer_types")) slides.push_back(type == "sliding_attention");
  return slides;
}

}  // namespace hone::gguf
