// TrainState: made, changed, taken apart. How it is saved and loaded is in saved_state.cc.
#include "hone/train_state.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "base/strings.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "ops/quantized.h"
#include "tensor/dtype.h"
#include "train/frame.h"

namespace hone {
namespace {

using training::Frame;

Error misused(const std::string& fact) { return Error(ErrorKind::usage, "state: " + fact); }

Precision checked(Precision precision) {
  if (precision == Precision::fp16)
    throw misused("fp16 needs a loss that is scaled, which only runs by a recipe have").hint("take bf16 or fp32");
  return resolve(precision);
}

// Whether a model comes in parts. Throws Error(usage) for some of them without the others; `changes`: weights and
// buffers alone are for the model that is there.
bool in_parts(const StateParts& parts, bool changes) {
  std::vector<std::string> given, missing;
  const auto look = [&](bool there, const char* name) { (there ? given : missing).push_back(name); };
  look(parts.config.has_value(), "config");
  look(parts.weights.has_value(), "weights");
  look(parts.buffers.has_value(), "buffers");
  if (parts.model && !given.empty())
    throw misused(fmt::format("a model and {} of one; expected one or the other", join(given, ", ")));
  if (given.empty() || (changes && !parts.config)) return false;
  if (!missing.empty())
    throw misused(fmt::format("{} without {}; expected all three of them, or a model", join(given, ", "),
                              join(missing, ", ")));
  return true;
}

void check_optimizer(const StateParts& parts, bool has_optimizer) {
  if (parts.init_optimizer && parts.optimizer_state)
    throw misused("init_optimizer together with optimizer_state; expected one of them");
  if (has_optimizer) return;
  if (parts.init_optimizer) throw misused("init_optimizer without an optimizer");
  if (parts.optimizer_state) throw misused("optimizer_state without an optimizer");
}

void check_filled(const Model& model) {
  model.each_weight([](const std::string& name, const Weight& weight) {
    if (!weight.filled())
      throw misused(name + ": the model's weights are not filled").hint("load_weights, init_weights");
  });
}

void init(Frame& frame) {
  if (frame.steps < 1)
    throw misused("steps: missing; the learning rate depends on how many there are to be");
  Problems problems;
  training::make_optimizer(frame.chosen, frame.ema)->check(frame.steps, problems);
  problems.raise("the optimizer");
  frame.init();
}

// Every tensor, no more and no fewer, of its shape.
void put(Frame& frame, const TensorMap& state) {
  const c10::NoGradGuard no_grad;
  Problems problems;
  std::set<std::string> expected;
  frame.updater().each_state([&](training::Slice& own) {
    expected.insert(own.name);
    const auto found = state.find(own.name);
    if (found == state.end() || !found->second.defined())
      problems.add(own.name, "missing");
    else if (found->second.sizes() != own.part.sizes())
      problems.add(own.name, fmt::format("got {}, expected {}", shape_text(found->second.sizes()),
                                         shape_text(own.part.sizes())));
  });
  for (const auto& [name, tensor] : state)
    if (!expected.contains(name)) problems.add(name, "is not of this optimizer and these weights");
  problems.raise("the optimizer's state");
  frame.updater().each_state([&](training::Slice& own) { own.part.copy_(state.at(own.name)); });
}

// Names and shapes of a model's weights (buffers: of these instead).
void check_fits(const Model& model, const TensorMap& tensors, bool buffers, Problems& problems) {
  std::set<std::string> known;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (weight.is_buffer() != buffers) return;
    known.insert(name);
    const auto found = tensors.find(name);
    if (found == tensors.end() || !found->second.defined())
      problems.add(name, "missing");
    else if (found->second.sizes() != at::IntArrayRef(weight.shape()))
      problems.add(name,
                   fmt::format("got {}, expected {}", shape_text(found->second.sizes()), shape_text(weight.shape())));
    else if (!at::isFloatingType(found->second.scalar_type()))
      problems.add(name, fmt::format("got {}, expected floating point", safetensors_name(found->second.scalar_type())));
  });
  for (const auto& [name, tensor] : tensors)
    if (!known.contains(name))
      problems.add(name, fmt::format("the model has no such {}", buffers ? "buffer" : "weight"));
}

// Into the model that is there: its own tensors get other values.
void put_values(Frame& frame, const TensorMap& weights, bool buffers) {
  const c10::NoGradGuard no_grad;
  Problems problems;
  check_fits(*frame.model, weights, buffers, problems);
  problems.raise(buffers ? "buffers" : "weights");
  frame.model->each_weight([&](const std::string& name, Weight& weight) {
    if (weight.is_buffer() == buffers) weight.value().detach().copy_(weights.at(name));
  });
  if (buffers || !frame.ready()) return;
  frame.updater().each_master([&](training::Slice& master) { master.part.copy_(weights.at(master.name)); });
  frame.updater().restored();
}

void refuse_shares(const Frame& frame, const char* what) {
  if (frame.ready() && frame.updater().sharded())
    throw misused(
        fmt::format("{}: with parallel.fsdp or parallel.tensor no rank has all of it; a checkpoint has", what));
}

void refuse_adapters(const Frame& frame, const char* what) {
  if (frame.model->has_adapters()) throw misused(fmt::format("{}: not of a model with adapters", what));
}

void require_optimizer_state(const Frame& frame, const char* what) {
  if (!frame.ready())
    throw misused(fmt::format("{}: there is no optimizer with its state", what)).hint("init_optimizer() makes it");
}

void check_numbers(const StateParts& parts) {
  const auto require = [](const std::optional<std::int64_t>& value, std::int64_t least, const char* name) {
    if (value && *value < least) throw misused(fmt::format("{}: got {}, expected at least {}", name, *value, least));
  };
  require(parts.step, 0, "step");
  require(parts.updates, 0, "updates");
  require(parts.steps, 1, "steps");
}

void count(Frame& frame, const StateParts& parts) {
  if (parts.step) frame.run.step = frame.run.updates = *parts.step;
  if (parts.updates) frame.run.updates = *parts.updates;
  if (parts.steps) frame.steps = *parts.steps;
  if (parts.seed) frame.seed = *parts.seed;
}

// What is asked for of the optimizer, over a model that is filled.
void equip(Frame& frame, const StateParts& parts) {
  if (parts.init_optimizer || parts.optimizer_state) init(frame);
  if (parts.init_optimizer) frame.begin_updates(parts.updates.value_or(0));
  if (parts.optimizer_state) put(frame, *parts.optimizer_state);
}

}  // namespace

config::Choice<Optimizer> read_optimizer(const std::string& yaml) {
  registries();  // fills the catalogue that Choice reads from
  Problems problems;
  config::Choice<Optimizer> choice{"adamw", nullptr};
  const config::Node node = config::parse_yaml(yaml, "", problems);
  config::Values<config::Choice<Optimizer>>::read(node, choice, {problems, "optimizer"});
  problems.raise();
  config::Values<config::Choice<Optimizer>>::absent(choice, {problems, "optimizer"});
  return choice;
}

std::unique_ptr<Model> merge(const ModelSplit& parts) {
  std::unique_ptr<Model> model = build_model(parts.config, "config");
  Problems problems;
  check_fits(*model, parts.weights, false, problems);
  check_fits(*model, parts.buffers, true, problems);
  problems.raise("the model's parts");
  model->each_weight([&](const std::string& name, Weight& weight) {
    weight.fill((weight.is_buffer() ? parts.buffers : parts.weights).at(name).detach());
  });
  return model;
}

TrainState::TrainState(std::unique_ptr<training::Frame> frame) : frame_(std::move(frame)) {}
TrainState::TrainState(TrainState&&) noexcept = default;
TrainState& TrainState::operator=(TrainState&&) noexcept = default;
TrainState::~TrainState() = default;

TrainState TrainState::create(StateParts parts) {
  const bool apart = in_parts(parts, false);
  if (!apart && !parts.model) throw misused("neither a model nor its parts");
  check_optimizer(parts, parts.optimizer.has_value());
  check_numbers(parts);
  auto frame = std::make_unique<Frame>();
  count(*frame, parts);
  frame->model = apart ? std::shared_ptr<Model>(hone::merge({*parts.config, *parts.weights, *parts.buffers}))
                       : std::move(parts.model);
  check_filled(*frame->model);
  frame->precision = checked(parts.precision.value_or(Precision::fp32));
  if (parts.optimizer) frame->chosen = *parts.optimizer;
  equip(*frame, parts);
  return TrainState(std::move(frame));
}

Model& TrainState::model() const { return *frame_->model; }
std::shared_ptr<Model> TrainState::shared_model() const { return frame_->model; }
std::int64_t TrainState::step() const { return frame_->run.step; }
std::int64_t TrainState::updates() const { return frame_->run.updates; }
std::int64_t TrainState::steps() const { return frame_->steps; }
std::int64_t TrainState::tokens() const { return frame_->run.tokens; }
void TrainState::count_tokens(std::int64_t tokens) { frame_->run.tokens += tokens; }
std::uint64_t TrainState::seed() const { return frame_->seed; }
Precision TrainState::precision() const { return frame_->precision; }
const std::string& TrainState::data_position() const { return frame_->run.data_position; }
void TrainState::set_data_position(std::string position) { frame_->run.data_position = std::move(position); }
const config::Choice<Optimizer>& TrainState::optimizer() const { return frame_->chosen; }
bool TrainState::has_optimizer_state() const { return frame_->ready(); }

TensorMap TrainState::optimizer_state() const {
  require_optimizer_state(*frame_, "optimizer_state");
  refuse_shares(*frame_, "optimizer_state");
  TensorMap state;
  frame_->updater().each_state([&](training::Slice& own) { state[own.name] = own.part; });
  return state;
}

double TrainState::learning_rate() const {
  require_optimizer_state(*frame_, "learning_rate");
  return frame_->learning_rate();
}

std::uint64_t TrainState::pass_seed(std::uint64_t micro_batch) const {
  return training::pass_seed(frame_->seed, frame_->run.updates, micro_batch);
}

void TrainState::init_optimizer(std::optional<config::Choice<Optimizer>> optimizer) {
  check_optimizer({.init_optimizer = true}, optimizer || !frame_->chosen.type.empty());
  refuse_shares(*frame_, "init_optimizer");
  frame_->drop();
  if (optimizer) frame_->chosen = std::move(*optimizer);
  init(*frame_);
  frame_->begin_updates();
}

void TrainState::backward(const Tensor& loss) {
  require_optimizer_state(*frame_, "backward");
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad())
    throw misused("backward: expected a loss, one number that the model's weights have been computed into");
  frame_->backward(loss);
}

double TrainState::gradient_norm() {
  require_optimizer_state(*frame_, "gradient_norm");
  return frame_->gradient_norm();
}

UpdateReport TrainState::apply_gradients(const UpdateOptions& options) {
  require_optimizer_state(*frame_, "apply_gradients");
  const UpdateReport report{frame_->gradient_norm(), frame_->learning_rate()};
  if (!std::isfinite(report.grad_norm)) {
    const std::string weight = frame_->updater().first_not_finite();
    frame_->leave_out();
    throw Error(ErrorKind::not_finite,
                fmt::format("step {}: {} is infinite or not a number; no update was made", step() + 1,
                            weight.empty() ? "the gradients' norm" : "the gradient of " + weight));
  }
  if (!frame_->updater().has_gradients() && frame_->world().size() == 1) {
    frame_->leave_out();
    throw misused("apply_gradients: there are none").hint("backward(loss) comes first; skip_step() is without");
  }
  frame_->before_update();
  frame_->update({options.max_grad_norm, options.max_grad_value});
  frame_->after_update();
  frame_->run.step += options.ends_step ? 1 : 0;
  return report;
}

void TrainState::set_gradients(const TensorMap& gradients) {
  require_optimizer_state(*frame_, "set_gradients");
  refuse_shares(*frame_, "set_gradients");
  frame_->updater().set_gradients(gradients);
  frame_->forget_norm();
}

void TrainState::skip_step() {
  if (frame_->ready()) frame_->leave_out();
  frame_->run.step += 1;
}

ModelSplit TrainState::split() const {
  refuse_shares(*frame_, "split");
  refuse_adapters(*frame_, "split");
  ModelSplit parts{.config = frame_->model->hf_config(), .weights = {}, .buffers = {}};
  frame_->model->each_weight([&](const std::string& name, Weight& weight) {
    (weight.is_buffer() ? parts.buffers : parts.weights)[name] = weight.whole().detach();
  });
  if (frame_->ready())
    frame_->updater().each_master([&](training::Slice& master) { parts.weights[master.name] = master.part.detach(); });
  return parts;
}

std::unique_ptr<Model> TrainState::merge(const TensorMap& weights) const {
  ModelSplit parts = split();
  parts.weights = weights;
  for (auto& [name, buffer] : parts.buffers) buffer = buffer.clone();  // the further model's own
  std::unique_ptr<Model> made = hone::merge(parts);
  std::set<std::string> frozen;
  frame_->model->each_weight([&](const std::string& name, Weight& weight) {
    if (!weight.is_buffer() && !weight.trainable()) frozen.insert(name);
  });
  made->each_weight([&](const std::string& name, Weight& weight) {
    if (frozen.contains(name)) weight.set_trainable(false);
  });
  return made;
}

TrainState TrainState::replace(StateParts changes) && {
  Frame& frame = *frame_;
  const bool apart = in_parts(changes, true);
  check_optimizer(changes, changes.optimizer || !frame.chosen.type.empty());
  check_numbers(changes);
  refuse_shares(frame, "replace");
  const Precision precision = checked(changes.precision.value_or(frame.precision));
  const bool others = apart || changes.model != nullptr;
  std::shared_ptr<Model> model = apart ? std::shared_ptr<Model>(hone::merge(
                                             {*changes.config, *changes.weights, *changes.buffers}))
                                       : std::move(changes.model);
  if (model) check_filled(*model);
  if (!apart && changes.weights) put_values(frame, *changes.weights, false);
  if (!apart && changes.buffers) put_values(frame, *changes.buffers, true);
  count(frame, changes);
  const bool anew = changes.init_optimizer || changes.optimizer || changes.optimizer_state;
  if (!anew && frame.ready() && (others || precision != frame.precision)) changes.optimizer_state = optimizer_state();
  if (anew || others || precision != frame.precision) frame.drop();
  if (model) frame.model = std::move(model);
  frame.precision = precision;
  if (changes.optimizer) frame.chosen = std::move(*changes.optimizer);
  equip(frame, changes);
  return std::move(*this);
}

std::uint64_t TrainState::size_bytes() const {
  std::uint64_t bytes = 0;
  std::map<std::string, at::ScalarType> types;  // of weights that are there
  frame_->model->each_with_adapters([&](const std::string& name, Weight& weight) {
    if (weight.quantized()) bytes += weight.quantized()->bytes();
    if (weight.is_buffer() || !weight.is_there()) return;
    bytes += weight.use().nbytes();
    types[name] = weight.use().scalar_type();
  });
  if (!frame_->ready()) return bytes;
  frame_->updater().each_master([&](training::Slice& master) {
    const auto weight = types.find(master.name);  // of this type it is the master itself
    if (weight == types.end() || weight->second != master.part.scalar_type()) bytes += master.part.nbytes();
  });
  frame_->updater().each_state([&](training::Slice& own) { bytes += own.part.nbytes(); });
  return bytes;
}

}  // namespace hone
