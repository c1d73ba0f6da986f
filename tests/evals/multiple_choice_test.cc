// Answers to choose from, against EleutherAI's lm-eval (tools/golden/golden_choices.py).
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "harness/files.h"
#include "hone/config.h"
#include "hone/evaluation.h"
#include "hone/hub.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "hone/text.h"
#include "ops/log_probs.h"
#include "tensor/by_document.h"

namespace hone {
namespace {

const std::filesystem::path kChoices = "tests/golden/choices";

TEST(MultipleChoice, EqualsLmEval) {
  HONE_NEEDS_DATA(folder, "models/stories260K");
  const c10::NoGradGuard no_grad;
  const auto tokenizer = load_tokenizer(folder.string());
  const auto model = load_model(folder.string(), Precision::fp64);
  DataFile file;
  file.path = (kChoices / "questions.jsonl").string();
  Dataset::Options options{.max_length = 512, .vocab_size = model->vocab_size(), .records = RecordKind::choice};
  const auto data = Dataset::make({file}, *tokenizer, options);
  const config::Node expected = config::read_file((kChoices / "expected.json").string());
  const auto& questions = expected.find("log_probs")->items();
  const auto evaluation = registries().evals.make("multiple_choice", *registries().evals.options("multiple_choice"));
  Sums total;
  for (std::int64_t row = 0; row < data->rows(); ++row) {
    const Batch batch = to_batch(data->batch({row}, 0));
    Pass pass(batch);
    const Output output = model->forward(batch, pass);
    for (const auto& [name, sum] : evaluation->measure(*model, output, batch, pass)) total[name] += sum;
    const auto tokens = model->causal_lm()->head().log_probs(output.hidden_BTD, batch.labels_BT, pass, false);
    const Tensor log_probs_S = sums_by_document(tokens.log_probs_N, batch);
    std::map<std::int64_t, std::size_t> choice;  // of each question the next
    std::int64_t before = -1, question = -1;
    for (std::size_t i = 0; i < batch.docs.size(); ++i) {
      const std::string name = data->record_name(batch.docs[i].record);
      question = std::stoll(name.substr(name.rfind(':') + 1)) - 1;
      if (question != before) choice[question] = 0;
      before = question;
      const auto& all = questions[static_cast<std::size_t>(question)].items();
      ASSERT_LT(choice[question], all.size());
      EXPECT_NEAR(log_probs_S[static_cast<std::int64_t>(i)].item<double>(), std::stod(all[choice[question]++].text()),
                  2e-5)  // lm-eval's softmax is fp32
          << name;
    }
  }
  const Metrics found = evaluation->result(total);
  EXPECT_EQ(found.at("questions"), static_cast<double>(questions.size()));
  EXPECT_NEAR(found.at("accuracy"), std::stod(expected.find("acc")->text()), 1e-12);
  EXPECT_NEAR(found.at("accuracy_per_character"), std::stod(expected.find("acc_norm")->text()), 1e-12);
}

}  // namespace
}  // namespace hone
