// Weights from safetensors into a model, strictly by name; fresh weights by seed and name.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "hone/hub.h"
#include "hone/layers.h"
#include "hone/random.h"
#include "hone/safetensors.h"
#include "hub/memory.h"
#include "hub/tied_head.h"
#include "nn/freeze.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone {
namespace {

constexpr std::int64_t kReadBytes = 1 << 20;  // at least, of a thread

using Places = std::map<std::string, SafetensorsSet::Place>;

// What files may hold that a model does not use: a tied head, and buffers that old versions saved.
bool may_be_extra(const Model& model, const std::string& name) {
  const CausalLm* lm = model.causal_lm();
  return (lm && lm->head().tied() && name == hub::kHead) || name.ends_with(".rotary_emb.inv_freq") ||
         model.is_no_weight(name);
}

// Which tensor of a folder fills which weight. A folder of a model with a head has a prefix before the body's names
// that one without a head has not; either fills either.
class Names {
 public:
  Names(Model& model, const Places& places, const std::optional<FreshWeights>& fresh)
      : model_(model), places_(places), prefix_(model.base_prefix()) {
    std::vector<std::string> own;
    model.each_weight([&](const std::string& name, Weight&) { own.push_back(name); });
    file_has_prefix_ = std::any_of(places.begin(), places.end(), [&](const auto& p) { return has_prefix(p.first); });
    model_has_prefix_ = std::any_of(own.begin(), own.end(), [&](const auto& name) { return has_prefix(name); });
    for (const std::string& name : own) match(name, fresh);
    find_extra(fresh && fresh->any);
  }
  bool any_read() const { return !used_.empty(); }
  std::vector<std::string> missing, extra;  // neither may be
  std::vector<std::string> fresh, unused;
  // Of a weight; nullptr: it is fresh.
  const SafetensorsSet::Place* place_of(const std::string& weight) const {
    const auto found = matched_.find(weight);
    return found == matched_.end() ? nullptr : &places_.at(found->second);
  }

 private:
  bool has_prefix(const std::string& name) const { return !prefix_.empty() && name.starts_with(prefix_); }

  // The names that the folder may have for a weight, as old versions called norms' weights gamma and beta.
  std::vector<std::string> names_of(std::string weight) const {
    if (model_has_prefix_ && !file_has_prefix_ && weight.starts_with(prefix_)) weight.erase(0, prefix_.size());
    if (!model_has_prefix_ && file_has_prefix_) weight = prefix_ + weight;
    std::vector<std::string> names{weight};
    for (const auto& [now, old] : {std::pair{".weight", ".gamma"}, {".bias", ".beta"}})
      if (weight.ends_with(std::string("LayerNorm") + now))
        names.push_back(weight.substr(0, weight.size() - std::string_view(now).size()) + old);
    return names;
  }

  void match(const std::string& weight, const std::optional<FreshWeights>& wanted) {
    const Classifier* classifier = model_.classifier();
    const bool other = wanted && wanted->other_labels && classifier && weight.starts_with(classifier->weights_prefix());
    for (const std::string& name : names_of(weight))
      if (!other && places_.contains(name)) {
        matched_[weight] = name;
        used_.insert(name);
        return;
      }
    (wanted && (wanted->any || model_.may_be_fresh(weight)) ? fresh : missing).push_back(weight);
  }

  // Where body and heads can be told apart, what belongs to another head is no error.
  void find_extra(bool any) {
    for (const auto& [name, place] : places_) {
      if (used_.contains(name) || may_be_extra(model_, name)) continue;
      const bool of_a_head = any || (file_has_prefix_ && !name.starts_with(prefix_)) || model_.may_be_fresh(name);
      (of_a_head ? unused : extra).push_back(name);
    }
  }

  Model& model_;
  const Places& places_;
  std::string prefix_;
  bool file_has_prefix_ = false, model_has_prefix_ = false;
  std::map<std::string, std::string> matched_;  // weight -> tensor of the folder
  std::set<std::string> used_;
};

// What to say of names that do not fit: most often the folder is of a model with another head.
std::string hint_of_names(const Model& model, const std::filesystem::path& folder) {
  const auto architecture = [](const config::Node& node) {
    const config::Node* list = node.find("architectures");
    return list && list->items().size() == 1 ? list->items()[0].text() : std::string();
  };
  const std::string file = (folder / "config.json").string(), own = architecture(model.hf_config());
  const std::string theirs = std::filesystem::exists(file) ? architecture(config::read_file(file)) : "";
  if (theirs.empty() || theirs == own) return "config.json and the weights must be of the same model";
  const auto family = [](const std::string& name) { return name.substr(0, name.find("For")); };
  return fmt::format("its config.json says that it is of a {}{}; it is read as a {}", escape_for_terminal(theirs, 60),
                     family(theirs) == family(own) ? "" : ", which hone has not", own);
}

void check_names(const Names& names, const Model& model, const std::string& folder) {
  const std::vector<std::string>&missing = names.missing, &extra = names.extra;
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
  throw Error(ErrorKind::checkpoint, text).hint(hint_of_names(model, folder));
}

// What the weight's layout says of it. mapped: where the file's bytes are of that type they are used where they lie.
Tensor read_tensor(const std::string& name, const SafetensorsSet::Place& place, const Weight& weight,
                   std::optional<at::ScalarType> mapped) {
  const std::string file = place.file->path().string();
  if (place.tensor->shape != weight.shape())
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got shape {}, expected {}", file, name,
                                                   shape_text(place.tensor->shape), shape_text(weight.shape())));
  const auto type = from_safetensors_name(place.tensor->dtype);
  if (!type || !c10::isFloatingType(*type))
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: {}: got dtype {}, expected F32, BF16, F16 or F64", file, name, place.tensor->dtype));
  if (mapped == *type && weight.numel() > 0) {
    const std::shared_ptr<const std::byte> bytes = place.file->map(*place.tensor);
    auto* data = const_cast<std::byte*>(bytes.get());  // a frozen weight's: never written
    if (reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(*type) == 0)
      return weight.part_of(at::from_blob(data, weight.shape(), [bytes](void*) {}, at::TensorOptions().dtype(*type)));
  }
  const bool part = weight.layout().count >= 0;  // this rank's alone
  Tensor made = part ? at::empty({weight.layout().count}, *type) : at::empty(weight.shape(), *type);
  const std::span<std::byte> into = host::mutable_bytes(made);
  const std::int64_t begin = part ? weight.layout().begin * made.element_size() : 0;
  at::parallel_for(0, static_cast<std::int64_t>(into.size()), kReadBytes, [&](std::int64_t from, std::int64_t to) {
    place.file->read(*place.tensor, into.subspan(from, to - from), begin + from);
  });
  return part ? made : weight.part_of(made);
}

Tensor fresh(const std::string& name, const Weight& weight, std::uint64_t seed) {
  const at::TensorOptions fp32 = at::TensorOptions().dtype(at::kFloat);
  if (weight.init().kind == Init::Kind::ones) return at::ones(weight.shape(), fp32);
  if (weight.init().kind == Init::Kind::zeros) return at::zeros(weight.shape(), fp32);
  const Random random(seed, "init/" + name);
  Tensor made = at::empty(weight.shape(), fp32);
  const std::span<float> data = host::mutable_values<float>(made);
  const float deviation = static_cast<float>(weight.init().std);
  at::parallel_for(0, made.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    random.fill_normal(data.subspan(begin, end - begin), begin, 0, deviation);
  });
  return made;
}

}  // namespace

void load_weights(Model& model, const std::filesystem::path& folder, WeightTypes types,
                  const std::optional<FreshWeights>& wanted) {
  const SafetensorsSet files(folder);
  const Names names(model, files.tensors(), wanted);
  check_names(names, model, folder.string());
  hub::check_tied_head(model, files);
  const bool any = wanted && wanted->any;
  if (any && !names.any_read())
    throw Error(ErrorKind::checkpoint, folder.string() + ": none of its tensors is the model's")
        .hint("config.json and the weights must be of the same model");
  hub::check_memory(model, types);
  std::map<std::pair<std::string, at::ScalarType>, std::int64_t> cast;
  std::int64_t rounded = 0;  // frozen weights: nothing keeps what they were
  bool trains = false;       // else none of them is ever saved
  model.each_weight([&](const std::string& name, Weight& weight) {
    const SafetensorsSet::Place* place = names.place_of(name);
    const at::ScalarType type = hub::type_of(weight, types);
    if (!place)  // as masters are made of it, in fp32
      return weight.fill(weight.part_of(fresh(name, weight, wanted->seed))
                             .to(weight.trainable() && type == at::kBFloat16 ? at::kFloat : type));
    trains |= weight.trainable();
    const bool frozen = !weight.trainable() && !weight.is_buffer();
    const Tensor read = read_tensor(name, *place, weight, frozen ? std::optional(type) : std::nullopt);
    if (read.scalar_type() != type) ++cast[{place->tensor->dtype, type}];
    rounded += frozen && read.element_size() > static_cast<std::int64_t>(c10::elementSize(type));
    weight.fill(read.to(type));
  });
  for (const auto& [from, count] : cast)
    log::info("{}: {} tensors cast from {} to {}", folder.string(), count, from.first, safetensors_name(from.second));
  if (rounded > 0 && trains)
    log::warning(
        "{}: {} that are not trained are rounded to the run's precision, in checkpoints, too; "
        "trainer.precision fp32 keeps them as they are",
        folder.string(), counted(rounded, "weight"));
  const log::Level level = any ? log::Level::warning : log::Level::info;
  if (!names.fresh.empty())
    log::write(level, fmt::format("{}: new weights, from the seed: {}", folder.string(), list_names(names.fresh)));
  if (!names.unused.empty())
    log::write(level, fmt::format("{}: not read, as {}: {}", folder.string(),
                                  any ? "the model has no such weights" : "they belong to another head",
                                  list_names(names.unused)));
}

void init_weights(Model& model, std::uint64_t seed, WeightTypes types) {
  hub::check_memory(model, types);
  model.each_weight([&](const std::string& name, Weight& weight) {
    weight.fill(weight.part_of(fresh(name, weight, seed)).to(hub::type_of(weight, types)));
  });
}

std::unique_ptr<Model> load_model(const std::string& where, Precision precision, at::Device device) {
  return load_model(find_model(where), precision, device);
}

namespace {

std::unique_ptr<Model> loaded(const ModelPlace& place, Precision precision, at::Device device, bool learns) {
  const std::string file = (place.folder / "config.json").string();
  std::unique_ptr<Model> model = build_model(config::read_file(file), file);
  if (!learns) nn::freeze(*model);
  model->set_device(device);
  load_weights(*model, place.folder, precision);
  if (!place.adapter.empty()) load_adapter(*model, place.adapter, {.precision = precision});
  if (!learns) nn::freeze(*model);
  return model;
}

}  // namespace

std::unique_ptr<Model> load_model(const ModelPlace& place, Precision precision, at::Device device) {
  return loaded(place, precision, device, /*learns=*/true);
}

std::unique_ptr<Model> load_frozen_model(const ModelPlace& place, Precision precision, at::Device device) {
  return loaded(place, precision, device, /*learns=*/false);
}

}  // namespace hone
