// Names of halves, and parts of tensors that lie one behind another.
#include "hub/model_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hone/config.h"
#include "hub/fresh.h"
#include "hub/packed/find_packed.h"
#include "hub/published_names.h"

namespace hone::hub {
namespace {

constexpr std::array<std::string_view, 3> kBodies{"model.language_model.", "language_model.model.",
                                                  "model.text_model."};
constexpr std::string_view kHeads = "language_model.";
constexpr std::string_view kTower = "model.vision_tower.";
constexpr auto kParts = std::to_array<std::string_view>(
    {"language_model.", "vision_tower.", "multi_modal_projector.", "visual.", "text_model.", "vision_model.",
     "connector.", "image_newline", "audio_tower.", "embed_vision.", "embed_audio.", "vision_embedder."});
constexpr const char* kTypeOfStacks = "qwen3_vl_moe";
constexpr std::string_view kGateAndUp = ".experts.gate_up_proj", kDown = ".experts.down_proj";

// Of a model of texts and pictures that the folder's config.json describes and hone has all of; "": it describes
// another one.
std::string type_of_whole(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  if (!std::filesystem::is_regular_file(file)) return "";
  const config::Node config = config::read_file(file.string());
  const config::Node* type = config.is_map() && config.find("vision_config") ? config.find("model_type") : nullptr;
  const bool is_read_whole = type && type->kind() == config::Node::Kind::scalar && has_whole(config);
  return is_read_whole ? type->text() : "";
}

// But of granitemoe_swa's, which are one weight in hone, too.
bool is_of_all_experts(std::string_view name) {
  return (name.ends_with(kGateAndUp) || name.ends_with(kDown)) && name.find(".block_sparse_moe.") == name.npos;
}

bool begins_with_part(std::string_view name) {
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) { return name.starts_with(part); });
}

std::string name_in_whole(const std::string& name) {
  constexpr std::string_view head = "language_model.lm_head.", body = "language_model.model.", model = "model.",
                             older = "vision_model.";
  const auto from = [&](std::string_view prefix) { return name.substr(prefix.size()); };
  if (name.starts_with(head)) return "lm_head." + from(head);
  std::string made = name;
  if (name.starts_with(body)) made = "model.language_model." + from(body);
  else if (begins_with_part(name)) made = "model." + name;
  else if (name.starts_with(model) && !begins_with_part(from(model))) made = "model.language_model." + from(model);
  if (made.starts_with(kTower) && std::string_view(made).substr(kTower.size()).starts_with(older))
    made.erase(kTower.size(), older.size());
  return made;
}

// Published Gemma 4s without a tower have in two modules what is one in memory.
constexpr std::string_view kPatches = "model.vision_embedder.", kSeen = "model.embed_vision.";
std::string name_in_one(const std::string& name) {
  if (name.starts_with(kPatches)) return std::string(kSeen) + name.substr(kPatches.size());
  if (name.starts_with(kSeen)) return std::string(kSeen) + "multimodal_embedder." + name.substr(kSeen.size());
  return name;
}

}  // namespace

std::string name_in_half(const std::string& name) {
  for (const std::string_view body : kBodies)
    if (name.starts_with(body)) return "model." + name.substr(body.size());
  return name.starts_with(kHeads) ? name.substr(kHeads.size()) : name;
}

ModelTensors::ModelTensors(const std::filesystem::path& folder, std::optional<bool> whole)
    : files_(folder), places_(files_.tensors()) {
  const auto body = std::find_if(kBodies.begin(), kBodies.end(), [&](std::string_view prefix) {
    return std::any_of(places_.begin(), places_.end(), [&](const auto& p) { return p.first.starts_with(prefix); });
  });
  take_published_names(folder, places_, parts_);
  join_packed(folder);
  const std::string type = type_of_whole(folder);
  keeps_stacks_ = type == kTypeOfStacks;
  // Where hone has all of the model, and not its texts' half alone.
  if (whole ? *whole : !type.empty()) take_whole();
  else if (body != kBodies.end()) take_half(*body);
  split_experts();
}

const Packed* ModelTensors::packed(const std::string& name) const {
  const auto place = places_.find(name);
  const auto found = place == places_.end() ? packed_.end() : packed_.find(place->second.tensor);
  return found == packed_.end() ? nullptr : found->second.get();
}

std::string ModelTensors::exact_in(const std::string& name) const {
  const Packed* weight = packed(name);
  return weight ? weight->exact_in() : places_.at(name).tensor->dtype;
}

std::string ModelTensors::saved_in(const std::string& name) const {
  const Packed* weight = packed(name);
  return weight ? weight->saved_in() : places_.at(name).tensor->dtype;
}

SafetensorsSet::Place ModelTensors::add_packed(std::shared_ptr<const Packed> weight) {
  const SafetensorsSet::Place whole = weight->whole();
  packed_.emplace(whole.tensor, std::move(weight));
  return whole;
}

void ModelTensors::join_packed(const std::filesystem::path& folder) {
  PackedWeights found = find_packed(places_, folder);
  for (const std::string& name : found.passed_over) places_.erase(name);
  for (const SafetensorsSet::Place& bias : found.zero_biases) spare_.insert(bias.tensor);
  for (auto& weight : found.weights) {
    for (const SafetensorsSet::Place& part : weight->parts()) places_.erase(part.tensor->name);
    const std::string name = weight->whole().tensor->name;
    places_.emplace(name, add_packed(std::move(weight)));
  }
}

void ModelTensors::take_half(std::string_view prefix) {
  Places half;
  for (const auto& [name, place] : places_) {
    const std::string own = name_in_half(name);
    if (name.starts_with(prefix) || own.starts_with("lm_head.") || own.starts_with("score."))
      half.emplace(own, place);
    else
      left_out_.push_back(name);
  }
  places_ = std::move(half);
}

void ModelTensors::take_whole() {
  Places whole;
  for (const auto& [name, place] : places_) whole.emplace(name_in_whole(name), place);
  places_ = std::move(whole);
  const auto first = places_.lower_bound(std::string(kPatches));
  if (first == places_.end() || !first->first.starts_with(kPatches)) return;
  Places in_one;
  for (const auto& [name, place] : places_) in_one.emplace(name_in_one(name), place);
  places_ = std::move(in_one);
}

// Its router, beside the experts, has a factor of each.
bool ModelTensors::is_of_gemma4(const std::string& name) const {
  return places_.contains(name.substr(0, name.rfind(".experts.")) + ".router.per_expert_scale");
}

// Beside attention by latents. DeepSeek's and GLM's files have experts one by one.
bool ModelTensors::is_of_mistral4(const std::string& name) const {
  return places_.contains(name.substr(0, name.rfind(".mlp.experts.")) + ".self_attn.kv_a_proj_with_mqa.weight");
}

bool ModelTensors::may_be_turned(const std::string& name) const { return keeps_stacks_ && is_of_all_experts(name); }

namespace {
// Beside an expert that every token goes to.
bool is_of_llama4(const std::string& name, const auto& places) {
  constexpr std::string_view module = ".feed_forward.";
  const std::size_t at = name.find(module);
  return at != name.npos && places.contains(name.substr(0, at) + ".feed_forward.shared_expert.gate_proj.weight");
}
}  // namespace

void ModelTensors::split_experts() {
  Places made;
  for (auto place = places_.begin(); place != places_.end();) {
    const std::string& name = place->first;
    const bool of_both = name.ends_with(kGateAndUp);
    const Packed* weight = packed(name);
    const bool stays = keeps_stacks_ || (weight && !weight->can_be_split()) || places_.contains(name + "_bias") ||
                       is_of_gemma4(name) || is_of_mistral4(name) || is_of_llama4(name, places_);
    if (!is_of_all_experts(name) || place->second.tensor->shape.size() != 3 || stays) {
      ++place;
      continue;
    }
    const std::string stem = name.substr(0, name.rfind('.') + 1);
    if (of_both)
      split(stem, place->second, {"gate_proj", "up_proj"}, made);
    else
      split(stem, place->second, {"down_proj"}, made);
    place = places_.erase(place);
  }
  for (const auto& [name, place] : made)
    if (!places_.emplace(name, place).second)
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: is there twice: by itself, and as a part of {}",
                                                     place.file->path().string(), name, place.tensor->name));
}

void ModelTensors::split(const std::string& stem, const SafetensorsSet::Place& place,
                         const std::vector<const char*>& weights, Places& into) {
  const TensorInfo& all = *place.tensor;
  const std::int64_t experts = all.shape[0], rows = all.shape[1] / std::ssize(weights);
  const std::uint64_t count = static_cast<std::uint64_t>(experts) * weights.size();
  const auto packed = packed_.find(place.tensor);
  const bool in_file = packed == packed_.end();
  if (experts <= 0 || rows * std::ssize(weights) != all.shape[1] || (in_file && all.bytes() % count != 0))
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: {}: got {} rows of an expert, expected as many of gate_proj as of up_proj",
                            place.file->path().string(), all.name, all.shape[1]));
  const std::uint64_t bytes = all.bytes() / count;
  std::uint64_t begin = all.begin;
  std::int64_t row = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert)
    for (const char* weight : weights) {
      const std::string name = fmt::format("{}{}.{}.weight", stem, expert, weight);
      parts_.push_back({all.name, all.dtype, {rows, all.shape[2]}, begin, begin + bytes});
      into.emplace(name, in_file ? SafetensorsSet::Place{place.file, &parts_.back()}
                                 : add_packed(packed->second->rows(name, row, rows)));
      begin += bytes, row += rows;
    }
}

}  // namespace hone::hub
