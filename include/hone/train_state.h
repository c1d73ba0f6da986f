// A model in training: its weights, the optimizer that changes them, and how far they are. For loops of one's own; runs
// are made on the same.
//
//   hone::TrainState state = hone::TrainState::create(
//       {.model = hone::load_model("models/llama", hone::Precision::fp32),
//        .optimizer = hone::read_optimizer("{type: adamw, learning_rate: 1e-4, schedule: cosine}"),
//        .init_optimizer = true, .steps = 100});
//   while (state.step() < state.steps()) {
//     for (const hone::Batch& batch : next_group()) state.backward(my_loss(state.model(), batch));
//     state.apply_gradients({.max_grad_norm = 1});
//   }
//   state.save("out");
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "hone/model.h"
#include "hone/optimizer.h"
#include "hone/precision.h"
#include "hone/training_section.h"

namespace hone {

class Tokenizer;  // hone/text.h

namespace training {
struct Frame;  // src/train/frame.h
}

using TensorMap = std::map<std::string, Tensor>;  // by the names that weights, or the optimizer's tensors, have

// A model taken apart. The tensors are the model's own.
struct ModelSplit {
  config::Node config;         // its config.json
  TensorMap weights, buffers;  // what may be trained, in fp32 (fp64) where it is; what is saved and never trained
};

// What a state is made of, and what is replaced in one; what is absent stays, or is not there.
struct StateParts {
  std::shared_ptr<Model> model = {};  // with its weights; or all three of these:
  std::optional<config::Node> config = {};
  std::optional<TensorMap> weights = {}, buffers = {};
  std::optional<config::Choice<Optimizer>> optimizer = {};  // read_optimizer()
  std::optional<TensorMap> optimizer_state = {};            // optimizer_state() of another one
  bool init_optimizer = false;                              // begin with a fresh state of the optimizer
  std::optional<std::int64_t> step = {};                    // so many are done; default 0
  // Of the weights, which the optimizer's corrections go by; default: as many as steps, with init_optimizer 0.
  std::optional<std::int64_t> updates = {};
  std::optional<std::int64_t> steps = {};    // of the whole training, as schedules count them; an optimizer needs it
  std::optional<std::uint64_t> seed = {};    // of what passes draw; default 1
  std::optional<Precision> precision = {};   // that is computed in, from masters in fp32; default fp32
};

struct UpdateOptions {
  double max_grad_norm = 0, max_grad_value = 0;  // as trainer.max_grad_norm and max_grad_value; 0: never
  bool ends_step = true;                         // false: a further update comes in the same step
};

struct UpdateReport {
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
};

struct SaveState {
  SaveDtype dtype = SaveDtype::source;  // of the weights' files, as trainer.save.dtype; never of the optimizer's state
  bool optimizer = true;                // false: a model and its step alone
  bool replace = false;                 // what is there, if hone made it, is moved to <folder>.old-k
  std::shared_ptr<const Tokenizer> tokenizer = {};  // saved with it; default: the one it was loaded with
};

struct LoadState {
  bool optimizer = true;           // false: neither the optimizer nor its state
  bool require_optimizer = false;  // its state must be there: Error(checkpoint)
  bool strict = true;  // false: what the folder lacks begins afresh and what the model lacks is passed over, both told;
                       // shapes must agree either way
  std::optional<Precision> precision = {};  // default: as it was saved, else fp32
};

// An optimizer as a recipe has it: "adamw", "{type: adamw, learning_rate: 1e-3, schedule: {type: cosine}}". Throws
// Error(config) with all that is wrong.
HONE_API config::Choice<Optimizer> read_optimizer(const std::string& yaml);

// A model of its parts. Error(config): names and shapes that do not fit.
HONE_API std::unique_ptr<Model> merge(const ModelSplit& parts);

// Moved, not copied: two states would change the same weights. One thread at a time. What is called wrongly throws
// Error(usage).
class HONE_API TrainState {
 public:
  // Error(usage): a model and parts of one, some of the three parts and not all, neither; init_optimizer together with
  // optimizer_state; either of them without an optimizer; an optimizer's state without steps.
  static TrainState create(StateParts parts);
  // A folder of save(), a checkpoint of a run, a run folder (its newest whole checkpoint), or any model folder, which
  // has neither step nor optimizer. The optimizer is as the folder says; its state may be missing.
  static TrainState load(const std::string& where, const LoadState& how = {});
  TrainState(TrainState&& other) noexcept;
  TrainState& operator=(TrainState&& other) noexcept;
  ~TrainState();

  Model& model() const;
  std::shared_ptr<Model> shared_model() const;
  std::int64_t step() const, updates() const, steps() const;
  std::int64_t tokens() const;               // of a run so far, or added by count_tokens()
  void count_tokens(std::int64_t tokens);
  std::uint64_t seed() const;
  Precision precision() const;
  const std::string& data_position() const;  // Loader::position(), to go on reading a stream; saved with the state
  void set_data_position(std::string position);
  const config::Choice<Optimizer>& optimizer() const;  // type "": none
  bool has_optimizer_state() const;
  TensorMap optimizer_state() const;  // its own tensors, such as "exp_avg.model.norm.weight"
  double learning_rate() const;       // of the next update; REQUIRES: the optimizer's state
  // What Pass::seed is in the i-th micro-batch of the next update, so that dropout is as in a run.
  std::uint64_t pass_seed(std::uint64_t micro_batch) const;

  // A fresh state, of this optimizer or of the one it has, with no update so far. Weights are from then on in the type
  // that is computed in.
  void init_optimizer(std::optional<config::Choice<Optimizer>> optimizer = {});
  // The backward pass of a loss, whose gradients add up in fp32 (fp64) until they are applied: any number of times.
  // What a step's losses are divided by is the caller's matter.
  void backward(const Tensor& loss);
  double gradient_norm();  // of all so far, before clipping; over all ranks of a run
  // Instead of backward(): gradients that were made by other means, by weights' names; a weight without one is left
  // alone. Error(config): names and shapes that are not the model's.
  void set_gradients(const TensorMap& gradients);
  // One update of the weights. Error(not_finite): a gradient is not finite, and the weights are as they were.
  UpdateReport apply_gradients(const UpdateOptions& options = {});
  void skip_step();  // a step without an update: nothing to learn from

  ModelSplit split() const;
  // A further model, of the same configuration and with these weights: all of them, in its shapes. Error(config).
  std::unique_ptr<Model> merge(const TensorMap& weights) const;
  // This state with other parts: `state = std::move(state).replace({.steps = 200})`. Weights alone go into the model
  // that is there; another model keeps the optimizer's state, which must fit it; another optimizer begins without one.
  // Where it throws for what does not fit, the optimizer may be gone.
  TrainState replace(StateParts changes) &&;

  std::uint64_t size_bytes() const;  // of weights, masters and the optimizer's state that this process holds
  // A Hugging Face folder with state/ beside it, made whole or not at all. What takes its place keeps no dtype but its
  // own: moments and masters are saved as they are. Error(checkpoint).
  void save(const std::filesystem::path& folder, const SaveState& how = {}) const;

  explicit TrainState(std::unique_ptr<training::Frame> frame);  // of a run; for hone itself, as frame() is
  training::Frame& frame() const { return *frame_; }

 private:
  std::unique_ptr<training::Frame> frame_;
};

}  // namespace hone
