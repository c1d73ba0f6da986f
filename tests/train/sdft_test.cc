// Self-distillation against TRL's SDFTTrainer, with answers that are given (tools/golden/golden_sdft.py), and what must
// hold whatever is drawn.
#include "objectives/sdft.h"

#include <sstream>

#include "harness/errors.h"
#include "hone/registry.h"
#include "train/complete.h"
#include "train/given_answers.h"
#include "train/hooks_for_tests.h"
#include "train/inputs.h"
#include "train/meta_run.h"
#include "train/together.h"

namespace hone {
namespace {

using test::values;

const nlohmann::json& sdft_golden() {
  static const nlohmann::json read = test::read_json(test::golden("train/sdft.json"));
  return read;
}

class CannedSdft final : public objectives::Sdft {
 public:
  using Sdft::Sdft;

 protected:
  std::vector<objectives::GivenAnswer> answers_to(const std::vector<objectives::Asked>& asked, std::int64_t each,
                                                  const objectives::SeedOfAnswer&, const StepContext&,
                                                  objectives::Environment&) const override {
    return test::given_answers(asked, each, [](std::int64_t record, std::int64_t which) -> const nlohmann::json& {
      return sdft_golden()["completions"][record][which];
    });
  }
};

class SdftRuns : public test::Together {
 protected:
  static void SetUpTestSuite() {
    if (!registries().objectives.find("canned_sdft"))
      registries().objectives.add<CannedSdft>("canned_sdft", "For tests.");
    test::register_test_callbacks();
  }
  test::Overrides shown(const test::Overrides& more = {}, const std::string& objective = "") {
    test::Overrides all{{"optimizer.schedule", "{type: constant}"}};
    all.insert(all.end(), more.begin(), more.end());
    return asking("type: sdft, num_generations: 2, max_completion_length: 6" +
                      (objective.empty() ? "" : ", " + objective),
                  all, /*answered=*/true);
  }
};

TEST_F(SdftRuns, EachRunEqualsTrl) {
  std::string lines;
  for (std::size_t i = 0; i < sdft_golden()["prompts"].size(); ++i)
    lines += nlohmann::json{{"prompt", sdft_golden()["prompts"][i]},
                            {"privileged_context", sdft_golden()["privileged_contexts"][i]}}
                 .dump() +
             "\n";
  const std::string data = folder_.write("shown.jsonl", lines).string();
  for (const auto& [name, expected] : sdft_golden()["runs"].items()) {
    SCOPED_TRACE(name);
    nlohmann::json options = expected["options"];
    const int accumulate = options.value("gradient_accumulation_steps", 1);
    for (const char* other : {"gradient_accumulation_steps", "per_device_train_batch_size"}) options.erase(other);
    std::string objective = "type: canned_sdft, max_completion_length: 12";
    for (const auto& [option, value] : options.items()) objective += fmt::format(", {}: {}", option, value.dump());
    const std::string yaml = fmt::format(
        "model: {}\ntokenizer: bytes\n"
        "data: {{train: {{path: {}, columns: {{answer: privileged_context}}}}, max_length: 64, shuffle: false, "
        "cache: none}}\nobjective: {{{}}}\n"
        "optimizer: {{learning_rate: 1e-2, weight_decay: 0, schedule: {{type: constant}}}}\n"
        "trainer: {{precision: fp32, batch_size: {}, accumulate: {}, steps: 5, log_every: 1, save: 0}}\nrun: {}\n",
        test::golden("train/dpo").string(), data, objective, 4 / accumulate, accumulate, in(name).string());
    train(read_recipe(folder_.write("recipe.yaml", yaml).string(), {}), test::quiet_options());
    for (const char* metric : {"loss", "grad_norm", "completions/mean_length", "completions/clipped_ratio"}) {
      const auto made = values(in(name), metric);
      ASSERT_EQ(made.size(), 5u);
      for (std::size_t i = 0; i < 5; ++i) {
        const double wanted = expected["history"][metric][i];
        EXPECT_NEAR(made[i], wanted, 2e-5 * std::max(1.0, wanted)) << metric << ", step " << i + 1;
      }
    }
  }
}

// Where the teacher is shown what the model is, both say the same: nothing is learnt.
TEST_F(SdftRuns, ATeacherThatReadsTheSameTeachesNothing) {
  std::string lines;
  for (const char* text : {"abc", "de"}) lines += nlohmann::json{{"prompt", text}, {"answer", text}}.dump() + "\n";
  const std::string data = folder_.write("same.jsonl", lines).string();
  run(1, "same", shown({{"data.train", data},
                        {"data.eval.held_out", "0"},
                        {"trainer.eval_every", "0"},
                        {"trainer.batch_size", "2"},
                        {"trainer.accumulate", "1"},
                        {"trainer.steps", "2"},
                        {"optimizer.learning_rate", "0"},  // else rounding errors would be followed
                        {"trainer.precision", "fp64"}},
                       "teacher_prompt_template: '{privileged_context}'"));
  for (const double loss : values(in("same"), "loss")) EXPECT_NEAR(loss, 0, 1e-12);
}

TEST_F(SdftRuns, GoOnToTheSameBits) {
  for (const std::string kind : {"base", "ema, teacher_sync_steps: 2", "live"}) {
    SCOPED_TRACE(kind);
    const auto at = [&](const char* name, const std::string& callbacks) {
      const std::filesystem::path folder = in(name + kind.substr(0, 3));
      train(test::small_recipe(folder_, with(shown({{"trainer.precision", "fp32"},
                                                    {"callbacks", "[" + callbacks + "]"},
                                                    {"run.folder", folder.string()}},
                                                   "teacher_model_kind: " + kind))),
            test::quiet_options());
      return folder;
    };
    const auto whole = at("whole", "");
    at("parts", "{type: raise_at, step: 3}");
    test::expect_equal_runs(whole, at("parts", ""), 8);
  }
}

TEST_F(SdftRuns, TwoRanksLearnWhatOneDoes) {
  const test::Overrides options =
      shown({{"trainer.precision", "fp64"}}, "num_loss_tokens_to_skip: 1, temperature: 0.8");
  run(1, "one", options);
  run(2, "two", options);
  for (const char* metric : {"completions/mean_length", "loss", "grad_norm", "eval_divergence_loss"}) {
    const auto a = values(in("one"), metric), b = values(in("two"), metric);
    ASSERT_EQ(a.size(), b.size()) << metric;
    ASSERT_FALSE(a.empty()) << metric;
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9) << metric << i;
  }
}

// What it is shown acts on what is said first, and the prompt that is learnt stays the model's own.
TEST_F(SdftRuns, AnswersMayBeGivenToTheTeachersPrompt) {
  const auto told = [&](const char* name, const std::string& more) {
    run(1, name, shown({{"trainer.steps", "1"}}, "log_completions: true" + more));
    std::istringstream text(test::read_text(in(name) / "completions.jsonl"));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return std::pair(lines, values(in(name), "loss"));
  };
  const auto [own, own_loss] = told("own", "");
  const auto [teachers, teachers_loss] = told("teachers", ", generate_from_teacher: true");
  ASSERT_EQ(own.size(), teachers.size());
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(own[0]["prompt"], teachers[0]["prompt"]);
  EXPECT_NE(own_loss, teachers_loss);
}

TEST_F(SdftRuns, BelowAnAdapterTheTeacherIsTheModelWithout) {
  run(1, "base", shown({{"trainer.steps", "1"}}));
  const test::Overrides lora = {{"model", "{path: " + in("base").string() + "}"},
                                {"tokenizer", ""},
                                {"adapter.type", "lora"},
                                {"adapter.rank", "4"},
                                {"optimizer.learning_rate", "0.05"}};
  run(1, "lora", shown(lora));
  EXPECT_EQ(values(in("lora"), "loss").size(), 8u);
  EXPECT_HONE_ERROR(run(1, "ema", shown(lora, "teacher_model_kind: ema")), config,
                    "objective.teacher_model_kind: not with an adapter");
}

TEST_F(SdftRuns, MemoryIsKnownBefore) {
  const Recipe recipe = training::completed_for_preview(test::small_recipe(folder_, shown()));
  const training::MemoryPlan plan = training::plan_memory(recipe, training::load_inputs(recipe, ""));
  EXPECT_EQ(plan.unknown, "");
  EXPECT_GT(plan.backward, 0u);
  EXPECT_GT(plan.other_models, 0u);
}

// data.max_length is of both prompts.
TEST_F(SdftRuns, WhatIsTooLongIsDropped) {
  std::string lines;
  for (const int length : {1, 4, 9})
    lines += fmt::format("{{\"prompt\": \"abcd\", \"answer\": \"{:x>{}}\"}}\n", "", length);
  run(1, "short", shown({{"data.train", folder_.write("long.jsonl", lines).string()},  // 4 + 4 + 2 + length tokens
                         {"data.max_length", "14"},
                         {"trainer.eval_every", "0"},
                         {"data.eval.held_out", "0"},
                         {"trainer.batch_size", "2"},
                         {"trainer.accumulate", "1"},
                         {"trainer.steps", "1"}}));
  EXPECT_EQ(values(in("short"), "epoch").at(0), 1);  // two of the three are left
}

TEST_F(SdftRuns, WhatDoesNotGoTogetherIsRefused) {
  const auto with = [&](const std::string& objective, const test::Overrides& more = {}) {
    run(1, "refused", shown(more, objective));
  };
  EXPECT_HONE_ERROR(with("teacher_prompt_template: '{prompt}'"), config, "has no {privileged_context}");
  EXPECT_HONE_ERROR(with("teacher_update_rate: 0.5"), config, "only with teacher_model_kind ema");
  EXPECT_HONE_ERROR(with("num_loss_tokens_to_skip: 6"), config, "nothing would be learnt");
  const std::string none = folder_.write("none.jsonl", "{\"prompt\": \"a\"}\n").string();
  EXPECT_HONE_ERROR(with("", {{"data.train", none}}), data, "none.jsonl:1: no answer, which the teacher is shown");
}

}  // namespace
}  // namespace hone
