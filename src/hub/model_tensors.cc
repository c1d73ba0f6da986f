// Names of halves, and parts of tensors that lie one behind another.
#include "hub/model_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hone::hub {
namespace {

constexpr std::array<std::string_view, 2> kBodies{"model.language_model.", "language_model.model."};
constexpr std::string_view kHeads = "language_model.";
constexpr std::string_view kGateAndUp = ".experts.gate_up_proj", kDown = ".experts.down_proj";

}  // namespace

std::string name_in_half(const std::string& name) {
  for (const std::string_view body : kBodies)
    if (name.starts_with(body)) return "model." + name.substr(body.size());
  return name.starts_with(kHeads) ? name.substr(kHeads.size()) : name;
}

ModelTensors::ModelTensors(const std::filesystem::path& folder) : files_(folder), places_(files_.tensors()) {
  const auto body = std::find_if(kBodies.begin(), kBodies.end(), [&](std::string_view prefix) {
    return std::any_of(places_.begin(), places_.end(), [&](const auto& p) { return p.first.starts_with(prefix); });
  });
  if (body != kBodies.end()) take_half(*body);
  join_packed();
  split_experts();
}

const Mxfp4* ModelTensors::packed(const std::string& name) const {
  const auto found = packed_.find(name);
  return found == packed_.end() ? nullptr : &found->second;
}

void ModelTensors::join_packed() {
  packed_ = find_mxfp4(places_);
  for (const auto& [name, weight] : packed_) {
    places_.erase(name + "_blocks"), places_.erase(name + "_scales");
    places_.emplace(name, weight.whole());
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

void ModelTensors::split_experts() {
  Places made;
  for (auto place = places_.begin(); place != places_.end();) {
    const std::string& name = place->first;
    const bool of_both = name.ends_with(kGateAndUp), joined = of_both || name.ends_with(kDown);
    const bool stays = packed_.contains(name) || places_.contains(name + "_bias");
    if (!joined || place->second.tensor->shape.size() != 3 || stays) {
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
  if (experts <= 0 || rows * std::ssize(weights) != all.shape[1] || all.bytes() % count != 0)
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: {}: got {} rows of an expert, expected as many of gate_proj as of up_proj",
                            place.file->path().string(), all.name, all.shape[1]));
  const std::uint64_t bytes = all.bytes() / count;
  std::uint64_t begin = all.begin;
  for (std::int64_t expert = 0; expert < experts; ++expert)
    for (const char* weight : weights) {
      parts_.push_back({all.name, all.dtype, {rows, all.shape[2]}, begin, begin + bytes});
      into.emplace(fmt::format("{}{}.{}.weight", stem, expert, weight),
                   SafetensorsSet::Place{place.file, &parts_.back()});
      begin += bytes;
    }
}

}  // namespace hone::hub
