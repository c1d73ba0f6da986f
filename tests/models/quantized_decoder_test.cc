// The decoder with weights in fewer bits against the layers, which compute with what these stand for.
#include <gtest/gtest.h>

#include "harness/files.h"
#include "hone/hub.h"
#include "models/by_cache.h"
#include "nn/decoding/choose.h"
#include "nn/kv_cache.h"
#include "ops/check.h"
#include "ops/levels.h"

namespace hone::test {
namespace {

TEST(QuantizedDecoder, IsNearTheLayers) {
  const at::NoGradGuard no_graph;
  for (const QuantType type : {QuantType::nf4, QuantType::fp4, QuantType::int8})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp64}) {
      const auto model =
          load_frozen_model(ModelPlace{golden("quantized/whole"), {}}, precision, at::kCPU, {.type = type});
      const CausalLm& lm = *model->causal_lm();
      ops::test::at_each_kernel_level([&](const std::string& level) {
        for (const int threads : {1, 2}) {
          SCOPED_TRACE(level + ", threads " + std::to_string(threads));
          const ops::test::Threads scope(threads);
          nn::KvCache one(lm.cache_spec(), 3), other(lm.cache_spec(), 3);
          std::vector<std::int32_t> ids{4, 7, 1};
          through_layers(lm, ids, one), through_layers(lm, ids, other);
          const auto decoder = nn::maybe_make_decoder(lm, 3);
          ASSERT_TRUE(decoder);
          for (int step = 0; step < 4; ++step) {
            const Tensor expected = through_layers(lm, ids, one);
            ASSERT_TRUE(decoder->step(ids, other));
            const Tensor made = at::from_blob(decoder->logits().data(), expected.sizes(), at::kFloat).clone();
            EXPECT_LT((made - expected).abs().max().item<double>() / expected.abs().max().item<double>(),
                      precision == Precision::bf16   ? 0.03
                      : precision == Precision::fp64 ? 1e-6
                                                     : 2e-3);
            for (auto& id : ids) id = (id * 7 + step) % 96;
          }
        }
      });
    }
}

}  // namespace
}  // namespace hone::test
