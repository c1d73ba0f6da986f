// Several optimizers, each for the weights whose names it is given, with its own schedule and state.
#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "base/strings.h"
#include "config/patterns.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "optim/split.h"

namespace hone::optim {
namespace {

struct WeightGroup {
  std::string name, match;
  config::Choice<Optimizer> optimizer{"adamw", nullptr};
  static constexpr auto fields() {
    using C = WeightGroup;
    return std::tuple{
        field("name", &C::name, "Name in metrics: learning_rate_<name>."),
        field("match", &C::match,
              "Regular expression of the weights' names, as `embed` or `layers\\.1[0-9]\\.`; a weight is in the "
              "first group that matches. Without one: all that are left."),
        field("optimizer", &C::optimizer, "What trains them.")};
  }
  void validate(Problems& problems) const {
    problems.require(!name.empty(), "name", "missing");
    config::check_patterns({match}, "match", problems);
  }
};

struct GroupsConfig {
  std::vector<WeightGroup> groups;
  static constexpr auto fields() {
    return std::tuple{field("groups", &GroupsConfig::groups, "In the order in which weights are looked for in them.")};
  }
  void validate(Problems& problems) const {
    problems.require(!groups.empty(), "groups", "missing: a list of {name, match, optimizer}");
    std::set<std::string> names;
    for (std::size_t i = 0; i < groups.size(); ++i)
      problems.require(groups[i].name.empty() || names.insert(groups[i].name).second, fmt::format("groups.{}.name", i),
                       fmt::format("got {} again, expected a name of its own", hone::quoted(groups[i].name)));
  }
};

class GroupedOptimizer final : public Split {
 public:
  using Config = GroupsConfig;
  explicit GroupedOptimizer(const Config& config)
      : Split(parts_of(config), [this](const OptimizedWeight& weight) { return group_of(weight.name); }),
        config_(config) {
    for (const WeightGroup& group : config.groups) patterns_.emplace_back(group.match);
  }

  void attach(std::span<OptimizedWeight> weights) override {
    for (std::size_t i = 0; i < config_.groups.size(); ++i)
      if (std::none_of(weights.begin(), weights.end(),
                       [&](const OptimizedWeight& weight) { return group_of(weight.name) == i; }))
        throw Error(ErrorKind::config, fmt::format("optimizer.groups.{}: no trained weight is in the group {}", i,
                                                   hone::quoted(config_.groups[i].name)))
            .hint(
                "a weight is in the first group whose `match` is found in its name; `hone inspect model FOLDER` "
                "lists all names");
    Split::attach(weights);
  }
  void check(std::int64_t steps, Problems& problems) const override {
    const auto all = parts();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Problems::Scope below(problems, fmt::format("groups.{}.optimizer.", i));
      all[i].second->check(steps, problems);
      const std::int64_t every = all[i].second->curvature_every();
      problems.require(
          every == 0 || every == curvature_every(), "update_period",
          fmt::format("got {}, expected {}, as in the group before: labels are drawn for all groups at once", every,
                      curvature_every()));
    }
  }

 private:
  static std::vector<Part> parts_of(const Config& config) {
    std::vector<Part> parts;
    for (const WeightGroup& group : config.groups)
      parts.push_back({group.name, registries().optimizers.make(group.optimizer)});
    return parts;
  }
  std::size_t group_of(const std::string& name) const {
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      if (std::regex_search(name, patterns_[i])) return i;
    throw Error(ErrorKind::config, fmt::format("optimizer.groups: {} is in none of them", name))
        .hint("a last group without `match` takes all that is left; model.trainable freezes what shall not be trained");
  }

  const Config config_;
  std::vector<std::regex> patterns_;
};

}  // namespace

void register_groups(Registries& hone) {
  hone.optimizers.add<GroupedOptimizer>("groups", "Several optimizers, each for some of the weights.");
}

}  // namespace hone::optim
