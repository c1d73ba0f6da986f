// What is read of a checkpoint besides the weights.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "hone/safetensors.h"
#include "io/json.h"
#include "tensor/dtype.h"
#include "tensor/host.h"
#include "train/checkpoint.h"
#include "train/named_tensors.h"

namespace hone::training {
namespace {

void restore(const Safetensors& file, const Slice& into) {
  const std::string where = file.path().string();
  const TensorInfo& found = info_of(file, into.name);
  const std::string dtype = safetensors_name(into.part.scalar_type());
  if (found.dtype != dtype || found.shape != into.shape)
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got {} {}, expected {} {}", where, into.name, found.dtype,
                                                   shape_text(found.shape), dtype, shape_text(into.shape)));
  host::fill_bytes(into.part, [&](std::span<std::byte> bytes) {
    if (into.part.sizes() == at::IntArrayRef(into.shape)) return file.read(found, bytes);
    if (bytes.empty()) return;
    const std::shared_ptr<const std::byte> all = file.map(found);
    std::copy_n(all.get() + into.begin * into.part.element_size(), bytes.size(), bytes.begin());
  });
}

// The same tensors, of one type and shape each, and no others.
bool is_state_of(Updater& updater, const Safetensors& file) {
  std::set<std::string> expected;
  bool fits = true;
  updater.each_state([&](const Slice& slice) {
    const TensorInfo* found = file.find(slice.name);
    fits &= found && found->dtype == safetensors_name(slice.part.scalar_type()) && found->shape == slice.shape;
    expected.insert(slice.name);
  });
  for (const TensorInfo& tensor : file.tensors())
    fits &= tensor.name.starts_with(kMaster) || expected.contains(tensor.name);
  return fits;
}

// The weight that a tensor of the optimizer's state is of, as exp_avg.model.norm.weight; "": of none.
std::string weight_of(const std::string& state, const std::set<std::string>& weights) {
  for (std::size_t dot = state.find('.'); dot != std::string::npos; dot = state.find('.', dot + 1))
    if (weights.contains(state.substr(dot + 1))) return state.substr(dot + 1);
  return "";
}

}  // namespace

RunState load_state(const Folder& checkpoint) {
  const std::string where = checkpoint.path().string();
  RunState state =
      state_from_json(checkpoint.open_folder("state").read_file(kStateFile), where + "/state/" + kStateFile);
  const io::JsonLimits limits{std::uint64_t{1} << 30, 100, ErrorKind::checkpoint};
  const nlohmann::json trainer =
      io::parse_json(checkpoint.read_file("trainer_state.json"), where + "/trainer_state.json", limits);
  if (!trainer.contains("log_history") || !trainer["log_history"].is_array())
    throw Error(ErrorKind::checkpoint, where + "/trainer_state.json: log_history: missing, expected a list");
  state.log_history = trainer["log_history"];
  return state;
}

LoadedUpdater load_updater(const Folder& checkpoint, Updater& updater, const UpdaterOfFile& what) {
  const Safetensors file(checkpoint.path() / "state" / kOptimizerFile);
  LoadedUpdater loaded{what.other_optimizer && !is_state_of(updater, file)};
  const bool afresh = loaded.afresh, other_weights = what.other_weights || afresh;
  updater.each_master([&](const Slice& master) { loaded.weights.insert(master.name); });
  std::set<std::string> expected;
  std::int64_t fresh = 0;
  std::vector<std::string> missing, extra;
  const auto take = [&](const Slice& slice) {
    if (file.find(slice.name) == nullptr) {
      other_weights ? void(++fresh) : missing.push_back(slice.name);
      return;
    }
    restore(file, slice);
    expected.insert(slice.name);
  };
  std::set<std::string> known;  // weights of which some state is there
  if (!afresh)
    updater.each_state([&](const Slice& state) {
      const std::string weight = weight_of(state.name, loaded.weights);
      if (!weight.empty()) (file.find(state.name) ? known : loaded.young).insert(weight);
      take(state);
    });
  std::erase_if(loaded.young, [&](const std::string& weight) { return known.contains(weight); });
  std::optional<SafetensorsSet> model;
  const bool averaged = updater.averages_weights();
  if (!what.all_exact && !averaged) model.emplace(checkpoint.path());
  updater.each_master([&](Slice& master) {
    if (what.all_exact && !averaged) return;
    const bool whole = model && model->tensors().contains(master.name) &&
                       model->tensors().at(master.name).tensor->dtype == safetensors_name(master.part.scalar_type());
    master.name = kMaster + master.name;
    if (!whole || file.find(master.name)) take(master);
  });
  for (const TensorInfo& tensor : file.tensors())
    if (!expected.contains(tensor.name)) extra.push_back(tensor.name);
  if ((!missing.empty() || !extra.empty()) && !other_weights)
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: not of this optimizer{}: {}{}", file.path().string(),
                            averaged && !missing.empty() ? " and trainer.ema" : "",
                            list_names(missing.empty() ? extra : missing), missing.empty() ? "" : " are missing"))
        .hint("model.path (of an adapter adapter.path) with the checkpoint's folder, in another run.folder, starts a "
              "new run from its weights");
  if (afresh)
    log::warning("{}: of another optimizer: its state is left out, and the new one's begins afresh",
                 file.path().string());
  else if (fresh > 0 || !extra.empty())
    log::info("{}: of the optimizer's state {} that is not there, {} that is of no use any more", file.path().string(),
              fresh == 1 ? "1 tensor begins afresh" : fmt::format("{} tensors begin afresh", fresh),
              extra.size() == 1 ? "1 is left out" : fmt::format("{} are left out", extra.size()));
  updater.restored();
  return loaded;
}

void begin_young(const LoadedUpdater& loaded, RunState& state) {
  if (loaded.afresh) state.updates = 0, state.trained_updates.clear(), state.own_updates.clear();
  for (const std::string& weight : loaded.young) state.own_updates[weight] = 0;
  std::erase_if(state.own_updates, [&](const auto& own) { return !loaded.weights.contains(own.first); });
}

}  // namespace hone::training
