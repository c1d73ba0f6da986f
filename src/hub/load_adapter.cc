// PEFT's folders, read: an adapter on each module that the file has one for.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "hone/hub.h"
#include "hone/safetensors.h"
#include "hub/adapter_files.h"
#include "hub/adapter_patterns.h"
#include "hub/expert_stacks.h"
#include "hub/memory.h"
#include "hub/model_tensors.h"
#include "nn/lora.h"
#include "nn/lora_start.h"
#include "nn/lora_targets.h"
#include "nn/trained_rows.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

// What the file has for one module.
struct Parts {
  Tensor a, b, magnitude;
  Tensor rows = {};  // of tokens, instead of all else
};

class Reader {
 public:
  // saved: modules_to_save.
  Reader(Model& model, const fs::path& folder, at::ScalarType type, const std::vector<std::string>& saved)
      : file_((folder / hub::kAdapterModel)), type_(type) {
    of_whole_ = model.pictures() != nullptr;
    model.each_weight([&](const std::string& name, Weight& weight) { weights_[name] = &weight; });
    for (const auto& [name, weight] : weights_)
      if (nn::is_tied_table(model, *weight)) tied_ = weight;
    for (const TensorInfo& info : file_.tensors()) take(info, saved);
    add_prefix(model.base_prefix());
    take_other_body(model);
    for (const auto& [module, parts] : modules)
      if (parts.rows.defined()) rows[module] = parts.rows;
    for (const auto& [module, table] : rows) modules.erase(module);
  }
  std::map<std::string, Parts> modules;  // by module
  std::map<std::string, Tensor> rows;    // likewise: those of tables that are trained by themselves
  std::map<std::string, Tensor> whole,
      base_copies;  // by weight: modules to save; what PEFT keeps of tables of the base

  const std::string path() const { return file_.path().string(); }

  // As PEFT calls the module that the adapter was made on.
  const std::string& name_in_file(const std::string& module) const { return file_names_.at(module); }

  // null: the model has none of that name.
  Weight* find(const std::string& name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? nullptr : found->second;
  }
  Weight& weight_of(const std::string& module, const std::string& key) const {
    Weight* const weight = find(module + ".weight");
    if (!weight && (module == "score" || module == "classifier"))
      throw Error(
          ErrorKind::checkpoint,
          fmt::format("{}: {}: the adapter comes with a classification head, which its base has not", path(), key))
          .hint(
              "give the base such a head first: transformers' AutoModelForSequenceClassification (of tokens: "
              "AutoModelForTokenClassification).from_pretrained(base, num_labels=N).save_pretrained(folder); hone then "
              "reads the adapter on that folder");
    if (!weight && find(module + ".gate_up_proj"))
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: gpt-oss's experts, which are one tensor, take no adapter "
                                                     "here", path(), key))
          .hint("merge the adapter with PEFT, and give hone the merged model");
    if (!weight)
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: the model has no {}{}", path(), key, module,
                                                     tied_ && module == kHead ? " of its own: it is tied to the table "
                                                                                "of its embeddings"
                                                                              : ""))
          .hint(tied_ && module == kHead ? "merge the adapter with PEFT, and give hone the merged model"
                                          : "is this adapter for another base model?");
    return *weight;
  }
  // Of the base, of which PEFT keeps a copy.
  const Weight& copied(const std::string& name) const {
    const std::string module = name.substr(0, name.rfind('.'));
    return tied_ && module == kHead ? *tied_ : weight_of(module, name);
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
    if (host::number(at::isfinite(made).all()) == 0)
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: not all of it is finite", path(), info.name))
          .hint("the training that made it went wrong; take an earlier checkpoint");
    return made.to(type_);
  }

  // Of an adapter made on the body alone, as PEFT's for feature extraction are.
  void add_prefix(const std::string& prefix) {
    std::map<std::string, Parts> all;
    for (auto& [module, parts] : modules) {
      const bool of_body = !find(module + ".weight") && find(prefix + module + ".weight");
      if (of_body) file_names_[prefix + module] = prefix + file_names_.at(module);
      all[of_body ? prefix + module : module] = std::move(parts);
    }
    modules = std::move(all);
  }

  // By the names that the model's own files have, where the body has another one there.
  void take_other_body(const Model& model) {
    std::map<std::string, std::string> own;
    for (const auto& [name, weight] : weights_) own[hub::name_in_memory(model, name)] = name;
    const auto renamed = [&](const std::string& name, const std::string& end) {
      const auto found = own.find(name + end);
      return found == own.end() ? name : found->second.substr(0, found->second.size() - end.size());
    };
    std::map<std::string, Parts> all;
    for (auto& [module, parts] : modules) {
      const std::string name = renamed(module, ".weight");
      if (name != module) file_names_[name] = file_names_.at(module);
      all[name] = std::move(parts);
    }
    modules = std::move(all);
    for (auto* tensors : {&whole, &base_copies}) {
      std::map<std::string, Tensor> named;
      for (auto& [name, tensor] : *tensors) named[renamed(name, "")] = std::move(tensor);
      *tensors = std::move(named);
    }
  }

  // What A and B are by their names must have two dimensions.
  Tensor read_factor(const TensorInfo& info) const {
    if (info.shape.size() == 2 && info.shape[0] > 0 && info.shape[1] > 0) return read(info);
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got shape {}, expected two dimensions", path(), info.name,
                                                   shape_text(info.shape)));
  }

  void take(const TensorInfo& info, const std::vector<std::string>& saved) {
    std::string name = info.name;
    if (!name.starts_with(hub::kPeftPrefix))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: expected a name that begins with {}", path(), name, hub::kPeftPrefix));
    const std::string there = name.substr(std::string_view(hub::kPeftPrefix).size());
    name = of_whole_ ? there : hub::name_in_half(there);
    const auto ends = [&](std::string_view end) {
      if (!name.ends_with(end)) return false;
      name.erase(name.size() - end.size());
      file_names_[name] = there.substr(0, there.size() - end.size());
      return true;
    };
    if (ends(".lora_A.weight") || ends(".lora_embedding_A")) {
      modules[name].a = read_factor(info);
    } else if (ends(".lora_B.weight") || ends(".lora_embedding_B")) {
      modules[name].b = read_factor(info);
    } else if (ends(".lora_magnitude_vector") || ends(".lora_magnitude_vector.weight")) {
      modules[name].magnitude = read(info).flatten();
    } else if (ends(".token_adapter.trainable_tokens_delta")) {
      modules[name].rows = read_factor(info);
    } else if (ends(".token_adapter.base_layer.weight") || ends(".base_layer.weight")) {
      base_copies[name + ".weight"] = read(info);
    } else if (name.find("lora_") != std::string::npos) {
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: this part of an adapter is not supported", path(), info.name));
    } else {
      name = replace_all(name, ".modules_to_save.", ".");
      const std::string plain = replace_all(name, ".original_module.", ".");
      // What is not said to be trained is of the base.
      const bool trained = plain == name && nn::is_within_any(name.substr(0, name.rfind('.')), saved);
      (trained ? whole : base_copies)[plain] = read(info);
    }
  }

  static constexpr std::string_view kHead = "lm_head";
  bool of_whole_ = false;  // of a model of texts and pictures, whose names are the file's
  Safetensors file_;
  at::ScalarType type_;
  std::map<std::string, Weight*> weights_;
  std::map<std::string, std::string> file_names_;  // of modules
  const Weight* tied_ = nullptr;  // the table that is the head, too
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

// Whether PEFT's start of that name leaves the base without what the factors begin with.
bool takes_from_base(const std::string& start) {
  for (const char* known : {"pissa", "olora", "corda", "loftq", "lora_ga"})
    if (start.starts_with(known)) return true;
  return false;
}

// One folder's way onto a model; the members are its state.
class Loading {
 public:
  Loading(Model& model, const fs::path& folder, const LoadAdapter& how)
      : model_(model),
        how_(how),
        config_(hub::read_adapter_config(folder)),
        own_(config_.lora),
        lora_(how.as.value_or(own_)),
        file_(model, folder, hub::type_of(how.precision), own_.modules_to_save),
        residual_(how.as && nn::lora_start(lora_.init).takes_from_weight()) {
    leave_out_others();
    unstack(model, file_.modules, file_.path());
    if (takes_from_base(own_.init))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: init_lora_weights: {} goes with a base model that it changed, which is not there",
                              (folder / hub::kAdapterConfig).string(), hone::quoted(own_.init)))
          .hint(
              "merge it with PEFT; of pissa, olora and corda save_pretrained(..., "
              "path_initial_model_for_weight_conversion=...) writes an adapter for the base as it was");
    if (file_.modules.empty() && file_.whole.empty() && file_.rows.empty())
      throw Error(ErrorKind::checkpoint, left_out_.empty() ? file_.path() + ": no part of an adapter"
                                                           : file_.path() + ": adapter_config.json selects none of its "
                                                                            "modules; see target_modules there");
    if (how.as) return;
    std::vector<std::string> modules;
    for (const auto& [module, parts] : file_.modules) modules.push_back(module);
    hub::settle_patterns(config_, modules, lora_);
  }

  // What run() will do, of a model without weights.
  std::pair<LoraConfig, LoraReport> plan() {
    prepare();
    for (const auto& [module, parts] : file_.modules) {
      report_.parameters += (partner_of(module, parts).empty() ? parts.a.numel() : 0) + parts.b.numel();
      if (parts.magnitude.defined()) report_.parameters += parts.magnitude.numel();
      report_.adapted.push_back(module);
    }
    for (const auto& [module, rows] : file_.rows) report_.parameters += rows.numel();
    for (const auto& [name, value] : file_.whole) whole_weight(name, value).set_trainable(true);
    return {std::move(lora_), std::move(report_)};
  }

  std::pair<LoraConfig, LoraReport> run() {
    tell_selection();
    check_base();
    prepare();
    for (const auto& [module, parts] : file_.modules) put(module, parts);
    for (const auto& [module, rows] : file_.rows) put_rows(module, rows);
    for (const auto& [name, value] : file_.whole) put_whole(name, value);
    return {std::move(lora_), std::move(report_)};
  }

 private:
  // As PEFT: an adapter sits where the configuration says, whatever else the file has. Experts have names of their own
  // there.
  void leave_out_others() {
    std::erase_if(file_.modules, [&](const auto& one) {
      const std::string& module = one.first;
      const bool plain = module.find(".experts") == std::string::npos && file_.find(module + ".weight");
      if (!plain || config_.selection.selects(file_.name_in_file(module))) return false;
      left_out_.push_back(module);
      return true;
    });
  }

  void tell_selection() const {
    if (const std::string& unread = config_.selection.unread(); !unread.empty())
      log::warning("{}: adapter_config.json has an expression that cannot be read here, {}: all that the file has is "
                   "taken",
                   file_.path(), hone::quoted(unread));
    if (!left_out_.empty())
      log::warning("{}: adapter_config.json does not select all that is in it: left out, as in PEFT, {}", file_.path(),
                   list_names(left_out_, 5));
  }

  void prepare() {
    for (const auto& [module, parts] : file_.modules) check(module, parts);
    for (const auto& [module, rows] : file_.rows) check_rows(module, rows);
    if (file_.rows.empty() && !own_.trainable_token_indices.empty())
      throw Error(ErrorKind::checkpoint,
                  file_.path() + ": adapter_config.json has trainable_token_indices, but nothing is here for them");
    check_all_there();
    model_.each_weight([](const std::string&, Weight& weight) {
      if (!weight.is_buffer()) weight.set_trainable(false);
    });
  }

  [[noreturn]] void fail(const std::string& module, const std::string& fact) const {
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: {}", file_.path(), module, fact));
  }

  void check(const std::string& module, const Parts& parts) const {
    const Weight& weight = file_.weight_of(module, module + ".lora_A");
    if (!parts.a.defined() || !parts.b.defined())
      fail(module, fmt::format("lora_{} is missing", parts.a.defined() ? "B" : "A"));
    if (!nn::can_have_adapter(weight)) fail(module, "no adapter can sit there");
    const auto [outputs, inputs] = nn::Lora::sides_of(weight);
    file_.check_shape(module + ".lora_A", parts.a, {parts.a.size(0), inputs});
    file_.check_shape(module + ".lora_B", parts.b, {outputs, parts.a.size(0)});
    const std::int64_t rank = hub::rank_of(config_, module);
    if (parts.a.size(0) != rank)
      fail(module, fmt::format("lora_A has rank {}, but adapter_config.json says {}", parts.a.size(0), rank));
    const bool magnitude = parts.magnitude.defined();
    if (magnitude != own_.dora)
      fail(module,
           fmt::format("use_dora is {}, but the magnitudes are {}", own_.dora, magnitude ? "there" : "missing"));
    if (magnitude) file_.check_shape(module + ".lora_magnitude_vector", parts.magnitude, {outputs});
  }

  std::vector<std::int64_t> tokens_of(const Weight& table) const {
    try {
      return nn::token_numbers(own_.trainable_token_indices, table.shape()[0], "trainable_token_indices");
    } catch (const Error& error) {
      throw Error(ErrorKind::checkpoint, fmt::format("{}: adapter_config.json: {}", file_.path(), error.what()))
          .hint("is this adapter for another base model?");
    }
  }

  // PEFT's rows of tokens, of the table of embeddings alone.
  void check_rows(const std::string& module, const Tensor& rows) const {
    const Weight& weight = file_.weight_of(module, module);
    const nn::NamedWeight table = nn::table_of_tokens(model_, own_, {});
    if (&weight != table.weight)
      fail(module, fmt::format("rows of tokens, which are read for {} alone", table.module));
    const auto tokens = tokens_of(weight);
    file_.check_shape(module + ".token_adapter.trainable_tokens_delta", rows, {std::ssize(tokens), weight.shape()[1]});
  }

  // Of the modules that the configuration names each that the model has.
  void check_all_there() const {
    const auto missing = [&](const char* option, const std::string& module) {
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: adapter_config.json has it among its {}, but there is "
                                                     "nothing for it here",
                                                     file_.path(), module, option))
          .hint("is the file whole, and this its base model?");
    };
    for (const std::string& module : nn::modules_named(model_, config_.targets))
      if (!file_.modules.contains(module) && !nn::is_within_any(module, own_.modules_to_save))
        missing("target_modules", module);
    model_.each_weight([&](const std::string& name, Weight& weight) {
      const std::string module = name.substr(0, name.rfind('.'));
      if (!weight.is_buffer() && nn::is_within_any(module, own_.modules_to_save) && !file_.whole.contains(name))
        missing("modules_to_save", name);
    });
  }

  // Tables of the base that PEFT puts beside an adapter on them.
  void check_base() const {
    for (const auto& [name, value] : file_.base_copies) {
      const Weight& weight = file_.copied(name);
      file_.check_shape(name, value, weight.shape());
      const auto same = [&](at::ScalarType type) { return at::equal(value.to(type), weight.use().to(type)); };
      // PEFT may have had the base in another type.
      if (same(weight.use().scalar_type()) || same(at::kBFloat16) || same(at::kHalf)) continue;
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: not the base model's: it was trained or resized", file_.path(), name))
          .hint("merge the adapter with PEFT, and give hone the merged model");
    }
  }

  // "": it has none. Of an expert's up_proj: its gate_proj, whose A is its own.
  std::string partner_of(const std::string& module, const Parts& parts) const {
    hub::ExpertName expert;
    if (!hub::parse_expert(module, expert) || expert.part != "up_proj") return "";
    const auto gate = file_.modules.find(module.substr(0, module.rfind('.')) + ".gate_proj");
    if (gate == file_.modules.end()) return "";
    if (at::equal(gate->second.a, parts.a)) return gate->first;
    fail(module,
         "lora_A is another one than gate_proj's, as PEFT has it with transformers 4; expected experts whose "
         "gate and up are one weight");
  }

  void put(const std::string& module, const Parts& parts) {
    Weight& weight = file_.weight_of(module, module);
    const std::int64_t rows = parts.a.size(0), rank = residual_ ? rows / 2 : rows;
    // PiSSA's and OLoRA's file has twice the rank, and an alpha that goes with it.
    const nn::Lora::Options options{.rank = rank,
                                    .scale = own_.scale(rows, hub::alpha_of(config_, module)),
                                    .dropout = lora_.dropout,
                                    .magnitude = parts.magnitude.defined()};
    const std::string partner = partner_of(module, parts);
    auto adapter = std::make_unique<nn::Lora>(weight, options, bias_of(model_, module), module,
                                              partner.empty() ? nullptr : made_.at(partner));
    if (adapter->owns_a()) adapter->a().fill(parts.a.narrow(0, 0, rank).contiguous());
    adapter->b().fill(parts.b.narrow(1, 0, rank).contiguous());
    if (residual_) adapter->set_start(parts.a.narrow(0, rank, rank).contiguous(), parts.b.narrow(1, rank, rank).neg());
    if (options.magnitude) adapter->magnitude()->fill(parts.magnitude);
    adapter->b().set_learning_rate_scale(lora_.loraplus_lr_ratio);
    adapter->each_weight([&](const std::string&, Weight& own) {
      report_.parameters += own.numel();
      own.set_trainable(how_.name == kDefaultAdapter);
    });
    made_[module] = adapter.get();
    weight.set_adapter(std::move(adapter), how_.name);
    report_.adapted.push_back(module);
  }

  void put_rows(const std::string& module, const Tensor& value) {
    Weight& weight = file_.weight_of(module, module);
    auto made = std::make_unique<nn::TrainedRows>(weight, tokens_of(weight));
    made->rows().fill(value);
    made->rows().set_trainable(how_.name == kDefaultAdapter);
    report_.parameters += value.numel();
    weight.set_adapter(std::move(made), how_.name);
  }

  Weight& whole_weight(const std::string& name, const Tensor& value) {
    Weight* const weight = file_.find(name);
    if (!weight) file_.weight_of(name.substr(0, name.rfind('.')), name);  // says so
    if (!weight) fail(name, "the model has no such weight");
    file_.check_shape(name, value, weight->shape());
    if (nn::is_tied_table(model_, *weight))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: here the head uses this table, too, and PEFT has trained a copy of it: for "
                              "look-ups alone, or with ensure_weight_tying for both; hone reads neither",
                              file_.path(), name))
          .hint("merge the adapter with PEFT, and give hone the merged model");
    report_.saved.push_back(name.substr(0, name.rfind('.')));
    return *weight;
  }

  void put_whole(const std::string& name, const Tensor& value) {
    Weight& weight = whole_weight(name, value);
    weight.set_trainable(true);
    weight.fill(value);
  }

  Model& model_;
  const LoadAdapter& how_;
  const hub::AdapterConfig config_;
  const LoraConfig& own_;  // as the file has it
  LoraConfig lora_;
  Reader file_;
  std::vector<std::string> left_out_;
  const bool residual_;
  std::map<std::string, nn::Lora*> made_;
  LoraReport report_;
};

}  // namespace

std::pair<LoraConfig, LoraReport> hub::plan_adapter(Model& model, const std::filesystem::path& folder) {
  const LoadAdapter standard;
  return Loading(model, folder, standard).plan();
}

std::pair<LoraConfig, LoraReport> load_adapter(Model& model, const std::filesystem::path& folder,
                                               const LoadAdapter& how) {
  const at::NoGradGuard no_grad;
  return Loading(model, folder, how).run();
}

}  // namespace hone
