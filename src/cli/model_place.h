// A model as commands are given it: a folder, or that and an adapter.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "hone/config_read.h"
#include "hone/hub.h"
#include "hub/save.h"

namespace hone::cli {

// How a model is computed with that is not to learn: flags of several commands.
struct ModelFlags {
  std::optional<Precision> precision = {};
  Quantization quantization = {};
  std::string device = "auto";
  static constexpr auto fields() {
    using C = ModelFlags;
    return std::tuple{
        field("precision", &C::precision,
              "Precision of weights and activations; default: as the model is stored, and fp32 where that is fp16."),
        field("quantization", &C::quantization, "Weights of blocks in fewer bits, which take less memory."),
        field("device", &C::device, "What computes: cpu, cuda or cuda:1; auto = the GPU where there is one.")};
  }
};
std::unique_ptr<Model> load_model(const ModelPlace& place, const ModelFlags& flags);

// `where`: what find_model() takes; with `adapter` (find_adapter_folder()) it must be a whole model. Throws
// Error(usage). A base that is no longer what a run's adapter was trained beside: a warning.
ModelPlace model_place(const std::string& where, const std::string& adapter);
// An error, unless the model was named with the adapter.
ModelPlace model_place_to_merge(const std::string& where, const std::string& adapter);
// The model with its adapter in it and no longer beside it; precision: of what comes of it, as it is stored by default.
std::unique_ptr<Model> merged_model(const ModelPlace& place, std::optional<Precision> precision);
// Its weights, but not its buffers, in this type. Error(checkpoint), which begins with `where`: it cannot hold a
// number.
void cast_weights(Model& model, at::ScalarType type, const std::string& where);
// The small files of a merged model: those of its base, with the adapter's tokenizer and ends of answers where it has
// them.
hub::ModelFiles merged_files(const ModelPlace& place, Model& model);
// The folder whose generation_config.json counts: the adapter's, where it has one.
std::filesystem::path generation_folder(const ModelPlace& place);
// The folder that says how a model embeds: the adapter's, where it says so, else the model's own.
std::filesystem::path embedding_folder(const ModelPlace& place);
// The folder whose tokenizer and chat template go with it: the adapter's, where it has a tokenizer.
std::filesystem::path tokenizer_folder(const ModelPlace& place);
// given: the flag --tokenizer; "": it was not given. The model's own (hub::own_tokenizer) then. A warning where it is
// another one.
std::shared_ptr<const Tokenizer> tokenizer_of(const ModelPlace& place, const std::string& given);
// That warning.
void warn_about_tokenizer(const ModelPlace& place, const std::string& given, const Tokenizer& tokenizer);

}  // namespace hone::cli
