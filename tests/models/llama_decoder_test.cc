// The decoder's tokens against those of the layers: the same bits, at every level and with any number of threads.
#include "models/decoder_steps.h"

namespace hone::test {
namespace {

using ops::Level;
using ops::LevelScope;
using ops::test::Threads;

// At every level, with one thread and two. taken: whether the decoder has to take each step.
void expect_bits_of_layers(const std::filesystem::path& folder, bool taken) {
  const at::NoGradGuard no_graph;
  for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
    const auto model = load_model(folder.string(), precision);
    for (const Level wanted : {Level::basic, Level::avx2, Level::avx512, Level::avx512bf16, Level::amx}) {
      const LevelScope scope(wanted);
      if (ops::level() != wanted) continue;
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(std::string(ops::name(wanted)) + ", threads " + std::to_string(threads));
        const Threads use(threads);
        const int steps = compare_steps(*model->causal_lm(), 24);
        EXPECT_TRUE(!taken || steps == 24) << steps;
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

class LlamaDecoder : public testing::TestWithParam<std::string> {};

TEST_P(LlamaDecoder, GivesTheBitsOfTheLayers) {
  const bool changes_with_length = GetParam().starts_with("rope-dynamic") || GetParam().starts_with("rope-longrope");
  expect_bits_of_layers(kGoldens / GetParam(), !changes_with_length);
}

INSTANTIATE_TEST_SUITE_P(All, LlamaDecoder, testing::ValuesIn(golden_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Norms behind attention and MLP or of all heads together, other factors of norms, scales, rotations by layer.
TEST(LlamaDecoder, GivesTheBitsOfTheLayersOfRelatives) {
  for (const char* name :
       {"gemma", "gemma3", "granite", "granite-tied", "smollm3", "smollm3-sliding", "olmo2", "olmo3", "ministral",
        "ministral-sliding", "seed_oss", "seed_oss-tied", "exaone4", "exaone4-full", "internlm3",
        "iquestcoder", "vaultgemma-uncapped", "cwm", "exaone", "arcee"}) {
    SCOPED_TRACE(name);
    expect_bits_of_layers(kDecoders / name, /*taken=*/true);
  }
}

// From there on the layers have them, which begin where the row does that is furthest: at 5.
TEST(LlamaDecoder, EndsWhereQueriesGrow) {
  const at::NoGradGuard no_graph;
  EXPECT_EQ(compare_steps(*load_model((kDecoders / "ministral3").string(), Precision::fp32)->causal_lm(), 24), 8 - 5);
  EXPECT_EQ(compare_steps(*load_model((kDecoders / "ministral3-plain").string(), Precision::bf16)->causal_lm(), 24),
            6 - 5);
}

// With an adapter beside all products of a block, or beside some, which have biases and ranks of their own.
TEST(LlamaDecoder, GivesTheBitsOfTheLayersWithAnAdapter) {
  const at::NoGradGuard no_graph;
  for (const auto& [base, adapter] : {std::pair("llama", "linear"), {"qwen2", "names"}})
    for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
      const auto model = load_model((kGoldens / base).string(), precision);
      load_adapter(*model, std::filesystem::path("tests/golden/adapters") / adapter, {.precision = precision});
      for (const Level wanted : {Level::basic, Level::avx2, Level::avx512, Level::avx512bf16, Level::amx}) {
        const LevelScope scope(wanted);
        if (ops::level() != wanted) continue;
        for (const int threads : {1, 2}) {
          SCOPED_TRACE(std::string(base) + ", " + std::string(ops::name(wanted)) + ", threads " +
                       std::to_string(threads));
          const Threads use(threads);
          EXPECT_EQ(compare_steps(*model->causal_lm(), 24), 24);
          if (HasFailure()) return;
        }
      }
    }
}

#if defined(HONE_KERNELS_AMX)
// More rows than AMX leaves to vectors: products of a block share their rows as tiles.
TEST(LlamaDecoder, GivesTheBitsOfTheLayersByTiles) {
  if (ops::level() < Level::avx512bf16) GTEST_SKIP() << "needs a CPU with AVX-512 for bf16";
  const at::NoGradGuard no_graph;
  const ops::test::EmulatedAmx emulated;
  constexpr int kRows = 7;
  for (const std::string base : {"llama", "qwen2", "qwen3"}) {
    const auto model = load_model((kGoldens / base).string(), Precision::bf16);
    const CausalLm& lm = *model->causal_lm();
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(base + ", threads " + std::to_string(threads));
      const Threads use(threads);
      nn::KvCache one(lm.cache_spec(), kRows), other(lm.cache_spec(), kRows);
      Batch batch;
      batch.ids_BT = at::arange(2 * kRows, at::kLong).view({kRows, 2});
      for (int row = 0; row < kRows; ++row) batch.docs.push_back({.row = row, .begin = 0, .end = 2});
      for (nn::KvCache* cache : {&one, &other}) {
        Pass pass(batch);
        pass.cache = cache;
        lm.forward(batch, pass);
      }
      const auto decoder = nn::maybe_make_decoder(lm, kRows);
      ASSERT_TRUE(decoder);
      std::vector<std::int32_t> ids = {4, 7, 1, 3, 9, 2, 5};
      for (int step = 0; step < 4; ++step) {
        ASSERT_TRUE(decoder->step(ids, other));
        EXPECT_TRUE(at::equal(to_tensor(*decoder, kRows), through_layers(lm, ids, one))) << "step " << step;
        for (std::int32_t& id : ids) id = (id * 7 + step) % static_cast<std::int32_t>(lm.vocab_size());
      }
    }
  }
}
#endif

TEST(LlamaDecoder, IsThereOnlyWhereKernelsAre) {
  const auto model = load_model((kGoldens / "llama").string(), Precision::fp32);
  EXPECT_TRUE(nn::maybe_make_decoder(*model->causal_lm(), 16));
  EXPECT_FALSE(nn::maybe_make_decoder(*model->causal_lm(), 17));
  const LevelScope scope(Level::reference);
  EXPECT_FALSE(nn::maybe_make_decoder(*model->causal_lm(), 1));
}

// Before the first pass there is nothing to go on from.
TEST(LlamaDecoder, LeavesAnEmptyCacheToTheLayers) {
  const auto model = load_model((kGoldens / "llama").string(), Precision::fp32);
  nn::KvCache cache(model->causal_lm()->cache_spec(), 1);
  EXPECT_FALSE(nn::maybe_make_decoder(*model->causal_lm(), 1)->step(std::vector<std::int32_t>{3}, cache));
  EXPECT_EQ(cache.length(0), 0);
}

}  // namespace
}  // namespace hone::test
