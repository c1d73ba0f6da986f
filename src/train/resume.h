// Where a run starts: from nothing, or from which of its checkpoints, and whether its recipe may differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hone/trainer.h"
#include "io/run_folder.h"

namespace hone::training {

// The checkpoint to go on from; nothing: a fresh start. Damaged newer ones are named in a warning. Error(checkpoint)
// when options.resume asks for what is not there, or the run's checkpoints have vanished.
std::optional<io::Checkpoint> choose_checkpoint(io::RunFolder& run, const TrainOptions& options);

// The newest whole one of an earlier step; nothing: there is none, and the run began afresh.
std::optional<io::Checkpoint> checkpoint_before(io::RunFolder& run, std::int64_t step);

// Training again from an earlier step starts another future: the old one, its checkpoints and metrics.jsonl, is kept in
// `superseded-k`. Called when everything else is in order.
void set_newer_aside(io::RunFolder& run, std::int64_t step);

// What the run's own recipe (YAML as saved) and the new one disagree on. Throws Error(config) with the whole diff when
// a changed option is neither allowed to change nor named in override_keys.
std::vector<config::Change> check_recipe(const std::string& saved_yaml, const Recipe& recipe,
                                         const TrainOptions& options, const std::string& folder);

// Rows that the steps before this one have had, as the recipe in the checkpoint says; for one whose state does not.
std::int64_t rows_before(const Folder& checkpoint, std::int64_t step);

// What a checkpoint's recipe says of how its counts and its optimizer's state were made; what it does not say, or the
// checkpoint does not have, is empty.
struct SavedOptions {
  std::vector<TrainableWeights> trainable;
  config::Node optimizer;
};
SavedOptions saved_options(const Folder& checkpoint);

// Of a run that began with a fresh model: the keys of its config.json that are to be others than in the checkpoint's
// recipe. Error(config): its type is, or one is not given any more.
ModelSection changed_model(const ModelSection& model, const Folder& checkpoint);

// Whether the option, or a section that it is in, is named by the keys, or "all" is.
bool is_overridden(const std::string& option, const std::vector<std::string>& keys);

// Throws Error(usage) for an option to be overridden that this recipe does not have.
void check_overrides(const Recipe& recipe, const TrainOptions& options);

}  // namespace hone::training
