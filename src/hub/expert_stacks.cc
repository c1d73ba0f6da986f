// Stacked experts.
#include "hub/expert_stacks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::hub {
namespace {

// "mlp.experts": what stands behind the layer's number.
std::string below_layer(const std::string& experts) {
  const std::size_t last = experts.rfind('.'), before = experts.rfind('.', last - 1);
  return before == std::string::npos ? experts : experts.substr(before + 1);
}

}  // namespace

bool parse_expert(const std::string& module, ExpertName& name) {
  static const std::regex kForm("(.*\\.experts)\\.([0-9]+)\\.(gate_proj|up_proj|down_proj)");
  std::smatch parts;
  if (!std::regex_match(module, parts, kForm)) return false;
  name = {parts[1], parts[3], parse_int(parts[2].str()).value_or(0)};
  return true;
}

std::int64_t count_experts(Model& model, const std::string& experts) {
  std::int64_t count = 0;
  model.each_weight([&](const std::string& full, Weight&) {
    ExpertName name;
    if (full.starts_with(experts + ".") && full.ends_with(".weight") &&
        parse_expert(full.substr(0, full.rfind('.')), name))
      count = std::max(count, name.number + 1);
  });
  return count;
}

bool ExpertStacks::take(const std::string& module, nn::Lora& lora) {
  ExpertName name;
  if (!parse_expert(module, name)) return false;
  stacks_[name.experts][name.part == "down_proj"].experts[name.number][name.part] = &lora;
  return true;
}

std::vector<std::string> ExpertStacks::parameters() const {
  std::vector<std::string> all;
  for (const auto& [experts, parts] : stacks_)
    for (const auto& [down, stack] : parts)
      all.push_back(below_layer(experts) + (down ? ".down_proj" : ".gate_up_proj"));
  return all;
}

void ExpertStacks::add_tensors(Model& model, std::vector<AdapterTensor>& all) const {
  using ValueOf = std::function<Tensor(Weight&)>;
  for (const auto& [experts, parts] : stacks_)
    for (const auto& [down, stack] : parts) {
      const std::int64_t count = count_experts(model, experts);
      // PEFT wraps one parameter of a module after another: the first one lies within.
      const std::string within = !down && parts.contains(true) ? ".base_layer" : "";
      const std::string name = kPeftPrefix + experts + within + ".";
      nn::Lora& any = *stack.experts.begin()->second.begin()->second;
      const std::int64_t rank = any.options().rank, inputs = any.a().shape()[1], part = any.b().shape()[0];
      const std::int64_t outputs = down ? part : 2 * part;
      for (const auto& [number, loras] : stack.experts)
        for (const auto& [what, lora] : loras)
          if (lora->options().rank != rank || lora->options().scale != any.options().scale || lora->start_a().defined())
            throw Error(ErrorKind::config,
                        fmt::format("{}: experts with adapters of different ranks, or that begin as a part of the "
                                    "weights: PEFT's files have no form for them",
                                    experts));
      all.push_back({name + "lora_A.weight", {count * rank, inputs}, [=, stack = stack](const ValueOf& value_of) {
                       std::vector<Tensor> rows;
                       for (std::int64_t e = 0; e < count; ++e) {
                         const auto expert = stack.experts.find(e);
                         rows.push_back(expert == stack.experts.end() ? at::zeros({rank, inputs})
                                                                      : value_of(expert->second.begin()->second->a()));
                       }
                       return at::cat(rows);
                     }});
      all.push_back({name + "lora_B.weight", {outputs, rank * count}, [=, stack = stack](const ValueOf& value_of) {
                       std::vector<Tensor> experts_OR;
                       for (std::int64_t e = 0; e < count; ++e) {
                         std::vector<Tensor> rows;
                         for (const char* what : {"gate_proj", "up_proj", "down_proj"}) {
                           if (down != (std::string_view(what) == "down_proj")) continue;
                           const auto expert = stack.experts.find(e);
                           const bool there = expert != stack.experts.end() && expert->second.contains(what);
                           rows.push_back(there ? value_of(expert->second.at(what)->b()) : at::zeros({part, rank}));
                         }
                         experts_OR.push_back(at::cat(rows));
                       }
                       return at::stack(experts_OR, -1).reshape({outputs, rank * count});
                     }});
    }
}

Tensor expert_a(const Tensor& a, std::int64_t experts, std::int64_t expert) {
  const std::int64_t rank = a.size(0) / experts;
  return a.narrow(0, expert * rank, rank).contiguous();
}

Tensor expert_b(const Tensor& b, std::int64_t experts, std::int64_t expert) {
  return b.view({b.size(0), b.size(1) / experts, experts}).select(2, expert).contiguous();
}

}  // namespace hone::hub
