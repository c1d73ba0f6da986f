// What trains a model.
#include "train/frame.h"

#include <ATen/ATen.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "base/plugin.h"
#include "hone/random.h"
#include "hone/registry.h"
#include "optim/ema.h"

namespace hone::training {

std::unique_ptr<Optimizer> make_optimizer(const config::Choice<Optimizer>& chosen, const EmaSection& ema) {
  std::unique_ptr<Optimizer> made = registries().optimizers.make(chosen);
  if (ema.decay == 0) return made;
  if (made->averages())
    throw Error(ErrorKind::config,
                fmt::format("trainer.ema: optimizer {} averages the weights itself", chosen.type))
        .hint("leave trainer.ema out, or take another optimizer");
  return std::make_unique<optim::Ema>(std::move(made), ema.decay, ema.warmup);
}

std::uint64_t pass_seed(std::uint64_t seed, std::int64_t update, std::uint64_t micro_batch) {
  return Random(seed, fmt::format("pass/{}", update)).bits(micro_batch);
}

void Frame::init(const World& world, bool sharded, int slices) {
  HONE_ASSERT(!chosen.type.empty() && !updater_);
  world_ = world;
  optimizer_ = make_optimizer(chosen, ema);
  updater_ = std::make_unique<Updater>(*model, *optimizer_, precision, world, sharded, slices);
}

void Frame::begin_updates(std::int64_t had) {
  run.updates = had;
  run.trained_updates.clear(), run.own_updates.clear();
}

void Frame::tell_own_updates() const {
  if (run.own_updates.empty()) return;
  updater_->count_from([&](const std::string& weight) {
    const auto own = run.own_updates.find(weight);
    return own == run.own_updates.end() ? run.updates : own->second;
  });
}

void Frame::count_own_updates() {
  for (auto& [weight, updates] : run.own_updates) ++updates;
}

void Frame::drop() {
  if (!updater_) return;
  HONE_ASSERT(!updater_->sharded());
  const c10::NoGradGuard no_grad;
  std::map<std::string, Tensor> masters;
  updater_->each_master([&](Slice& master) { masters[master.name] = master.part; });
  updater_.reset();
  optimizer_.reset();
  norm_.reset();
  model->each_with_adapters([&](const std::string& name, Weight& weight) {
    const auto master = masters.find(name);
    if (master != masters.end() && master->second.scalar_type() != weight.use().scalar_type())
      weight.fill(master->second.clone());
  });
}

namespace {

// LibTorch gives a device's part of a backward pass to a thread of its own, which is known to nobody who measures this
// one, and which a pass waits for.
class OnThisThread {
 public:
  OnThisThread() { state().set_multithreading_enabled(false); }
  ~OnThisThread() { state().set_multithreading_enabled(before_); }
  OnThisThread(const OnThisThread&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }
  bool before_ = state().get_multithreading_enabled();
};

}  // namespace

void Frame::backward(const Tensor& loss) {
  const OnThisThread here;
  const double scale = run.loss_scale.factor;
  updater_->set_loss_scale(scale);
  (scale == 1 ? loss : loss * scale).backward();
  updater_->end_pass();
  norm_.reset();
}

std::string Frame::told(const char* what) const {
  return fmt::format("optimizer {}, {}, step {}", chosen.type, what, run.step + 1);
}

double Frame::learning_rate() const {
  return in_plugin([&] { return told("learning_rate"); }, [&] { return optimizer_->learning_rate(run.step, steps); });
}

double Frame::gradient_norm() {
  if (!norm_) {
    updater_->add_over_ranks();
    norm_ = updater_->gradient_norm();
  }
  return *norm_;
}

void Frame::update(const Clipping& clipping) {
  const double norm = gradient_norm();
  norm_.reset();
  last_norm = norm;
  if (made_there_)
    updater_->leave_out();
  else
    in_plugin([&] { return told("update"); }, [&] { updater_->update(next_update(), norm, clipping); });
  made_there_ = false;
  run.updates += 1;
}

// The sums of several ranks come to the host first.
Tensor Frame::norm_there() { return world_.size() > 1 ? Tensor() : updater_->norm_there(); }

void Frame::update_there(const Tensor& norm, const Tensor& finite, double most_norm) {
  in_plugin([&] { return told("update"); },
            [&] { updater_->update_there(next_update(), norm, finite, most_norm); });
  made_there_ = true;
}

void Frame::update_unread() {
  leave_out();
  run.updates += 1;
}

void Frame::take_back() {
  leave_out();
  run.updates -= 1;
}

void Frame::leave_out() {
  updater_->leave_out();
  made_there_ = false;
  norm_.reset();
}

}  // namespace hone::training
