// How weights and gradients are spread: histograms.jsonl in the run folder.
#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "base/env.h"
#include "callbacks/match.h"
#include "config/patterns.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "io/metrics_file.h"
#include "tensor/host.h"

namespace hone::callbacks {
namespace {

// Counts of equal bins from min to max, as numpy.histogram has them.
nlohmann::json histogram_of(const Tensor& value, std::int64_t bins) {
  const Tensor flat = value.view(-1);
  const std::vector<double> found = host::numbers({flat.min(), flat.max(), flat.mean(), flat.var(/*unbiased=*/false)});
  const double min = found[0], max = found[1];
  nlohmann::json json{{"min", min}, {"max", max}, {"mean", found[2]}, {"std", std::sqrt(found[3])}};
  if (!std::isfinite(min) || !std::isfinite(max)) return json;  // there are no bins
  const double low = min == max ? min - 0.5 : min, high = min == max ? max + 0.5 : max;
  const Tensor counts = host::read(at::histc(flat, bins, low, high).to(at::kLong));
  json["low"] = low, json["high"] = high;
  json["counts"] = host::values<std::int64_t>(counts);
  return json;
}

class Histograms final : public Callback {
 public:
  struct Config {
    std::int64_t every = 50, bins = 64;
    std::string match = "";
    bool weights = true, gradients = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{field("every", &C::every, "Steps between histograms.", at_least(1)),
                        field("bins", &C::bins, "Bins of a histogram.", {.low = 1, .high = 1 << 16}),
                        field("match", &C::match, "Regular expression of the weights' names; default: all."),
                        field("weights", &C::weights, "Histograms of weights, after the step."),
                        field("gradients", &C::gradients, "Histograms of gradients, before clipping.")};
    }
    void validate(Problems& problems) const {
      config::check_patterns({match}, "match", problems);
      problems.require(weights || gradients, "weights", "no histogram is left to make");
    }
  };
  explicit Histograms(const Config& config) : config_(config), match_(config.match) {}

  CallbackTimes times() const override { return {.every_n_steps = config_.every}; }
  void check(Model& model, std::int64_t) const override { require_match(model, "histograms", config_.match, match_); }

  void on_training_start(const TrainView& view) override {
    if (view.weights->shared_out())
      throw Error(ErrorKind::config, "callbacks: histograms: not with parallel.fsdp or parallel.tensor, where no rank "
                                     "has a whole weight")
          .hint("the callback norms measures weights that are shared out");
    file_.emplace(Env::process().open_folder(view.run_folder), "histograms.jsonl");
    file_->keep_up_to(view.step);
  }

  void on_gradients(const TrainView& view, Metrics&) override {
    if (!config_.gradients) return;
    view.weights->each_gradient(
        [&](const std::string& name, const Tensor& value) { write(view.step, "gradient", name, value); });
  }

  Action on_step_end(const TrainView& view, Metrics&) override {
    if (config_.weights)
      view.weights->each(
          [&](const std::string& name, const Tensor& value) { write(view.step, "weight", name, value); });
    return Action::go_on;
  }

 private:
  void write(std::int64_t step, const char* what, const std::string& name, const Tensor& value) {
    if (value.numel() == 0 || !std::regex_search(name, match_)) return;
    nlohmann::json line{{"step", step}, {"of", what}, {"name", name}};
    line.update(histogram_of(value, config_.bins));
    file_->append(line);
  }

  Config config_;
  std::regex match_;
  std::optional<io::MetricsFile> file_;
};

}  // namespace

void register_histograms(Registries& hone) {
  hone.callbacks.add<Histograms>("histograms", "Histograms of weights and gradients in histograms.jsonl.");
}

}  // namespace hone::callbacks
