// Answers as documents to learn from, and how they are drawn.
#include "objectives/rollouts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/gradient_sum.h"
#include "hone/hub.h"
#include "hone/layers.h"
#include "hone/world.h"
#include "nn/plan.h"
#include "ops/log_probs.h"
#include "tensor/by_document.h"

namespace hone::objectives {
namespace {

std::unique_ptr<Model> small_model() {
  Problems problems;
  auto model = build_model(
      config::parse_json(R"({"model_type": "llama", "vocab_size": 259, "hidden_size": 32, "intermediate_size": 48,
                             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2})",
                         "config.json", problems),
      "config.json");
  init_weights(*model, 3, Precision::fp64);
  return model;
}

Answer answer(const std::string& text) {
  Answer made;
  made.text = text;
  made.ids = {text.begin(), text.end()};
  return made;
}
Asked question(const std::string& text) { return {.ids = {text.begin(), text.end()}}; }

// Two prompts in one micro-batch, one in another; answers of unlike lengths, one that is another's beginning.
Rollout rollout() {
  return {.prompts = {2, 1},
          .asked = {question("what is"), question("why"), question("when?")},
          .each = 3,
          .answers = {answer("ab"), answer("abc"), answer("x"), answer("b"), answer("b"), answer("bcdef"), answer("1"),
                      answer("22"), answer("333")}};
}

TEST(LearntFrom, AnswersHaveLabelsAndPromptsHaveNone) {
  const Group group = learnt_from(rollout(), {{"reward", {1, 2, 3, 4, 5, 6, 7, 8, 9}}}, std::vector<bool>(9));
  ASSERT_EQ(group.size(), 2u);
  EXPECT_EQ(group[0].docs.size(), 6u);
  EXPECT_EQ(group[0].supervised, 2 + 3 + 1 + 1 + 1 + 5);
  EXPECT_TRUE(at::equal(group[1].extra.at("reward"), at::tensor({7.0, 8.0, 9.0}, at::kDouble)));
  const Doc& second = group[0].docs[1];
  const Tensor ids = group[0].ids_BT[second.row].slice(0, second.begin, second.end),
               labels = group[0].labels_BT[second.row].slice(0, second.begin, second.end);
  EXPECT_EQ(ids.numel(), 10);
  EXPECT_TRUE(at::equal(labels.slice(0, 6, 9), ids.slice(0, 7, 10)));
  EXPECT_TRUE(labels.slice(0, 0, 6).eq(-100).all().item<bool>());
  std::vector<bool> left_out(9);
  left_out[5] = true;
  EXPECT_EQ(learnt_from(rollout(), {}, left_out)[0].supervised, 8);
}

// What others have said between is read, and learnt as little as a prompt.
TEST(LearntFrom, TokensThatTheModelHasNotSaidHaveNoLabels) {
  Rollout turns = rollout();
  turns.answers[5].heard = {false, true, true, false, false};  // of bcdef
  EXPECT_EQ(count_said(turns.answers[5]), 3);
  EXPECT_EQ(count_said(turns.answers[4]), 1);
  const Batch batch = learnt_from(turns, {}, std::vector<bool>(9))[0];
  EXPECT_EQ(batch.supervised, 2 + 3 + 1 + 1 + 1 + 3);
  const Doc& doc = batch.docs[5];
  const Tensor labels = batch.labels_BT[doc.row].slice(0, doc.begin, doc.end);
  EXPECT_TRUE(at::equal(labels, at::tensor({-100, -100, int{'b'}, -100, -100, int{'e'}, int{'f'}, -100}, at::kLong)));
  // Gradients are those of the tokens said: none of what another text between would have made likelier.
  const auto gradient = [](const Batch& of, const Tensor& labels_BT) {
    const auto model = small_model();
    Pass pass(of);
    pass.training = true;
    const auto log_probs =
        model->causal_lm()->head().log_probs(model->forward(of, pass).hidden_BTD, labels_BT, pass, false);
    log_probs.log_probs_N.masked_select(of.labels_BT.flatten().ne(-100)).sum().backward();
    std::vector<Tensor> all;
    model->each_weight([&](const std::string&, Weight& weight) {
      all.push_back(weight.gradient_sum() ? weight.gradient_sum()->sum : weight.use().grad());
    });
    return all;
  };
  Tensor others_BT = learnt_from(rollout(), {}, std::vector<bool>(9))[0].labels_BT;
  const auto said = gradient(batch, batch.labels_BT), all = gradient(batch, others_BT);
  for (std::size_t i = 0; i < said.size(); ++i)
    if (said[i].defined()) {
      EXPECT_TRUE(at::allclose(said[i], all[i], 1e-9, 1e-10)) << i;
    }
}

TEST(LearntFrom, APromptIsGoneThroughOnceForAllItsAnswers) {
  const auto model = small_model();
  const nn::Head& head = model->causal_lm()->head();
  for (const Batch& batch : learnt_from(rollout(), {}, std::vector<bool>(9))) {
    Batch apart = batch;
    for (Doc& doc : apart.docs) doc.shared = 0;
    const std::int64_t all = nn::Plan(apart, nullptr, true).tokens(), once = nn::Plan(batch, nullptr, true).tokens();
    std::int64_t shared = 0;
    for (const Doc& doc : batch.docs) shared += doc.shared;
    EXPECT_EQ(all - once, shared);
    EXPECT_GE(shared, 2 * 2);
    const auto log_probs = [&](const Batch& one) {
      Pass pass(one);
      return head.log_probs(model->forward(one, pass).hidden_BTD, one.labels_BT, pass, false).log_probs_N;
    };
    EXPECT_TRUE(at::allclose(log_probs(batch), log_probs(apart), 1e-12, 1e-12));
  }
}

TEST(LearntFrom, GradientsAreThoseOfPromptsApart) {
  const auto gradients = [](bool share) {
    const auto model = small_model();
    for (Batch batch : learnt_from(rollout(), {}, std::vector<bool>(9))) {
      if (!share)
        for (Doc& doc : batch.docs) doc.shared = 0;
      Pass pass(batch);
      pass.training = true;
      model->causal_lm()
          ->head()
          .log_probs(model->forward(batch, pass).hidden_BTD, batch.labels_BT, pass, false)
          .log_probs_N.sum()
          .backward();
    }
    std::vector<Tensor> all;
    model->each_weight([&](const std::string&, Weight& weight) {
      all.push_back(weight.gradient_sum() ? weight.gradient_sum()->sum : weight.use().grad());
    });
    return all;
  };
  const auto shared = gradients(true), apart = gradients(false);
  ASSERT_EQ(shared.size(), apart.size());
  for (std::size_t i = 0; i < shared.size(); ++i)
    if (shared[i].defined()) {
      EXPECT_TRUE(at::allclose(shared[i], apart[i], 1e-9, 1e-10)) << i;
    }
}

TEST(Sample, AnswersHaveTheForm) {
  const auto model = small_model();
  const World world;
  struct NoModels final : Resources {
    RoleModel model(const std::string&) const override { throw Error(ErrorKind::bug, "none"); }
  } none;
  const StepContext context{*model, world, none, 0, 0, 1, load_tokenizer("bytes")};
  SamplingOptions options;
  options.max_completion_length = 20, options.regex = "[a-c]{1,3}[0-9]";
  const auto seed = [](std::size_t, std::int64_t which) { return static_cast<std::uint64_t>(which); };
  for (const Generated& answer : sample({question("why")}, 20, seed, options, context)) {
    EXPECT_EQ(answer.reason, FinishReason::eos);
    EXPECT_THAT(answer.text, testing::MatchesRegex("[a-c][a-c]?[a-c]?[0-9]"));
  }
}

TEST(Sample, AnswersDependOnTheirSeedsAlone) {
  const auto model = small_model();
  const World world;
  struct NoModels final : Resources {
    RoleModel model(const std::string&) const override { throw Error(ErrorKind::bug, "none"); }
  } none;
  const StepContext context{*model, world, none, 0, 0, 1, load_tokenizer("bytes")};
  SamplingOptions options;
  options.max_completion_length = 12;
  const auto seed = [](std::size_t prompt, std::int64_t which) {
    return 100 * static_cast<std::uint64_t>(prompt) + static_cast<std::uint64_t>(which);
  };
  const std::vector<Asked> asked{question("what is"), question("why"), question("why")};
  const auto together = sample(asked, 4, seed, options, context);
  ASSERT_EQ(together.size(), 12u);
  options.generation_batch_size = 3;
  const auto some = sample(asked, 4, seed, options, context);
  for (std::size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i].ids, some[i].ids) << i;
    const auto own = [&](std::size_t, std::int64_t) { return seed(i / 4, static_cast<std::int64_t>(i % 4)); };
    EXPECT_EQ(sample({asked[i / 4]}, 1, own, options, context)[0].ids, together[i].ids) << i;
  }
  EXPECT_NE(together[0].ids, together[1].ids);
}

}  // namespace
}  // namespace hone::objectives
