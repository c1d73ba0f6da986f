// State spaces' keys of config.json.
#include "models/mamba_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/check_parameters.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kLimits = "time_step_limit", *kInfinity = "Infinity", *kPythonFloat = "__float__";
constexpr const char *kAttends = "full_attention", *kRemembers = "linear_attention";

// As Python's json writes it, or transformers 5, for which it is no number of JSON.
bool is_infinity(const Node& node) {
  if (node.kind() == Node::Kind::scalar) return node.text() == kInfinity || node.text() == "inf";
  const Node* name = node.is_map() ? node.find(kPythonFloat) : nullptr;
  return name && name->kind() == Node::Kind::scalar && name->text() == kInfinity;
}

}  // namespace

StepLimits read_step_limits(const config::Open& given, Problems& problems) {
  StepLimits limits;
  if (given.node.is_null()) return limits;
  if (given.node.kind() != Node::Kind::list || given.node.items().size() != 2) {
    problems.add(kLimits, "expected two numbers, the least step and the most");
    return limits;
  }
  const auto number = [&](std::size_t i, double& to) {
    if (i == 1 && is_infinity(given.node.items()[i])) return;
    config::Values<double>::read(given.node.items()[i], to,
                                 {problems, fmt::format("{}.{}", kLimits, i), {.low = 0, .high = 1e9}});
  };
  number(0, limits.least), number(1, limits.most);
  problems.require(limits.least <= limits.most, kLimits,
                   fmt::format("got {} and {}, expected the least step and the most", limits.least, limits.most));
  return limits;
}

Node write_step_limits(const StepLimits& limits) {
  Node most = nn::hf_float(limits.most);
  if (std::isinf(limits.most)) {
    most = Node::map();
    most.at_or_add(kPythonFloat) = Node::scalar(kInfinity, /*quoted=*/true);
  }
  return Node::list({nn::hf_float(limits.least), std::move(most)});
}

std::int64_t read_or_auto(const config::Open& given, std::int64_t otherwise, const char* key, Problems& problems) {
  std::int64_t size = otherwise;
  const bool says = !given.node.is_null() && !(given.node.kind() == Node::Kind::scalar && given.node.text() == "auto");
  if (says) config::Values<std::int64_t>::read(given.node, size, {problems, key, {.low = 1, .high = 65536}});
  return size;
}

std::int64_t read_head_size(const config::Open& given, std::int64_t otherwise, Problems& problems) {
  return read_or_auto(given, otherwise, "mamba_d_head", problems);
}

std::vector<bool> read_remembering(const std::optional<std::vector<std::string>>& types, bool otherwise,
                                   std::int64_t layers, Problems& problems) {
  std::vector<bool> remembers(static_cast<std::size_t>(std::min<std::int64_t>(layers, 10000)), otherwise);
  if (!types) return remembers;
  problems.require(std::ssize(*types) == layers, "layer_types",
                   fmt::format("got {} entries, expected num_hidden_layers ({})", types->size(), layers));
  for (std::size_t i = 0; i < std::min(remembers.size(), types->size()); ++i) {
    const std::string& type = (*types)[i];
    remembers[i] = type == kRemembers || type == "mamba";
    problems.require(remembers[i] || type == kAttends || type == "attention", fmt::format("layer_types.{}", i),
                     fmt::format("got \"{}\", expected {} or {}", type, kRemembers, kAttends));
  }
  return remembers;
}

Node write_layer_types(const std::vector<bool>& remembers) {
  std::vector<Node> types;
  for (const bool each : remembers) types.push_back(Node::scalar(each ? kRemembers : kAttends, /*quoted=*/true));
  return Node::list(std::move(types));
}

void check_state_spaces(const MambaShape& s, std::int64_t inner, const char* heads_key, Problems& problems) {
  const nn::StateSpace::Options& o = s.mamba;
  problems.require(o.inner() == inner, heads_key,
                   fmt::format("{} heads of {} make {}, expected the width of all heads together ({})", o.heads,
                               o.head_size, o.inner(), inner));
  problems.require(o.heads % o.groups == 0, heads_key,
                   fmt::format("got {}, expected a multiple of the groups ({})", o.heads, o.groups));
  const auto layers = static_cast<double>(std::count(s.remembers.begin(), s.remembers.end(), true));
  check_parameters(layers * static_cast<double>(o.hidden) * static_cast<double>(2 * o.inner() + o.convolved()),
                   heads_key, problems);
}

}  // namespace hone::models
