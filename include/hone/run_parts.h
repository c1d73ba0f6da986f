// The parts of a run: what is given to it in memory, and what hone::Trainer makes of that and of the recipe, to look at
// and to replace before it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/evaluation.h"
#include "hone/recipe.h"
#include "hone/schedule.h"
#include "hone/train_state.h"
#include "hone/world.h"

namespace hone {

struct EvalSet {
  std::string name;  // "held_out", or as in the recipe
  std::shared_ptr<const Dataset> data;
};

// What is there already, and not named by the recipe, which then leaves it out. What is absent here the recipe names.
struct TrainerInputs {
  std::shared_ptr<Model> model = {};        // with its weights, which are trained in place (fp32); or
  std::optional<TrainState> state = {};     // a model that is on its way: its step and optimizer, if it has one, too
  std::shared_ptr<const Tokenizer> tokenizer = {};
  std::shared_ptr<const TrainingData> train = {};  // make_dataset(records), a Dataset of one's own, a stream
  std::vector<EvalSet> evals = {};
  std::shared_ptr<const Collator> collator = {};
};

// A part as a section of plain values, and as JSON. from_dict() refuses unknown keys with Error(config). Things in
// memory (a model, data) are only described there; a part that was read back has none of them, and a run keeps its own.
// `part.replace([](auto& one) { one.max_training_steps = 20; })` is a copy with that change.
template <class Self>
struct Described {
  std::string to_json() const { return config::to_json(static_cast<const Self&>(*this).to_dict()); }
  static Self from_json(const std::string& text) {
    Problems problems;
    const config::Node node = config::parse_json(text, "part", problems);
    problems.raise("part");
    return Self::from_dict(node);
  }
  template <class Change>
  Self replace(Change&& change) const {
    Self copy = static_cast<const Self&>(*this);
    std::forward<Change>(change)(copy);
    return copy;
  }
};

// Made first: what is trained on and measured on, and for how many steps.
struct HONE_API RunData : Described<RunData> {
  std::shared_ptr<const TrainingData> train;
  std::vector<EvalSet> evals;
  std::int64_t max_training_steps = 0;               // of the whole run
  std::optional<std::int64_t> max_evaluation_steps;  // batches of each set that an evaluation sees; nothing: all
  std::string train_fingerprint;                     // of a part that was read back: of which data it speaks
  config::Node to_dict() const;
  static RunData from_dict(const config::Node& dict);
};

// Second: what is trained, and by what.
struct HONE_API RunModel : Described<RunModel> {
  std::shared_ptr<Model> model;
  config::Choice<Optimizer> optimizer;
  // The optimizer's, in place of the one among its options; type "": it has several, or none.
  config::Choice<Schedule> scheduler;
  config::Node config;  // the model's config.json
  config::Node to_dict() const;
  static RunModel from_dict(const config::Node& dict);
};

// One step of a state with these micro-batches (of this rank): numbers of it, among them "loss". It ends with
// TrainState::apply_gradients() or skip_step().
using TrainingStep = std::function<Metrics(TrainState& state, const Group& group)>;

// Last: what is done in a step, what is measured, who does it together, and which checkpoints are saved.
struct HONE_API RunFunctions : Described<RunFunctions> {
  // The run's own may be called by another one. One that calls it never applies its gradients itself: then what of the
  // recipe is about a step (max_grad_norm, skip_spikes, the objective) is its matter.
  TrainingStep training_step;
  std::vector<std::shared_ptr<const Evaluation>> evaluations;
  World world;
  SaveSection checkpoints;
  config::Node to_dict() const;
  static RunFunctions from_dict(const config::Node& dict);
};

// What an evaluation has measured of one batch.
struct EvaluationStep {
  std::string set;
  std::int64_t step = 0;   // of this set, counted from 1
  std::int64_t rows = 0;   // of the set that are done
  Metrics metrics;         // of this batch
  Metrics mean;            // of all batches of the set so far, weighted as the metrics say
};
using OnEvaluationStep = std::function<void(const EvaluationStep&)>;

}  // namespace hone
