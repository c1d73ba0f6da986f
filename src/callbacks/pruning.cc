// Pruning to a schedule: weights that are set to zero and stay so (Zhu & Gupta, 2017, arXiv:1710.01878).
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <regex>

#include "base/log.h"
#include "base/strings.h"
#include "callbacks/pruning_masks.h"
#include "config/patterns.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/world.h"

namespace hone::callbacks {
namespace {

class Pruning final : public Callback {
 public:
  struct Config {
    std::string match = "\\.(q|k|v|o|gate|up|down)_proj\\.weight$", exclude;
    PruneBy by = PruneBy::element;
    PruneScope scope = PruneScope::weight;
    double sparsity = 0.5, initial = 0, power = 3;
    std::int64_t begin = 0, end = 0, every = 100, block = 1;
    std::string pattern;
    bool each = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("match", &C::match,
                "Regular expression that the names of the weights to be pruned are searched for; of weights with two "
                "dimensions or more. Default: the products of Llama's blocks."),
          field("exclude", &C::exclude, "Regular expression of those that are left out of these."),
          field("by", &C::by,
                "What becomes zero together: element = single ones, row or column = those of the last two dimensions, "
                "head = attention heads (q_proj's rows, o_proj's columns, and a key's head with the last of its "
                "queries), pattern = all but n of m in a row."),
          field(
              "scope", &C::scope,
              "Where the smallest are looked for: weight = in each weight by itself, global = in all of them together, "
              "which may leave one with nothing."),
          field("sparsity", &C::sparsity, "Share that is zero at the end.", {.low = 0, .high = 1}),
          field("initial", &C::initial, "Share that is zero when pruning begins.", {.low = 0, .high = 1}),
          field("power", &C::power,
                "The share that is missing to `sparsity` falls like (1 - t)^power over the time t from begin to end: 3 "
                "prunes much at first and little later, 1 evenly.",
                {.low = 0.01, .high = 100}),
          field("begin", &C::begin, "Step in which pruning begins, with the share `initial`.", at_least(0)),
          field("end", &C::end, "Step in which the last is pruned; default: half of the run.", at_least(0)),
          field("every", &C::every, "Steps between two prunings; the last one is at `end`.", at_least(1)),
          field("block", &C::block, "By row or column: so many neighbours are one.", at_least(1)),
          field("pattern", &C::pattern, "By pattern: n:m, as 2:4, along the last dimension; it says the sparsity."),
          field("each", &C::each, "Log the sparsity of each weight, besides that of all.")};
    }
    void validate(Problems& problems) const {
      config::check_patterns({match, exclude}, "match", problems);
      problems.require(initial <= sparsity, "initial",
                       fmt::format("got {}, expected at most sparsity {}", initial, sparsity));
      problems.require(end == 0 || end > begin, "end", fmt::format("got {}, expected more than begin {}", end, begin));
      problems.require((by == PruneBy::pattern) != pattern.empty(), "pattern",
                       by == PruneBy::pattern ? "missing: n:m, as 2:4" : "only with by: pattern");
      problems.require(pattern.empty() || parse_pattern(pattern), "pattern",
                       "got " + hone::quoted(pattern) + ", expected n:m with 0 < n < m, as 2:4");
      problems.require(block == 1 || by == PruneBy::row || by == PruneBy::column, "block",
                       "only with by: row or column");
      problems.require(scope == PruneScope::weight || by != PruneBy::pattern, "scope",
                       "got global, but a pattern leaves each row as much as any other");
      const Config standard;
      problems.require(pattern.empty() || sparsity == standard.sparsity, "sparsity", "a pattern says it itself");
    }
  };
  explicit Pruning(const Config& config)
      : config_(config), match_(config.match), exclude_(config.exclude), pattern_(parse_pattern(config.pattern)) {}

  // Every rank prunes its copy of the weights, all of them alike, by what on_training_start finds.
  CallbackTimes times() const override { return {.main_process_only = false}; }
  bool sees_gradients() const override { return false; }
  bool needs_whole_weights() const override { return true; }
  bool gives_settings() const override { return true; }

  void check(Model& model, std::int64_t steps) const override {
    if (config_.begin >= steps)
      throw Error(ErrorKind::config, fmt::format("callback pruning: begin: got {} of {} steps", config_.begin, steps));
    const Shapes shapes = shapes_of(model);
    if (shapes.empty())
      throw Error(ErrorKind::config,
                  fmt::format("callback pruning: match: {} is found in no trained weight of two dimensions or more",
                              hone::quoted(config_.match)))
          .hint("`hone inspect model FOLDER` lists all names; an adapter's are not pruned");
    for (const auto& [name, shape] : shapes) check_shape(name, shape);
    if (config_.by == PruneBy::head) find_heads(shapes, model.hf_config());
  }

  void on_training_start(const TrainView& view) override {
    end_ = config_.end > 0 ? config_.end : std::max(config_.begin + 1, view.steps / 2);
    if (end_ > view.steps && view.world->is_first())
      log::warning("callback pruning: ends after step {} of {}: the run will not get to its sparsity", end_,
                   view.steps);
    shapes_ = shapes_of(view.model);
    if (config_.by == PruneBy::head) heads_ = find_heads(shapes_, view.model.hf_config());
  }

  void after_update(const TrainView& view, WeightEdit& edit) override {
    if (const std::int64_t due = last_due(view.step); due > static_cast<std::int64_t>(pruned_)) {
      prune(due, edit);
      pruned_ = static_cast<double>(due);
    }
    if (masks_.empty()) return;
    const auto apply = [&](const std::string& name, Tensor& value) {
      if (const auto mask = masks_.find(name); mask != masks_.end()) clear(value, mask->second);
    };
    edit.each(apply);
    edit.each_average(apply);
  }

  Action on_step_end(const TrainView&, Metrics& metrics) override {
    double zero = 0, all = 0;
    for (const auto& [name, shape] : shapes_) {
      const auto count = zeros_.find(name);
      const double own = count == zeros_.end() ? 0 : count->second, size = numel_of(shape);
      if (config_.each) metrics["sparsity_" + name] = own / size;
      zero += own, all += size;
    }
    metrics["sparsity"] = zero / all;
    return Action::go_on;
  }

  void visit_state(const StateVisitor& visit) override {
    visit("masks", masks_);
    visit("pruned", pruned_);
    count();
  }

 private:
  Shapes shapes_of(Model& model) const {
    Shapes shapes;
    model.each_weight([&](const std::string& name, Weight& weight) {
      if (weight.trainable() && std::ssize(weight.shape()) >= 2 && is_meant(name)) shapes[name] = weight.shape();
    });
    return shapes;
  }
  bool is_meant(const std::string& name) const {
    return std::regex_search(name, match_) && (config_.exclude.empty() || !std::regex_search(name, exclude_));
  }

  void check_shape(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
    const std::int64_t lines = config_.by == PruneBy::row ? rows : columns;
    const std::int64_t unit = config_.by == PruneBy::pattern ? pattern_->of : config_.block;
    if (lines % unit != 0)
      throw Error(ErrorKind::config, fmt::format("callback pruning: {}: {} {} are not groups of {}", name, lines,
                                                 config_.by == PruneBy::row ? "rows" : "columns", unit));
  }

  // The last time for pruning until this step, -1: none so far. One that fell into a step without an update is made up
  // for in the next one that has one.
  std::int64_t last_due(std::int64_t step) const {
    if (step < config_.begin) return -1;
    return step >= end_ ? end_ : config_.begin + (step - config_.begin) / config_.every * config_.every;
  }

  double share_at(std::int64_t step) const {
    const double way = static_cast<double>(step - config_.begin) / static_cast<double>(end_ - config_.begin);
    const double last = pattern_ ? pattern_->sparsity() : config_.sparsity;
    return last + (config_.initial - last) * std::pow(1 - std::min(1.0, way), config_.power);
  }

  void prune(std::int64_t step, WeightEdit& edit) {
    std::map<std::string, Tensor> weights;
    edit.each([&](const std::string& name, Tensor& value) {
      if (!shapes_.contains(name)) return;
      if (const auto mask = masks_.find(name); mask != masks_.end()) clear(value, mask->second);  // the update moved it
      weights[name] = value;
    });
    // What has been pruned stays so, whatever the share is now.
    for (auto& [name, mask] :
         make_masks(weights, {config_.by, config_.scope, config_.block, pattern_, heads_}, share_at(step))) {
      Tensor& before = masks_[name];
      before = before.defined() ? before.logical_and(mask) : mask;
    }
    count();
  }

  void count() {
    zeros_.clear();
    for (const auto& [name, mask] : masks_) zeros_[name] = count_zeros(mask);
  }

  Config config_;
  std::regex match_, exclude_;
  std::optional<PrunePattern> pattern_;
  std::int64_t end_ = 0;
  Shapes shapes_;  // of what is pruned
  std::vector<PruneHeads> heads_;
  std::map<std::string, Tensor> masks_;  // true: it is kept
  std::map<std::string, double> zeros_;
  double pruned_ = -1;  // the time for which that was done last
};

}  // namespace

void register_pruning(Registries& hone) {
  hone.callbacks.add<Pruning>("pruning",
                              "Weights that become zero to a schedule and stay so: single ones, rows, heads, n of m.");
}

}  // namespace hone::callbacks
