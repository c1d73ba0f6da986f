// The score of a reward model, as it gives it to the same document alone.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "hone/hub.h"
#include "rewards/scoring.h"

namespace hone::test {
namespace {

std::unique_ptr<Model> small_model(const HeadRequest& head, const std::string& more = "") {
  Problems problems;
  const auto config = config::parse_yaml("{model_type: llama, vocab_size: 259, hidden_size: 16, intermediate_size: 24, "
                                         "num_hidden_layers: 2, num_attention_heads: 2, initializer_range: 0.5" +
                                             more + "}",
                                         "test", problems);
  problems.raise();
  auto model = build_model(config, "test", head);
  init_weights(*model, 3, Precision::fp32);
  return model;
}

std::vector<Answer> some_answers() {
  std::vector<Answer> answers;
  for (int i = 0; i < 7; ++i) {
    Answer made = answer("");
    made.prompt_ids.assign(1 + i % 3, 65 + i);
    made.ids.assign(i, 97 + i);  // also none
    made.ids.push_back(i % 2 == 0 ? 257 : 98);
    answers.push_back(made);
  }
  return answers;
}

double score_alone(const Model& model, const Answer& answer) {
  const c10::NoGradGuard no_grad;
  HostDoc doc;
  doc.ids.assign(answer.prompt_ids.begin(), answer.prompt_ids.end());
  doc.ids.insert(doc.ids.end(), answer.ids.begin(), answer.ids.end());
  doc.targets.assign(doc.ids.size(), -100);
  const Batch batch = to_batch(pad({{doc}}, 1));
  Pass pass(batch);
  return model.classifier()->logits(model.forward(batch, pass), pass).item<double>();
}

TEST(ModelReward, IsTheScoreOfEachDocument) {
  const auto model = small_model({{"LABEL_0"}});
  const std::vector<Answer> answers = some_answers();
  for (const std::string options : {"{path: x}", "{path: x, batch_size: 3}", "{path: x, batch_size: 1}"}) {
    const Scores given = scores(*reward("model", options), answers, 100, model.get());
    ASSERT_EQ(given.size(), answers.size());
    for (std::size_t i = 0; i < answers.size(); ++i)
      EXPECT_NEAR(given[i].value(), score_alone(*model, answers[i]), 1e-5) << options << " " << i;
    EXPECT_GT(std::abs(*given[0] - *given[1]), 1e-3);  // or nothing would be compared
  }
  EXPECT_EQ(scores(*reward("model", "{path: x}"), {}, 100, model.get()), Scores{});
  EXPECT_TRUE(c10::GradMode::is_enabled());
}
TEST(ModelReward, AsksForItsModel) {
  const auto reward = test::reward("model", "{path: runs/judge}");
  ASSERT_EQ(reward->models().size(), 1u);
  EXPECT_EQ(reward->models().begin()->second, "runs/judge");
  EXPECT_HONE_ERROR(test::reward("model"), config, "path: missing");
  EXPECT_HONE_ERROR(test::reward("model", "{path: x, batch_size: 0}"), config, "batch_size");
}
TEST(ModelReward, RefusesAModelThatGivesNoScore) {
  const auto reward = test::reward("model", "{path: x}");
  EXPECT_HONE_ERROR(scores(*reward, some_answers(), 100, small_model({{"ham", "spam"}}).get()), config,
                    "reward model: needs a head of one label");
  EXPECT_HONE_ERROR(scores(*reward, some_answers(), 100, small_model({}).get()), config, "this model has none");
  std::vector<Answer> unknown = some_answers();
  unknown[2].ids[0] = 259;
  EXPECT_HONE_ERROR(scores(*reward, unknown, 100, small_model({{"LABEL_0"}}).get()), config,
                    "token id 259; expected less than its vocabulary of 259");
}
TEST(ModelReward, SaysThatAScoreIsNoNumber) {
  const auto model = small_model({{"LABEL_0"}});
  model->each_weight([](const std::string& name, Weight& weight) {
    if (name == "score.weight") weight.use().detach().fill_(std::numeric_limits<double>::quiet_NaN());
  });
  EXPECT_HONE_ERROR(scores(*reward("model", "{path: x}"), some_answers(), 100, model.get()), not_finite,
                    "score.weight");
}

}  // namespace
}  // namespace hone::test
