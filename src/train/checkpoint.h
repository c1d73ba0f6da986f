// What one checkpoint folder of a run holds, written and read: a Hugging Face folder, trainer_state.json and state/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hub/adapter_config.h"
#include "hub/save.h"
#include "io/run_folder.h"
#include "train/save_types.h"
#include "train/state.h"
#include "train/trained_beside.h"
#include "train/updater.h"

namespace hone::training {

inline constexpr const char* kOptimizerFile = "optimizer-00000-of-00001.safetensors";
inline constexpr const char* kMaster = "master.";  // what names of masters begin with there

struct CheckpointParts {
  Model& model;
  Updater* updater;  // null: nothing trains the model
  const hub::ModelFiles& files;
  const std::string& config_yaml;
  const SaveTypes& types;
  std::int64_t steps = 0;  // of the whole run, for trainer_state.json
  std::optional<double> epoch = {};
  std::int64_t log_every = 0, eval_every = 0, save_every = 0, batch_size = 0;
  std::optional<double> epochs = {};
  std::vector<Slice> followed = {};                // RunResources::followed()
  std::optional<hub::AdapterConfig> adapter = {};  // then it is all that is saved of the model
  std::vector<BesideFiles> beside = {};            // of models that are trained with it, in folders of these names
  bool with_optimizer = true;                      // false: no run can go on from it
  bool finite = true;                              // false: some of what is trained is NaN or infinite
};

// Where a checkpoint is written: among those of a run, or into a folder of its own.
struct CheckpointPlace {
  Env& env;
  std::string run_id;
  std::function<std::unique_ptr<io::FolderCommit>(std::int64_t step)> begin;
};
CheckpointPlace place_in(io::RunFolder& run);  // which must outlive it
CheckpointPlace place_at(const std::filesystem::path& folder, bool replace);

// Of the weights, the optimizer's state and the small files: what save_checkpoint() will write, but for logs.
std::uint64_t checkpoint_bytes(const CheckpointParts& parts);

// One checkpoint, step-<state.step>, gathered: its tensors are the run's own until they are copied.
class CheckpointWrite {
 public:
  CheckpointWrite(CheckpointPlace place, const RunState& state, const CheckpointParts& parts, const World& world);
  CheckpointWrite(CheckpointWrite&& other) noexcept;
  ~CheckpointWrite();
  // In the types that the files have. From then on the run may change its own, and write() may be another thread's.
  void copy_tensors();
  std::optional<std::uint64_t> write();  // save_checkpoint()

 private:
  struct Content;
  CheckpointPlace place_;
  World world_;
  std::unique_ptr<Content> content_;
};

// Whether a run can go on from it, or only start from its weights.
bool has_optimizer(const Folder& checkpoint);

// Writes and commits step-<state.step>; returns its bytes. Throws Error(checkpoint), and then nothing has changed.
// On all ranks: each writes a part of the tensors, rank 0 all else. Where it fails on any of them, rank 0 throws, and
// the others get nothing.
std::optional<std::uint64_t> save_checkpoint(const CheckpointPlace& place, const RunState& state,
                                             const CheckpointParts& parts, const World& world);

// state/train.json and the log of trainer_state.json.
RunState load_state(const Folder& checkpoint);
// state/optimizer-…: every tensor of the optimizer, and those masters that the weights' files do not hold as they are,
// no more and no fewer. REQUIRES: the model's weights were read from this checkpoint, in fp32 (fp64) where they lie so.
struct UpdaterOfFile {
  // Others may be trained now, or by other options: what is new begins afresh, what is of no use any more is left out.
  bool other_weights = false;
  bool all_exact = false;  // all that is trained was read in the masters' type
  // Only one of both may have an average of the weights: it begins with the masters, or is left out.
  bool other_average = false;
  // `optimizer` of the recipe, of the file's and of the updater's, where they may be of other types. Where a type has
  // changed and the state has other tensors, that of the weights concerned begins afresh.
  config::Node optimizer_before = {}, optimizer_now = {};
};
struct LoadedUpdater {
  bool afresh = false;                 // the whole state, but for the average of the weights
  std::set<std::string> young = {};    // else the weights that have state, and all of it begins afresh
  std::set<std::string> weights = {};  // all that are trained
};
LoadedUpdater load_updater(const Folder& checkpoint, Updater& updater, const UpdaterOfFile& what = {});
// What corrections of early updates count begins with the state that they are of.
void begin_young(const LoadedUpdater& loaded, RunState& state);

inline constexpr const char* kGradients = "gradients";  // what such a file says that it holds

// Writes a step's gradients into a safetensors file; an older such file is replaced.
void write_gradients(Env& env, const std::string& path,
                   const std::function<void(const std::function<void(const std::string&, const Tensor&)>&)>& each);

}  // namespace hone::training
