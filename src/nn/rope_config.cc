// Reads rope_parameters (transformers 5) or rope_theta and rope_scaling (4), and writes the former.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "hone/config_read.h"
#include "nn/rope.h"

namespace hone::nn {
namespace {

using config::Node;

// The keys that each type uses besides rope_type and rope_theta.
std::vector<std::string> keys_of(RopeType type) {
  switch (type) {
    case RopeType::standard:
      return {};
    case RopeType::linear:
    case RopeType::dynamic:
      return {"factor"};
    case RopeType::llama3:
      return {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
    case RopeType::yarn:
      return {"factor",
              "attention_factor",
              "beta_fast",
              "beta_slow",
              "mscale",
              "mscale_all_dim",
              "original_max_position_embeddings",
              "truncate"};
    case RopeType::longrope:
      return {"factor", "attention_factor", "original_max_position_embeddings", "short_factor", "long_factor"};
    case RopeType::proportional:
      return {"factor", "partial_rotary_factor"};
  }
  return {};
}

// The section without nulls, with `type` renamed; partial_rotary_factor is taken out into *partial.
Node normalised(const Node& section, std::optional<double>& partial, const std::string& path, Problems& problems) {
  Node plain = Node::map({}, section.mark());
  const Node* type = section.find("rope_type");
  for (const auto& [key, value] : section.entries()) {
    if (value.is_null()) continue;
    if (value.is_map())
      problems.add(path + "." + key, "got a section, expected one set of parameters for all layers");
    else if (key == "type") {
      if (!type) plain.at_or_add("rope_type") = value;
    } else if (key == "partial_rotary_factor") {
      config::Values<double>::read(value, partial.emplace(1), {problems, path + "." + key, {}});
    } else {
      plain.at_or_add(key) = value;
    }
  }
  return plain;
}

void check(const RopeConfig& c, const RopeSource& source, const std::string& path, Problems& problems) {
  const std::int64_t pairs = c.rotated(source.head_size) / 2;
  const auto need = [&](bool given, const char* key) {
    problems.require(
        given, path + "." + key,
        fmt::format("missing; rope_type {} needs it", config::Values<RopeType>::write(c.rope_type).text()));
  };
  const bool scaled =
      c.rope_type == RopeType::linear || c.rope_type == RopeType::dynamic || c.rope_type == RopeType::llama3;
  if (scaled) need(c.factor.has_value(), "factor");
  if (c.rope_type == RopeType::llama3) {
    need(c.low_freq_factor.has_value(), "low_freq_factor");
    need(c.high_freq_factor.has_value(), "high_freq_factor");
  }
  if (c.rope_type == RopeType::longrope) {
    const auto fits = [&](const std::vector<double>& list, const char* key) {
      problems.require(std::ssize(list) == pairs, path + "." + key,
                       fmt::format("got {} numbers, expected {} ({})", list.size(),
                                   c.partial_rotary_factor == 1 ? "head_dim / 2" : "half of what is rotated", pairs));
    };
    fits(c.short_factor, "short_factor");
    fits(c.long_factor, "long_factor");
  }
  const auto positive = [&](const std::optional<double>& value, const char* key) {
    if (value)
      problems.require(std::isfinite(*value) && *value > 0, path + "." + key,
                       fmt::format("got {}, expected a number above 0", *value));
  };
  positive(c.factor, "factor");
  positive(c.attention_factor, "attention_factor");
  positive(c.low_freq_factor, "low_freq_factor");
  positive(c.high_freq_factor, "high_freq_factor");
  problems.require(std::isfinite(c.rope_theta) && c.rope_theta > 1, path + ".rope_theta",
                   fmt::format("got {}, expected a number above 1", c.rope_theta));
  if (c.rope_type == RopeType::dynamic)
    problems.require(source.head_size > 2, path + ".rope_type", "dynamic needs a head_dim above 2");
}

void warn_unused(const RopeConfig& c, const Node& section, const std::string& path) {
  const auto used = keys_of(c.rope_type);
  for (const auto& [key, value] : section.entries())
    if (key != "rope_type" && key != "rope_theta" && std::find(used.begin(), used.end(), key) == used.end())
      log::warning("config.json: {}.{} has no effect for rope_type {}", path, key,
                   config::Values<RopeType>::write(c.rope_type).text());
}

}  // namespace

RopeConfig read_rope(const RopeSource& source, Problems& problems) {
  const bool old_form = source.scaling != nullptr;
  const std::string path = old_form ? "rope_scaling" : "rope_parameters";
  const Node* given = old_form ? source.scaling : source.parameters;
  RopeConfig config;
  config.rope_theta = source.theta.value_or(source.default_theta);
  std::optional<double> partial = source.partial_rotary_factor;
  if (given && !given->is_map())
    problems.add(path, "expected a section", "", given->mark());
  else if (given) {
    const Node section = normalised(*given, partial, path, problems);
    const std::size_t before = problems.size();
    config::Values<RopeConfig>::read(section, config, {problems, path, {}});
    if (problems.size() == before) warn_unused(config, section, path);
  }
  if (source.original_max_position_embeddings)
    config.original_max_position_embeddings = source.original_max_position_embeddings;
  if (config.rope_type == RopeType::proportional) {
    const double share = config.partial_rotary_factor = partial.value_or(1);
    problems.require(share >= 0 && share <= 1, path + ".partial_rotary_factor",
                     fmt::format("got {}, expected 0 to 1", share));
  } else if (source.may_be_partial) {
    const double share = config.partial_rotary_factor = partial.value_or(1);
    const bool makes_sense = share > 0 && share <= 1;
    const std::int64_t size = makes_sense ? config.rotated(source.head_size) : 0;
    problems.require(
        size > 0 && size % 2 == 0, "partial_rotary_factor",
        fmt::format("got {}, expected a share of head_dim ({}) that is an even number", share, source.head_size));
  } else if (partial && *partial != 1 && config.rope_type != RopeType::standard)
    // transformers ignores a partial factor for type default, and fails in the forward for every other type.
    problems.add("partial_rotary_factor", fmt::format("got {}, expected 1 for this rope_type", *partial));
  check(config, source, path, problems);
  return config;
}

Node hf_float(double value) {
  const Node node = config::Values<double>::write(value);
  return node.text().find_first_of(".en") == std::string::npos ? Node::scalar(node.text() + ".0") : node;
}

Node write_rope(const RopeConfig& c) {
  Node node = Node::map();
  const auto put = [&](const std::string& key, const std::optional<double>& value) {
    if (value) node.at_or_add(key) = hf_float(*value);
  };
  const auto put_list = [&](const std::string& key, const std::vector<double>& values) {
    std::vector<Node> items;
    for (const double value : values) items.push_back(hf_float(value));
    node.at_or_add(key) = Node::list(std::move(items));
  };
  for (const std::string& key : keys_of(c.rope_type)) {
    if (key == "factor") put(key, c.factor);
    if (key == "attention_factor") put(key, c.attention_factor);
    if (key == "beta_fast") put(key, c.beta_fast);
    if (key == "beta_slow") put(key, c.beta_slow);
    if (key == "mscale") put(key, c.mscale);
    if (key == "mscale_all_dim") put(key, c.mscale_all_dim);
    if (key == "low_freq_factor") put(key, c.low_freq_factor);
    if (key == "high_freq_factor") put(key, c.high_freq_factor);
    if (key == "short_factor") put_list(key, c.short_factor);
    if (key == "long_factor") put_list(key, c.long_factor);
    if (key == "truncate" && !c.truncate) node.at_or_add(key) = config::Values<bool>::write(false);
    if (key == "partial_rotary_factor") put(key, c.partial_rotary_factor);
    if (key == "original_max_position_embeddings" && c.original_max_position_embeddings)
      node.at_or_add(key) = config::Values<std::int64_t>::write(*c.original_max_position_embeddings);
  }
  node.at_or_add("rope_theta") = hf_float(c.rope_theta);
  node.at_or_add("rope_type") = Node::scalar(config::Values<RopeType>::write(c.rope_type).text(), /*quoted=*/true);
  return node;
}

}  // namespace hone::nn
