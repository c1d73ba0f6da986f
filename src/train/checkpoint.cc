// Checkpoint folders of a run: what they hold, and how ranks write them together.
#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "hone/safetensors.h"
#include "hub/adapter_files.h"
#include "io/json.h"
#include "tensor/dtype.h"
#include "tensor/host.h"
#include "train/checkpoint_tensors.h"
#include "train/follower.h"
#include "train/named_tensors.h"

namespace hone::training {
namespace {

// transformers' TrainerState. What hone has no equal of holds transformers' default.
std::string trainer_state(const RunState& state, const CheckpointParts& parts) {
  nlohmann::ordered_json json;
  json["best_global_step"] = state.best.empty() ? nlohmann::json() : nlohmann::json(state.best.front().step);
  json["best_metric"] = state.best.empty() ? nlohmann::json() : json_number(state.best.front().value);
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

std::map<std::string, Slice> masters_of(Updater* updater) {
  std::map<std::string, Slice> masters;
  if (updater) updater->each_master([&](Slice& master) { masters[master.name] = master; });
  return masters;
}

std::map<std::string, Slice> averages_of(Updater* updater) {
  std::map<std::string, Slice> averages;
  if (updater) updater->each_average([&](Slice& average) { averages[average.name] = average; });
  return averages;
}

// Each weight in its type: its average where there is one, else from its master, unless the model has it in that type
// anyway.
// `prefix`: what the updater's names of its weights begin with.
std::vector<SavedTensor> weights_to_save(const CheckpointParts& parts, const Module& model,
                                         const std::string& prefix = "") {
  const std::map<std::string, Slice> masters = masters_of(parts.updater);
  const std::map<std::string, Slice> averages = averages_of(parts.updater);
  std::vector<SavedTensor> tensors;
  for (const hub::SavedWeight& weight : hub::weights_of(model)) {
    const auto master = masters.find(prefix + weight.name);
    const at::ScalarType type = parts.types.of(weight.name), held = weight.type;
    SavedTensor tensor{{weight.name, weight.value.sizes().vec(), 0, weight.value}, type};
    if (const auto average = averages.find(prefix + weight.name); average != averages.end()) {
      tensor.slice = average->second;
      tensor.everywhere = !parts.updater->sharded();
    } else if (!parts.updater) {
      if (weight.buffer) tensor.type = held;
    } else if (master == masters.end()) {  // frozen, or a buffer: nothing else keeps it, so it is never narrowed
      if (weight.buffer || c10::elementSize(type) <= c10::elementSize(held)) tensor.type = held;
    } else if (type != held || parts.updater->sharded()) {
      tensor.slice = master->second;
      tensor.everywhere = !parts.updater->sharded();
    }
    tensor.slice.name = weight.name;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// An adapter's weights as their averages or masters are.
std::vector<SavedTensor> adapter_to_save(const CheckpointParts& parts) {
  const std::map<std::string, Slice> masters = masters_of(parts.updater);
  const std::map<std::string, Slice> averages = averages_of(parts.updater);
  std::map<const Weight*, std::string> names;
  parts.model.each_with_adapters([&](const std::string& name, Weight& weight) { names[&weight] = name; });
  std::vector<SavedTensor> tensors;
  for (const hub::AdapterTensor& one :
       hub::adapter_tensors(parts.model, kDefaultAdapter, parts.adapter->lora.modules_to_save)) {
    const Tensor made = one.made([&](Weight& weight) {
      const std::string& name = names.at(&weight);
      const auto average = averages.find(name);
      return parts.updater->whole(average != averages.end() ? average->second : masters.at(name)).detach();
    });
    const std::string name = parts.adapter->of_body ? hub::name_of_body(one.name, parts.model) : one.name;
    tensors.push_back({{name, made.sizes().vec(), 0, made}, made.scalar_type()});
  }
  return tensors;
}

// The optimizer's state, and masters that the weights' files have only rounded or averaged: by the name in the file.
void each_state_to_save(const CheckpointParts& parts,
                        const std::function<void(const std::string&, const Slice&)>& visit) {
  if (!parts.with_optimizer || !parts.updater) return;
  parts.updater->each_state([&](Slice& state) { visit(state.name, state); });
  const bool averaged = parts.updater->averages_weights();
  const bool adapted = parts.adapter && !averaged;  // its file has them as they are
  std::set<std::string> in_files, beside;  // the latter: of what is beside it, always kept, as files are narrower
  if (!averaged) parts.model.each_weight([&](const std::string& name, const Weight&) { in_files.insert(name); });
  for (const auto& [name, module] : parts.model.beside())
    module->each_weight([&](const std::string& weight, Weight&) { beside.insert(weight); }, name + ".");
  parts.updater->each_master([&](Slice& master) {
    const bool whole = adapted || (in_files.contains(master.name) &&
                                   parts.types.of(master.name) == master.part.scalar_type());
    if (!whole || beside.contains(master.name)) visit(kMaster + master.name, master);
  });
}

std::uint64_t bytes_of(const Slice& slice, at::ScalarType type) {
  std::uint64_t bytes = c10::elementSize(type);
  for (const std::int64_t size : slice.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

// What a checkpoint consists of.
struct Files {
  std::vector<std::pair<std::string, std::string>> texts;  // name, content; without those of state/
  std::vector<TensorFile> tensors;
};

// Weights, and the small files beside them, in a folder of the checkpoint ("": in itself).
void add_model(Files& files, const std::string& folder, const std::vector<SavedTensor>& tensors,
               const hub::ModelFiles& small, const World& world) {
  for (const auto& [name, content] : small.texts) files.texts.emplace_back(folder + name, content);
  io::ModelSave save{.tensors = {}, .max_shard_bytes = small.max_shard_bytes};
  for (const SavedTensor& tensor : tensors) save.tensors.push_back(spec_of(tensor));
  const io::ModelPlan plan = io::plan_model(save);
  for (const io::SafetensorsPlan& file : plan.files)
    files.tensors.emplace_back(folder + file.name(), file, tensors, world);
  if (!plan.index.empty()) files.texts.emplace_back(folder + plan.index_name, plan.index);
}

// PEFT's two files, the tokenizer's, and what says where answers end: the base's file need not say so.
void add_adapter(Files& files, const CheckpointParts& parts, const World& world) {
  files.texts.emplace_back(hub::kAdapterConfig, hub::adapter_json(parts.model, kDefaultAdapter, *parts.adapter));
  for (const auto& [name, content] : parts.files.texts)
    if (name != "config.json") files.texts.emplace_back(name, content);
  files.tensors.emplace_back(hub::kAdapterModel, adapter_to_save(parts), world);
}

// By all ranks: what each has of some columns becomes rows that it writes.
std::vector<SavedTensor> in_rows(std::vector<SavedTensor> tensors, Updater* updater) {
  if (updater)
    for (SavedTensor& tensor : tensors) tensor.slice = updater->in_rows(tensor.slice);
  return tensors;
}

Files files_to_save(const CheckpointParts& parts, const World& world) {
  Files files;
  if (parts.adapter)
    add_adapter(files, parts, world);
  else
    add_model(files, "", in_rows(weights_to_save(parts, parts.model), parts.updater), parts.files, world);
  for (const BesideFiles& one : parts.beside)
    add_model(files, one.name + "/", weights_to_save(parts, *one.module, one.name + "."), one.files, world);
  if (!parts.with_optimizer || !parts.updater) return files;
  std::vector<SavedTensor> state;
  each_state_to_save(parts, [&](const std::string& name, const Slice& slice) {
    state.push_back({slice, slice.part.scalar_type(), !parts.updater->sharded()});
    state.back().slice.name = name;
  });
  files.tensors.emplace_back(std::string("state/") + kOptimizerFile, in_rows(std::move(state), parts.updater), world);
  if (parts.followed.empty()) return files;
  std::vector<SavedTensor> followed;
  for (const Slice& slice : parts.followed) followed.push_back({slice, slice.part.scalar_type()});
  files.tensors.emplace_back(std::string("state/") + kFollowingFile, followed, world);
  return files;
}

// Rank 0: the folder in the making, with all that is small, and tensor files that hold their heads.
std::unique_ptr<io::FolderCommit> begin_save(const CheckpointPlace& place, std::int64_t step, const Files& files,
                                             const NamedTensors& callbacks) {
  std::unique_ptr<io::FolderCommit> commit = place.begin(step);
  for (const auto& [name, content] : files.texts) commit->add_file(name, content);
  if (!callbacks.specs().empty())
    commit->add_safetensors(std::string("state/") + kCallbacksFile, callbacks.specs(), {{"format", "pt"}},
                            callbacks.bytes());
  for (const TensorFile& file : files.tensors) io::make_safetensors(commit->folder_of(file.name()), file.plan());
  return commit;
}

// What a rank says of its part: "file tensor begin end hash" of each chunk, or why it is not written.
constexpr char kFailed = '!';

std::string written(const std::vector<TensorFile>& files, const Folder& folder) {
  std::string told;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const io::WrittenChunk& chunk : files[i].write(folder))
      told += fmt::format("{} {} {} {} {}\n", i, chunk.tensor, chunk.begin, chunk.end, chunk.hash);
  return told;
}

using Chunks = std::vector<std::vector<io::WrittenChunk>>;  // of each file

Chunks chunks_of(const std::string& told, std::size_t files) {
  Chunks chunks(files);
  std::istringstream lines(told);
  std::size_t file = 0;
  for (io::WrittenChunk chunk; lines >> file >> chunk.tensor >> chunk.begin >> chunk.end >> chunk.hash;)
    chunks.at(file).push_back(chunk);
  return chunks;
}

bool any_failed(const std::vector<std::string>& told) {
  return std::any_of(told.begin(), told.end(), [](const std::string& one) { return one.starts_with(kFailed); });
}

// Of the first rank that failed.
Error failure_told(const std::vector<std::string>& told) {
  const auto failed = std::find_if(told.begin(), told.end(), [](const auto& one) { return one.starts_with(kFailed); });
  return Error(ErrorKind::checkpoint, fmt::format("rank {}: {}", failed - told.begin(), failed->substr(1)));
}

// The Error(checkpoint) that `act` throws. Any other one ends the process, and so all ranks.
std::optional<Error> failure_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) throw;
    return error;
  }
  return std::nullopt;
}

// All ranks write their parts, and each looks at what the next one has written; what all of them say, in rank order.
std::vector<std::string> write_together(const std::vector<TensorFile>& files, const std::function<Folder()>& open,
                                        const World& world, std::optional<Error>& failure) {
  std::string own;
  failure = failure_of([&] { own = written(files, open()); });
  const std::vector<std::string> told = world.gather(failure ? kFailed + std::string(failure->what()) : own);
  if (world.size() == 1 || any_failed(told)) return told;
  const Chunks next = chunks_of(told[static_cast<std::size_t>((world.rank() + 1) % world.size())], files.size());
  failure = failure_of([&] {
    for (std::size_t i = 0; i < files.size(); ++i) files[i].check(open(), next[i]);
  });
  const std::vector<std::string> checked = world.gather(failure ? kFailed + std::string(failure->what()) : "");
  return any_failed(checked) ? checked : told;
}

void note(io::FolderCommit& commit, const std::vector<TensorFile>& files, const std::vector<std::string>& told) {
  Chunks all(files.size());
  for (const std::string& one : told) {
    const Chunks own = chunks_of(one, files.size());
    for (std::size_t i = 0; i < own.size(); ++i) all[i].insert(all[i].end(), own[i].begin(), own[i].end());
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    commit.note(io::manifest_entry(files[i].name(), files[i].plan(), std::move(all[i])));
}

io::Manifest manifest_of(const CheckpointPlace& place, const RunState& state, const CheckpointParts& parts) {
  io::Manifest manifest;
  manifest.step = state.step;
  manifest.tokens = state.tokens;
  manifest.run_id = place.run_id;
  manifest.config_hash = hash128_hex(parts.config_yaml);
  manifest.data_hash = state.data_hash;
  manifest.tokenizer_hash = state.tokenizer_hash;
  return manifest;
}

// Of a tensor, with what its file's head, the index of shards and the manifest say of it, at most.
std::uint64_t on_disk(const Slice& slice, at::ScalarType type) {
  constexpr std::uint64_t kSaid = 640, kOfChunk = 32, kNames = 3;
  const std::uint64_t bytes = bytes_of(slice, type);
  return bytes + kSaid + kNames * slice.name.size() + kOfChunk * (bytes / io::kHashChunk);
}

}  // namespace

std::uint64_t checkpoint_bytes(const CheckpointParts& parts) {
  std::uint64_t bytes = 0;
  if (parts.adapter) {
    parts.updater->each_master([&](Slice& master) { bytes += on_disk(master, master.part.scalar_type()); });
  } else {
    for (const SavedTensor& tensor : weights_to_save(parts, parts.model)) bytes += on_disk(tensor.slice, tensor.type);
  }
  for (const BesideFiles& one : parts.beside) {
    for (const SavedTensor& tensor : weights_to_save(parts, *one.module, one.name + "."))
      bytes += on_disk(tensor.slice, tensor.type);
    for (const auto& [name, content] : one.files.texts) bytes += content.size();
  }
  each_state_to_save(
      parts, [&](const std::string&, const Slice& state) { bytes += on_disk(state, state.part.scalar_type()); });
  if (parts.with_optimizer)
    for (const Slice& slice : parts.followed) bytes += on_disk(slice, slice.part.scalar_type());
  for (const auto& [name, content] : parts.files.texts) bytes += content.size();
  return bytes;
}

struct CheckpointWrite::Content {
  Files files;
  NamedTensors callbacks;
  io::Manifest manifest;
};

CheckpointPlace place_in(io::RunFolder& run) {
  return {run.folder().env(), run.run_id(), [&run](std::int64_t step) {
            run.keep_checkpoints_there();
            io::FolderCommit::Options options{run.run_id(), /*replace=*/true, [&run] { run.check_owner(); }};
            return run.checkpoints().start_save(step, std::move(options));
          }};
}

CheckpointPlace place_at(const std::filesystem::path& folder, bool replace) {
  return {Env::process(), "0", [folder, replace](std::int64_t) {
            return std::unique_ptr<io::FolderCommit>(new io::FolderCommit(io::commit_to(folder, replace)));
          }};
}

CheckpointWrite::CheckpointWrite(CheckpointPlace place, const RunState& state, const CheckpointParts& parts,
                                 const World& world)
    : place_(std::move(place)),
      world_(world),
      content_(std::make_unique<Content>(files_to_save(parts, world), tensors_of(state.callbacks),
                                         manifest_of(place_, state, parts))) {
  content_->manifest.world = world.size();
  content_->manifest.finite = parts.finite;
  if (!world.is_first()) return;
  auto& texts = content_->files.texts;
  texts.emplace_back("trainer_state.json", trainer_state(state, parts));
  texts.emplace_back(std::string("state/") + kStateFile, to_json(state));
  texts.emplace_back("state/config.yaml", parts.config_yaml);
}

CheckpointWrite::CheckpointWrite(CheckpointWrite&&) noexcept = default;
CheckpointWrite::~CheckpointWrite() = default;

void CheckpointWrite::copy_tensors() {
  for (TensorFile& file : content_->files.tensors) file.copy_tensors();
  content_->callbacks.copy();
}

// A failure is told in each exchange, so that all ranks make the same ones.
std::optional<std::uint64_t> CheckpointWrite::write() {
  const Files& files = content_->files;
  std::unique_ptr<io::FolderCommit> commit;
  std::optional<Error> failure;
  if (world_.is_first())
    failure = failure_of([&] { commit = begin_save(place_, content_->manifest.step, files, content_->callbacks); });
  const std::string place = world_.from_first(commit ? commit->folder().path().string() : "");
  std::uint64_t bytes = 0;
  if (!place.empty()) {
    // Who made the folder holds it, wherever the run's folder has been moved meanwhile.
    const auto open = [&] { return commit ? commit->folder() : place_.env.open_folder(place); };
    const std::vector<std::string> told = write_together(files.tensors, open, world_, failure);
    if (world_.is_first() && !failure)
      failure = failure_of([&] {
        if (any_failed(told)) throw failure_told(told);
        note(*commit, files.tensors, told);
        bytes = commit->bytes();
        commit->commit(content_->manifest);
      });
  }
  if (world_.from_first(failure ? "failed" : "").empty()) return bytes;
  if (!world_.is_first()) return std::nullopt;
  throw *failure;
}

std::optional<std::uint64_t> save_checkpoint(const CheckpointPlace& place, const RunState& state,
                                             const CheckpointParts& parts, const World& world) {
  return CheckpointWrite(place, state, parts, world).write();
}

bool has_optimizer(const Folder& checkpoint) {
  return checkpoint.exists("state") && checkpoint.open_folder("state").exists(kOptimizerFile);
}

void write_gradients(Env& env, const std::string& path,
                   const std::function<void(const std::function<void(const std::string&, const Tensor&)>&)>& each) {
  NamedTensors tensors;
  each([&](const std::string& name, const Tensor& tensor) { tensors.add(name, tensor); });
  io::replace_safetensors(env, path, tensors.specs(), {{"format", "pt"}, {io::kHolds, kGradients}}, tensors.bytes(),
                          ErrorKind::checkpoint);
}

}  // namespace hone::training
