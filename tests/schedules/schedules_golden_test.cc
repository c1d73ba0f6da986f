// Learning rates against transformers' get_scheduler and optax (tools/golden/golden_optim.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/files.h"
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
  if (type != "warmup_stable_decay" || options.contains("warmup_type")) return nullptr;
  yaml += fmt::format("decay_steps: {}\ndecay_type: {}\n", table.value("decay_steps", 0),
                      options.value("decay_type", "cosine"));
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
  EXPECT_GE(checked, 38);
}

TEST(Schedules, WarmupRatioIsAShareOfAllSteps) {
  const auto schedule = make("constant", node_of("warmup_ratio: 0.1"));
  EXPECT_DOUBLE_EQ(schedule->factor(5, 100), 0.5);
  EXPECT_DOUBLE_EQ(schedule->factor(10, 100), 1.0);
}

}  // namespace
}  // namespace hone
