// How long weights, gradients and updates are, one by one and together.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>

#include "callbacks/match.h"
#include "config/patterns.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "tensor/host.h"

namespace hone::callbacks {
namespace {

// Squares of norms by name, read together.
class Squares {
 public:
  void add(const std::string& name, const Tensor& value) {
    names_.push_back(name);
    norms_.push_back(at::linalg_vector_norm(value.view(-1)));
  }
  Sums read() const {
    Sums squares;
    const std::vector<double> norms = host::numbers(norms_);
    for (std::size_t i = 0; i < norms.size(); ++i) squares[names_[i]] += norms[i] * norms[i];
    return squares;
  }

 private:
  std::vector<std::string> names_;
  std::vector<Tensor> norms_;
};

class Norms final : public Callback {
 public:
  struct Config {
    std::int64_t every = 10;
    std::string match = "";
    bool weights = true, gradients = true, updates = false, each = true;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("every", &C::every, "Steps between measurements.", at_least(1)),
          field("match", &C::match, "Regular expression of the weights' names; default: all."),
          field("weights", &C::weights, "Norms of weights: param_norm, param_norm_<name>."),
          field("gradients", &C::gradients,
                "Norms of gradients before clipping: grad_norm_<name>, and of these max_grad_norm and mean_grad_norm."),
          field(
              "updates", &C::updates,
              "Norms of what a step changes: update_norm, update_norm_<name>; keeps a copy of the weights meanwhile."),
          field("each", &C::each, "One for each weight, besides those over all of them.")};
    }
    void validate(Problems& problems) const {
      config::check_patterns({match}, "match", problems);
      problems.require(weights || gradients || updates, "weights", "no norm is left to measure");
    }
  };
  explicit Norms(const Config& config) : config_(config), match_(config.match) {}

  // Every rank has a part of each weight, or all of them the same.
  CallbackTimes times() const override { return {.every_n_steps = config_.every, .main_process_only = false}; }
  void check(Model& model, std::int64_t) const override { require_match(model, "norms", config_.match, match_); }

  void on_step_start(const TrainView& view) override {
    before_.clear();
    if (!config_.updates || !measures(view)) return;
    view.weights->each([&](const std::string& name, const Tensor& value) {
      if (matches(name)) before_[name] = value.clone();
    });
  }

  void on_gradients(const TrainView& view, Metrics& metrics) override {
    if (!config_.gradients || !measures(view)) return;
    Squares own;
    view.weights->each_gradient([&](const std::string& name, const Tensor& value) {
      if (matches(name)) own.add(name, value);
    });
    const Sums squares = of_all_ranks(view, own);
    double largest = 0, sum = 0;
    for (const auto& [name, square] : squares) {
      const double norm = std::sqrt(square);
      if (config_.each) metrics["grad_norm_" + name] = norm;
      largest = std::isnan(norm) ? norm : std::max(largest, norm), sum += norm;
    }
    metrics["max_grad_norm"] = largest;
    metrics["mean_grad_norm"] = squares.empty() ? 0 : sum / static_cast<double>(squares.size());
  }

  Action on_step_end(const TrainView& view, Metrics& metrics) override {
    if (!measures(view)) return Action::go_on;
    Squares weights, changes;
    view.weights->each([&](const std::string& name, const Tensor& value) {
      if (!matches(name)) return;
      if (config_.weights) weights.add(name, value);
      if (config_.updates) changes.add(name, value - before_.at(name));
    });
    before_.clear();
    if (config_.weights) tell("param_norm", of_all_ranks(view, weights), metrics);
    if (config_.updates) tell("update_norm", of_all_ranks(view, changes), metrics);
    return Action::go_on;
  }

 private:
  static bool measures(const TrainView& view) { return view.weights->shared_out() || view.world->is_first(); }
  static Sums of_all_ranks(const TrainView& view, const Squares& own) {
    return view.weights->shared_out() ? view.world->total(own.read()) : own.read();
  }
  bool matches(const std::string& name) const { return std::regex_search(name, match_); }

  void tell(const std::string& what, const Sums& squares, Metrics& metrics) const {
    double all = 0;
    for (const auto& [name, square] : squares) {
      if (config_.each) metrics[what + "_" + name] = std::sqrt(square);
      all += square;
    }
    metrics[what] = std::sqrt(all);
  }

  Config config_;
  std::regex match_;
  std::map<std::string, Tensor> before_;  // the step
};

}  // namespace

void register_norms(Registries& hone) {
  hone.callbacks.add<Norms>("norms", "Norms of weights, gradients and updates, for each weight and together.");
}

}  // namespace hone::callbacks
