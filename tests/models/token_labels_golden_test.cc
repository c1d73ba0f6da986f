// Models with a head for tokens against transformers: hidden states, logits, loss, every gradient, ten AdamW steps.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "models/classifier_golden.h"

namespace hone::test {
namespace {

class TokenLabelsGolden : public HeadGolden {};

TEST_P(TokenLabelsGolden, HiddenStatesLogitsAndLoss) { expect_hidden_states_logits_and_loss(); }
TEST_P(TokenLabelsGolden, EveryGradient) { expect_every_gradient(); }
TEST_P(TokenLabelsGolden, TenSteps) { expect_ten_steps(); }
TEST_P(TokenLabelsGolden, PackedAsPadded) { expect_packed_as_padded(); }
TEST_P(TokenLabelsGolden, ConfigComesBackAsItWas) { expect_config(); }

INSTANTIATE_TEST_SUITE_P(Models, TokenLabelsGolden,
                         testing::ValuesIn(golden_params({"tokens-bert", "tokens-roberta", "tokens-distilbert",
                                                          "tokens-modernbert", "tokens-llama", "tokens-qwen3",
                                                          "tokens-gemma2", "tokens-stablelm", "tokens-gpt2",
                                                          "tokens-deberta", "tokens-electra", "tokens-albert",
                                                          "tokens-mpnet", "tokens-nomic_bert", "tokens-gte",
                                                          "tokens-jina_embeddings_v3", "tokens-eurobert",
                                                          "tokens-xlm-roberta-xl", "tokens-ernie",
                                                          "tokens-megatron-bert", "tokens-rembert", "tokens-roformer",
                                                          "tokens-roberta-prelayernorm", "tokens-data2vec-text",
                                                          "tokens-deberta-v1", "tokens-esm"})),
                         print_golden);

std::unique_ptr<Model> from_llama(const HeadRequest& head) {
  const std::filesystem::path folder = "tests/golden/models/llama";
  std::unique_ptr<Model> model = build_model(config::read_file(folder / "config.json"), "config.json", head);
  load_weights(*model, folder, Precision::fp32, FreshWeights{3});
  return model;
}

TEST(TokenLabels, ALanguageModelGetsAHead) {
  const auto model = from_llama({.labels = {"O", "B-A"}, .of_tokens = true});
  EXPECT_FALSE(model->causal_lm());
  EXPECT_EQ(require_token_classifier(*model, "test").labels(), (std::vector<std::string>{"O", "B-A"}));
  std::set<std::string> of_head;
  model->each_weight([&](const std::string& name, Weight&) {
    if (name.starts_with("score.")) of_head.insert(name);
  });
  EXPECT_EQ(of_head, (std::set<std::string>{"score.bias", "score.weight"}));
  EXPECT_EQ(model->hf_config().find("architectures")->items().at(0).text(), "LlamaForTokenClassification");
}

TEST(TokenLabels, AHeadIsForOneThing) {
  const auto of_texts = from_llama({.labels = {"O", "B-A"}}), of_tokens = load_classifier("tokens-bert");
  EXPECT_HONE_ERROR(require_token_classifier(*of_texts, "objective token_classification"), config,
                    "this model of type llama has one that gives texts labels");
  EXPECT_HONE_ERROR(require_classifier(*of_tokens, "objective classification"), config,
                    "the model's head gives each token a label; expected one for texts");
}

// Nobody could open what a run would save.
TEST(TokenLabels, FamiliesWithoutSuchAModelInTransformersAreRefused) {
  const auto build = [](const char* type) {
    Problems problems;
    const std::string json = std::string(R"({"model_type": ")") + type + R"(", "hidden_size": 8, "vocab_size": 16,
        "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2})";
    build_model(config::parse_json(json, "config.json", problems), "config.json",
                {.labels = {"O", "B-A"}, .of_tokens = true});
  };
  EXPECT_HONE_ERROR(build("granite"), config, "transformers has no classifier of tokens of type granite");
  EXPECT_HONE_ERROR(build("olmo2"), config, "transformers has no classifier of tokens of type olmo2");
  EXPECT_NO_THROW(build("mistral"));
}

// What the configuration says wins; without it transformers drops a tenth, and StableLM what its MLP drops.
TEST(TokenLabels, DropoutIsThatOfTransformers) {
  const auto model = load_classifier("tokens-qwen3");  // classifier_dropout 0.2
  const Batch batch = token_batch_of(read_all(kClassifiers / "tokens-qwen3" / "golden.safetensors"));
  const at::NoGradGuard no_graph;
  Pass plain(batch), training(batch);
  const Output output = model->forward(batch, plain);
  training.training = true, training.seed = 5;
  const Tensor before = model->classifier()->logits(output, plain);
  EXPECT_FALSE(before.equal(model->classifier()->logits(output, training)));
  const auto stable = load_classifier("tokens-stablelm");  // hidden_dropout 0
  const Batch other = token_batch_of(read_all(kClassifiers / "tokens-stablelm" / "golden.safetensors"));
  Pass p(other), t(other);
  t.training = true, t.seed = 5;
  const Output hidden = stable->forward(other, p);
  EXPECT_TRUE(stable->classifier()->logits(hidden, p).equal(stable->classifier()->logits(hidden, t)));
}

}  // namespace
}  // namespace hone::test
