// Stochastic gradient descent with momentum and Nesterov's look-ahead, with the arithmetic of torch.optim.SGD.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/optimizer.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "ops/vectorised.h"
#include "optim/blocks.h"

namespace hone::optim {
namespace {

// What one update has in common for all elements.
struct SgdStep {
  double learning_rate, decay, momentum, gradient_share;  // share of the gradient that enters the buffer
  bool nesterov;
  double gradient_scale;
};

template <class T>
[[gnu::always_inline]] inline void sgd_loop(T* __restrict w, const T* __restrict g, T* __restrict buffer,
                                            std::int64_t size, const SgdStep& s) {
  const T rate = T(s.learning_rate), decay = T(s.decay), momentum = T(s.momentum), share = T(s.gradient_share);
  const T scale = T(s.gradient_scale), own = T(s.nesterov ? 1 : 0), ahead = s.nesterov ? momentum : T(1);
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const T gradient = g[i] * scale + decay * w[i];
    const T moved = buffer[i] * momentum + gradient * share;
    buffer[i] = moved;
    w[i] -= rate * (own * gradient + ahead * moved);
  }
}
template <class T>
[[gnu::always_inline]] inline void plain_sgd_loop(T* __restrict w, const T* __restrict g, std::int64_t size,
                                                  const SgdStep& s) {
  const T rate = T(s.learning_rate), decay = T(s.decay), scale = T(s.gradient_scale);
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) w[i] -= rate * (g[i] * scale + decay * w[i]);
}

class Sgd final : public Optimizer {
 public:
  struct Config {
    double learning_rate = 1e-2;
    double weight_decay = 0.0;
    bool decay_all = false;
    double momentum = 0.0, dampening = 0.0;
    bool nesterov = false;
    config::Choice<Schedule> schedule{"cosine", nullptr};
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      constexpr config::Range share{.low = 0, .high = 1};
      return std::tuple{
          field("learning_rate", &C::learning_rate, "Peak learning rate.", at_least(0), record),
          field("weight_decay", &C::weight_decay,
                "Share of a weight that is added to its gradient; norms and biases are left out.", at_least(0), record),
          field("decay_all", &C::decay_all, "Let weight decay act on norms and biases too.", record),
          field("momentum", &C::momentum,
                "How much of the last update's direction stays; 0 = no momentum and no state.", share, record),
          field("dampening", &C::dampening, "Share of the gradient that does not enter the momentum.", share, record),
          field("nesterov", &C::nesterov, "Look ahead along the momentum.", record),
          field("schedule", &C::schedule, "Learning rate over the run.", record)};
    }
    void validate(Problems& problems) const {
      problems.require(dampening == 0 || momentum > 0, "dampening", "needs momentum above 0");
      problems.require(!nesterov || (momentum > 0 && dampening == 0), "nesterov",
                       "needs momentum above 0 and dampening 0");
    }
  };
  explicit Sgd(const Config& config) : config_(config), schedule_(registries().schedules.make(config.schedule)) {}

  void attach(std::span<OptimizedWeight> weights) override {
    if (config_.momentum == 0) return;
    for (const OptimizedWeight& weight : weights) {
      names_.push_back(weight.name);
      buffers_.push_back(at::zeros_like(weight.master));
    }
  }

  void update(std::span<OptimizedWeight> weights, std::int64_t step, double learning_rate,
              double gradient_scale) override {
    // The first buffer is the gradient itself, whatever the dampening.
    const SgdStep plain{learning_rate, 0, config_.momentum, step == 1 ? 1.0 : 1 - config_.dampening, config_.nesterov,
                        gradient_scale};
    const auto values_for = [&](const OptimizedWeight& weight) {
      SgdStep values = plain;
      if (weight.decays || config_.decay_all) values.decay = config_.weight_decay;
      return values;
    };
    update_blocks(
        weights,
        [&](const OptimizedWeight& weight, const Block& block) {
          if (weight.master.scalar_type() == at::kDouble)
            run<double>(weight, block, values_for(weight));
          else
            run<float>(weight, block, values_for(weight));
        },
        [&](const OptimizedWeight& weight) { run_plain(weight, values_for(weight)); });
  }

  void each_state(const std::function<void(const std::string&, Tensor&)>& visit) override {
    for (std::size_t i = 0; i < names_.size(); ++i) visit("momentum_buffer." + names_[i], buffers_[i]);
  }

  bool is_elementwise() const override { return true; }
  double learning_rate(std::int64_t step, std::int64_t steps) const override {
    return config_.learning_rate * schedule_->factor(step, steps);
  }
  void check(std::int64_t steps, Problems& problems) const override {
    const Problems::Scope below(problems, "schedule.");
    schedule_->check(steps, problems);
  }

 private:
  template <class T>
  void run(const OptimizedWeight& weight, const Block& block, const SgdStep& values) {
    const std::int64_t size = block.end - block.begin;
    T* w = weight.master.mutable_data_ptr<T>() + block.begin;
    const T* g = weight.gradient.const_data_ptr<T>() + block.begin;
    if (buffers_.empty()) return ops::vectorised([&] { plain_sgd_loop(w, g, size, values); });
    T* buffer = buffers_[weight.index].mutable_data_ptr<T>() + block.begin;
    ops::vectorised([&] { sgd_loop(w, g, buffer, size, values); });
  }

  void run_plain(const OptimizedWeight& weight, const SgdStep& values) {
    const Tensor gradient = weight.gradient * values.gradient_scale + weight.master * values.decay;
    Tensor step = gradient;
    if (!buffers_.empty()) {
      const Tensor moved = buffers_[weight.index].mul_(values.momentum).add_(gradient, values.gradient_share);
      step = values.nesterov ? gradient + moved * values.momentum : moved;
    }
    weight.master.sub_(step, values.learning_rate);
  }

  Config config_;
  std::unique_ptr<Schedule> schedule_;
  std::vector<std::string> names_;
  std::vector<Tensor> buffers_;
};

}  // namespace

void register_sgd(Registries& hone) {
  hone.optimizers.add<Sgd>("sgd", "Stochastic gradient descent, with momentum on request.");
}

}  // namespace hone::optim
