// Weights from safetensors into a model, strictly by name; fresh weights by seed and name.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <map>

#include "base/log.h"
#include "base/strings.h"
#include "hone/hub.h"
#include "hone/random.h"
#include "hone/safetensors.h"
#include "hub/memory.h"
#include "nn/head.h"
#include "tensor/dtype.h"

namespace hone {
namespace {

using Places = std::map<std::string, SafetensorsSet::Place>;

// What files may hold that a model does not use: a tied head, and buffers that old versions saved.
bool may_be_extra(const std::string& name, bool tied) {
  return (tied && name == "lm_head.weight") || name.ends_with(".rotary_emb.inv_freq");
}

void check_names(Model& model, const Places& places, const std::string& folder) {
  const CausalLm* lm = model.causal_lm();
  const bool tied = lm && lm->head().tied();
  std::vector<std::string> missing, extra;
  std::map<std::string, bool> known;
  model.each_weight([&](const std::string& name, Weight&) {
    known[name] = true;
    if (!places.contains(name)) missing.push_back(name);
  });
  for (const auto& [name, place] : places)
    if (!known.contains(name) && !may_be_extra(name, tied)) extra.push_back(name);
  if (missing.empty() && extra.empty()) return;
  std::string text = folder + ":";
  if (!missing.empty())
    text += fmt::format(" {} missing: {}",
                        missing.size() == 1 ? "a tensor is" : fmt::format("{} tensors are", missing.size()),
                        list_names(missing));
  if (!extra.empty())
    text +=
        fmt::format("{} {} not the model's: {}", missing.empty() ? "" : ";",
                    extra.size() == 1 ? "a tensor is" : fmt::format("{} tensors are", extra.size()), list_names(extra));
  throw Error(ErrorKind::checkpoint, text).hint("config.json and the weights must be of the same model");
}

Tensor read_tensor(const std::string& name, const SafetensorsSet::Place& place, const Weight& weight) {
  const std::string file = place.file->path().string();
  if (place.tensor->shape != weight.shape())
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got shape {}, expected {}", file, name,
                                                   shape_text(place.tensor->shape), shape_text(weight.shape())));
  const auto type = from_safetensors_name(place.tensor->dtype);
  if (!type || !c10::isFloatingType(*type))
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: {}: got dtype {}, expected F32, BF16, F16 or F64", file, name, place.tensor->dtype));
  Tensor made = at::empty(weight.shape(), *type);
  place.file->read(*place.tensor, {static_cast<std::byte*>(made.mutable_data_ptr()), made.nbytes()});
  return made;
}

}  // namespace

void load_weights(Model& model, const std::filesystem::path& folder, Precision precision) {
  const at::ScalarType type = hub::type_of(precision);
  const SafetensorsSet files(folder);
  check_names(model, files.tensors(), folder.string());
  hub::check_memory(model, type);
  std::map<std::string, std::int64_t> cast;
  model.each_weight([&](const std::string& name, Weight& weight) {
    const SafetensorsSet::Place& place = files.tensors().at(name);
    const Tensor read = read_tensor(name, place, weight);
    if (read.scalar_type() != type) ++cast[place.tensor->dtype];
    weight.fill(read.to(type));
  });
  for (const auto& [from, count] : cast)
    log::info("{}: {} tensors cast from {} to {}", folder.string(), count, from, safetensors_name(type));
}

namespace {

Tensor fresh(const std::string& name, const Weight& weight, std::uint64_t seed) {
  const at::TensorOptions fp32 = at::TensorOptions().dtype(at::kFloat);
  if (weight.init().kind == Init::Kind::ones) return at::ones(weight.shape(), fp32);
  if (weight.init().kind == Init::Kind::zeros) return at::zeros(weight.shape(), fp32);
  const Random random(seed, "init/" + name);
  Tensor made = at::empty(weight.shape(), fp32);
  float* data = made.mutable_data_ptr<float>();
  const float deviation = static_cast<float>(weight.init().std);
  at::parallel_for(0, made.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    random.fill_normal({data + begin, static_cast<std::size_t>(end - begin)}, begin, 0, deviation);
  });
  return made;
}

}  // namespace

void init_weights(Model& model, std::uint64_t seed, Precision precision) {
  const at::ScalarType type = hub::type_of(precision);
  hub::check_memory(model, type);
  model.each_weight([&](const std::string& name, Weight& weight) { weight.fill(fresh(name, weight, seed).to(type)); });
}

std::unique_ptr<Model> load_model(const std::string& where, Precision precision) {
  const std::filesystem::path folder = find_model_folder(where);
  const std::string file = (folder / "config.json").string();
  std::unique_ptr<Model> model = build_model(config::read_file(file), file);
  load_weights(*model, folder, precision);
  return model;
}

}  // namespace hone
