// Learning rates against transformers' get_scheduler and optax (tools/golden/golden_optim.py), and Axolotl's schedules
// (tools/golden/golden_axolotl_schedules.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"

namespace hone {
namespace {

std::unique_ptr<Schedule> make(const std::string& type, const config::Node& options) {
  const auto made = registries().schedules.options(type);
  Problems problems;
  made->read(options, problems, "schedule");
  problems.raise();
  return registries().schedules.make(type, *made);
}

// {type: …, its own options}
std::unique_ptr<Schedule> make(const config::Node& node) {
  config::Choice<Schedule> choice;
  Problems problems;
  config::Values<config::Choice<Schedule>>::read(node, choice, {problems, "schedule"});
  problems.raise();
  return registries().schedules.make(choice);
}

config::Node node_of(const std::string& yaml) {
  Problems problems;
  return config::parse_yaml(yaml, "test", problems);
}

std::unique_ptr<Schedule> optax_schedule(const nlohmann::json& table) {
  const std::string type = table["type"].get<std::string>().substr(6);
  nlohmann::json options = table["options"];
  options["warmup_steps"] = table["warmup_steps"];
  if (type != "polynomial") options.erase("power");
  if (type == "constant") options.erase("final_ratio");
  return make(type, node_of(options.dump()));
}

// Null: a schedule that hone does not have.
std::unique_ptr<Schedule> schedule_of(const nlohmann::json& table, double peak) {
  const std::string type = table["type"];
  const nlohmann::json& options = table["options"];
  if (type.starts_with("optax_")) return optax_schedule(table);
  std::string yaml = fmt::format("warmup_steps: {}\n", table["warmup_steps"].get<int>());
  if (type == "constant" || type == "constant_with_warmup") return make("constant", node_of(yaml));
  if (type == "inverse_sqrt") return make(type, node_of(yaml));
  yaml += fmt::format(
      "final_ratio: {}\n",
      options.value("min_lr_rate",
                    options.value("min_lr_ratio", options.value("min_lr", options.value("lr_end", 0.0)) / peak)));
  if (type == "linear") return make("linear", node_of(yaml));
  if (type == "cosine_with_restarts")
    return make(type, node_of(yaml + fmt::format("cycles: {}\n", options["num_cycles"].get<int>())));
  if (type == "polynomial")
    return make(type, node_of(yaml + fmt::format("power: {}\n", options["power"].get<double>())));
  if (type == "cosine" || type == "cosine_with_min_lr") return make("cosine", node_of(yaml));
  if (type != "warmup_stable_decay") return nullptr;
  yaml += fmt::format("decay_steps: {}\ndecay_type: {}\nwarmup_type: {}\n", table.value("decay_steps", 0),
                      options.value("decay_type", "cosine"), options.value("warmup_type", "linear"));
  return make("wsd", node_of(yaml));
}

TEST(Schedules, EqualTheirReferences) {
  const nlohmann::json golden = nlohmann::json::parse(std::ifstream(test::golden("train/schedules.json")));
  const double peak = golden["peak"];
  int checked = 0;
  for (const nlohmann::json& table : golden["tables"]) {
    SCOPED_TRACE(table["type"].get<std::string>() + " " + table["options"].dump() + " warm-up " +
                 table["warmup_steps"].dump());
    const auto schedule = schedule_of(table, peak);
    if (!schedule) continue;
    ++checked;
    const std::int64_t steps = table["steps"];
    for (std::int64_t step = 0; step < static_cast<std::int64_t>(table["rates"].size()); ++step)
      EXPECT_NEAR(peak * schedule->factor(step, steps), table["rates"][step].get<double>(), 1e-15)
          << "step " << step;
  }
  EXPECT_GE(checked, 39);
}

TEST(Schedules, EqualAxolotls) {
  const nlohmann::json golden = nlohmann::json::parse(std::ifstream(test::golden("train/axolotl_schedules.json")));
  const double peak = golden["peak"];
  EXPECT_EQ(golden["tables"].size(), 27U);
  for (const nlohmann::json& table : golden["tables"]) {
    const std::string yaml = table["schedule"];
    SCOPED_TRACE(yaml);
    const auto schedule = make(node_of(yaml));
    std::int64_t step = table["first"];
    for (const nlohmann::json& rate : table["rates"]) {
      EXPECT_NEAR(peak * schedule->factor(step, golden["steps"]), rate.get<double>(), 1e-15) << "step " << step;
      ++step;
    }
    EXPECT_EQ(step, yaml.find("one_cycle") == std::string::npos ? 43 : 40);  // torch has no more of it
  }
}

// Also of shapes that Axolotl has no share for; the cooldown begins where they stay.
TEST(Schedules, FallWithinAShareOfAllSteps) {
  for (const char* type : {"cosine", "cosine_with_restarts", "linear", "polynomial", "rex"}) {
    SCOPED_TRACE(type);
    const auto schedule = make(type, node_of("{fall_ratio: 0.5, final_ratio: 0.2, cooldown_steps: 20}"));
    EXPECT_GT(schedule->factor(49, 100), 0.2);
    EXPECT_DOUBLE_EQ(schedule->factor(50, 100), 0.2);
    EXPECT_DOUBLE_EQ(schedule->factor(80, 100), 0.2);
    EXPECT_DOUBLE_EQ(schedule->factor(90, 100), 0.1);
    EXPECT_DOUBLE_EQ(schedule->factor(100, 100), 0.0);
  }
}

TEST(Schedules, RestartsThatDoNotFitAreErrors) {
  const auto problems_of = [](const std::string& yaml) {
    Problems problems;
    try {
      make(node_of(yaml))->check(20, problems);
      problems.raise();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(problems_of("{type: jagged, restart_steps: 12}"), "");
  EXPECT_NE(problems_of("{type: cosine, warmup_type: quadratic}").find("says the shape of a warm-up, and there is no"),
            std::string::npos);
  EXPECT_NE(problems_of("{type: jagged, schedule: {type: jagged, restart_steps: 12}}").find("schedule: got jagged"),
            std::string::npos);
  EXPECT_NE(problems_of("{type: jagged}").find("restart_steps: missing"), std::string::npos);
  EXPECT_NE(problems_of("{type: jagged, restart_steps: 10}").find("restart_steps: got 10, expected at least the 11"),
            std::string::npos);
  EXPECT_NE(problems_of("{type: jagged, restart_steps: 12, restart_warmup_steps: 0}").find("else nothing restarts"),
            std::string::npos);
  EXPECT_EQ(problems_of("{type: jagged, restart_steps: 12, restart_warmup_steps: 0, restart_anneal_steps: 2}"), "");
  EXPECT_NE(problems_of("{type: jagged, restart_steps: 20}").find("restart_steps: got 20, expected below the 20 steps"),
            std::string::npos);
  EXPECT_NE(problems_of("{type: jagged, restart_steps: 12, schedule: {type: jagged, restart_steps: 12}}")
                .find("schedule: got jagged, expected a schedule without restarts"),
            std::string::npos);
  EXPECT_NE(problems_of("{type: jagged, restart_steps: 12, schedule: {type: cosine, warmup_steps: 30}}")
                .find("schedule.warmup_steps: got 30"),
            std::string::npos);
}

TEST(Schedules, WarmupRatioIsAShareOfAllSteps) {
  const auto schedule = make("constant", node_of("warmup_ratio: 0.1"));
  EXPECT_DOUBLE_EQ(schedule->factor(5, 100), 0.5);
  EXPECT_DOUBLE_EQ(schedule->factor(10, 100), 1.0);
}

}  // namespace
}  // namespace hone
