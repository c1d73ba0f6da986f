// How often a micro-batch waits for what a device is to make; and that a device with plain ATen alone trains the same.
#include <gtest/gtest.h>

#include "ops/backend.h"
#include "train/bench.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

class HostWaits : public ::testing::Test {
 protected:
  double per_micro_batch(Overrides overrides) {
    overrides.insert(overrides.end(), {{"trainer.accumulate", "3"}, {"trainer.batch_size", "2"}});
    const Recipe recipe = test::small_recipe(folder_, overrides);
    return training::bench(recipe, {.warmup = 0, .steps = 2}).host_waits_per_micro_batch;
  }
  std::vector<double> losses(const std::string& name, Overrides overrides) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    train(test::small_recipe(folder_, overrides), test::quiet_options());
    std::vector<double> values;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains("loss")) values.push_back(line["loss"]);
    return values;
  }
  test::TempFolder folder_;
};

TEST_F(HostWaits, ADenseModelsMicroBatchHasNone) {
  EXPECT_EQ(per_micro_batch({}), 0);
  EXPECT_EQ(per_micro_batch({{"trainer.checkpoint_blocks", "true"}}), 0);
  const ops::BackendScope device(ops::reference_backend());
  EXPECT_EQ(per_micro_batch({}), 0);
}

// Nor has what learns from a teacher, whose texts are read beside it, and from pairs without a reference.
TEST_F(HostWaits, ATeachersAndAPairsMicroBatchHasNone) {
  const std::string golden = test::golden("train").string();
  const Overrides taught{{"model", golden + "/dpo"}, {"tokenizer", "bytes"}, {"data.eval.held_out", "0"}};
  Overrides pairs = taught, texts = taught;
  pairs.insert(pairs.end(), {{"data.train", golden + "/dpo/pairs.jsonl"}, {"objective", "orpo"}});
  texts.insert(texts.end(),
               {{"data.train", golden + "/distillation/texts.jsonl"},
                {"objective", "{type: distillation, alpha: 0.5, teacher: " + golden + "/distillation/teacher}"}});
  const ops::BackendScope device(ops::reference_backend());
  EXPECT_EQ(per_micro_batch(texts), 0);
  Overrides stored = taught;
  stored.insert(stored.end(), {{"data.train", "[{path: " + golden + "/distillation/stored.jsonl, columns: {logprobs: "
                                              "llm_text_generation_vllm_logprobs}}]"},
                               {"objective", "{type: distillation, alpha: 0.5, teacher_logprobs: true}"}});
  EXPECT_EQ(per_micro_batch(stored), 0);
  EXPECT_EQ(per_micro_batch(pairs), 0);
  pairs.emplace_back("objective", "reward");
  EXPECT_EQ(per_micro_batch(pairs), 0);
}

// Which tokens experts have is decided where they are; of tables that ask for it see tests/device.
TEST_F(HostWaits, RoutedExpertsHaveNone) {
  const std::string model = test::routed_model(", output_router_logits: true");
  EXPECT_EQ(per_micro_batch({{"model", model}}), 0);
  EXPECT_EQ(per_micro_batch({{"model", model}, {"trainer.checkpoint_blocks", "true"}}), 0);
}

TEST_F(HostWaits, PlainAtenTrainsTheSame) {
  for (const std::string& model : {std::string(), test::routed_model(", output_router_logits: true")}) {
    Overrides overrides{
        {"trainer.accumulate", "2"}, {"trainer.checkpoint_blocks", "true"}, {"data.eval.held_out", "0"}};
    if (!model.empty()) overrides.emplace_back("model", model);
    const std::string name = model.empty() ? "dense" : "routed";
    const std::vector<double> kernels = losses(name, overrides);
    const ops::BackendScope device(ops::reference_backend());
    const std::vector<double> plain = losses(name + "-plain", overrides);
    ASSERT_EQ(kernels.size(), 10u);
    ASSERT_EQ(plain.size(), kernels.size());
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], kernels[i], 2e-4) << name << " " << i;
  }
}

}  // namespace
}  // namespace hone
