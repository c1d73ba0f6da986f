// Distillation from stored log-probabilities against Axolotl's formula (tools/golden/golden_stored_teacher.py), and
// what must hold without it.
#include <algorithm>

#include "train/pair_runs.h"

namespace hone {
namespace {

class StoredTeacherRuns : public test::PairRuns {
 protected:
  void SetUp() override { objective_ = "type: distillation, teacher_logprobs: true"; }

  static std::filesystem::path folder() { return test::golden("train/distillation"); }
  static std::string stored() {
    return "[{path: " + (folder() / "stored.jsonl").string() +
           ", columns: {logprobs: llm_text_generation_vllm_logprobs}}]";
  }
  std::filesystem::path taught(const std::string& name, const std::string& objective = "", test::Overrides more = {},
                               const TrainOptions& options = test::quiet_options()) {
    test::Overrides all{{"data.train", stored()},
                        {"trainer.steps", "6"},
                        {"trainer.precision", "fp64"},
                        {"trainer.max_grad_norm", "0"},
                        {"optimizer.weight_decay", "0"},
                        {"optimizer.schedule", "{type: constant}"}};
    all.insert(all.end(), more.begin(), more.end());
    return run(name, all, objective, options);
  }

  const nlohmann::json golden_ = test::read_json(folder() / "stored.json");
};

TEST_F(StoredTeacherRuns, StepsEqualAxolotlsFormula) {
  for (const auto& [name, options] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    test::Overrides more;
    for (const auto& [option, value] : options.items()) more.emplace_back("objective." + option, value.dump());
    const auto made = taught(name, "", more);
    for (const auto& [key, expected] : golden_["runs"][name].items()) {
      SCOPED_TRACE(key);
      const auto all = expected.get<std::vector<double>>();  // with transformers' norms, which are fp32 in any model
      expect_near(values(made, key), all, 1e-6 * std::max(1.0, *std::max_element(all.begin(), all.end())));
    }
  }
}

TEST_F(StoredTeacherRuns, TextsInOneMicroBatchOrEachInItsOwnOrPackedAreTheSame) {
  const auto split = [&](const char* rows, const char* times, const char* packing) {
    return taught(std::string(rows) + packing, "alpha: 0.7",
                  {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"data.packing", packing}});
  };
  const auto eight = split("8", "1", "none"), one = split("1", "8", "none"), packed = split("1", "1", "best_fit");
  for (const char* name : {"loss", "divergence_loss", "nll_loss", "accuracy", "grad_norm"}) {
    expect_near(values(eight, name), values(one, name), 1e-10);
    expect_near(values(eight, name), values(packed, name), 1e-10);
  }
}

TEST_F(StoredTeacherRuns, HeldOutTextsAreEvaluated) {
  const auto made = taught("still", "alpha: 0.3, temperature: 2",
                           {{"data.eval.all", stored()},
                            {"optimizer.learning_rate", "0"},
                            {"trainer.batch_size", "8"},
                            {"trainer.steps", "1"},
                            {"trainer.eval_every", "1"}});
  for (const char* name : {"loss", "divergence_loss", "nll_loss", "accuracy"})
    EXPECT_NEAR(values(made, name).at(0), values(made, std::string("eval_") + name).at(0), 1e-10) << name;
}

TEST_F(StoredTeacherRuns, AnAdapterIsTaught) {
  const auto plain = taught("plain", "alpha: 0.5");
  const auto lora = taught("lora", "alpha: 0.5",
                           {{"adapter", "{type: lora, rank: 4, targets: [q_proj, v_proj, down_proj, lm_head]}"},
                            {"optimizer.learning_rate", "3e-2"}});
  EXPECT_NEAR(values(plain, "loss").at(0), values(lora, "loss").at(0), 1e-10);
  EXPECT_LT(values(lora, "divergence_loss").back(), values(plain, "divergence_loss").at(0) - 0.05);
}

TEST_F(StoredTeacherRuns, ATeacherIsLearntFrom) {
  const auto made = taught("long", "", {{"trainer.steps", "300"}, {"optimizer.learning_rate", "1e-2"},
                                        {"trainer.precision", "fp32"}});
  EXPECT_LT(values(made, "divergence_loss").back(), 0.3 * values(made, "divergence_loss").front());
}

TEST_F(StoredTeacherRuns, GoesOnBitForBit) {
  const test::Overrides saves{{"trainer.save.every", "3"}, {"data.shuffle", "true"}, {"data.cache", ""}};
  const auto whole = taught("whole", "alpha: 0.5", saves), parts = taught("parts", "alpha: 0.5", saves);
  TrainOptions back = test::quiet_options();
  back.resume = "3";
  taught("parts", "alpha: 0.5", saves, back);
  test::expect_equal_runs(whole, parts, 6);
}

TEST_F(StoredTeacherRuns, AStreamIsWhatAFileIs) {
  std::string entry = stored();
  entry.replace(entry.find("columns"), 0, "stream: true, ");
  const auto file = taught("file", "alpha: 0.5"), stream = taught("stream", "alpha: 0.5", {{"data.train", entry}});
  expect_near(values(file, "loss"), values(stream, "loss"), 1e-12);
}

TEST_F(StoredTeacherRuns, AFilesTemperatureCountsForItsRecords) {
  std::string own = stored();
  own.replace(own.find("columns"), 0, "teacher_temperature: 2, ");
  std::string stream = own;
  stream.replace(stream.find("columns"), 0, "stream: true, ");
  const test::Overrides held_out{{"data.eval.all", own}, {"trainer.eval_every", "6"}};
  const auto all = taught("all", "teacher_temperature: 2, temperature: 3", {{"data.eval.all", stored()},
                                                                           {"trainer.eval_every", "6"}});
  const auto one = taught("one", "temperature: 3", [&] {
    test::Overrides more = held_out;
    more.emplace_back("data.train", own);
    return more;
  }());
  const auto others = taught("others", "teacher_temperature: 4, temperature: 3", {{"data.train", own}});
  const auto streamed = taught("streamed", "temperature: 3", {{"data.train", stream}});
  const auto without = taught("without", "temperature: 3");
  expect_near(values(all, "loss"), values(one, "loss"), 1e-12);
  expect_near(values(all, "eval_loss"), values(one, "eval_loss"), 1e-12);
  expect_near(values(all, "loss"), values(others, "loss"), 1e-12);
  expect_near(values(all, "loss"), values(streamed, "loss"), 1e-12);
  EXPECT_GT(std::abs(values(all, "loss").at(0) - values(without, "loss").at(0)), 1e-3);
}

TEST_F(StoredTeacherRuns, WhatCannotBeIsRefused) {
  const auto refuses = [&](const std::string& objective, const char* text) {
    EXPECT_HONE_ERROR(taught("refused", objective), config, text);
  };
  refuses("teacher: somewhere", "expected false with a teacher: one of them is learnt from");
  refuses("beta: 0.5", "expected 0 with teacher_logprobs");
  refuses("lmbda: 0.5", "expected 0 with teacher_logprobs");
  objective_ = "type: distillation, teacher: somewhere";
  for (const char* option : {"top_k: 3", "normalize_topk: true", "teacher_temperature: 2"})
    refuses(option, "only with teacher_logprobs");
  objective_ = "type: distillation, teacher_logprobs: true";
  EXPECT_HONE_ERROR(taught("plain", "", {{"data.train", (folder() / "texts.jsonl").string()}}), data,
                    "no field \"logprobs\" with a teacher's log-probabilities");
}

}  // namespace
}  // namespace hone
