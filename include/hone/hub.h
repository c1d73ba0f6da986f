// Hugging Face folders <-> models.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "hone/adapter.h"
#include "hone/model.h"
#include "hone/precision.h"
#include "hone/quantization.h"
#include "hone/text.h"

namespace hone {

// The precision of most of a model folder's bytes that are not quantized; fp16 files are computed in fp32.
HONE_API Precision stored_precision(const std::filesystem::path& folder);

// An HF folder, a hone checkpoint, or a run folder (its newest whole checkpoint), or "org/name" in the local HF cache.
// Returns the folder that holds config.json; throws Error(checkpoint or usage) with the command that would download it.
HONE_API std::filesystem::path find_model_folder(const std::string& where);

// Of a model, or of an adapter with the model that it goes with.
struct ModelPlace {
  std::filesystem::path folder, adapter;  // adapter "": none
};
HONE_API ModelPlace find_model(const std::string& where);
// A PEFT folder, a run with an adapter (its newest whole checkpoint) or one of its checkpoints. Throws
// Error(checkpoint).
HONE_API std::filesystem::path find_adapter_folder(const std::string& where);

// Builds the model that config.json describes (no memory yet). Keys that change the result and are not understood are
// errors; so is a head that this type of model cannot have.
HONE_API std::unique_ptr<Model> build_model(const config::Node& hf_config, const std::string& file,
                                            const HeadRequest& head = {});
// What weights are kept in: those that are trained, and those that are not. Buffers are fp32 (fp64 where these are).
struct WeightTypes {
  Precision trained, frozen;
  WeightTypes(Precision all) : trained(all), frozen(all) {}  // NOLINT: one for all
  WeightTypes(Precision trained, Precision frozen) : trained(trained), frozen(frozen) {}
};
// Weights that a folder lacks, as it was saved without a head or with another one, are filled by init_weights' rule.
struct FreshWeights {
  std::uint64_t seed = 0;
  bool other_labels = false;  // those that depend on the labels are fresh although the folder has them
  bool any = false;           // not of a head alone; and weights that the model lacks are passed over
};
// Says of a model's weights, before they are filled, which are held in fewer bits: as `how` says, or as the folder ("":
// fresh weights) holds them; all others in full. What is trained is held in full. Error(config): no weight can be
// quantized so; Error(checkpoint): the folder holds weights in a way that hone does not know.
HONE_API void choose_quantized(Model& model, const Quantization& how, const std::filesystem::path& folder);
// Fills every weight from the folder's safetensors, cast to its type: missing, extra, wrong shape or dtype are
// errors. Weights of another head than the model's are passed over; what is fresh and what was not read is said.
// Quantized ones become what they stand for where the weight is not held so.
HONE_API void load_weights(Model& model, const std::filesystem::path& folder, WeightTypes types,
                           const std::optional<FreshWeights>& fresh = {});
// Fills every weight by its Init: a function of (seed, name).
HONE_API void init_weights(Model& model, std::uint64_t seed, WeightTypes types);
// The model of find_model(where) on a device, with its weights, all in full, and its adapter, if it has one.
HONE_API std::unique_ptr<Model> load_model(const std::string& where, Precision precision, at::Device device = at::kCPU);
HONE_API std::unique_ptr<Model> load_model(const ModelPlace& place, Precision precision, at::Device device = at::kCPU);
// The same of one that is not to learn: on the host, weights that lie in their file in this precision are used where
// they lie, and processes share them.
HONE_API std::unique_ptr<Model> load_frozen_model(const ModelPlace& place, Precision precision,
                                                  at::Device device = at::kCPU, const Quantization& quantization = {});

// Puts the LoRA adapter of a PEFT folder (adapter_config.json, adapter_model.safetensors) on the model, whose weights
// are filled, and freezes all else but the modules that are saved with it. Its weights are of `precision`. Throws
// Error(checkpoint): which key does not fit this model, and which shape.
struct LoadAdapter {
  std::string name = kDefaultAdapter;
  Precision precision = Precision::fp32;
  std::optional<LoraConfig> as = {};  // of a run that goes on: dropout and learning rates as it says, PiSSA's residual
};
HONE_API std::pair<LoraConfig, LoraReport> load_adapter(Model& model, const std::filesystem::path& folder,
                                                        const LoadAdapter& how = {});
// Writing folders: src/hub/save.h and adapter_files.h.

}  // namespace hone
