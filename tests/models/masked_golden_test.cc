// BERT and RoBERTa with a head for masked tokens against transformers: logits, loss, every gradient, ten AdamW steps;
// and folders with other heads.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "hub/save.h"
#include "models/write_tensors.h"
#include "models/classifier_golden.h"
#include "models/golden_checks.h"

namespace hone::test {
namespace {

const std::filesystem::path kMasked = "tests/golden/masked";

std::unique_ptr<Model> masked_model(const std::filesystem::path& folder, const HeadRequest& head = {},
                                    const std::optional<FreshWeights>& fresh = {}) {
  const std::string file = (folder / "config.json").string();
  std::unique_ptr<Model> model = build_model(config::read_file(file), file, head);
  load_weights(*model, folder, Precision::fp32, fresh);
  return model;
}

// Labels stand at their own places, which make_batch() is not told.
Batch masked_batch(const std::map<std::string, Tensor>& golden) {
  const Tensor& ids = golden.at("input_ids");
  Batch batch = make_batch(ids, at::full_like(ids, -100), golden.at("attention_mask"));
  batch.labels_BT = golden.at("labels"), batch.weight_BT = batch.labels_BT.ne(-100).to(at::kFloat);
  return batch;
}

Tensor masked_loss(const Model& model, const Batch& batch, Pass& pass) {
  const auto& known = registries().objectives;
  const auto objective = known.make("masked_lm", *known.options("masked_lm"));
  const LossTerms terms = objective->loss(model, model.forward(batch, pass), batch, pass);
  return terms.terms.at(0).sum / objective->sums(batch).at(terms.terms[0].per);
}

class MaskedGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  ops::LevelScope scope_{GetParam().level()};
  std::map<std::string, Tensor> golden_ = read_all(kMasked / GetParam().name / "golden.safetensors");
  std::unique_ptr<Model> model_ = masked_model(kMasked / GetParam().name);
  Batch batch_ = masked_batch(golden_);
};

TEST_P(MaskedGolden, LogitsAndLoss) {
  const at::NoGradGuard no_graph;
  Pass pass(batch_);
  const MaskedLm& lm = require_masked_lm(*model_, "test");
  const Tensor hidden = model_->forward(batch_, pass).hidden_BTD;
  const Tensor logits = lm.mask_head().logits(lm.for_mask_head(hidden, pass), pass);
  expect_close(logits * golden_["attention_mask"].unsqueeze(-1), golden_["logits"], 1e-5 * largest(golden_["logits"]),
               "logits");
  const double expected = golden_["loss"].item<double>();
  EXPECT_NEAR(masked_loss(*model_, batch_, pass).item<double>(), expected, 2e-6 * expected);
}

TEST_P(MaskedGolden, EveryGradient) {
  Pass pass(batch_);
  masked_loss(*model_, batch_, pass).backward();
  expect_golden_gradients(*model_, golden_, floor_of_keys);
}

TEST_P(MaskedGolden, TenSteps) {
  expect_ten_golden_steps(
      *model_, batch_, golden_["ten_losses"], [&](Pass& pass) { return masked_loss(*model_, batch_, pass); },
      /*training=*/false);
}

TEST_P(MaskedGolden, ConfigComesBackAsItWas) { expect_same_config(kMasked / GetParam().name, *model_); }

INSTANTIATE_TEST_SUITE_P(Models, MaskedGolden,
                         testing::ValuesIn(golden_params({"bert", "bert-odd", "roberta", "modernbert",
                                                          "modernbert-odd", "distilbert", "deberta",
                                                          "deberta-legacy", "electra", "albert", "mpnet",
                                                          "nomic_bert", "gte", "jina_embeddings_v3", "eurobert",
                                                          "xlm-roberta-xl", "ernie", "megatron-bert", "rembert",
                                                          "roformer", "roberta-prelayernorm", "data2vec-text",
                                                          "deberta-v1", "esm"})),
                         print_golden);

class MaskedFolders : public testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = GetParam(), prefix_ = name_ + ".";
  const std::filesystem::path folder_ = kMasked / name_;
};
INSTANTIATE_TEST_SUITE_P(Models, MaskedFolders, testing::Values("bert", "roberta"));

TEST_P(MaskedFolders, AreWrittenAsTransformersWritesThem) {
  const TempFolder root;
  const auto model = masked_model(folder_);
  hub::save_model_folder(root / "made", *model, hub::model_files(*model, "", nullptr), {});
  const auto source = read_all(folder_ / "model.safetensors"), written = read_all(root / "made" / "model.safetensors");
  ASSERT_EQ(written.size(), source.size());
  for (const auto& [key, tensor] : source) EXPECT_TRUE(at::equal(written.at(key), tensor)) << key;
}

// A classifier's folder has the body; what its head was is passed over, and the other way round.
TEST_P(MaskedFolders, HeadsComeAndGo) {
  const std::filesystem::path classifier = "tests/golden/classifiers/" + name_;
  const auto model = masked_model(classifier, {.masked_lm = true}, FreshWeights{.seed = 1});
  ASSERT_NE(model->masked_lm(), nullptr);
  EXPECT_EQ(model->classifier(), nullptr);
  const auto from = read_all(classifier / "model.safetensors");
  model->each_weight([&](const std::string& name, const Weight& weight) {
    if (name.starts_with(prefix_)) {
      EXPECT_TRUE(weight.use().equal(from.at(name))) << name;
    }
  });
  const auto labelled = masked_model(folder_, {.labels = {"a", "b"}}, FreshWeights{.seed = 1});
  EXPECT_NE(labelled->classifier(), nullptr);
  EXPECT_EQ(labelled->masked_lm(), nullptr);
  EXPECT_THROW(build_model(config::read_file("tests/golden/models/llama/config.json"), "llama", {.masked_lm = true}),
               Error);
}

// The table and the bias may lie there once more, under the head's own names, or the bias there alone; what differs
// from them would be lost without a word.
TEST_P(MaskedFolders, OnceMoreIsNoOther) {
  const auto source = read_all(folder_ / "model.safetensors");
  const auto loads = [&](const std::function<void(std::map<std::string, Tensor>&)>& change) {
    const TempFolder root;
    std::filesystem::copy_file(folder_ / "config.json", root / "config.json");
    auto tensors = source;
    change(tensors);
    write_tensors(root / "model.safetensors", tensors);
    return masked_model(root.path());
  };
  const MaskHeadNames names = masked_model(folder_)->masked_lm()->mask_head_names();
  const std::string table = prefix_ + "embeddings.word_embeddings.weight", bias = names.bias,
                    own_table = names.decoder + ".weight", own_bias = names.decoder + ".bias";
  loads([&](auto& all) { all[own_table] = all.at(table).clone(), all[own_bias] = all.at(bias).clone(); });
  const auto moved = loads([&](auto& all) { all[own_bias] = all.at(bias), all.erase(bias); });
  moved->each_weight([&](const std::string& name, const Weight& weight) {
    if (name == bias) {
      EXPECT_TRUE(weight.use().equal(source.at(bias)));
    }
  });
  for (const auto& [own, of] : {std::pair{own_table, table}, {own_bias, bias}})
    EXPECT_THROW(loads([&](auto& all) { all[own] = all.at(of) + 1; }), Error) << own;
}

}  // namespace
}  // namespace hone::test
