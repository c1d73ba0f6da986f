// Adapters put on a model, and taken off.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/strings.h"
#include "config/patterns.h"
#include "hone/adapter.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "nn/lora.h"
#include "nn/lora_start.h"
#include "nn/lora_targets.h"
#include "nn/trained_rows.h"

namespace hone {
namespace {

template <class T>
std::vector<std::string> keys_of(const std::map<std::string, T>& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

template <class T>
std::optional<T> by_pattern(const std::map<std::string, T>& patterns, const std::string& module,
                            std::set<std::string>& used) {
  for (const auto& [pattern, value] : patterns)
    if (nn::matches_pattern(module, pattern)) {
      used.insert(pattern);
      return value;
    }
  return std::nullopt;
}

// The bias that goes with a weight: its neighbour's name.
std::map<std::string, const Weight*> biases_of(Model& model) {
  std::map<std::string, const Weight*> biases;
  constexpr std::string_view kBias = ".bias";
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (name.ends_with(kBias)) biases[name.substr(0, name.size() - kBias.size())] = &weight;
  });
  return biases;
}

// Of an expert's up_proj: its gate_proj, whose first factor it shares, as files keep both as one weight.
std::string shares_with(const std::string& module) {
  constexpr std::string_view kUp = ".up_proj";
  if (module.find(".experts.") == std::string::npos || !module.ends_with(kUp)) return "";
  return module.substr(0, module.size() - kUp.size()) + ".gate_proj";
}

// What each target is to get; throws what cannot be, before anything is put anywhere.
struct Planned {
  nn::NamedWeight target;
  nn::Lora::Options options;
};

Planned planned(const nn::NamedWeight& one, const LoraConfig& config, std::set<std::string>& ranks_used,
                std::set<std::string>& alphas_used) {
  Planned plan{one, {}};
  plan.options.rank = by_pattern(config.rank_pattern, one.module, ranks_used).value_or(config.rank);
  const double standard = config.alpha.value_or(2.0 * static_cast<double>(config.rank));
  const double alpha = by_pattern(config.alpha_pattern, one.module, alphas_used).value_or(standard);
  plan.options.scale = config.scale(plan.options.rank, alpha);
  plan.options.dropout = config.dropout;
  plan.options.magnitude = config.dora;
  nn::refuse_unnamed(one.module, "targets");
  if (config.dora && one.module.find(".experts.") != std::string::npos)
    throw Error(ErrorKind::config,
                fmt::format("adapter.dora: {}: not for experts, whose files have no place for it", one.module));
  return plan;
}

std::int64_t full_rank(const Planned& one) {
  const auto [outputs, inputs] = nn::Lora::sides_of(*one.target.weight);
  return std::min(outputs, inputs);
}

// A rank that is more than the largest weight has is not meant. Gates and the like, of a few outputs, get it as the
// others do (so does PEFT's); a start that takes them from the weight needs as many columns.
void check_ranks(const std::vector<Planned>& modules, const LoraConfig& config) {
  if (modules.empty()) return;
  const auto by_rank = [](const Planned& a, const Planned& b) { return full_rank(a) < full_rank(b); };
  const Planned& largest = *std::max_element(modules.begin(), modules.end(), by_rank);
  const nn::LoraStart start = nn::lora_start(config.init);
  for (const Planned& one : modules) {
    nn::check_start(start, *one.target.weight, one.options.rank, one.target.module);
    const Planned& limit = start.takes_from_weight() ? one : largest;
    if (one.options.rank <= full_rank(limit)) continue;
    const auto [outputs, inputs] = nn::Lora::sides_of(*limit.target.weight);
    throw Error(ErrorKind::config,
                fmt::format("adapter.rank: got {}, expected at most {}: {} is a weight of {} x {}", one.options.rank,
                            full_rank(limit), limit.target.module, outputs, inputs))
        .hint("rank_pattern gives modules of their own a smaller one; exclude leaves them out");
  }
}

// Files have the experts of a layer in one piece, gate and up with one A: what lies together has one rank and scale.
void check_experts(const std::vector<Planned>& modules, const LoraConfig& config) {
  std::map<std::string, const Planned*> pieces;
  for (const Planned& one : modules) {
    const std::string& module = one.target.module;
    const std::size_t experts = module.find(".experts.");
    if (experts == std::string::npos) continue;
    if (nn::lora_start(config.init).needs_own_a())
      throw Error(ErrorKind::config,
                  fmt::format("adapter.init: {}: {}: not for experts, whose files have no place for it", config.init,
                              module));
    const std::string piece = module.substr(0, experts) + (module.ends_with(".down_proj") ? ".down" : ".gate_up");
    const Planned& other = *pieces.try_emplace(piece, &one).first->second;
    if (one.options.rank == other.options.rank && one.options.scale == other.options.scale) continue;
    throw Error(ErrorKind::config,
                fmt::format("adapter: {}: got rank {} and scale {:.4g}, expected {} and {:.4g}, as {} has them: files "
                            "have the experts of a layer in one piece",
                            module, one.options.rank, one.options.scale, other.options.rank, other.options.scale,
                            other.target.module))
        .hint("rank_pattern and alpha_pattern may tell down_proj from gate_proj and up_proj, and a layer from another");
  }
}

void check_patterns_used(const char* option, const std::vector<std::string>& patterns,
                         const std::set<std::string>& used, const std::vector<nn::NamedWeight>& targets) {
  for (const std::string& pattern : patterns) {
    if (used.contains(pattern)) continue;
    const bool fits = std::any_of(targets.begin(), targets.end(),
                                  [&](const auto& one) { return nn::matches_pattern(one.module, pattern); });
    throw Error(ErrorKind::config,
                fmt::format("adapter.{}: {}: {}", option, hone::quoted(pattern),
                            fits ? "other patterns, which come first in the alphabet, fit every module that it fits"
                                 : "no module that gets an adapter has such a name"));
  }
}

}  // namespace

void LoraConfig::validate(Problems& problems) const {
  problems.require(!targets.empty(), "targets", "empty: nothing gets an adapter");
  config::check_patterns(targets, "targets", problems);
  config::check_patterns(exclude, "exclude", problems);
  config::check_patterns(modules_to_save, "modules_to_save", problems);
  config::check_patterns(keys_of(rank_pattern), "rank_pattern", problems);
  config::check_patterns(keys_of(alpha_pattern), "alpha_pattern", problems);
  for (const auto& [pattern, rank] : rank_pattern)
    problems.require(rank >= 1, "rank_pattern." + pattern, fmt::format("got {}, expected at least 1", rank));
  for (const auto& [pattern, value] : alpha_pattern)
    problems.require(value > 0, "alpha_pattern." + pattern, fmt::format("got {}, expected more than 0", value));
  try {
    nn::lora_start(init);
  } catch (const Error& error) {
    problems.add("init", std::string(error.what()).substr(std::string_view("adapter.init: ").size()));
  }
}

double LoraConfig::scale(std::int64_t of_rank, double of_alpha) const {
  const auto divisor = static_cast<double>(of_rank);
  return of_alpha / (rslora ? std::sqrt(divisor) : divisor);
}

namespace {

struct Plan {
  std::vector<Planned> modules;
  std::vector<nn::NamedWeight> whole;
  nn::NamedWeight table = {};  // whose rows of `tokens` are trained
  std::vector<std::int64_t> tokens = {};
};

Plan plan_of(Model& model, const LoraConfig& config) {
  nn::check_modules_to_save(model, config.modules_to_save);
  Plan plan{{}, nn::whole_modules(model, config.modules_to_save)};
  std::set<std::string> ranks_used, alphas_used;
  const std::vector<nn::NamedWeight> targets = nn::lora_targets(model, config);
  for (const nn::NamedWeight& one : targets) plan.modules.push_back(planned(one, config, ranks_used, alphas_used));
  check_ranks(plan.modules, config);
  check_experts(plan.modules, config);
  check_patterns_used("rank_pattern", keys_of(config.rank_pattern), ranks_used, targets);
  check_patterns_used("alpha_pattern", keys_of(config.alpha_pattern), alphas_used, targets);
  if (config.trainable_token_indices.empty()) return plan;
  plan.table = nn::table_of_tokens(model, config, targets);
  plan.tokens = nn::token_numbers(config.trainable_token_indices, plan.table.weight->shape()[0]);
  return plan;
}

void freeze_all_but(Model& model, const std::vector<nn::NamedWeight>& whole) {
  model.each_weight([](const std::string&, Weight& weight) {
    if (!weight.is_buffer()) weight.set_trainable(false);
  });
  for (const nn::NamedWeight& one : whole) one.weight->set_trainable(true);
}

LoraReport report_of(const Plan& plan) {
  LoraReport report;
  for (const nn::NamedWeight& one : plan.whole)
    if (report.saved.empty() || report.saved.back() != one.module) report.saved.push_back(one.module);
  for (const Planned& one : plan.modules) {
    const auto [outputs, inputs] = nn::Lora::sides_of(*one.target.weight);
    const bool own_a = shares_with(one.target.module).empty();
    report.parameters += one.options.rank * (outputs + (own_a ? inputs : 0)) + (one.options.magnitude ? outputs : 0);
    report.adapted.push_back(one.target.module);
  }
  if (plan.table.weight) report.parameters += std::ssize(plan.tokens) * plan.table.weight->shape()[1];
  return report;
}

}  // namespace

LoraReport plan_lora(Model& model, const LoraConfig& config) {
  const Plan plan = plan_of(model, config);
  freeze_all_but(model, plan.whole);
  return report_of(plan);
}

LoraReport apply_lora(Model& model, const LoraConfig& config, std::uint64_t seed, const std::string& name) {
  const Plan plan = plan_of(model, config);
  const nn::LoraStart start = nn::lora_start(config.init);
  const auto biases = biases_of(model);
  freeze_all_but(model, plan.whole);
  std::map<std::string, nn::Lora*> made;
  for (const Planned& one : plan.modules) {
    const std::string& module = one.target.module;
    const auto partner = made.find(shares_with(module)), none = made.end();
    const auto bias = biases.find(module);
    auto adapter =
        std::make_unique<nn::Lora>(*one.target.weight, one.options, bias == biases.end() ? nullptr : bias->second,
                                   module, partner == none ? nullptr : partner->second);
    nn::fill_start(*adapter, *one.target.weight, start, seed, module);
    adapter->b().set_learning_rate_scale(config.loraplus_lr_ratio);
    made[module] = adapter.get();
    one.target.weight->set_adapter(std::move(adapter), name);
  }
  if (plan.table.weight) {
    auto rows = std::make_unique<nn::TrainedRows>(*plan.table.weight, plan.tokens);
    rows->start_as(*plan.table.weight);
    plan.table.weight->set_adapter(std::move(rows), name);
  }
  return report_of(plan);
}

void each_adapter(Model& model, const std::string& name,
                  const std::function<void(const std::string&, Weight&, Adapter&)>& visit) {
  model.each_weight([&](const std::string& full, Weight& weight) {
    constexpr std::string_view kWeight = ".weight";
    if (Adapter* adapter = weight.adapter(name))
      visit(full.ends_with(kWeight) ? full.substr(0, full.size() - kWeight.size()) : full, weight, *adapter);
  });
}

std::map<std::string, Tensor> split_adapter(Model& model, const std::string& name) {
  std::map<std::string, Tensor> all;
  each_adapter(model, name, [&](const std::string& module, Weight&, Adapter& adapter) {
    adapter.each_weight([&](const std::string& own, Weight& weight) { all[own] = weight.use().detach(); },
                        module + ".");
  });
  return all;
}

namespace {

// The weights that change; throws before any does.
std::vector<std::pair<Weight*, Tensor>> merged_weights(Model& model, const std::string& name) {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<Weight*, Tensor>> all;
  each_adapter(model, name, [&](const std::string& module, Weight& weight, Adapter& adapter) {
    if (nn::is_tied_table(model, weight) && !dynamic_cast<const nn::TrainedRows*>(&adapter))
      throw Error(ErrorKind::config, fmt::format("{}: the head uses this table, too, and its adapter is for look-ups "
                                                 "alone: there is no merged weight for both",
                                                 module))
          .hint("keep the adapter apart, or train one without " + module);
    all.emplace_back(&weight, adapter.merged(weight.whole()));
  });
  return all;
}

}  // namespace

MergedAdapter::MergedAdapter(Model& model, const std::string& name) {
  for (const auto& [weight, merged] : merged_weights(model, name)) {
    before_.emplace_back(weight, weight->whole());
    weight->fill_in_full(merged);
  }
}

void MergedAdapter::unmerge() {
  for (const auto& [weight, before] : before_) weight->fill_in_full(before);
  before_.clear();
}

void unwrap_adapter(Model& model, const std::string& name) {
  for (const auto& [weight, merged] : merged_weights(model, name)) weight->fill_in_full(merged);
  remove_adapter(model, name);
}

void remove_adapter(Model& model, const std::string& name) {
  model.each_weight([&](const std::string&, Weight& weight) { weight.set_adapter(nullptr, name); });
}

}  // namespace hone
