// Which tensor is made of which weights.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/strings.h"
#include "hub/gguf/write.h"
#include "io/json.h"

namespace hone::gguf {
namespace {

// "model.layers.3.mlp.experts.1.up_proj.weight" as rules have it.
struct Placed {
  std::string pattern;  // "model.layers.{}.mlp.experts.[].up_proj.weight"
  std::int64_t layer = -1, index = -1;
};
Placed placed(const std::string& name) {
  Placed found;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, dot - at);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    std::int64_t& seat = found.layer < 0 ? found.layer : found.index;
    if (number) seat = parse_int(part).value_or(0);
    if (at > 0) found.pattern += '.';
    found.pattern += !number ? part : &seat == &found.layer ? "{}" : "[]";
    at = dot + 1;
  }
  return found;
}

struct Target {
  std::string name;
  Change change;
};
// Those of the first set of rules that has any.
std::vector<Target> targets_of(const Placed& from, const Family& family) {
  const std::size_t dot = from.pattern.rfind('.');
  const std::string stem = from.pattern.substr(0, dot);
  const std::string suffix = dot == from.pattern.npos ? "" : from.pattern.substr(dot);
  std::vector<Target> targets;
  for (const std::span<const Rule> rules : family.tensors) {
    for (const Rule& rule : rules) {
      const bool whole = rule.from == from.pattern;
      if (!whole && !(rule.from == stem && (suffix == ".weight" || suffix == ".bias"))) continue;
      const std::string to = replace_all(std::string(rule.to), "{}", std::to_string(from.layer));
      targets.push_back({whole ? to : to + suffix, rule.change});
    }
    if (!targets.empty()) break;
  }
  return targets;
}

void add_weight(std::vector<Planned>& planned, const std::string& name, const Weight& weight, const Plan& plan) {
  const Placed from = placed(name);
  const std::vector<Target> targets = targets_of(from, *plan.family);
  if (targets.empty())
    throw Error(ErrorKind::config, fmt::format("{}: llama.cpp has no place for this weight in a model of type {}", name,
                                               plan.family->model_type));
  for (const Target& target : targets) {
    at::Tensor made = at::empty(weight.shape(), at::TensorOptions().device(at::kMeta).dtype(at::kFloat));
    if (target.change) made = target.change(made, plan.config);
    std::vector<std::int64_t> shape = made.sizes().vec();
    if (shape.empty()) shape = {1};
    const auto same = std::find_if(planned.begin(), planned.end(),
                                   [&](const Planned& one) { return one.tensor.name == target.name; });
    if (from.index >= 0) shape.insert(shape.begin(), 1);
    if (same == planned.end()) {
      planned.push_back({{target.name, io::GgufType::f32, shape}, {name}, target.change});
      continue;
    }
    HONE_ASSERT(from.index == same->tensor.shape[0]);
    ++same->tensor.shape[0];
    same->weights.push_back(name);
  }
}

void check_activation(const Plan& plan) {
  if (plan.family->activation.empty()) return;
  for (const char* key : {"hidden_act", "hidden_activation", "activation_function"}) {
    if (!plan.config.has(key)) continue;
    const std::string got = plan.config.text(key);
    // What differs between these is less than what the types of a file lose.
    const auto close = [](std::string_view name) { return name.starts_with("gelu") && name != "gelu_10"; };
    if (got == plan.family->activation || (close(got) && close(plan.family->activation))) continue;
    throw Error(ErrorKind::config,
                fmt::format("config.json: {}: got \"{}\"; of type {} llama.cpp computes {} alone", key, got,
                            plan.family->model_type, plan.family->activation));
  }
}

// Of yarn llama.cpp reads the factor and the length; the rest is what it is by default.
std::string yarn_lack(const Plan& plan) {
  const Config rope = plan.config.rope();
  if (plan.config.rope_type() != "yarn" || plan.family->arch == "mistral3") return "";
  const auto other = [&](const char* key, double plain) { return rope.has(key) && rope.number(key) != plain; };
  if (other("beta_fast", 32) || other("beta_slow", 1)) return "beta_fast and beta_slow of yarn";
  if (rope.has("attention_factor") || rope.has("mscale")) return "attention_factor and mscale of yarn";
  return !rope.flag("truncate", true) && plan.family->arch != "gpt-oss" ? "yarn without truncate" : "";
}

void check(const Plan& plan, const Model& model) {
  const auto lacks = [&](const std::string& what) {
    return Error(ErrorKind::config,
                 fmt::format("config.json: of type {} llama.cpp lacks {}", plan.family->model_type, what));
  };
  check_activation(plan);
  const std::string rope = plan.config.rope_type();
  if (std::find(plan.family->ropes.begin(), plan.family->ropes.end(), rope) == plan.family->ropes.end())
    throw lacks(fmt::format("rotary positions of type {}", rope));
  if (const std::string lack = yarn_lack(plan); !lack.empty()) throw lacks(lack);
  if (plan.family->lack)
    if (const std::string lack = plan.family->lack(plan.config); !lack.empty()) throw lacks(lack);
  if (!model.causal_lm())
    throw Error(ErrorKind::config, "a model with another head than a language model's: a GGUF file of it would not "
                                   "hold what was trained")
        .hint("hone export without --gguf makes a folder of it");
}

// Windows that the file cannot say.
void warn_of_windows(const Plan& plan, const Model& model) {
  io::GgufKeys keys;
  ArchKeys own(keys, plan.family->arch);
  plan.family->keys(own, plan.config);
  std::int64_t window = 0;
  for (const AttentionLayer& layer : model.attention())
    if (layer.window > 0) window = window == 0 ? layer.window : std::min(window, layer.window);
  const bool known = own.has("attention.sliding_window") && plan.family->arch != "phi3";  // there it is not used
  if (window > 0 && !known)
    log::warning("llama.cpp has no sliding window in models of type {}: in texts of more than {} tokens, tokens see "
                 "more than they do here",
                 plan.family->model_type, window);
}

std::string rounded(double count) {
  const double steps[] = {1e12, 1e9, 1e6, 1e3};
  constexpr const char* names[] = {"T", "B", "M", "K"};
  std::size_t i = 0;
  while (i < 3 && !(count > steps[i])) ++i;
  const double scaled = count / steps[i];
  const long whole = std::lround(std::nearbyint(scaled));
  const std::size_t digits = whole == 0 ? 0 : std::to_string(whole).size();
  return fmt::format("{:.{}f}{}", scaled, digits >= 2 ? 0 : 2 - digits, names[i]);
}

}  // namespace

std::int64_t Plan::parameters() const {
  std::int64_t sum = 0;
  for (const Planned& one : tensors) sum += one.tensor.numel();
  return sum;
}

std::string Plan::size_label() const {
  std::int64_t shared = 0, expert = 0, experts = 0, stacks = 0;
  for (const Planned& one : tensors) {
    const std::vector<std::int64_t>& shape = one.tensor.shape;
    const bool bias = one.tensor.name.find(".bias") != std::string::npos;
    if (one.tensor.name.find("_exps.") == std::string::npos || shape.size() < 3) {
      shared += one.tensor.numel();
      continue;
    }
    const std::int64_t count = bias ? shape[shape.size() - 2] : shape[shape.size() - 3];
    expert += one.tensor.numel() / count, experts += count, ++stacks;
  }
  if (stacks == 0) return rounded(static_cast<double>(shared));
  return fmt::format("{}x{}", experts / stacks, rounded(static_cast<double>(shared + expert)));
}

Plan plan_file(const Model& model, bool refuses) {
  Plan plan;
  const std::string text = config::to_json(model.hf_config());
  plan.config = Config(io::parse_json(text, "config.json", io::kConfigJson));
  const std::string type = plan.config.text("model_type");
  plan.family = find_family(type);
  if (!plan.family)
    throw Error(ErrorKind::config, fmt::format("a model of type {}: hone writes no GGUF file of it", type))
        .hint(fmt::format("those of which it does: {}", fmt::join(family_names(), ", ")));
  if (refuses) check(plan, model);
  model.each_weight(
      [&](const std::string& name, const Weight& weight) { add_weight(plan.tensors, name, weight, plan); });
  if (plan.family->extras)
    for (Extra& extra : plan.family->extras(plan.config)) {
      const auto size = static_cast<std::int64_t>(extra.values.size());
      plan.tensors.push_back({{extra.name, io::GgufType::f32, {size}}, {}, nullptr, std::move(extra.values)});
    }
  if (refuses) warn_of_windows(plan, model);
  return plan;
}

void choose_types(Plan& plan, const FileType& type, at::ScalarType stored) {
  TypeFacts facts{std::string(plan.family->arch), plan.config.layers()};
  facts.experts = plan.config.maybe_integer({"num_local_experts", "num_experts", "n_routed_experts"}).value_or(0);
  facts.heads = plan.config.heads(), facts.kv_heads = plan.config.kv_heads();
  facts.full = stored == at::kBFloat16 ? io::GgufType::bf16
               : stored == at::kHalf   ? io::GgufType::f16
                                       : io::GgufType::f32;
  std::vector<io::GgufTensor> tensors;
  for (const Planned& one : plan.tensors) tensors.push_back(one.tensor);
  choose_types(tensors, type, facts);
  for (std::size_t i = 0; i < tensors.size(); ++i) plan.tensors[i].tensor.type = tensors[i].type;
}

void architecture_keys(io::GgufKeys& keys, const Plan& plan) {
  ArchKeys own(keys, plan.family->arch);
  plan.family->keys(own, plan.config);
}

}  // namespace hone::gguf
