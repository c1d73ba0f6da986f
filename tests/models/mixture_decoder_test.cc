// The decoder's tokens against those of the layers, of models with routed experts, with memories and with attention by
// latents.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "models/decoder_steps.h"

namespace hone::test {
namespace {

// What elementwise functions of LibTorch round otherwise than kernels: an ulp of fp32 here and there, and in bf16 what
// that turns.
double near(Precision precision) {
  return precision == Precision::fp64 ? 1e-6 : precision == Precision::fp32 ? 2e-5 : 0.03;
}

void expect_tokens_of_layers(const std::filesystem::path& folder, bool same_bits) {
  const at::NoGradGuard no_graph;
  SCOPED_TRACE(folder.string());
  for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
    const auto model = load_model(folder.string(), precision);
    at_levels_and_threads([&] {
      EXPECT_EQ(compare_steps(*model->causal_lm(), 24, same_bits ? 0 : near(precision)), 24);
    });
    if (testing::Test::HasFailure()) return;
  }
}

class Mixtures : public testing::TestWithParam<const char*> {};
TEST_P(Mixtures, GiveTheBitsOfTheLayers) { expect_tokens_of_layers(kDecoders / GetParam(), /*same_bits=*/true); }
INSTANTIATE_TEST_SUITE_P(All, Mixtures,
                         testing::Values("../experts/qwen3-moe", "../experts/qwen3-moe-step",
                                         "../experts/qwen3-moe-top1", "mixtral", "mixtral-sliding", "olmoe-plain",
                                         "flex_olmo", "granitemoe", "granitemoe-tied", "granitemoe_swa",
                                         "granitemoeshared", "granitemoeshared-none", "gpt_oss", "gpt_oss-plain",
                                         "mellum", "mellum-plain", "minimax_m2", "glm4_moe", "glm4_moe-plain", "dots1",
                                         "solar_open"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

class Memories : public testing::TestWithParam<const char*> {};
TEST_P(Memories, GiveTheTokensOfTheLayers) { expect_tokens_of_layers(kDecoders / GetParam(), /*same_bits=*/false); }
INSTANTIATE_TEST_SUITE_P(All, Memories,
                         testing::Values("qwen2-moe", "qwen2-moe-step", "qwen3_5", "qwen3_5-moe", "qwen3_5-tied",
                                         "qwen3_next", "qwen3_next-all", "granitemoehybrid", "granitemoehybrid-dense",
                                         "bamba", "lfm2", "lfm2-adjusted", "lfm2_moe", "lfm2_moe-plain", "falcon_h1",
                                         "falcon_h1-gated", "falcon_h1-plain", "nemotron_h", "nemotron_h-dense",
                                         "olmo_hybrid", "olmo_hybrid-rope", "lfm3", "lfm3-bare", "jamba",
                                         "jamba-dense", "mamba", "mamba-tied", "falcon_mamba", "mamba2",
                                         "mamba2-tied", "arcee-gelu"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Latents : public testing::TestWithParam<const char*> {};
TEST_P(Latents, GiveTheTokensOfTheLayers) { expect_tokens_of_layers(kDecoders / GetParam(), /*same_bits=*/false); }
INSTANTIATE_TEST_SUITE_P(All, Latents,
                         testing::Values("deepseek_v2", "deepseek_v2-yarn", "deepseek_v3", "deepseek_v3-halves",
                                         "glm4_moe_lite", "mistral4", "mistral4-halves"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Each row alone, and beside others: a row's bits do not depend on them.
TEST(MixtureDecoder, GivesARowTheSameBitsBesideOthers) {
  const at::NoGradGuard no_graph;
  for (const char* name : {"mixtral", "gpt_oss", "minimax_m2", "qwen3_5-moe", "granitemoehybrid", "lfm2_moe",
                           "deepseek_v3", "mistral4", "falcon_h1", "nemotron_h", "olmo_hybrid", "lfm3", "jamba",
                           "mamba2"}) {
    SCOPED_TRACE(name);
    const auto model = load_model((kDecoders / name).string(), Precision::bf16);
    const CausalLm& lm = *model->causal_lm();
    constexpr std::int32_t kRows = 4;  // as many as vectors multiply where tiles would take more
    const auto begin = [&] {
      auto cache = std::make_unique<nn::KvCache>(lm.cache_spec(), kRows);
      Batch batch;
      batch.ids_BT = at::arange(2 * kRows, at::kLong).view({kRows, 2});
      for (std::int32_t row = 0; row < kRows; ++row) batch.docs.push_back({.row = row, .begin = 0, .end = 2});
      Pass pass(batch);
      pass.cache = cache.get();
      lm.forward(batch, pass);
      return cache;
    };
    const auto together = nn::maybe_make_decoder(lm, kRows), alone = nn::maybe_make_decoder(lm, kRows);
    ASSERT_TRUE(together && alone);
    const auto all = begin();
    std::vector<std::unique_ptr<nn::KvCache>> each;
    for (std::int32_t row = 0; row < kRows; ++row) {
      each.push_back(begin());
      each.back()->keep({row});
    }
    std::vector<std::int32_t> ids{4, 7, 1, 3};
    for (int step = 0; step < 6; ++step) {
      ASSERT_TRUE(together->step(ids, *all));
      const Tensor expected = to_tensor(*together, kRows);
      for (std::int32_t row = 0; row < kRows; ++row) {
        ASSERT_TRUE(alone->step(std::vector{ids[row]}, *each[row]));
        EXPECT_TRUE(at::equal(to_tensor(*alone, 1)[0], expected[row])) << "row " << row << ", step " << step;
      }
      for (std::int32_t& id : ids) id = (id * 7 + step) % static_cast<std::int32_t>(lm.vocab_size());
    }
  }
}

}  // namespace
}  // namespace hone::test
