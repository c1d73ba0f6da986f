// What is read of a checkpoint besides the weights.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "hone/safetensors.h"
#include "io/json.h"
#include "optim/state_names.h"
#include "tensor/dtype.h"
#include "tensor/host.h"
#include "train/checkpoint.h"
#include "train/named_tensors.h"

namespace hone::training {
namespace {

// This part of a slice of some columns, from the file's bytes.
void copy_columns(const std::byte* all, const Slice& into, std::span<std::byte> bytes) {
  const auto size = static_cast<std::int64_t>(into.part.element_size());
  const std::int64_t width = into.shape[1], own = into.columns.count, end = into.begin + into.part.numel();
  for (std::int64_t at = into.begin; at < end;) {
    const std::int64_t row = at / own, column = at % own, count = std::min(own - column, end - at);
    std::copy_n(all + (row * width + into.columns.first + column) * size, count * size,
                bytes.data() + (at - into.begin) * size);
    at += count;
  }
}

void restore(const Safetensors& file, const TensorInfo& found, const Slice& into) {
  const std::string where = file.path().string();
  const std::string dtype = safetensors_name(into.part.scalar_type());
  if (found.dtype != dtype || found.shape != into.shape)
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got {} {}, expected {} {}", where, into.name, found.dtype,
                                                   shape_text(found.shape), dtype, shape_text(into.shape)));
  host::fill_bytes(into.part, [&](std::span<std::byte> bytes) {
    if (into.part.sizes() == at::IntArrayRef(into.shape)) return file.read(found, bytes);
    if (bytes.empty()) return;
    const std::shared_ptr<const std::byte> all = file.map(found);
    if (into.columns.count >= 0) return copy_columns(all.get(), into, bytes);
    std::copy_n(all.get() + into.begin * into.part.element_size(), bytes.size(), bytes.begin());
  });
}

bool is_average(const std::string& state) { return state.starts_with("ema."); }  // trainer.ema's, not the optimizer's

// Of a tensor that is of no weight: "a/b" of "prodigy/a/b".
std::string group_of(const std::string& state) {
  const std::size_t slash = state.find('/');
  return slash == std::string::npos ? "" : state.substr(slash + 1);
}

// What updates a weight: the group that it is in ("a/b": in a group of a group; "": in none), and the optimizer there.
struct TrainedBy {
  std::string group, type;
};

TrainedBy trained_by(const config::Node& optimizer, const std::string& weight) {
  if (optimizer.kind() == config::Node::Kind::scalar) return {"", optimizer.text()};
  const auto text = [](const config::Node& node, const char* key) {
    const config::Node* found = node.find(key);
    return found && found->kind() == config::Node::Kind::scalar ? found->text() : std::string();
  };
  const config::Node* groups = optimizer.find("groups");
  if (const std::string type = text(optimizer, "type"); type != "groups" || !groups) return {"", type};
  for (const config::Node& group : groups->items()) {
    const config::Node* its = group.find("optimizer");
    if (!its || !std::regex_search(weight, std::regex(text(group, "match")))) continue;
    const TrainedBy found = trained_by(*its, weight);
    return {text(group, "name") + (found.group.empty() ? "" : "/" + found.group), found.type};
  }
  return {};
}

// state/optimizer-… on its way into an updater.
class SavedUpdater {
 public:
  SavedUpdater(const Folder& checkpoint, Updater& updater, const UpdaterOfFile& what)
      : folder_(checkpoint.path()), file_(folder_ / "state" / kOptimizerFile), updater_(updater), what_(what) {
    updater_.each_master([&](const Slice& master) { loaded_.weights.insert(master.name); });
  }
  LoadedUpdater load() {
    find_afresh();
    other_weights_ = what_.other_weights || !afresh_.empty();
    updater_.each_state([&](const Slice& state) { load_state(state); });
    std::erase_if(loaded_.young, [&](const std::string& weight) { return known_.contains(weight); });
    loaded_.afresh = !afresh_.empty() && afresh_.size() == loaded_.weights.size();
    if (loaded_.afresh) loaded_.young.clear();
    load_masters();
    refuse_or_tell();
    updater_.restored();
    return std::move(loaded_);
  }

 private:
  void find_afresh();
  void load_state(const Slice& state);
  const TensorInfo* find(const std::string& state, const std::string& weight) const;
  void load_masters();
  void refuse_or_tell() const;
  void take(const TensorInfo& found, const Slice& into) {
    restore(file_, found, into);
    used_.insert(found.name);
  }

  const std::filesystem::path folder_;
  const Safetensors file_;
  Updater& updater_;
  const UpdaterOfFile& what_;
  bool other_weights_ = false;
  LoadedUpdater loaded_;
  std::set<std::string> afresh_, afresh_groups_;  // weights whose optimizer's state is not in the file; groups of such
  std::map<std::string, std::string> groups_before_;  // what groups' weights were in, by the groups' names now
  std::set<std::string> known_;                   // weights of which some state is there
  std::set<std::string> used_;                    // tensors of the file
  std::set<const void*> begun_;                   // tensors of the state that begin afresh
  std::vector<std::string> missing_;
  std::int64_t fresh_ = 0;
};

// Where the type has changed: whether the file has the same tensors of these weights, of one type and shape each, and
// no others (Adam's state is AdamW's). Weights that have made the same change are judged together. What a group has for
// itself, as Prodigy's guess, goes on with the weights that it was made of: where these are others now, the group
// begins afresh as a whole.
void SavedUpdater::find_afresh() {
  if (what_.optimizer_before.is_null() || what_.optimizer_now.is_null()) return;
  std::map<std::string, std::string> changes, groups;  // by weight
  std::map<std::string, std::set<std::string>> had, has;
  for (const std::string& weight : loaded_.weights) {
    const TrainedBy before = trained_by(what_.optimizer_before, weight), now = trained_by(what_.optimizer_now, weight);
    groups[weight] = now.group;
    had[before.group].insert(weight), has[now.group].insert(weight);
    groups_before_.emplace(now.group, before.group);
    if (!before.type.empty() && before.type != now.type)
      changes[weight] = fmt::format("{}: {} -> {}: {}", before.group, before.type, now.group, now.type);
  }
  const auto change_of = [&](const std::string& state) {
    if (is_average(state) || state.starts_with(kMaster)) return std::string();
    const auto found = changes.find(optim::weight_of(state, loaded_.weights));
    return found == changes.end() ? std::string() : found->second;
  };
  std::set<std::string> expected, other;  // the latter: changes
  updater_.each_state([&](const Slice& state) {
    const TensorInfo* found = file_.find(state.name);
    if (!found || found->dtype != safetensors_name(state.part.scalar_type()) || found->shape != state.shape)
      other.insert(change_of(state.name));
    expected.insert(state.name);
  });
  for (const TensorInfo& tensor : file_.tensors())
    if (!expected.contains(tensor.name)) other.insert(change_of(tensor.name));
  for (const auto& [weight, change] : changes)
    if (other.contains(change)) afresh_.insert(weight), afresh_groups_.insert(groups.at(weight));
  updater_.each_state([&](const Slice& state) {
    if (is_average(state.name) || !optim::weight_of(state.name, loaded_.weights).empty()) return;
    const std::string group = group_of(state.name);
    if (find(state.name, "") && had[groups_before_[group]] == has[group]) return;
    afresh_.insert(has[group].begin(), has[group].end());
    afresh_groups_.insert(group);
  });
  for (const auto& [weight, group] : groups)
    if (!afresh_.contains(weight)) afresh_groups_.erase(group);
}

// Checkpoints of before have once what each weight has now ("schedule_free.NAME"; of weights whose other state they
// have, which comes first), and without a group's name what groups have ("prodigy/a").
const TensorInfo* SavedUpdater::find(const std::string& state, const std::string& weight) const {
  if (!weight.empty()) {
    if (const TensorInfo* found = file_.find(state)) return found;
    return known_.contains(weight) ? file_.find(state.substr(0, state.size() - weight.size() - 1)) : nullptr;
  }
  const std::string bare = state.substr(0, state.find('/'));
  const auto before = groups_before_.find(group_of(state));
  const std::string name =
      before == groups_before_.end() ? state : before->second.empty() ? bare : bare + "/" + before->second;
  const TensorInfo* found = file_.find(name);
  return found ? found : file_.find(bare);
}

void SavedUpdater::load_state(const Slice& state) {
  const std::string weight = optim::weight_of(state.name, loaded_.weights);
  const std::string group = group_of(state.name);
  const bool average = is_average(state.name);
  const bool afresh = !average && (weight.empty() ? afresh_groups_.contains(group) : afresh_.contains(weight));
  const TensorInfo* found = afresh ? nullptr : find(state.name, weight);
  if (!weight.empty() && !average) (found ? known_ : loaded_.young).insert(weight);
  if (found) return take(*found, state);
  begun_.insert(state.part.unsafeGetTensorImpl());
  if (afresh) return;
  other_weights_ || (average && what_.other_average) ? void(++fresh_) : missing_.push_back(state.name);
}

// Those that the weights' files do not hold as they are. An average that begins, begins with them.
void SavedUpdater::load_masters() {
  std::set<std::string> begins;
  updater_.each_average_source([&](const std::string& weight, const Tensor& source) {
    if (begun_.contains(source.unsafeGetTensorImpl())) begins.insert(weight);
  });
  std::optional<SafetensorsSet> model;
  if (!what_.all_exact) model.emplace(folder_);
  std::map<std::string, Tensor> masters;
  updater_.each_master([&](Slice& master) {
    const std::string weight = std::exchange(master.name, kMaster + master.name);
    masters[weight] = master.part;
    if (const TensorInfo* found = file_.find(master.name)) return take(*found, master);
    const bool averaged = updater_.averages_weights() && !begins.contains(weight) && !other_weights_;
    const bool exact = what_.all_exact || (model->tensors().contains(weight) &&
                                           model->tensors().at(weight).tensor->dtype ==
                                               safetensors_name(master.part.scalar_type()));
    if (!exact || averaged) other_weights_ ? void(++fresh_) : missing_.push_back(master.name);
  });
  updater_.each_average_source([&](const std::string& weight, Tensor& source) {
    if (begins.contains(weight)) source.copy_(masters.at(weight));
  });
}

void SavedUpdater::refuse_or_tell() const {
  std::vector<std::string> extra;
  for (const TensorInfo& tensor : file_.tensors())
    if (!used_.contains(tensor.name) && !(what_.other_average && is_average(tensor.name))) extra.push_back(tensor.name);
  const std::string file = file_.path().string();
  if ((!missing_.empty() || !extra.empty()) && !other_weights_)
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: not of this optimizer{}: {}{}", file,
                            updater_.averages_weights() && !missing_.empty() ? " and trainer.ema" : "",
                            list_names(missing_.empty() ? extra : missing_), missing_.empty() ? "" : " are missing"))
        .hint("model.path (of an adapter adapter.path) with the checkpoint's folder, in another run.folder, starts a "
              "new run from its weights");
  if (!afresh_.empty())
    log::warning("{}: of another optimizer{}: its state is left out, and the new one's begins afresh", file,
                 loaded_.afresh ? "" : " for " + counted(std::ssize(afresh_), "weight"));
  if (!loaded_.afresh && (fresh_ > 0 || !extra.empty()))
    log::info("{}: of the optimizer's state {} that is not there, {} that is of no use any more", file,
              fresh_ == 1 ? "1 tensor begins afresh" : fmt::format("{} tensors begin afresh", fresh_),
              extra.size() == 1 ? "1 is left out" : fmt::format("{} are left out", extra.size()));
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
  return SavedUpdater(checkpoint, updater, what).load();
}

void begin_young(const LoadedUpdater& loaded, RunState& state) {
  if (loaded.afresh) state.updates = 0, state.trained_updates.clear(), state.own_updates.clear();
  for (const std::string& weight : loaded.young) state.own_updates[weight] = 0;
  std::erase_if(state.own_updates, [&](const auto& own) { return !loaded.weights.contains(own.first); });
}

}  // namespace hone::training
