// Learning rates against transformers' get_scheduler (tools/golden_train.py schedules).
#include <gtest/gtest.h>

#include "hone/optimizer.h"
#include "train/support.h"

namespace hone {
namespace {

DecayShape shape_of(const std::string& name) {
  for (const auto& [shape, text] : config::enum_names<DecayShape>)
    if (text == name) return shape;
  throw Error(ErrorKind::bug, "unknown decay: " + name);
}

// Nothing: a schedule that hone does not have.
std::optional<ScheduleConfig> config_of(const nlohmann::json& table, double peak) {
  ScheduleConfig config;
  config.warmup_steps = table["warmup_steps"];
  const std::string type = table["type"];
  const nlohmann::json& options = table["options"];
  if (type == "constant" || type == "constant_with_warmup")
    config.type = ScheduleKind::constant;
  else if (type == "linear")
    config.type = ScheduleKind::linear;
  else if (type == "cosine" || type == "cosine_with_min_lr")
    config.type = ScheduleKind::cosine;
  else if (type == "warmup_stable_decay" && !options.contains("warmup_type"))
    config.type = ScheduleKind::wsd;
  else
    return std::nullopt;
  config.final_ratio = options.value("min_lr_rate", options.value("min_lr_ratio", options.value("min_lr", 0.0) / peak));
  config.decay_steps = table.value("decay_steps", 0);
  config.decay_type = shape_of(options.value("decay_type", "cosine"));
  return config;
}

TEST(Schedules, EqualTransformers) {
  const nlohmann::json golden = test::read_json(test::golden("train/schedules.json"));
  const double peak = golden["peak"];
  int checked = 0;
  for (const nlohmann::json& table : golden["tables"]) {
    SCOPED_TRACE(table["type"].get<std::string>() + " " + table["options"].dump() + " warm-up " +
                 table["warmup_steps"].dump());
    const auto config = config_of(table, peak);
    if (!config) continue;
    ++checked;
    const std::int64_t steps = table["steps"];
    for (std::int64_t step = 0; step < static_cast<std::int64_t>(table["rates"].size()); ++step)
      EXPECT_NEAR(peak * schedule_factor(*config, step, steps), table["rates"][step].get<double>(), 1e-15)
          << "step " << step;
  }
  EXPECT_GE(checked, 14);
}

TEST(Schedules, WarmupRatioIsAShareOfAllSteps) {
  ScheduleConfig config;
  config.type = ScheduleKind::constant;
  config.warmup_ratio = 0.1;
  EXPECT_DOUBLE_EQ(schedule_factor(config, 5, 100), 0.5);
  EXPECT_DOUBLE_EQ(schedule_factor(config, 10, 100), 1.0);
}

}  // namespace
}  // namespace hone
