// Comparing and averaging checkpoints.
#include "cli/checkpoint_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/signals.h"
#include "base/strings.h"
#include "cli/checkpoint_place.h"
#include "cli/model_place.h"
#include "hone/config_read.h"
#include "hone/hub.h"
#include "hone/safetensors.h"
#include "hub/adapter_config.h"
#include "hub/memory.h"
#include "hub/own_tokenizer.h"
#include "hub/save.h"
#include "io/manifest.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

// The weights of a checkpoint, of a whole model or of an adapter.
class Weights {
 public:
  explicit Weights(const fs::path& folder) {
    if (hub::is_adapter_folder(folder)) {
      adapter_ = std::make_unique<Safetensors>(folder / hub::kAdapterModel);
      for (const TensorInfo& info : adapter_->tensors()) places_[info.name] = {adapter_.get(), &info};
    } else {
      model_ = std::make_unique<SafetensorsSet>(folder);
      for (const auto& [name, place] : model_->tensors()) places_[name] = {place.file, place.tensor};
    }
  }
  struct Place {
    const Safetensors* file;
    const TensorInfo* tensor;
  };
  const std::map<std::string, Place>& places() const { return places_; }
  // In fp64. Error(checkpoint): not a tensor of floating-point numbers.
  Tensor read(const std::string& name) const {
    const Place& place = places_.at(name);
    const auto type = from_safetensors_name(place.tensor->dtype);
    if (!type || !c10::isFloatingType(*type))
      throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got dtype {}, expected F32, BF16, F16 or F64",
                                                     place.file->path().string(), name, place.tensor->dtype));
    Tensor tensor = at::empty(place.tensor->shape, *type);
    place.file->read(*place.tensor, host::mutable_bytes(tensor));
    return tensor.to(at::kDouble);
  }

 private:
  std::unique_ptr<Safetensors> adapter_;
  std::unique_ptr<SafetensorsSet> model_;
  std::map<std::string, Place> places_;
};

config::Node recipe_of(const CheckpointPlace& place) {
  return config::read_file((place.folder / "state" / "config.yaml").string());
}

ordered_json recipe_changes(const CheckpointPlace& a, const CheckpointPlace& b) {
  ordered_json rows = ordered_json::array();
  for (const config::Change& change : config::diff(recipe_of(a), recipe_of(b)))
    rows.push_back({{"option", change.path}, {"before", change.before}, {"after", change.after}});
  return rows;
}

void compare(const Weights& a, const Weights& b, ordered_json& report) {
  std::vector<ordered_json> rows;
  for (const auto& [name, place] : a.places()) {
    const auto other = b.places().find(name);
    if (other == b.places().end()) {
      report["only_in_a"].push_back(name);
    } else if (place.tensor->shape != other->second.tensor->shape) {
      report["shapes"].push_back({{"name", name}, {"a", place.tensor->shape}, {"b", other->second.tensor->shape}});
    } else {
      const Tensor one = a.read(name), difference = b.read(name) - one;
      const double length = host::number(one.norm()), moved = host::number(difference.norm());
      ordered_json relative = 0;
      if (moved > 0) relative = length > 0 ? ordered_json(moved / length) : ordered_json();
      const double most = difference.numel() == 0 ? 0 : host::number(difference.abs().max());
      rows.push_back(ordered_json{{"name", name}, {"max", most}, {"relative", relative}});
    }
  }
  for (const auto& [name, place] : b.places())
    if (!a.places().contains(name)) report["only_in_b"].push_back(name);
  const auto key = [](const ordered_json& row) {
    return row["relative"].is_null() ? 1e300 : row["relative"].get<double>();
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& x, const auto& y) { return key(x) > key(y); });
  report["weights"] = rows;
}

}  // namespace

ordered_json checkpoint_difference(const std::string& a, const std::string& b) {
  const CheckpointPlace one = checkpoint_place(a, true), other = checkpoint_place(b, true);
  const auto tokens = [](const CheckpointPlace& place) {
    return io::Manifest::read(Env::process().open_folder(place.folder)).tokens;
  };
  ordered_json report = {{"a", one.folder.string()},
                         {"b", other.folder.string()},
                         {"step", {one.step, other.step}},
                         {"tokens", {tokens(one), tokens(other)}},
                         {"recipe", recipe_changes(one, other)}};
  for (const char* key : {"only_in_a", "only_in_b", "shapes"}) report[key] = ordered_json::array();
  compare(Weights(one.folder), Weights(other.folder), report);
  return report;
}

void write_average(const std::vector<std::string>& places, const std::string& out, bool replace) {
  if (places.size() < 2)
    throw Error(ErrorKind::usage, fmt::format("average: got {}, expected at least two",
                                              places.empty() ? "no checkpoint" : places[0] + " alone"));
  std::vector<std::unique_ptr<Weights>> all;
  for (const std::string& place : places) {
    const fs::path folder = checkpoint_place(place, true).folder;
    if (hub::is_adapter_folder(folder))
      throw Error(ErrorKind::usage, place + ": an adapter: the mean of its factors is not the mean of their products")
          .hint("hone merge makes models of them first");
    all.push_back(std::make_unique<Weights>(folder));
  }
  const ModelPlace first = model_place(checkpoint_place(places[0], false).folder.string(), "");
  const at::ScalarType type = hub::type_of(stored_precision(first.folder));
  const auto model = load_model(first, stored_precision(first.folder));
  model->each_weight([&](const std::string& name, Weight& weight) {
    Tensor sum;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto found = all[i]->places().find(name);
      if (found == all[i]->places().end() || found->second.tensor->shape != weight.shape())
        throw Error(
            ErrorKind::checkpoint,
            fmt::format("{}: {}: {}, expected {}, as {} has it", places[i], name,
                        found == all[i]->places().end() ? "missing" : "got " + shape_text(found->second.tensor->shape),
                        shape_text(weight.shape()), places[0]));
      const Tensor part = all[i]->read(name);
      sum = sum.defined() ? sum.add_(part) : part;
    }
    weight.fill((sum / static_cast<double>(all.size())).to(weight.is_buffer() ? weight.use().scalar_type() : type));
  });
  const auto tokenizer = hub::own_tokenizer(tokenizer_folder(first));
  const Tokenizer* files = tokenizer->vocab_size() > 0 ? tokenizer.get() : nullptr;
  const StopSignal signals;
  hub::save_model_folder(out, *model, hub::model_files(*model, first.folder, files), {replace});
}

}  // namespace hone::cli
