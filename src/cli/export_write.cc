// Writing and checking an export.
#include "cli/export_write.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/model_place.h"
#include "hone/safetensors.h"
#include "hub/adapter_config.h"
#include "hub/copy_weights.h"
#include "hub/grid_files.h"
#include "hub/model_tensors.h"
#include "hub/packed/find_packed.h"
#include "hub/quantized_files.h"
#include "hub/save.h"
#include "hub/tensor_names.h"
#include "hub/tied_head.h"
#include "io/json.h"
#include "nn/finite_tensor.h"
#include "nn/freeze.h"
#include "tensor/dtype.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Texts = std::vector<std::pair<std::string, std::string>>;

std::optional<at::ScalarType> type_of(ExportDtype dtype) {
  switch (dtype) {
    case ExportDtype::fp32:
      return at::kFloat;
    case ExportDtype::bf16:
      return at::kBFloat16;
    case ExportDtype::fp16:
      return at::kHalf;
    case ExportDtype::source:
      break;
  }
  return std::nullopt;
}

void put(Texts& texts, const std::string& name, std::string content) {
  for (auto& [file, old] : texts)
    if (file == name) return void(old = std::move(content));
  texts.emplace_back(name, std::move(content));
}

// A JSON file among them, with some of its keys changed; the others stay as they are.
void change(Texts& texts, const std::string& name, const std::function<void(ordered_json&)>& edit) {
  for (auto& [file, content] : texts) {
    if (file != name) continue;
    ordered_json json = io::parse_ordered_json(content, name, io::kConfigJson);
    edit(json);
    content = json.dump(2) + "\n";
  }
}

// The type of most of the bytes.
std::string main_dtype(const hub::CopiedWeights& copied) {
  const auto most = std::max_element(copied.bytes_by_type.begin(), copied.bytes_by_type.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto type = most == copied.bytes_by_type.end() ? std::nullopt : from_safetensors_name(most->first);
  return type ? hf_name(*type) : "";
}

// What was written opens as a model of hone's, with each weight that it has.
void check_model(const fs::path& folder) {
  const std::string file = (folder / "config.json").string();
  const std::unique_ptr<Model> model = build_model(config::read_file(file), file);
  const hub::ModelTensors tensors(folder);
  const hub::QuantizedFiles quantized(tensors.all());
  model->each_weight([&](const std::string& name, const Weight& weight) {
    const auto found = tensors.all().find(name);
    // Files may name weights otherwise, and leave out what is tied: load_weights() knows, here shapes must agree.
    if (found == tensors.all().end()) return;
    const auto shape = quantized.shape(name).value_or(found->second.tensor->shape);
    if (shape == weight.shape() && quantized.as(name)) quantized.read(name, shape);  // its numbers, too
    if (shape != weight.shape())
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got {}, expected {}", folder.string(), name,
                                                     shape_text(shape), shape_text(weight.shape())));
  });
  if (fs::exists(folder / "tokenizer.json")) load_tokenizer(folder.string());
}

void check_adapter(const fs::path& folder) {
  hub::read_adapter_config(folder);
  const Safetensors file(folder / hub::kAdapterModel);
  if (file.tensors().empty()) throw Error(ErrorKind::checkpoint, file.path().string() + ": no tensor in it");
}

struct Written {
  std::int64_t parameters = 0;
  std::string dtype;
  std::string changed = {};  // as CardFacts has it
};

// Whether a folder has numbers that this type cannot hold as they are.
bool is_rounded(const fs::path& folder, std::optional<at::ScalarType> type) {
  if (!type) return false;
  const SafetensorsSet files(folder);
  return std::any_of(files.tensors().begin(), files.tensors().end(), [&](const auto& tensor) {
    const auto stored = from_safetensors_name(tensor.second.tensor->dtype);
    if (!stored || !c10::isFloatingType(*stored) || *stored == *type) return false;
    return c10::elementSize(*stored) >= c10::elementSize(*type);
  });
}

std::string name_of(QuantType type) { return config::Values<QuantType>::write(type).text(); }

struct ToQuantize {
  std::map<std::string, QuantizedAs> tensors;  // by their names in the folder
  std::vector<std::string> others;             // modules that transformers would have taken for quantized, too
};

ToQuantize to_quantize(const fs::path& folder, const Quantization& how) {
  if (how.type == QuantType::none || how.type == QuantType::stored) {
    if (how.skip.empty() && how.double_quant) return {};
    throw Error(ErrorKind::usage, "--quantization.skip, .double-quant: only with nf4, fp4 or int8");
  }
  if (hub::holds_quantized(folder) || hub::holds_packed(folder))
    throw Error(ErrorKind::config, folder.string() + ": its weights are quantized already")
        .hint("--quantization none makes a folder of what they stand for, which can then be quantized in another way");
  const std::string file = (folder / "config.json").string();
  const std::unique_ptr<Model> model = build_model(config::read_file(file), file);
  nn::freeze(*model);
  choose_quantized(*model, how, folder);
  const hub::ModelTensors tensors(folder);
  const hub::TensorNames names(*model, tensors.all(), FreshWeights{.any = true});
  ToQuantize made;
  std::int64_t experts = 0;
  model->each_weight([&](const std::string& name, const Weight& weight) {
    const auto* tensor = names.of(name);
    if (!tensor || weight.held_as().type == QuantType::none) return;
    if (name.find(".experts.") != std::string::npos)
      ++experts;
    else
      made.tensors[tensor->second.tensor->name] = weight.held_as();
  });
  if (made.tensors.empty()) throw Error(ErrorKind::config, folder.string() + ": has no weight to quantize but experts");
  if (experts > 0)
    log::warning("{}: {} of experts stay in full, as transformers has them in one piece, which bitsandbytes does not "
                 "quantize",
                 folder.string(), counted(experts, "weight"));
  // Whatever may be a linear module to transformers, also of a head that hone passes over.
  if (model->causal_lm()) made.others.push_back(hub::kHeadModule);
  if (const MaskedLm* lm = model->masked_lm()) made.others.push_back(lm->mask_head_names().decoder);
  constexpr std::string_view kWeight = ".weight";
  const SafetensorsSet files(folder);
  for (const auto& [name, place] : files.tensors())
    if (name.ends_with(kWeight) && place.tensor->shape.size() == 2 && !made.tensors.contains(name) &&
        name != hub::kHead)
      made.others.push_back(name.substr(0, name.size() - kWeight.size()));
  return made;
}

// Of a folder that is made in full, biases of zeros that some versions write of modules that have none.
std::set<std::string> spare_tensors(const fs::path& folder) {
  const hub::ModelTensors tensors(folder);
  if (tensors.spare().empty()) return {};
  const std::string file = (folder / "config.json").string();
  const std::unique_ptr<Model> model = build_model(config::read_file(file), file);
  const hub::TensorNames names(*model, tensors.all(), FreshWeights{.any = true});
  std::set<std::string> made;
  for (const std::string& name : names.unused)
    if (const TensorInfo* tensor = tensors.all().at(name).tensor; tensors.spare().contains(tensor))
      made.insert(tensor->name);
  return made;
}

// What need not be finite: limits, and what the model has no weight for. Looked up when it is first asked for.
std::function<bool(const std::string&)> may_be_infinite(const fs::path& folder) {
  return [folder, found = std::optional<std::set<std::string>>()](const std::string& tensor) mutable {
    if (found) return found->contains(tensor);
    found.emplace();
    const std::string file = (folder / "config.json").string();
    const std::unique_ptr<Model> model = build_model(config::read_file(file), file);
    const hub::ModelTensors tensors(folder);
    const hub::TensorNames names(*model, tensors.all(), FreshWeights{.any = true});
    for (const std::string& name : names.unused) found->insert(tensors.all().at(name).tensor->name);
    model->each_weight([&](const std::string& name, const Weight& weight) {
      const auto* place = nn::is_limit(weight) ? names.of(name) : nullptr;
      if (place) found->insert(place->second.tensor->name);
    });
    return found->contains(tensor);
  };
}

// What transformers reads such weights by. What computes then is of the type of the others.
ordered_json quantization_config(const ToQuantize& quantized, const Quantization& how, const ordered_json& config) {
  const bool int8 = how.type == QuantType::int8;
  ordered_json json = {{"quant_method", "bitsandbytes"},
                       {"load_in_8bit", int8},
                       {"load_in_4bit", !int8},
                       {"llm_int8_skip_modules", quantized.others}};
  if (int8) {
    json["llm_int8_threshold"] = 6.0;
  } else {
    json["bnb_4bit_quant_type"] = how.type == QuantType::nf4 ? "nf4" : "fp4";
    json["bnb_4bit_use_double_quant"] = how.double_quant;
    json["bnb_4bit_quant_storage"] = "uint8";
    const ordered_json half = config.value("text_config", ordered_json::object());
    for (const ordered_json* said : {&half, &config})
      for (const char* key : {"torch_dtype", "dtype"})
        if (said->contains(key)) json["bnb_4bit_compute_dtype"] = (*said)[key];
  }
  return json;
}

Written add_copied(io::FolderCommit& commit, const ExportSource& source, const ExportHow& how, const CardFlags& flags,
                   Texts& texts) {
  auto type = type_of(how.dtype);
  OnGrids on_grids;
  if (!source.facts.adapter) on_grids = put_on_grids(source, how.grid);
  if (on_grids.type && type && *type != *on_grids.type)
    throw Error(ErrorKind::usage, fmt::format("--dtype: the run rounded weights in {}; expected that, or nothing",
                                              hf_name(*on_grids.type)));
  if (on_grids.type) type = on_grids.type;
  hub::CopyWeights copy{.type = type, .max_shard_bytes = how.max_shard_bytes};
  copy.in_full = how.quantization.type == QuantType::none;
  ToQuantize quantized;
  if (!source.facts.adapter) quantized = to_quantize(source.folder, how.quantization);
  copy.quantize = quantized.tensors, copy.grids = on_grids.tensors;
  if (!source.facts.adapter && (copy.in_full || copy.type)) copy.leave_out = spare_tensors(source.folder);
  if (!source.facts.adapter) copy.may_be_infinite = may_be_infinite(source.folder);
  const hub::CopiedWeights copied = hub::copy_weights(commit, source.folder, copy);
  change(texts, "config.json", [&](ordered_json& json) {
    if (type) json.erase("torch_dtype"), json["dtype"] = hf_name(*type);
    if (copied.held.empty()) {
      json.erase("quantization_config");
      if (json.contains("text_config") && json["text_config"].is_object())
        json["text_config"].erase("quantization_config");
    }
    if (!copy.grids.empty()) json["quantization_config"] = hub::grid_config(on_grids.grids, on_grids.ignored);
    if (!copy.quantize.empty()) json["quantization_config"] = quantization_config(quantized, how.quantization, json);
  });
  if (!flags.base_model.empty())
    change(texts, hub::kAdapterConfig, [&](ordered_json& json) {
      json["base_model_name_or_path"] = flags.base_model;
      json["revision"] = nullptr;
    });
  const std::string full = main_dtype(copied);
  std::string changed;
  if (!quantized.tensors.empty()) changed = "quantized to " + name_of(how.quantization.type);
  else if (is_rounded(source.folder, type_of(how.dtype))) changed = "rounded to " + hf_name(*type);
  return {copied.parameters, copied.held.empty() ? full : fmt::format("{} and {}", fmt::join(copied.held, ", "), full),
          changed};
}

Written add_merged(io::FolderCommit& commit, const ExportSource& source, const ExportHow& how, Texts& texts) {
  const ModelPlace place = model_place_to_merge(source.folder.string(), "");
  const auto model = merged_model(place, std::nullopt);
  StopSignal::check("merging");
  const auto stored = type_of(how.dtype);
  if (stored) cast_weights(*model, *stored, place.folder.string());
  hub::ModelFiles files = merged_files(place, *model);
  files.max_shard_bytes = how.max_shard_bytes;
  texts = std::move(files.texts);
  files.texts.clear();
  hub::add_model(commit, hub::weights_of(*model), files, [] { StopSignal::check("exporting"); });
  at::ScalarType type = at::kFloat;
  model->each_weight([&](const std::string&, const Weight& weight) {
    if (!weight.is_buffer()) type = weight.use().scalar_type();
  });
  // What was trained beside numbers of fewer bits is added to the base in full.
  const QuantType beside = source.facts.recipe ? source.facts.recipe->model.quantization.type : QuantType::stored;
  std::string changed;
  if (beside != QuantType::stored && beside != QuantType::none)
    changed = fmt::format("merged with the base in full, having been trained beside its {}", name_of(beside));
  else if (is_rounded(place.folder, stored)) changed = "rounded to " + hf_name(*stored);
  return {model->parameter_count(), hf_name(type), changed};
}

// A merged model is what its base is.
CardFacts merged_facts(const Texts& texts, CardFacts facts) {
  for (const auto& [name, content] : texts) {
    if (name != "config.json") continue;
    const nlohmann::json json = io::parse_json(content, name, io::kConfigJson);
    facts.model_type = json.value("model_type", "");
    if (json.contains("architectures") && json["architectures"].is_array() && !json["architectures"].empty())
      facts.architecture = json["architectures"][0].get<std::string>();
  }
  facts.adapter = false, facts.merged = true;
  return facts;
}

}  // namespace

Exported write_export(const ExportSource& source, const ExportHow& how, const CardFlags& flags) {
  if (how.merge && !source.facts.adapter)
    throw Error(ErrorKind::usage, "--merge: " + source.folder.string() + " is no adapter");
  const bool asked = how.quantization.type != QuantType::stored || !how.quantization.skip.empty();
  if (asked && how.grid.on()) throw Error(ErrorKind::usage, "--grid: not together with --quantization");
  if ((how.merge || source.facts.adapter) && how.grid.on())
    throw Error(ErrorKind::usage, "--grid: is for a whole model, as it lies in its folder")
        .hint("export with --merge first, then the folder that this makes");
  if ((how.merge || source.facts.adapter) && asked)
    throw Error(ErrorKind::usage, "--quantization: is for a whole model, as it lies in its folder")
        .hint("export with --merge first, then the folder that this makes");
  io::FolderCommit commit = io::commit_to(how.out, how.replace);
  Texts texts = source.texts;
  Exported result{{}, source.facts};
  const Written written =
      how.merge ? add_merged(commit, source, how, texts) : add_copied(commit, source, how, flags, texts);
  if (how.merge) result.facts = merged_facts(texts, source.facts);
  result.facts.parameters = written.parameters, result.facts.dtype = written.dtype;
  result.facts.changed = written.changed;
  result.facts.name = repository_name(flags, how.out.string());
  if (!source.has_card() || how.merge) put(texts, "README.md", model_card(result.facts, flags));
  for (const auto& [name, content] : texts) commit.add_file(name, content);
  const fs::path hidden = commit.folder().path();
  during("checking what was written",
         [&] { how.merge || !source.facts.adapter ? check_model(hidden) : check_adapter(hidden); });
  StopSignal::check("exporting");
  commit.commit({});
  const Folder made = Env::process().open_folder(how.out);
  if (const auto problems = io::verify(made, io::Verify::full); !problems.empty())
    throw Error(ErrorKind::checkpoint, fmt::format("{}: written, but: {}", how.out.string(), join(problems, "; ")));
  for (const io::ManifestFile& file : io::Manifest::read(made).files) result.files.push_back({file.name, file.size});
  return result;
}

}  // namespace hone::cli
