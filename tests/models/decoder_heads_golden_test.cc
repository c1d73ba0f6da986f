// Older decoders with a head for labels of texts or of tokens against transformers: hidden states, logits, loss, every
// gradient, ten AdamW steps; documents that share a row; configurations that come back.
#include <gtest/gtest.h>

#include "models/classifier_golden.h"

namespace hone::test {
namespace {

class DecoderHeadGolden : public HeadGolden {};

TEST_P(DecoderHeadGolden, HiddenStatesLogitsAndLoss) { expect_hidden_states_logits_and_loss(); }
TEST_P(DecoderHeadGolden, EveryGradient) { expect_every_gradient(); }
TEST_P(DecoderHeadGolden, TenSteps) { expect_ten_steps(); }
TEST_P(DecoderHeadGolden, PackedAsPadded) { expect_packed_as_padded(); }
TEST_P(DecoderHeadGolden, ConfigComesBackAsItWas) { expect_config(); }

INSTANTIATE_TEST_SUITE_P(
    Models, DecoderHeadGolden,
    testing::ValuesIn(golden_params({"opt", "olmo", "gpt_neo", "gptj", "bloom", "falcon", "mpt", "gpt_bigcode",
                                     "helium", "biogpt", "modernbert-decoder", "modernbert-decoder-bias", "gpt2",
                                     "gpt_neox", "tokens-gpt_neo", "tokens-bloom", "tokens-falcon", "tokens-mpt",
                                     "tokens-gpt_bigcode", "tokens-helium", "tokens-biogpt", "tokens-gpt_neox"})),
    print_golden);

// The body of a language model's folder gives its weights to a classifier, whose head is fresh.
TEST(DecoderHeads, ALanguageModelGetsAHead) {
  for (const auto& [name, of_tokens] : {std::pair{"bloom", true}, {"opt", false}, {"modernbert-decoder", false}}) {
    const std::filesystem::path folder = std::filesystem::path("tests/golden/decoders") / name;
    const HeadRequest head{.labels = {"a", "b", "c"}, .of_tokens = of_tokens};
    const auto model = build_model(config::read_file((folder / "config.json").string()), "config.json", head);
    load_weights(*model, folder, Precision::fp32, FreshWeights{3});
    EXPECT_EQ(model->classifier()->labels(), head.labels) << name;
    EXPECT_EQ(model->classifier()->of_tokens(), of_tokens) << name;
    EXPECT_FALSE(model->causal_lm()) << name;
  }
}

}  // namespace
}  // namespace hone::test
