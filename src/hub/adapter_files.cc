// PEFT's folders, written.
#include "hub/adapter_files.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hub/adapter_patterns.h"
#include "hub/expert_stacks.h"
#include "nn/lora.h"
#include "nn/lora_targets.h"
#include "nn/trained_rows.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

using ValueOf = std::function<Tensor(Weight&)>;

nn::Lora& lora_of(Adapter& adapter, const std::string& module) {
  auto* lora = dynamic_cast<nn::Lora*>(&adapter);
  if (!lora)
    throw Error(ErrorKind::config,
                fmt::format("{}: its adapter is not LoRA: PEFT's files have no form for it", module));
  return *lora;
}

// With what it begins with and takes away, as one adapter of twice the rank.
AdapterTensor with_start(std::string name, Weight& weight, const Tensor& start, bool rows) {
  std::vector<std::int64_t> shape = weight.shape();
  if (start.defined()) shape[rows ? 0 : 1] *= 2;
  return {std::move(name), shape, [&weight, start, rows](const ValueOf& value_of) {
            const Tensor value = value_of(weight);
            if (!start.defined()) return value;
            const Tensor other = start.to(value.scalar_type());
            return at::cat({value, rows ? other : -other}, rows ? 0 : 1);
          }};
}

// module: as PEFT has it.
void add_plain(nn::Lora& lora, const std::string& module, std::vector<AdapterTensor>& all) {
  const std::string name = kPeftPrefix + module + ".";
  lora.each_weight([&](const std::string& own, Weight& weight) {
    const bool a = &weight == &lora.a(), b = &weight == &lora.b();
    const Tensor& start = a ? lora.start_a() : b ? lora.start_b() : Tensor();
    all.push_back(with_start(name + own, weight, start, a));
  });
}

void add_rows(Adapter& rows, const std::string& module, std::vector<AdapterTensor>& all) {
  rows.each_weight([&](const std::string& own, Weight& weight) {
    all.push_back({kPeftPrefix + module + "." + own, weight.shape(),
                   [&weight](const ValueOf& value_of) { return value_of(weight); }});
  });
}

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// Ends of names that mean these modules and no other that could have an adapter; whole names where there is none such.
std::vector<std::string> short_names(Model& model, const std::vector<std::string>& modules) {
  const std::set<std::string> chosen(modules.begin(), modules.end());
  std::set<std::string> others;
  model.each_weight([&](const std::string& name, Weight& weight) {
    constexpr std::string_view kWeight = ".weight";
    const bool is_convolution = weight.shape().size() > 2;  // PEFT would give it one, too
    if (!name.ends_with(kWeight) || !(nn::can_have_adapter(weight) || is_convolution)) return;
    const std::string module = name.substr(0, name.size() - kWeight.size());
    if (!chosen.contains(module)) others.insert(last_part(module));
  });
  std::vector<std::string> names;
  for (const std::string& module : modules) {
    const std::string end = last_part(module);
    const bool is_number = end.find_first_not_of("0123456789") == std::string::npos;  // PEFT takes whole blocks for it
    names.push_back(others.contains(end) || is_number ? module : end);
  }
  return names;
}

}  // namespace

std::vector<AdapterTensor> adapter_tensors(Model& model, const std::string& adapter,
                                           const std::vector<std::string>& saved_modules) {
  std::vector<AdapterTensor> all;
  ExpertStacks stacks;
  each_adapter(model, adapter, [&](const std::string& module, Weight&, Adapter& one) {
    if (dynamic_cast<nn::TrainedRows*>(&one)) return add_rows(one, name_in_memory(model, module), all);
    nn::Lora& lora = lora_of(one, module);
    if (!stacks.take(module, lora)) add_plain(lora, name_in_memory(model, module), all);
  });
  stacks.add_tensors(model, all);
  std::set<const Weight*> saved;
  for (const nn::NamedWeight& one : nn::whole_modules(model, saved_modules)) saved.insert(one.weight);
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (saved.contains(&weight))
      all.push_back({kPeftPrefix + name_in_memory(model, name), weight.shape(),
                     [&weight](const ValueOf& value_of) { return value_of(weight); }});
  });
  return all;
}

std::string name_of_body(const std::string& tensor, const Model& model) {
  const std::string whole = kPeftPrefix + model.base_prefix();
  return tensor.starts_with(whole) ? kPeftPrefix + tensor.substr(whole.size()) : tensor;
}

namespace {

// What names modules, for those of the body alone.
void take_off_prefix(const std::string& prefix, AdapterModules& modules, LoraConfig& lora) {
  const auto take_off = [&](std::string& name) {
    if (!prefix.empty() && name.starts_with(prefix)) name.erase(0, prefix.size());
  };
  for (std::vector<std::string>* names : {&modules.adapted, &modules.saved, &modules.parameters})
    for (std::string& name : *names) take_off(name);
  const auto take_off_all = [&](auto& patterns) {
    std::remove_reference_t<decltype(patterns)> made;
    for (const auto& [pattern, value] : patterns) {
      std::string name = pattern;
      take_off(name);
      made.emplace(std::move(name), value);
    }
    patterns = std::move(made);
  };
  take_off_all(lora.rank_pattern), take_off_all(lora.alpha_pattern);
}

}  // namespace

std::string adapter_json(Model& model, const std::string& adapter, const AdapterConfig& config) {
  AdapterConfig written = config;
  AdapterModules modules;
  ExpertStacks stacks;
  bool residual = false;
  std::vector<std::string> all;
  each_adapter(model, adapter, [&](const std::string& module, Weight& weight, Adapter& one) {
    if (const auto* rows = dynamic_cast<nn::TrainedRows*>(&one)) {
      modules.tokens = rows->tokens(), modules.tied_tokens = nn::is_tied_table(model, weight);
      return;
    }
    nn::Lora& lora = lora_of(one, module);
    all.push_back(module);
    residual |= lora.start_a().defined();
    modules.in_out |= weight.use_as() == WeightUse::product_in_out;
    if (!stacks.take(module, lora)) modules.adapted.push_back(module);
  });
  modules.adapted = short_names(model, modules.adapted);
  for (auto* names : {&modules.adapted, &all})
    for (std::string& name : *names) name = name_in_memory(model, name);
  modules.parameters = stacks.parameters();
  if (!modules.parameters.empty()) written.lora.dropout = 0;  // PEFT has none for them, and it acts in training alone
  settle_patterns_for_file(all, written.lora);
  modules.saved = nn::saved_names(model, config.lora.modules_to_save);
  if (model.causal_lm()) modules.task = model.seq2seq_lm() ? "SEQ_2_SEQ_LM" : "CAUSAL_LM";
  if (const Classifier* one = model.classifier())
    modules.task = one->answers_questions() ? "QUESTION_ANS" : one->of_tokens() ? "TOKEN_CLS" : "SEQ_CLS";
  if (config.of_body) {
    modules.task = "FEATURE_EXTRACTION";
    take_off_prefix(model.base_prefix(), modules, written.lora);
  }
  if (residual) {
    LoraConfig& lora = written.lora;
    const double more = lora.rslora ? std::sqrt(2.0) : 2.0;  // what scales stays as it is
    lora.alpha = lora.alpha.value_or(2.0 * static_cast<double>(lora.rank)) * more;
    lora.rank *= 2;
    for (auto& [pattern, rank] : lora.rank_pattern) rank *= 2;
    for (auto& [pattern, alpha] : lora.alpha_pattern) alpha *= more;
  }
  return adapter_config_json(written, modules);
}

void save_adapter_folder(const std::filesystem::path& folder, Model& model, const AdapterConfig& config,
                         const std::vector<std::pair<std::string, std::string>>& texts, SaveOptions options) {
  const at::NoGradGuard no_grad;
  io::FolderCommit commit = io::commit_to(folder, options.replace);
  commit.add_file(kAdapterConfig, adapter_json(model, kDefaultAdapter, config));
  for (const auto& [name, content] : texts) commit.add_file(name, content);
  std::map<std::string, Tensor> values;
  std::vector<io::TensorSpec> specs;
  for (const AdapterTensor& tensor : adapter_tensors(model, kDefaultAdapter, config.lora.modules_to_save)) {
    const Tensor value = host::read(tensor.made([](Weight& weight) { return weight.use().detach(); }));
    const std::string name = config.of_body ? name_of_body(tensor.name, model) : tensor.name;
    specs.push_back({name, safetensors_name(value.scalar_type()), value.sizes().vec()});
    values[name] = value;
  }
  commit.add_safetensors(kAdapterModel, specs, {{"format", "pt"}},
                         [&](const io::TensorSpec& spec) { return host::bytes(values.at(spec.name)); });
  commit.commit({});
}

}  // namespace hone::hub
