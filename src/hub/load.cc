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
#include "hone/random.h"
#include "hone/safetensors.h"
#include "hub/adapter_files.h"
#include "hub/load_module.h"
#include "hub/memory.h"
#include "hub/model_tensors.h"
#include "hub/quantized_files.h"
#include "hub/tensor_names.h"
#include "hub/tied_head.h"
#include "nn/freeze.h"
#include "nn/unpacking.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone {
namespace {

constexpr std::int64_t kReadBytes = 1 << 20;  // at least, of a thread

at::ScalarType float_type_of(const std::string& name, const SafetensorsSet::Place& place) {
  const auto type = from_safetensors_name(place.tensor->dtype);
  if (type && c10::isFloatingType(*type)) return *type;
  throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got dtype {}, expected F32, BF16, F16 or F64",
                                                 place.file->path().string(), name, place.tensor->dtype));
}

// What the weight's layout says of it. mapped: where the file's bytes are of that type they are used where they lie.
Tensor read_tensor(const std::string& name, const SafetensorsSet::Place& place, const Weight& weight,
                   std::optional<at::ScalarType> mapped) {
  const std::string file = place.file->path().string();
  if (place.tensor->shape != weight.shape())
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got shape {}, expected {}", file, name,
                                                   shape_text(place.tensor->shape), shape_text(weight.shape())));
  const at::ScalarType type = float_type_of(name, place);
  if (mapped == type && weight.numel() > 0) {
    const std::shared_ptr<const std::byte> bytes = place.file->map(*place.tensor);
    auto* data = const_cast<std::byte*>(bytes.get());  // a frozen weight's: never written
    if (reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(type) == 0)
      return weight.part_of(at::from_blob(data, weight.shape(), [bytes](void*) {}, at::TensorOptions().dtype(type)));
  }
  const bool part = weight.layout().count >= 0 && weight.layout().shape == weight.shape();  // this rank's alone
  Tensor made = part ? at::empty({weight.layout().count}, type) : at::empty(weight.shape(), type);
  const std::span<std::byte> into = host::mutable_bytes(made);
  const std::int64_t begin = part ? weight.layout().begin * made.element_size() : 0;
  at::parallel_for(0, static_cast<std::int64_t>(into.size()), kReadBytes, [&](std::int64_t from, std::int64_t to) {
    place.file->read(*place.tensor, into.subspan(from, to - from), begin + from);
  });
  return part ? made : weight.part_of(made);
}

// Of a tensor of all experts whose matrices lie the other way round there.
bool is_turned(const hub::ModelTensors& tensors, const std::string& name, const TensorInfo& tensor,
               const std::vector<std::int64_t>& shape) {
  return tensors.may_be_turned(name) && shape.size() == 3 && tensor.shape != shape &&
         tensor.shape == std::vector<std::int64_t>{shape[0], shape[2], shape[1]};
}

Tensor read_turned(const SafetensorsSet::Place& place, const Weight& weight) {
  Tensor all = at::empty(place.tensor->shape, float_type_of(place.tensor->name, place));
  place.file->read(*place.tensor, host::mutable_bytes(all), 0);
  return weight.part_of(all.transpose(1, 2).contiguous());
}

void fill(Weight& weight, const Tensor& value, const std::string& name) {
  if (weight.held_as().type == QuantType::none) return weight.fill(value);
  during("quantizing " + name, [&] { weight.fill(value); });
}

// Fills weights from a folder's tensors, and counts what is to be told of it.
class Filling {
 public:
  Filling(const std::filesystem::path& folder, bool whole, WeightTypes types)
      : folder_(folder), types_(types), tensors_(folder, whole), quantized_(tensors_.all()) {}
  const hub::ModelTensors& tensors() const { return tensors_; }
  const hub::Places& places() const { return quantized_.weights(); }

  void fill_from(const hub::Places::value_type& tensor, const std::string& name, Weight& weight) {
    const auto& [own, place] = tensor;
    const at::ScalarType type = hub::type_of(weight, types_);
    trains_ |= weight.trainable();
    if (const auto as = quantized_.as(own)) {
      const auto read = quantized_.read(own, weight.shape());
      if (weight.held_as() == *as) return weight.fill_quantized(read, type);
      count_unpacked(weight);
      return fill(weight, weight.part_of(ops::dequantize(*read, type)), name);
    }
    if (const hub::Packed* packed = tensors_.packed(own)) {
      count_unpacked(weight);
      return fill(weight, packed->read(weight, type), name);
    }
    const bool frozen = !weight.trainable() && !weight.is_buffer();
    // What is quantized is read once: pages of the file that were mapped for it would stay with the process.
    const bool stays_mapped = frozen && weight.held_as().type == QuantType::none;
    const bool turned = is_turned(tensors_, own, *place.tensor, weight.shape());
    const Tensor read = turned ? read_turned(place, weight)
                               : read_tensor(name, place, weight, stays_mapped ? std::optional(type) : std::nullopt);
    if (read.scalar_type() != type) ++cast_[{place.tensor->dtype, type}];
    rounded_ += frozen && read.element_size() > static_cast<std::int64_t>(c10::elementSize(type));
    fill(weight, read.to(type), name);
  }

  void tell(const Module& filled) const {
    const std::string folder = folder_.string();
    if (anew_ > 0)
      log::warning("{}: {} quantized there are quantized once more in another way, which loses more", folder,
                   counted(anew_, "weight"));
    if (unpacked_ > 0) log::info("{}: {} quantized there are held in full", folder, counted(unpacked_, "weight"));
    if (const nn::Held held = nn::held_in_few_bits(filled); held.weights > 0)
      log::info("{}: {} held in fewer bits: {} instead of {}", folder, counted(held.weights, "weight"),
                human_size(held.bytes), human_size(held.whole));
    for (const auto& [from, count] : cast_)
      log::info("{}: {} tensors cast from {} to {}", folder, count, from.first, safetensors_name(from.second));
    if (rounded_ > 0 && trains_)
      log::warning("{}: {} that are not trained are rounded to the run's precision, in checkpoints, too; "
                   "trainer.precision fp32 keeps them as they are",
                   folder, counted(rounded_, "weight"));
  }

 private:
  void count_unpacked(const Weight& weight) { ++(weight.held_as().type == QuantType::none ? unpacked_ : anew_); }

  const std::filesystem::path& folder_;
  const WeightTypes types_;
  const hub::ModelTensors tensors_;
  const hub::QuantizedFiles quantized_;
  std::map<std::pair<std::string, at::ScalarType>, std::int64_t> cast_;
  std::int64_t rounded_ = 0;  // frozen weights: nothing keeps what they were
  bool trains_ = false;       // else none of them is ever saved
  std::int64_t unpacked_ = 0, anew_ = 0;
};

Tensor fresh(const std::string& name, const Weight& weight, std::uint64_t seed) {
  const at::TensorOptions fp32 = at::TensorOptions().dtype(at::kFloat);
  if (weight.init().kind == Init::Kind::ones) return at::ones(weight.shape(), fp32);
  if (weight.init().kind == Init::Kind::zeros) return at::zeros(weight.shape(), fp32);
  if (const Init& init = weight.init(); init.kind == Init::Kind::ramp || init.kind == Init::Kind::log_ramp) {
    const std::vector<std::int64_t>& shape = weight.shape();
    const Tensor row = at::linspace(init.first, init.last, shape.empty() ? 1 : shape.back(), fp32);
    const Tensor steps = shape.empty() ? row.squeeze(0) : row.expand(shape).contiguous();
    return init.kind == Init::Kind::ramp ? steps : steps.log();
  }
  const Random random(seed, "init/" + name);
  Tensor made = at::empty(weight.shape(), fp32);
  const std::span<float> data = host::mutable_values<float>(made);
  if (const Init& init = weight.init(); init.kind == Init::Kind::log_uniform) {
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<float>(std::log(init.first + (init.last - init.first) * random.uniform(i)));
    return made;
  }
  if (const Init& init = weight.init(); init.kind == Init::Kind::softplus_steps) {
    const double least = std::log(init.first), most = std::log(init.last);
    for (std::size_t i = 0; i < data.size(); ++i) {
      const double step = std::exp(least + (most - least) * random.uniform(i));
      data[i] = static_cast<float>(step + std::log(-std::expm1(-step)));
    }
    return made;
  }
  const float deviation = static_cast<float>(weight.init().std);
  at::parallel_for(0, made.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    random.fill_normal(data.subspan(begin, end - begin), begin, 0, deviation);
  });
  return made;
}

// Of names: what is fresh, and what was passed over. any: as FreshWeights has it.
void tell_names(const hub::TensorNames& names, const std::vector<std::string>& left_out, bool any,
                const std::filesystem::path& folder) {
  const log::Level level = any ? log::Level::warning : log::Level::info;
  if (!names.fresh.empty())
    log::write(level, fmt::format("{}: new weights, from the seed: {}", folder.string(), list_names(names.fresh)));
  if (!names.unused.empty())
    log::write(level, fmt::format("{}: not read, as {}: {}", folder.string(),
                                  any ? "the model has no such weights" : "they belong to another head",
                                  list_names(names.unused)));
  if (!left_out.empty())
    log::info("{}: not read, as they are not of the texts' half: {}", folder.string(), list_names(left_out, 3));
}

}  // namespace

void load_weights(Model& model, const std::filesystem::path& folder, WeightTypes types,
                  const std::optional<FreshWeights>& wanted) {
  Filling filling(folder, model.pictures() != nullptr, types);
  const hub::TensorNames names(model, filling.places(), wanted, filling.tensors().spare());
  hub::check_names(names, model, folder);
  hub::check_tied_head(model, filling.tensors().all());
  const bool any = wanted && wanted->any;
  if (any && !names.any_read())
    throw Error(ErrorKind::checkpoint, folder.string() + ": none of its tensors is the model's")
        .hint("config.json and the weights must be of the same model");
  hub::check_memory(model, types);
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (const auto* tensor = names.of(name)) return filling.fill_from(*tensor, name, weight);
    const at::ScalarType type = hub::type_of(weight, types);  // as masters are made of it, in fp32
    weight.fill(weight.part_of(fresh(name, weight, wanted->seed))
                    .to(weight.trainable() && type == at::kBFloat16 ? at::kFloat : type));
  });
  nn::unpack_in_blocks(model);
  filling.tell(model);
  tell_names(names, filling.tensors().left_out(), any, folder);
}

void hub::load_module(Module& module, const std::filesystem::path& folder, WeightTypes types) {
  Filling filling(folder, /*whole=*/false, types);
  check_names(module, filling.places(), folder);
  check_memory(module, types);
  module.each_weight([&](const std::string& name, Weight& weight) {
    filling.fill_from(*filling.places().find(name), name, weight);
  });
  filling.tell(module);
}

void hub::init_module(Module& module, std::uint64_t seed, WeightTypes types) {
  check_memory(module, types);
  module.each_weight([&](const std::string& name, Weight& weight) {
    weight.fill(weight.part_of(fresh(name, weight, seed)).to(type_of(weight, types)));
  });
}

void init_weights(Model& model, std::uint64_t seed, WeightTypes types) {
  hub::init_module(model, seed, types);
  nn::unpack_in_blocks(model);
}

std::unique_ptr<Model> load_model(const std::string& where, Precision precision, at::Device device) {
  return load_model(find_model(where), precision, device);
}

namespace {

std::unique_ptr<Model> loaded(const ModelPlace& place, Precision precision, at::Device device, bool learns,
                              const Quantization& quantization) {
  const std::string file = (place.folder / "config.json").string();
  std::unique_ptr<Model> model = build_model(config::read_file(file), file);
  if (!learns) nn::freeze(*model);
  model->set_device(device);
  if (!place.adapter.empty() && quantization.type != QuantType::none)
    hub::plan_adapter(*model, place.adapter);  // what it has whole stays in full
  choose_quantized(*model, quantization, place.folder);
  load_weights(*model, place.folder, precision);
  if (!place.adapter.empty()) load_adapter(*model, place.adapter, {.precision = precision});
  if (!learns) nn::freeze(*model);
  return model;
}

}  // namespace

std::unique_ptr<Model> load_model(const ModelPlace& place, Precision precision, at::Device device) {
  return loaded(place, precision, device, /*learns=*/true, {.type = QuantType::none});
}

std::unique_ptr<Model> load_frozen_model(const ModelPlace& place, Precision precision, at::Device device,
                                         const Quantization& quantization) {
  return loaded(place, precision, device, /*learns=*/false, quantization);
}

}  // namespace hone
