// Finding models and adapters for commands.
#include "cli/model_place.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/log.h"
#include "cli/other_bits.h"
#include "hub/cast.h"
#include "hub/memory.h"
#include "hub/own_tokenizer.h"
#include "hub/sentence_files.h"
#include "nn/finite.h"
#include "tensor/device.h"
#include "train/adapter_base.h"

namespace hone::cli {
namespace {

// "": it is what it was.
std::string changed_base(const ModelPlace& place) {
  return place.adapter.empty() ? "" : training::changed_base(place.adapter, place.folder);
}

ModelPlace named_place(const std::string& where, const std::string& adapter) {
  ModelPlace place = find_model(where);
  if (adapter.empty()) return place;
  if (!place.adapter.empty())
    throw Error(ErrorKind::usage, "--adapter: " + where + " is an adapter already; give the model that it goes with");
  place.adapter = find_adapter_folder(adapter);
  return place;
}

std::filesystem::path folder_with(const char* file, const ModelPlace& place) {
  std::error_code ignored;
  const bool own = !place.adapter.empty() && std::filesystem::exists(place.adapter / file, ignored);
  return own ? place.adapter : place.folder;
}

}  // namespace

std::unique_ptr<Model> load_model(const ModelPlace& place, const ModelFlags& flags) {
  warn_of_other_bits(place, flags.quantization);
  return load_frozen_model(place, flags.precision.value_or(stored_precision(place.folder)),
                           devices::choose(flags.device, "--device"), flags.quantization);
}

ModelPlace model_place(const std::string& where, const std::string& adapter) {
  ModelPlace place = named_place(where, adapter);
  if (const std::string fact = changed_base(place); !fact.empty()) log::warning("{}", fact);
  return place;
}

ModelPlace model_place_to_merge(const std::string& where, const std::string& adapter) {
  ModelPlace place = named_place(where, adapter);
  const std::string fact = changed_base(place);
  if (!fact.empty() && adapter.empty())
    throw Error(ErrorKind::checkpoint, fact)
        .hint(fmt::format("put that one back; hone merge MODEL --adapter {} merges with a model all the same",
                          place.adapter.string()));
  if (!fact.empty()) log::warning("{}", fact);
  return place;
}

std::unique_ptr<Model> merged_model(const ModelPlace& place, std::optional<Precision> precision) {
  const Precision stored = stored_precision(place.folder);
  warn_of_merged_bits(place);
  // In fp32, so that what is added is not rounded away before it is added.
  auto model = load_model(place, stored == Precision::fp64 ? Precision::fp64 : Precision::fp32);
  nn::check_weights_finite(*model, place.folder.string());  // the adapter's were looked at when it was loaded
  unwrap_adapter(*model);
  const at::ScalarType type = hub::type_of(precision.value_or(stored));
  cast_weights(*model, type, place.folder.string());
  return model;
}

void cast_weights(Model& model, at::ScalarType type, const std::string& where) {
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (!weight.is_buffer()) weight.fill(hub::cast_weight(weight.use().detach(), type, where + ": " + name));
  });
}

std::filesystem::path tokenizer_folder(const ModelPlace& place) { return folder_with("tokenizer.json", place); }

std::shared_ptr<const Tokenizer> tokenizer_of(const ModelPlace& place, const std::string& given) {
  if (given.empty()) return hub::own_tokenizer(tokenizer_folder(place));
  auto tokenizer = load_tokenizer(given);
  warn_about_tokenizer(place, given, *tokenizer);
  return tokenizer;
}

void warn_about_tokenizer(const ModelPlace& place, const std::string& given, const Tokenizer& tokenizer) {
  const std::filesystem::path folder = tokenizer_folder(place);
  if (!given.empty() && tokenizer.vocab_size() > 0 && !hub::is_tokenizer_of(folder, tokenizer))
    log::warning("--tokenizer: {} is not the one in {}: to the model its ids are other tokens", given, folder.string());
}

std::filesystem::path embedding_folder(const ModelPlace& place) {
  const bool of_adapter = !place.adapter.empty() && hub::read_sentence_folder(place.adapter);
  return of_adapter ? place.adapter : place.folder;
}

std::filesystem::path generation_folder(const ModelPlace& place) {
  return folder_with("generation_config.json", place);
}

hub::ModelFiles merged_files(const ModelPlace& place, Model& model) {
  const std::filesystem::path folder = tokenizer_folder(place);
  const auto tokenizer = hub::own_tokenizer(folder);
  const bool trained_with = folder == place.adapter;
  hub::ModelFiles files =
      hub::model_files(model, place.folder, tokenizer->vocab_size() > 0 ? tokenizer.get() : nullptr,
                       {.align_ids = trained_with, .generation_from = generation_folder(place)});
  for (const auto& file : hub::copied_sentence_files(folder_with("modules.json", place))) files.texts.push_back(file);
  return files;
}

}  // namespace hone::cli
