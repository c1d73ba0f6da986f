// A model and what trains it: what runs and TrainState are made on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "hone/recipe.h"
#include "hone/world.h"
#include "hub/adapter_config.h"
#include "train/state.h"
#include "train/updater.h"

namespace hone::training {

// As a recipe has it, with an average of the weights where it wants one.
std::unique_ptr<Optimizer> make_optimizer(const config::Choice<Optimizer>& chosen, const EmaSection& ema);

// Of the dropout and the like of a micro-batch: of which update, counted from 0, and its number there, over all ranks.
std::uint64_t pass_seed(std::uint64_t seed, std::int64_t update, std::uint64_t micro_batch);

struct Frame {
  std::shared_ptr<Model> model;
  config::Choice<Optimizer> chosen = {};  // type "": none
  EmaSection ema = {};
  Precision precision = Precision::fp32;
  std::int64_t steps = 0;  // of the whole training; 0: not known
  std::uint64_t seed = 1;
  RunState run = {};
  // What belongs to a folder that it is saved in.
  std::filesystem::path source = {};  // where it comes from; "": from nowhere
  std::shared_ptr<const Tokenizer> tokenizer = {};
  std::optional<hub::AdapterConfig> adapter = {};
  // Around an update by TrainState; a run does there what is its own.
  std::function<void()> before_update = [this] { tell_own_updates(); }, after_update = [this] { count_own_updates(); };
  double last_norm = 0;  // of the gradients of the last update

  Frame() = default;
  Frame(const Frame&) = delete;
  // The optimizer with fresh state, over weights that are filled. REQUIRES: chosen, and it is not there.
  // slices: as Updater's.
  void init(const World& world = {}, bool sharded = false, int slices = 1);
  // Without the optimizer, as weights are trained: in fp32 (fp64).
  void drop();
  bool ready() const { return updater_ != nullptr; }
  void begin_updates(std::int64_t had = 0);  // of a fresh state
  Updater& updater() const { return *updater_; }
  Optimizer& optimizer() const { return *optimizer_; }
  const World& world() const { return world_; }

  void backward(const Tensor& loss);
  double gradient_norm();  // of the passes since the last update, over all ranks
  double learning_rate() const;
  // Counts it. REQUIRES: the norm is finite.
  void update(const Clipping& clipping);
  // The same before the host knows the norm, where a device makes it by itself: norm_there() is defined. Then the host
  // is told the norm, and update() or leave_out() says what has come of it.
  Tensor norm_there();
  void update_there(const Tensor& norm, const Tensor& finite, double most_norm);  // Updater::update_there
  void told_norm(double norm) { norm_ = norm; }
  // Instead of update(): counts what update_there() made, whose norm nobody knows yet. take_back(): it was not finite.
  void update_unread();
  void take_back();
  void leave_out();  // instead of update()
  void forget_norm() { norm_.reset(); }  // gradients have come by other means

 private:
  std::string told(const char* what) const;  // of the optimizer and the step, for what it throws
  void tell_own_updates() const;
  void count_own_updates();
  UpdateStep next_update() const { return {.update = run.updates + 1, .step = run.step, .steps = steps}; }
  World world_;
  std::unique_ptr<Optimizer> optimizer_;  // outlives the updater
  std::unique_ptr<Updater> updater_;
  std::optional<double> norm_;
  bool made_there_ = false;  // the update
};

}  // namespace hone::training
