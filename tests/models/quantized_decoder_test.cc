// The decoder with weights in fewer bits against the layers, which compute with what these stand for.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/files.h"
#include "hone/config_read.h"
#include "hone/hub.h"
#include "models/by_cache.h"
#include "nn/decoding/choose.h"
#include "nn/freeze.h"
#include "nn/kv_cache.h"
#include "ops/check.h"
#include "ops/levels.h"

namespace hone::test {
namespace {

void expect_tokens_near_layers(const CausalLm& lm, Precision precision) {
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

TEST(QuantizedDecoder, IsNearTheLayers) {
  const at::NoGradGuard no_graph;
  for (const QuantType type : {QuantType::nf4, QuantType::fp4, QuantType::int8})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp64}) {
      const auto model =
          load_frozen_model(ModelPlace{golden("quantized/whole"), {}}, precision, at::kCPU, {.type = type});
      expect_tokens_near_layers(*model->causal_lm(), precision);
    }
}

// Of random weights: its blocks' products, experts among them, hold theirs in few bits. In bf16 all four experts are
// chosen: what it rounds would turn a choice between some that are nearly as likely.
std::unique_ptr<Model> quantized_model(std::string keys, QuantType type, Precision precision) {
  Problems problems;
  const std::string some = R"("num_experts_per_tok": 2)", all = R"("num_experts_per_tok": 4)";
  if (precision == Precision::bf16) keys.replace(keys.find(some), some.size(), all);
  const std::string config = R"({"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "head_dim": 16,
    "max_position_embeddings": 64, "vocab_size": 96, "initializer_range": 0.1, )" + keys + "}";
  auto model = build_model(config::parse_json(config, "test", problems), "test");
  nn::freeze(*model);
  choose_quantized(*model, {.type = type}, {});
  init_weights(*model, 3, precision);
  return model;
}

struct OfKind {
  const char *name, *keys;
};
class QuantizedKinds : public testing::TestWithParam<OfKind> {};

TEST_P(QuantizedKinds, AreNearTheLayers) {
  const at::NoGradGuard no_graph;
  for (const QuantType type : {QuantType::nf4, QuantType::fp4, QuantType::int8})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp64}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(type)) + ", " + std::to_string(static_cast<int>(precision)));
      const auto model = quantized_model(GetParam().keys, type, precision);
      std::int64_t held = 0;
      model->each_weight([&](const std::string&, Weight& weight) { held += weight.quantized() != nullptr; });
      EXPECT_GT(held, 0);
      expect_tokens_near_layers(*model->causal_lm(), precision);
      if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, QuantizedKinds,
    testing::Values(
        OfKind{"experts", R"("model_type": "qwen3_moe", "num_hidden_layers": 2, "num_key_value_heads": 2,
          "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64)"},
        OfKind{"shared_experts", R"("model_type": "glm4_moe", "num_hidden_layers": 2, "num_key_value_heads": 2,
          "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_shared_experts": 1,
          "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1)"},
        OfKind{"latents", R"("model_type": "deepseek_v3", "num_hidden_layers": 2, "num_key_value_heads": 4,
          "kv_lora_rank": 64, "q_lora_rank": 64, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16,
          "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_shared_experts": 1,
          "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1)"},
        OfKind{"squares", R"("model_type": "nemotron_h", "layers_block_type": ["linear_attention", "moe", "mlp"],
          "num_key_value_heads": 2, "ssm_state_size": 16, "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 2,
          "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
          "moe_shared_expert_intermediate_size": 64, "moe_latent_size": 64)"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hone::test
