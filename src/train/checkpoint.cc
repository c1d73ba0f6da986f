// Checkpoint folders of a run.
#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "hone/safetensors.h"
#include "hub/adapter_files.h"
#include "io/json.h"
#include "tensor/dtype.h"
#include "tensor/host.h"
#include "train/named_tensors.h"

namespace hone::training {
namespace {

// transformers' TrainerState. What hone has no equal of holds transformers' default.
std::string trainer_state(const TrainState& state, const CheckpointParts& parts) {
  nlohmann::ordered_json json;
  json["best_global_step"] = state.best.step < 0 ? nlohmann::json() : nlohmann::json(state.best.step);
  json["best_metric"] = state.best.step < 0 ? nlohmann::json() : json_number(state.best.value);
  json["best_model_checkpoint"] = nullptr;
  json["epoch"] = parts.epoch ? nlohmann::json(*parts.epoch) : nlohmann::json();  // transformers', where it is unknown
  json["eval_steps"] = parts.eval_every;
  json["global_step"] = state.step;
  json["is_hyper_param_search"] = false;
  json["is_local_process_zero"] = true;
  json["is_world_process_zero"] = true;
  json["log_history"] = state.log_history;
  json["logging_steps"] = parts.log_every;
  json["max_steps"] = parts.steps;
  json["num_input_tokens_seen"] = state.tokens;
  json["num_train_epochs"] = static_cast<std::int64_t>(std::ceil(parts.epochs.value_or(0)));
  json["save_steps"] = parts.save_every;
  json["stateful_callbacks"] = nlohmann::json::object();
  json["total_flos"] = 0.0;
  json["train_batch_size"] = parts.batch_size;
  json["trial_name"] = nullptr;
  json["trial_params"] = nullptr;
  return json.dump(2) + "\n";
}

void restore(const Safetensors& file, const Slice& into) {
  const std::string where = file.path().string();
  const TensorInfo& found = info_of(file, into.name);
  const std::string dtype = safetensors_name(into.part.scalar_type());
  if (found.dtype != dtype || found.shape != into.shape)
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got {} {}, expected {} {}", where, into.name, found.dtype,
                                                   shape_text(found.shape), dtype, shape_text(into.shape)));
  const std::span<std::byte> bytes = host::mutable_bytes(into.part);
  if (into.part.sizes() == at::IntArrayRef(into.shape)) return file.read(found, bytes);
  if (bytes.empty()) return;
  const std::shared_ptr<const std::byte> all = file.map(found);
  std::copy_n(all.get() + into.begin * into.part.element_size(), bytes.size(), bytes.begin());
}

constexpr const char* kMaster = "master.";

std::map<std::string, Slice> masters_of(Updater& updater) {
  std::map<std::string, Slice> masters;
  updater.each_master([&](Slice& master) { masters[master.name] = master; });
  return masters;
}

// Each weight in its type: from its master, unless the model has it in that type anyway.
hub::SavedWeights weights_to_save(const CheckpointParts& parts) {
  const std::map<std::string, Slice> masters = masters_of(parts.updater);
  hub::SavedWeights weights = hub::weights_of(parts.model);
  for (hub::SavedWeight& weight : weights) {
    const auto master = masters.find(weight.name);
    const at::ScalarType type = parts.types.of(weight.name), held = weight.value.scalar_type();
    if (master == masters.end()) {  // frozen, or a buffer: nothing else keeps it, so it is never narrowed
      if (!weight.buffer && c10::elementSize(type) > c10::elementSize(held)) weight.type = type;
      continue;
    }
    weight.type = type;
    if (type != held || parts.updater.sharded())
      weight.make = [&updater = parts.updater, slice = master->second] { return updater.whole(slice); };
  }
  return weights;
}

// An adapter's weights as their masters are.
NamedTensors adapter_to_save(const CheckpointParts& parts) {
  const std::map<std::string, Slice> masters = masters_of(parts.updater);
  std::map<const Weight*, std::string> names;
  parts.model.each_with_adapters([&](const std::string& name, Weight& weight) { names[&weight] = name; });
  NamedTensors tensors;
  for (const hub::AdapterTensor& one :
       hub::adapter_tensors(parts.model, kDefaultAdapter, parts.adapter->lora.modules_to_save))
    tensors.add(one.name,
                one.made([&](Weight& weight) { return parts.updater.whole(masters.at(names.at(&weight))).detach(); }));
  return tensors;
}

// The optimizer's state, and masters that the weights' files have only rounded: by the name in the file.
void each_state_to_save(const CheckpointParts& parts,
                        const std::function<void(const std::string&, const Slice&)>& visit) {
  parts.updater.each_state([&](Slice& state) { visit(state.name, state); });
  if (parts.adapter) return;  // its file has them as they are
  std::set<std::string> in_files;
  parts.model.each_weight([&](const std::string& name, const Weight&) { in_files.insert(name); });
  parts.updater.each_master([&](Slice& master) {
    const bool whole = in_files.contains(master.name) && parts.types.of(master.name) == master.part.scalar_type();
    if (!whole) visit(kMaster + master.name, master);
  });
}

std::uint64_t bytes_of(const Slice& slice) {
  std::uint64_t bytes = slice.part.element_size();
  for (const std::int64_t size : slice.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

// PEFT's two files, and the tokenizer's.
void add_adapter(io::FolderCommit& commit, const CheckpointParts& parts) {
  commit.add_file(hub::kAdapterConfig, hub::adapter_json(parts.model, kDefaultAdapter, *parts.adapter));
  for (const auto& [name, content] : parts.files.texts)
    if (name != "config.json" && name != "generation_config.json") commit.add_file(name, content);
  const NamedTensors tensors = adapter_to_save(parts);
  commit.add_safetensors(hub::kAdapterModel, tensors.specs(), {{"format", "pt"}}, tensors.bytes());
}

}  // namespace

std::uint64_t checkpoint_bytes(const CheckpointParts& parts) {
  std::uint64_t bytes = 0;
  if (parts.adapter) {
    parts.updater.each_master([&](Slice& master) { bytes += bytes_of(master); });
  } else {
    for (const hub::SavedWeight& weight : weights_to_save(parts))
      bytes += static_cast<std::uint64_t>(weight.value.numel()) * c10::elementSize(weight.type);
  }
  each_state_to_save(parts, [&](const std::string&, const Slice& state) { bytes += bytes_of(state); });
  for (const auto& [name, content] : parts.files.texts) bytes += content.size();
  return bytes;
}

std::uint64_t save_checkpoint(io::RunFolder& run, const TrainState& state, const CheckpointParts& parts) {
  io::FolderCommit::Options options{run.run_id(), /*replace=*/true, [&run] { run.check_owner(); }};
  const auto commit = run.checkpoints().start_save(state.step, std::move(options));
  if (parts.adapter)
    add_adapter(*commit, parts);
  else
    hub::add_model(*commit, weights_to_save(parts), parts.files);
  commit->add_file("trainer_state.json", trainer_state(state, parts));
  commit->add_file(std::string("state/") + kStateFile, to_json(state));
  commit->add_file("state/config.yaml", parts.config_yaml);
  NamedTensors tensors;
  each_state_to_save(parts, [&](const std::string& name, const Slice& state) {
    tensors.add(name, state.part.scalar_type(), state.shape,
                [&updater = parts.updater, state] { return updater.whole(state); });
  });
  commit->add_safetensors(std::string("state/") + kOptimizerFile, tensors.specs(), {{"format", "pt"}}, tensors.bytes());
  const NamedTensors kept = tensors_of(state.callbacks);
  if (!kept.specs().empty())
    commit->add_safetensors(std::string("state/") + kCallbacksFile, kept.specs(), {{"format", "pt"}}, kept.bytes());
  io::Manifest manifest;
  manifest.step = state.step;
  manifest.tokens = state.tokens;
  manifest.run_id = run.run_id();
  manifest.config_hash = hash128_hex(parts.config_yaml);
  manifest.data_hash = state.data_hash;
  manifest.tokenizer_hash = state.tokenizer_hash;
  manifest.finite = parts.updater.weights_finite();
  const std::uint64_t bytes = commit->bytes();
  commit->commit(std::move(manifest));
  return bytes;
}

TrainState load_state(const Folder& checkpoint) {
  const std::string where = checkpoint.path().string();
  TrainState state =
      state_from_json(checkpoint.open_folder("state").read_file(kStateFile), where + "/state/" + kStateFile);
  const io::JsonLimits limits{std::uint64_t{1} << 30, 100, ErrorKind::checkpoint};
  const nlohmann::json trainer =
      io::parse_json(checkpoint.read_file("trainer_state.json"), where + "/trainer_state.json", limits);
  if (!trainer.contains("log_history") || !trainer["log_history"].is_array())
    throw Error(ErrorKind::checkpoint, where + "/trainer_state.json: log_history: missing, expected a list");
  state.log_history = trainer["log_history"];
  return state;
}

void load_updater(const Folder& checkpoint, Updater& updater, bool other_weights, bool all_exact) {
  const Safetensors file(checkpoint.path() / "state" / kOptimizerFile);
  std::set<std::string> expected;
  std::int64_t fresh = 0;
  const auto take = [&](const Slice& slice) {
    if (other_weights && file.find(slice.name) == nullptr) {
      ++fresh;
      return;
    }
    restore(file, slice);
    expected.insert(slice.name);
  };
  updater.each_state(take);
  std::optional<SafetensorsSet> model;
  if (!all_exact) model.emplace(checkpoint.path());
  updater.each_master([&](Slice& master) {
    if (all_exact) return;
    const auto place = model->tensors().find(master.name);
    const bool whole =
        place != model->tensors().end() && place->second.tensor->dtype == safetensors_name(master.part.scalar_type());
    master.name = kMaster + master.name;
    if (!whole || file.find(master.name)) take(master);
  });
  std::vector<std::string> extra;
  for (const TensorInfo& tensor : file.tensors())
    if (!expected.contains(tensor.name)) extra.push_back(tensor.name);
  if (!extra.empty() && !other_weights)
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: not of this optimizer: {}", file.path().string(), list_names(extra)));
  if (other_weights)
    log::info("{}: of the optimizer's state {} for weights that are trained now, {} of weights that are not any more",
              file.path().string(),
              fresh == 1 ? "1 tensor begins afresh" : fmt::format("{} tensors begin afresh", fresh),
              extra.size() == 1 ? "1 is left out" : fmt::format("{} are left out", extra.size()));
  updater.restored();
}

void write_tensors(Env& env, const std::string& path,
                   const std::function<void(const std::function<void(const std::string&, const Tensor&)>&)>& each) {
  NamedTensors tensors;
  each([&](const std::string& name, const Tensor& tensor) { tensors.add(name, tensor); });
  io::replace_safetensors(env, path, tensors.specs(), {{"format", "pt"}}, tensors.bytes(), ErrorKind::checkpoint);
}

}  // namespace hone::training
