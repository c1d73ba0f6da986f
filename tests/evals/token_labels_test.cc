// What is measured of labels of tokens, against seqeval and scikit-learn (tools/golden/golden_entities.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "evals/entities.h"
#include "hone/evaluation.h"
#include "models/classifier_golden.h"

namespace hone::test {
namespace {

nlohmann::json entities_golden() {
  std::ifstream file(kClassifiers / "entities.json");
  return nlohmann::json::parse(file);
}

TEST(Entities, AreThoseOfSeqeval) {
  int compared = 0;
  const nlohmann::json golden = entities_golden();
  for (const auto& one : golden.at("rows")) {
    const auto row = one.at("row").get<std::vector<std::string>>();
    std::vector<std::string> labels(row);  // each at its own place
    std::vector<std::int64_t> tokens(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) tokens[i] = static_cast<std::int64_t>(i);
    nlohmann::json found = nlohmann::json::array();
    for (const auto& entity : evals::entities_of(tokens, labels))
      found.push_back({entity.type, entity.begin, entity.end});
    EXPECT_EQ(found, one.at("entities")) << one.at("row");
    ++compared;
  }
  EXPECT_EQ(compared, 80);
}

TEST(Entities, AreMarkedByASchemeAlone) {
  EXPECT_TRUE(evals::mark_entities({"O", "B-A", "I-A"}));
  EXPECT_TRUE(evals::mark_entities({"O", "S-A", "E-A-B"}));
  for (const std::vector<std::string>& labels :
       {std::vector<std::string>{"NOUN", "VERB"}, {"O", "A"}, {"O", "X-A"}, {"false", "true"}, {"O", "B-"}})
    EXPECT_FALSE(evals::mark_entities(labels)) << labels[1];
}

// Sums of several batches say the same as those of one, whose tokens are counted several times.
TEST(MetricsOfTokenLabels, EqualSeqevalAndScikitLearn) {
  const nlohmann::json golden = entities_golden();
  const auto one = registries().evals.make("token_classification", *registries().evals.options("token_classification"));
  for (const auto& [name, expected] : golden.at("metrics").items()) {
    const auto model = load_classifier(name);
    const auto tensors = read_all(kClassifiers / name / "golden.safetensors");
    Batch batch =
        make_batch(tensors.at("input_ids"), at::full_like(tensors.at("input_ids"), -100), tensors.at("attention_mask"));
    batch.labels_BT = tensors.at("labels");
    one->check(*model);
    for (const int times : {1, 3}) {
      const at::NoGradGuard no_grad;
      Sums total;
      for (int i = 0; i < times; ++i) {
        Pass pass(batch);
        for (const auto& [what, sum] : one->measure(*model, model->forward(batch, pass), batch, pass))
          total[what] += sum;
      }
      const Metrics found = one->result(total);
      for (const auto& [metric, value] : expected.items())
        EXPECT_NEAR(found.at(metric), value.get<double>() * (metric == "tokens" ? times : 1), 2e-5)
            << name << " " << metric;
      EXPECT_EQ(found.size(), one->names().size());
    }
  }
}

}  // namespace
}  // namespace hone::test
