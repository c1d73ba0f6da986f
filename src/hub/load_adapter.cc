// PEFT's folders, read: an adapter on each module that the file has one for.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "base/strings.h"
#include "hone/hub.h"
#include "hone/safetensors.h"
#include "hub/adapter_files.h"
#include "hub/expert_stacks.h"
#include "hub/memory.h"
#include "nn/lora.h"
#include "nn/lora_start.h"
#include "nn/lora_targets.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

// What the file has for one module.
struct Parts {
  Tensor a, b, magnitude;
};

class Reader {
 public:
  Reader(Model& model, const fs::path& folder, at::ScalarType type)
      : file_((folder / hub::kAdapterModel)), type_(type) {
    model.each_weight([&](const std::string& name, Weight& weight) { weights_[name] = &weight; });
    for (const TensorInfo& info : file_.tensors()) take(info);
  }
  std::map<std::string, Parts> modules;  // by module
  std::map<std::string, Tensor> whole,
      base_copies;  // by weight: modules to save; what PEFT keeps of tables of the base

  const std::string path() const { return file_.path().string(); }

  Weight& weight_of(const std::string& module, const std::string& key) const {
    const auto found = weights_.find(module + ".weight");
    if (found == weights_.end())
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: the model has no {}", path(), key, module))
          .hint("is this adapter for another base model?");
    return *found->second;
  }
  void check_shape(const std::string& what, const Tensor& tensor, const std::vector<std::int64_t>& expected) const {
    if (tensor.sizes() == at::IntArrayRef(expected)) return;
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got shape {}, expected {}", path(), what,
                                                   shape_text(tensor.sizes()), shape_text(expected)))
        .hint("is this adapter for another base model?");
  }

 private:
  Tensor read(const TensorInfo& info) const {
    const auto type = from_safetensors_name(info.dtype);
    if (!type || !c10::isFloatingType(*type))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: got dtype {}, expected F32, BF16, F16 or F64", path(), info.name, info.dtype));
    Tensor made = at::empty(info.shape, *type);
    file_.read(info, host::mutable_bytes(made));
    return made.to(type_);
  }

  void take(const TensorInfo& info) {
    std::string name = info.name;
    if (!name.starts_with(hub::kPeftPrefix))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: expected a name that begins with {}", path(), name, hub::kPeftPrefix));
    name.erase(0, std::string_view(hub::kPeftPrefix).size());
    const auto ends = [&](std::string_view end) {
      if (!name.ends_with(end)) return false;
      name.erase(name.size() - end.size());
      return true;
    };
    if (ends(".lora_A.weight") || ends(".lora_embedding_A")) {
      modules[name].a = read(info);
    } else if (ends(".lora_B.weight") || ends(".lora_embedding_B")) {
      modules[name].b = read(info);
    } else if (ends(".lora_magnitude_vector") || ends(".lora_magnitude_vector.weight")) {
      modules[name].magnitude = read(info).flatten();
    } else if (ends(".base_layer.weight")) {
      base_copies[name + ".weight"] = read(info);
    } else if (name.find("lora_") != std::string::npos) {
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: this part of an adapter is not supported", path(), info.name));
    } else {
      whole[replace_all(name, ".modules_to_save.", ".")] = read(info);
    }
  }

  Safetensors file_;
  at::ScalarType type_;
  std::map<std::string, Weight*> weights_;
};

// Stacked experts as one entry for each expert's module.
void unstack(Model& model, std::map<std::string, Parts>& modules, const std::string& path) {
  std::map<std::string, Parts> all;
  for (auto& [module, parts] : modules) {
    constexpr std::string_view kWithin = ".base_layer";
    const bool within = module.ends_with(kWithin);
    const std::string experts = within ? module.substr(0, module.size() - kWithin.size()) : module;
    const std::int64_t count = experts.ends_with(".experts") ? hub::count_experts(model, experts) : 0;
    if (count == 0) {
      all[module] = parts;
      continue;
    }
    if (!parts.a.defined() || !parts.b.defined() || parts.a.size(0) % count != 0 || parts.b.size(1) % count != 0)
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: its parts are not those of {} experts", path, module, count));
    // Which of the two a lone wrapper is for, the sizes say: down's outputs are hidden states.
    std::int64_t inner = 0;
    model.each_weight([&](const std::string& name, Weight& weight) {
      if (name == experts + ".0.down_proj.weight") inner = weight.shape()[1];
    });
    const bool down = !within && parts.a.size(1) == inner &&
                      (modules.contains(experts + std::string(kWithin)) || parts.b.size(0) != 2 * inner);
    for (std::int64_t e = 0; e < count; ++e) {
      const std::string expert = fmt::format("{}.{}.", experts, e);
      const Tensor a = hub::expert_a(parts.a, count, e), b = hub::expert_b(parts.b, count, e);
      if (down) {
        all[expert + "down_proj"] = {a, b, {}};
        continue;
      }
      const std::int64_t half = b.size(0) / 2;
      all[expert + "gate_proj"] = {a, b.narrow(0, 0, half).contiguous(), {}};
      all[expert + "up_proj"] = {a, b.narrow(0, half, b.size(0) - half).contiguous(), {}};
    }
  }
  modules = std::move(all);
}

const Weight* bias_of(Model& model, const std::string& module) {
  const Weight* bias = nullptr;
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (name == module + ".bias") bias = &weight;
  });
  return bias;
}

double alpha_of(const LoraConfig& config, const std::string& module) {
  for (const auto& [pattern, alpha] : config.alpha_pattern)
    if (nn::matches_pattern(module, pattern)) return alpha;
  return config.alpha.value_or(2.0 * static_cast<double>(config.rank));
}

}  // namespace

std::vector<std::string> hub::adapted_modules(Model& model, const std::filesystem::path& folder) {
  Reader file(model, folder, at::kFloat);
  unstack(model, file.modules, file.path());
  std::vector<std::string> names;
  for (const auto& [module, parts] : file.modules) names.push_back(module);
  return names;
}

std::pair<LoraConfig, LoraReport> load_adapter(Model& model, const std::filesystem::path& folder,
                                               const LoadAdapter& how) {
  const at::NoGradGuard no_grad;
  const hub::AdapterConfig config = hub::read_adapter_config(folder);
  LoraConfig lora = how.as.value_or(config.lora);
  Reader file(model, folder, hub::type_of(how.precision));
  unstack(model, file.modules, file.path());
  if (file.modules.empty() && file.whole.empty())
    throw Error(ErrorKind::checkpoint, file.path() + ": no part of an adapter");
  const bool residual = nn::lora_start(how.as ? lora.init : "default").kind == nn::LoraStart::Kind::pissa;
  model.each_weight([](const std::string&, Weight& weight) {
    if (!weight.is_buffer()) weight.set_trainable(false);
  });
  LoraReport report;
  std::map<std::string, nn::Lora*> made;
  for (const auto& [module, parts] : file.modules) {
    Weight& weight = file.weight_of(module, module + ".lora_A");
    if (!parts.a.defined() || !parts.b.defined())
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: lora_{} is missing", file.path(), module, parts.a.defined() ? "B" : "A"));
    if (weight.use_as() == WeightUse::other)
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: no adapter can sit there", file.path(), module));
    const auto [outputs, inputs] = nn::Lora::sides_of(weight);
    const std::int64_t rank = parts.a.size(0);
    file.check_shape(module + ".lora_A", parts.a, {rank, inputs});
    file.check_shape(module + ".lora_B", parts.b, {outputs, rank});
    nn::Lora::Options options{.rank = residual ? rank / 2 : rank, .dropout = lora.dropout};
    // PiSSA's file has twice the rank and an alpha that goes with it.
    options.scale = config.lora.scale(rank, alpha_of(config.lora, module));
    options.magnitude = parts.magnitude.defined();
    if (options.magnitude != config.lora.dora)
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: use_dora is {}, but the magnitudes are {}", file.path(), module,
                              config.lora.dora, options.magnitude ? "there" : "missing"));
    hub::ExpertName expert;
    const bool up = hub::parse_expert(module, expert) && expert.part == "up_proj";
    const auto partner = up ? made.find(module.substr(0, module.rfind('.')) + ".gate_proj") : made.end();
    auto adapter = std::make_unique<nn::Lora>(weight, options, bias_of(model, module), module,
                                              partner == made.end() ? nullptr : partner->second);
    if (adapter->owns_a()) adapter->a().fill(parts.a.narrow(0, 0, options.rank).contiguous());
    adapter->b().fill(parts.b.narrow(1, 0, options.rank).contiguous());
    if (residual)
      adapter->set_start(parts.a.narrow(0, options.rank, options.rank).contiguous(),
                         parts.b.narrow(1, options.rank, options.rank).neg());
    if (options.magnitude) {
      file.check_shape(module + ".lora_magnitude_vector", parts.magnitude, {outputs});
      adapter->magnitude()->fill(parts.magnitude);
    }
    adapter->b().set_learning_rate_scale(lora.loraplus_lr_ratio);
    made[module] = adapter.get();
    weight.set_adapter(std::move(adapter), how.name);
    report.adapted.push_back(module);
  }
  for (const auto& [name, value] : file.whole) {
    Weight& weight = file.weight_of(name.substr(0, name.rfind('.')), name);
    Weight* exact = nullptr;
    model.each_weight([&](const std::string& own, Weight& one) {
      if (own == name) exact = &one;
    });
    if (!exact) exact = &weight;
    file.check_shape(name, value, exact->shape());
    exact->set_trainable(true);
    exact->fill(value);
    report.saved.push_back(name.substr(0, name.rfind('.')));
  }
  for (const auto& [name, value] : file.base_copies) {
    const Weight& weight = file.weight_of(name.substr(0, name.rfind('.')), name);
    file.check_shape(name, value, weight.shape());
    if (!at::equal(value.to(weight.use().scalar_type()), weight.use().to(weight.use().scalar_type())))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: not the base model's: it was trained or resized", file.path(), name))
          .hint("merge the adapter with PEFT, and give hone the merged model");
  }
  return {std::move(lora), std::move(report)};
}

}  // namespace hone
