// Which modules get an adapter, by PEFT's rules for names.
#include "nn/lora_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "base/strings.h"
#include "hone/layers.h"
#include "nn/experts.h"
#include "nn/lora.h"

namespace hone::nn {
namespace {

constexpr std::string_view kWeight = ".weight", kAllLinear = "all-linear";

bool is_end(const std::string& module, const std::string& end) {
  return module == end ||
         (module.size() > end.size() && module.ends_with(end) && module[module.size() - end.size() - 1] == '.');
}

// A list's entry: an end of the name, or an expression of the whole.
bool matches(const std::string& module, const std::string& entry) {
  return is_expression(entry) ? std::regex_match(module, std::regex(entry)) : is_end(module, entry);
}

bool matches_any(const std::string& module, const std::vector<std::string>& entries) {
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return matches(module, entry); });
}

// A router, or one of many experts.
bool is_of_experts(const std::string& module) {
  return module.find(".experts.") != std::string::npos || is_router(module);
}

std::vector<NamedWeight> modules_of(Model& model) {
  std::vector<NamedWeight> all;
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (name.ends_with(kWeight)) all.push_back({name.substr(0, name.size() - kWeight.size()), &weight});
  });
  return all;
}

// What names end with, once each: what one would write.
std::vector<std::string> ends_of(const std::vector<NamedWeight>& modules) {
  std::vector<std::string> ends;
  for (const NamedWeight& one : modules) {
    const std::string end = one.module.substr(one.module.rfind('.') + 1);
    if (can_have_adapter(*one.weight) && std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
  return ends;
}

// In a module whose name ends with the entry's letters, as PEFT has it, or fits the expression.
bool is_within(const std::string& name, const std::string& entry) {
  const std::regex expression(is_expression(entry) ? "(.*\\.)?(" + entry + ")" : "");
  for (std::size_t end = 0; end != std::string::npos;) {
    end = name.find('.', end + 1);
    const std::string module = name.substr(0, end);
    if (is_expression(entry) ? std::regex_match(module, expression) : module.ends_with(entry)) return true;
  }
  return false;
}

// PEFT trains whole what a model's head is called, and what ends with these letters: DistilBERT's pre_classifier, too.
bool is_of_classifier(const Model& model, const NamedWeight& one) {
  const Classifier* classifier = model.classifier();
  if (!classifier) return false;
  const std::string prefix = classifier->weights_prefix();
  return is_within(one.module, prefix.substr(0, prefix.size() - 1));
}

// PEFT refuses adapters there in models that are read through fast kernels, which take the weight by itself; that of
// steps transformers takes so in any case, and an adapter on it would do nothing there.
bool is_refused_by_peft(const std::string& model_type, const std::string& module) {
  const bool first = model_type == "mamba" || model_type == "falcon_mamba";
  const bool fast = first || model_type == "falcon_h1" || model_type == "nemotron_h" || model_type == "mamba2";
  return (fast && is_end(module, "out_proj")) || ((first || model_type == "jamba") && is_end(module, "dt_proj"));
}

std::string model_type_of(const Model& model) {
  const config::Node config = model.hf_config();
  const config::Node* type = config.find("model_type");
  return type ? type->text() : "";
}

// Which transformers 5 has under other names: Hy3's shared experts, LFM3's gates of heads.
bool is_hy_shared(const std::string& module) { return module.find(".mlp.shared_mlp.") != std::string::npos; }
bool is_lfm_gate(const std::string& module) { return module.ends_with(".self_attn.gate_proj"); }

// Layers of the body: what makes the outputs, chooses among experts, or is an expert, be it shared, is left out.
bool is_plain_linear(const Model& model, const NamedWeight& one) {
  if (one.weight->use_as() == WeightUse::table || !can_have_adapter(*one.weight)) return false;
  const CausalLm* lm = model.causal_lm();
  const MaskedLm* masked = model.masked_lm();
  if (one.module == "lm_head" || (lm && lm->head().is_weight(*one.weight))) return false;
  if (masked && masked->mask_head().is_weight(*one.weight)) return false;
  return !is_of_classifier(model, one) && !is_of_experts(one.module) && !is_hy_shared(one.module) &&
         !is_lfm_gate(one.module) && one.module.find(".shared_expert") == std::string::npos;
}

void refuse_tied_table(const Model& model, const NamedWeight& one) {
  if (!is_tied_table(model, *one.weight)) return;
  throw Error(ErrorKind::config,
              fmt::format("adapter.modules_to_save: {}: the head uses this table, too; PEFT, whose files adapters are, "
                          "would train a copy for look-ups alone",
                          one.module))
      .hint("trainable_token_indices trains some tokens' rows for both; all of them are trained without an adapter");
}

}  // namespace

void refuse_unnamed(const std::string& module, const std::string& option) {
  const bool mixtral = module.find(".block_sparse_moe.") != std::string::npos;
  const bool gpt_oss = option == "targets" && module.ends_with(".mlp.router");  // whole it may be trained
  const bool stacked = module.ends_with(".experts.gate_up_proj") || module.ends_with(".experts.down_proj");
  const bool lfm2 = !stacked && module.find(".feed_forward.experts.") != std::string::npos;
  const bool jamba = lfm2 && module.ends_with("_proj");
  const bool nemotron_h = module.find(".mixer.experts.") != std::string::npos;
  const bool hy = is_hy_shared(module), lfm3 = is_lfm_gate(module);
  if (!mixtral && !gpt_oss && !lfm2 && !nemotron_h && !hy && !lfm3) return;
  const std::string why =
      gpt_oss ? "not for gpt-oss's routers, which are no linear layers for PEFT, so that it could not read the file"
              : fmt::format("not for {}, which transformers 5 has under other names, so PEFT could not read the file",
                            mixtral ? "Mixtral's routers and experts"
                                    : jamba ? "Jamba's experts"
                                    : lfm2  ? "LFM2's experts"
                                    : hy    ? "Hy3's shared experts"
                                    : lfm3  ? "LFM3's gates of heads"
                                            : "Nemotron-H's experts");
  throw Error(ErrorKind::config, fmt::format("adapter.{}: {}: {}", option, module, why))
      .hint("name weights of the attention: q_proj, k_proj, v_proj, o_proj");
}

namespace {

Error unknown(const char* option, const std::string& entry, const Model& model,
              const std::vector<NamedWeight>& modules) {
  const CausalLm* lm = model.causal_lm();
  if (lm && lm->head().tied() && is_end("lm_head", entry))
    return Error(ErrorKind::config, fmt::format("adapter.{}: {}: the model has no head of its own: it is tied to the "
                                                "table of its embeddings",
                                                option, hone::quoted(entry)));
  const std::vector<std::string> ends = ends_of(modules);
  Error error(ErrorKind::config, fmt::format("adapter.{}: {}: no module of the model has such a name; there are {}",
                                             option, hone::quoted(entry), list_names(ends, 12)));
  const std::string near = hone::config::nearest(entry, ends);
  return near.empty() ? error : std::move(error).hint("did you mean " + near + "?");
}

}  // namespace

bool is_expression(const std::string& text) { return text.find_first_of("\\^$*+?()[]{}|") != std::string::npos; }

bool is_tied_table(const Model& model, const Weight& weight) {
  const CausalLm* lm = model.causal_lm();
  const MaskedLm* masked = model.masked_lm();
  const Head* head = lm ? &lm->head() : masked ? &masked->mask_head() : nullptr;
  return head && head->tied() && head->is_weight(weight);
}

bool is_within_any(const std::string& name, const std::vector<std::string>& entries) {
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return is_within(name, entry); });
}

bool matches_pattern(const std::string& module, const std::string& pattern) {
  return std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")"));
}

std::vector<NamedWeight> lora_targets(Model& model, const LoraConfig& config) {
  const std::vector<NamedWeight> modules = modules_of(model);
  for (const std::string& entry : config.exclude)
    if (std::none_of(modules.begin(), modules.end(), [&](const auto& one) { return matches(one.module, entry); }))
      throw unknown("exclude", entry, model, modules);
  const std::string type = model_type_of(model);
  std::set<std::string> used;
  std::vector<NamedWeight> chosen;
  for (const NamedWeight& one : modules) {
    bool wanted = false;
    const bool refused = is_refused_by_peft(type, one.module);
    for (const std::string& entry : config.targets) {
      const bool fits =
          entry == kAllLinear ? is_plain_linear(model, one) && !refused : matches(one.module, entry);
      if (!fits) continue;
      used.insert(entry);
      wanted = true;
      if (refused)
        throw Error(ErrorKind::config, fmt::format("adapter.targets: {}: PEFT has no adapters there in {}, so it could "
                                                   "not read the file",
                                                   hone::quoted(entry), type))
            .hint("name other layers: in_proj, q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj");
      // An expression may take in norms on its way: these are not meant. A name says what it means.
      if (is_expression(entry)) continue;
      if (is_of_classifier(model, one))
        throw Error(ErrorKind::config,
                    fmt::format("adapter.targets: {}: the classification head is trained whole", hone::quoted(entry)));
      if (can_have_adapter(*one.weight)) continue;
      throw Error(ErrorKind::config, fmt::format("adapter.targets: {}: {} is neither a product nor a table of rows",
                                                 hone::quoted(entry), one.module));
    }
    if (wanted && can_have_adapter(*one.weight) && !matches_any(one.module, config.exclude) &&
        !is_of_classifier(model, one) && !is_within_any(one.module, config.modules_to_save))
      chosen.push_back(one);
  }
  for (const std::string& entry : config.targets)
    if (!used.contains(entry)) throw unknown("targets", entry, model, modules);
  if (chosen.empty()) throw Error(ErrorKind::config, "adapter: nothing of the model gets one");
  return chosen;
}

std::vector<NamedWeight> whole_modules(Model& model, const std::vector<std::string>& entries) {
  std::vector<NamedWeight> all;
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (!weight.is_buffer()) all.push_back({name.substr(0, name.rfind('.')), &weight});
  });
  std::erase_if(all, [&](const NamedWeight& one) {
    return !is_within_any(one.module, entries) && !(is_of_classifier(model, one) && one.weight->trainable());
  });
  return all;
}

void check_modules_to_save(Model& model, const std::vector<std::string>& entries) {
  const std::vector<NamedWeight> all = whole_modules(model, entries);
  for (const std::string& entry : entries)
    if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return is_within(one.module, entry); }))
      throw unknown("modules_to_save", entry, model, modules_of(model));
  for (const NamedWeight& one : all) refuse_tied_table(model, one), refuse_unnamed(one.module, "modules_to_save");
}

NamedWeight table_of_tokens(Model& model, const LoraConfig& config, const std::vector<NamedWeight>& targets) {
  const auto refuse = [](const std::string& fact) {
    return Error(ErrorKind::config, "adapter.trainable_token_indices: " + fact);
  };
  if (model.seq2seq_lm()) throw refuse("not for models of an encoder and a decoder, which share their table");
  const std::vector<NamedWeight> modules = modules_of(model);
  const auto found = std::find_if(modules.begin(), modules.end(), [&](const NamedWeight& one) {
    return one.weight->use_as() == WeightUse::table && one.weight->shape()[0] == model.vocab_size();
  });
  if (found == modules.end()) throw refuse("the model has no table of embeddings");
  if (std::any_of(targets.begin(), targets.end(), [&](const auto& one) { return one.weight == found->weight; }))
    throw refuse(fmt::format("{} is among adapter.targets, too; expected one of them", found->module));
  if (is_within_any(found->module, config.modules_to_save))
    throw refuse(fmt::format("{} is among adapter.modules_to_save, too; expected one of them", found->module));
  return *found;
}

std::vector<std::string> modules_named(Model& model, const std::vector<std::string>& targets) {
  std::vector<std::string> names;
  for (const NamedWeight& one : modules_of(model))
    if (!is_of_experts(one.module) && can_have_adapter(*one.weight) && matches_any(one.module, targets))
      names.push_back(one.module);
  return names;
}

std::vector<std::string> saved_names(Model& model, const std::vector<std::string>& entries) {
  std::vector<std::string> names;
  for (const std::string& entry : entries)
    if (!is_expression(entry)) names.push_back(entry);
  for (const NamedWeight& one : whole_modules(model, entries))
    if (!is_within_any(one.module, names)) names.push_back(one.module);
  return names;
}

}  // namespace hone::nn
