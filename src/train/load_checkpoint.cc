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

void load_updater(const Folder& checkpoint, Updater& updater, bool other_weights, bool all_exact) {
  const Safetensors file(checkpoint.path() / "state" / kOptimizerFile);
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
  updater.each_state(take);
  std::optional<SafetensorsSet> model;
  const bool averaged = updater.averages_weights();
  if (!all_exact && !averaged) model.emplace(checkpoint.path());
  updater.each_master([&](Slice& master) {
    if (all_exact && !averaged) return;
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
        .hint("model.path with the checkpoint's folder, in another run.folder, starts a new run from its weights");
  if (other_weights)
    log::info("{}: of the optimizer's state {} for weights that are trained now, {} of weights that are not any more",
              file.path().string(),
              fresh == 1 ? "1 tensor begins afresh" : fmt::format("{} tensors begin afresh", fresh),
              extra.size() == 1 ? "1 is left out" : fmt::format("{} are left out", extra.size()));
  updater.restored();
}

}  // namespace hone::training
