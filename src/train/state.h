// What must survive a restart besides weights and optimizer state. Everything else is a function of (recipe, step).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "train/callback_state.h"
#include "train/loss_scale.h"
#include "train/metrics.h"

namespace hone::training {

inline constexpr const char *kBaseRole = "base", *kStateFile = "train.json";

struct Best {
  std::string metric;
  double value = 0;
  std::int64_t step = -1;  // -1: none yet
};

// What the best checkpoints are chosen by.
struct BestBy {
  std::string metric;       // "": not recorded, or nothing is measured
  bool rises = false;       // more of it is better
  std::int64_t places = 0;  // how many stay
  bool operator==(const BestBy&) const = default;
};

// What the evaluations of a set have measured.
struct Measured {
  std::string rows;        // a fingerprint
  std::int64_t since = 0;  // from this line of log_history on: those before it are of other rows
};

// What a model's weights came in: safetensors' names of types by weight; "*" = of all that are not named. Empty: a
// fresh model.
using SourceTypes = std::map<std::string, std::string>;

struct RunState {
  std::int64_t step = 0, tokens = 0, skipped_steps = 0;
  std::int64_t spikes = 0;    // updates left out for their gradients' norm
  std::vector<double> norms;  // of the last updates' gradients, where spikes are looked for
  std::int64_t updates = 0;   // of the weights: a step may give several, a skipped one gives none
  // Of weights that are not trained in all steps: TrainedByStep in trainable.h.
  std::map<std::string, std::int64_t> trained_updates = {};
  // By name: weights whose optimizer's state is younger than that of the others, and how many updates it has had.
  std::map<std::string, std::int64_t> own_updates = {};
  Sums objective = {};                // Objective::state()
  LossScale loss_scale = {};          // of a run in fp16; else its factor is 1
  std::int64_t not_finite = 0;        // updates left out for a loss or gradient that was not
  bool evaluation_due = false;        // the step's evaluation has not been completed
  std::vector<std::string> sets_due;  // of which sets it is; none: of all
  std::string finished;               // why the run is complete; "" = it is not
  Window window;
  std::optional<Window> report;  // of trackers, where they have their own interval
  std::vector<Best> best;        // the checkpoints that stay for what they are worth, the best one first
  BestBy best_by;
  std::vector<std::int64_t> were_best;       // steps: by what it was chosen by before; their checkpoints stay as well
  std::map<std::string, Measured> measured;  // by what its metrics begin with: "eval_", "eval_books_"
  std::int64_t rows = -1;                    // that the steps so far have taken from the data; -1: not recorded
  CallbackStates callbacks;
  nlohmann::json changes = nlohmann::json::array();      // options changed at a resume: step, option, before, after
  nlohmann::json log_history = nlohmann::json::array();  // of trainer_state.json, without times
  nlohmann::json data_files = nlohmann::json::object();  // path -> content hash, to name what changed
  std::int64_t threads = 0, ranks = 0;                   // that the steps so far were computed with; 0: not recorded
  std::map<std::string, std::string> computed_by;        // and by what, as kernels; empty: not recorded
  std::string data_position;                  // JSON: of a stream, where it is read on; "" = the step says it
  std::string data_hash, tokenizer_hash;      // fingerprints of what was trained on
  std::map<std::string, std::string> models;  // by role (kBaseRole of what is below an adapter): hub::hash_of_folder()
  std::optional<SourceTypes> source_types;    // of the model that the run began with; absent: not recorded
};

// state/train.json; log_history is kept in trainer_state.json instead.
std::string to_json(const RunState& state);
RunState state_from_json(const std::string& text, const std::string& where);  // throws Error(checkpoint)

}  // namespace hone::training
