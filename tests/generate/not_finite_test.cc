// A model whose numbers are not finite says so, with the weight's name, instead of generating.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/errors.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "ops/kernels.h"

namespace hone {
namespace {

const std::string kLlama = HONE_SOURCE_DIR "/tests/golden/models/llama";

class NotFinite : public ::testing::Test {
 protected:
  // Fills all of one weight, or its last row.
  void fill(const std::string& wanted, double value, bool last_row) {
    model_->each_weight([&](const std::string& name, Weight& weight) {
      if (name != wanted) return;
      Tensor part = weight.value().detach();
      if (last_row) part = part[part.size(0) - 1];
      part.fill_(value);
    });
  }
  void generate(double temperature, std::int64_t batch_size = 16) {
    GenerateConfig config;
    config.max_new_tokens = 4;
    config.temperature = temperature;
    config.ignore_eos = true;
    config.batch_size = batch_size;
    Generator(*model_, load_tokenizer("bytes")).generate({{1, 17, 42}, {5}}, config);
  }
  void load(Precision precision) { model_ = load_model(kLlama, precision); }
  std::unique_ptr<Model> model_;
};

TEST_F(NotFinite, GenerationNamesTheWeight) {
  for (const ops::Level level : {ops::Level::reference, ops::Level::amx})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp64})
      for (const double bad : {double(NAN), double(INFINITY)})
        for (const double temperature : {0.0, 0.8}) {
          const ops::LevelScope scope(level);
          load(precision);
          EXPECT_NO_THROW(generate(temperature));
          fill("model.layers.1.mlp.up_proj.weight", bad, false);
          EXPECT_HONE_ERROR(generate(temperature), not_finite, "logits of prompt 1 after 0 new tokens: not finite");
          EXPECT_HONE_ERROR(generate(temperature), not_finite, "weight model.layers.1.mlp.up_proj.weight: ");
        }
}

TEST_F(NotFinite, AGeneratorWithoutATokenizerIsRefused) {
  load(Precision::fp32);
  EXPECT_HONE_ERROR(Generator(*model_, nullptr), usage, "generate: no tokenizer");
}

// Only one token's logit is bad, the likeliest is not.
TEST_F(NotFinite, ASingleLogitCounts) {
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const double temperature : {0.0, 0.8}) {
      load(precision);
      std::string head = "lm_head.weight";
      fill(head, NAN, true);
      EXPECT_HONE_ERROR(generate(temperature), not_finite, "weight lm_head.weight: ");
    }
}

TEST_F(NotFinite, WeightsInOrderAreNotBlamed) {
  for (const double temperature : {0.0, 0.8}) {
    load(Precision::fp32);
    fill("lm_head.weight", 3e38, false);
    EXPECT_HONE_ERROR(generate(temperature), not_finite,
                      "not finite, though every weight is: the numbers grew too large while computing in float32");
  }
}

// Found while decoding, too: the prompts' pass never reads this row of the table.
TEST_F(NotFinite, AlsoAfterTheFirstToken) {
  for (const double temperature : {0.0, 0.8})
    for (const std::int64_t batch_size : {1, 16}) {
      load(Precision::fp32);
      GenerateConfig config;
      config.max_new_tokens = 2;
      config.temperature = temperature;
      config.ignore_eos = true;
      const auto first = Generator(*model_, load_tokenizer("bytes")).generate({{1, 17, 42}}, config)[0].ids[0];
      ASSERT_TRUE(first != 1 && first != 17 && first != 42);
      model_->each_weight([&](const std::string& name, Weight& weight) {
        if (name == "model.embed_tokens.weight") weight.value().detach()[first].fill_(NAN);
      });
      EXPECT_HONE_ERROR(generate(temperature, batch_size), not_finite, "after 1 new tokens");
    }
}

}  // namespace
}  // namespace hone
