// xLSTM's configuration, its fresh weights, and its memory in generation. What it computes: decoders_golden_test.cc.
#include <gtest/gtest.h>

#include "models/by_cache.h"
#include "models/small_config.h"

namespace hone::test {
namespace {

const SmallConfig kXlstm(R"({"model_type": "xlstm"})");

TEST(XLstmConfigs, WidthAndBlocksHaveTwoNames) {
  for (const char* more : {R"("hidden_size": 64, "num_hidden_layers": 3)", R"("embedding_dim": 64, "num_blocks": 3)",
                           R"("embedding_dim": 64, "hidden_size": 64, "num_blocks": 3, "num_hidden_layers": 3)"}) {
    const auto model = kXlstm.with(more);
    EXPECT_EQ(model->blocks().size(), 3u) << more;
    const config::Node written = model->hf_config();
    for (const char* key : {"hidden_size", "embedding_dim"}) EXPECT_EQ(written.find(key)->text(), "64") << more;
    for (const char* key : {"num_hidden_layers", "num_blocks"}) EXPECT_EQ(written.find(key)->text(), "3") << more;
  }
}

TEST(XLstmConfigs, WhatItCannotBeIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("hidden_size": 64, "embedding_dim": 32)", "hidden_size: got 64, expected what embedding_dim says, 32"},
      {R"("num_blocks": 2, "num_hidden_layers": 3)", "num_hidden_layers: got 3, expected what num_blocks says, 2"},
      {R"("hidden_size": 24, "num_heads": 8)",
       "qk_dim_factor: got 0.5, of hidden_size 24 that is 12; expected a multiple of num_heads (8)"},
      {R"("weight_mode": "fused")", "weight_mode: got fused, expected single"},
      {R"("use_bias": true)", "use_bias: got true, expected false"},
      {R"("tie_word_embeddings": true)", "tie_word_embeddings: got true, expected false"},
      {R"("add_out_norm": false)", "add_out_norm: got false, expected true"},
      {R"("add_qk_norm": true)", "add_qk_norm: got true, expected false"},
      {R"("gate_soft_cap": 0)", "gate_soft_cap: got 0"},
      {R"("hidden_size": 2000000000, "num_hidden_layers": 9000)", "hidden_size"},
      {R"("max_position_embeddings": 2048)", "max_position_embeddings: no such option"}};
  kXlstm.expect_problems(cases, /*alone=*/false);
}

TEST(XLstmConfigs, OfPublishedFilesAreRead) {  // NX-AI/xLSTM-7b's keys
  EXPECT_EQ(kXlstm.problem_with(R"("add_embedding_dropout": false, "add_forward_backend_padding": false,
      "add_out_norm": true, "add_post_blocks_norm": true, "add_post_norm": false, "add_qk_norm": false,
      "architectures": ["xLSTMForCausalLM"], "autocast_kernel_dtype": "bfloat16", "bos_token_id": 0,
      "cell_norm_eps": 1e-06, "chunk_size": 64, "chunkwise_kernel": "chunkwise--triton_xl_chunk",
      "embedding_dim": 4096, "eos_token_id": 2, "eps": 1e-06, "ffn_proj_factor": 2.667,
      "ffn_round_up_to_multiple_of": 64, "force_bos_token_insert": true, "gate_soft_cap": 15.0, "head_dim": 512,
      "igate_bias_init_range": -10.0, "inference_state_dtype": "float32", "mlstm_round_up_to_multiple_of": 64,
      "mode": "inference", "norm_eps": 1e-06, "norm_reduction_force_float32": true, "num_blocks": 32, "num_heads": 8,
      "output_logit_soft_cap": 30.0, "pad_token_id": 1, "qk_dim_factor": 0.5, "return_last_states": true,
      "sequence_kernel": "native_sequence__triton", "step_kernel": "triton", "tie_word_embeddings": false,
      "torch_dtype": "float32", "use_bias": false, "use_cache": true, "v_dim_factor": 1.0, "vocab_size": 50304,
      "weight_mode": "single")"),
            "no error");
}

TEST(XLstm, FreshWeightsAreThoseOfTransformers) {
  const auto model = kXlstm.with(R"("hidden_size": 64, "num_heads": 4, "num_hidden_layers": 2, "vocab_size": 500)");
  init_weights(*model, 1, Precision::fp32);
  std::map<std::string, Tensor> weights;
  model->each_weight([&](const std::string& name, Weight& weight) { weights[name] = weight.use(); });
  const std::string layer = "backbone.blocks.1.mlstm_layer.", mlp = "backbone.blocks.1.ffn.";
  EXPECT_TRUE(weights.at(layer + "igate_preact.bias").equal(at::full({4}, -10.0f)));
  EXPECT_TRUE(weights.at(layer + "fgate_preact.bias").equal(at::linspace(3, 6, 4)));
  for (const std::string& name : {layer + "igate_preact.weight", layer + "fgate_preact.weight",
                                  layer + "ogate_preact.weight", mlp + "proj_up_gate.weight"})
    EXPECT_EQ(largest(weights.at(name)), 0) << name;
  const auto expect_std = [&](const std::string& name, double expected) {
    EXPECT_NEAR(weights.at(name).std().item<double>(), expected, expected / 15) << name;
  };
  for (const std::string& name : {std::string("lm_head.weight"), std::string("backbone.embeddings.weight"),
                                  layer + "q.weight", layer + "v.weight", mlp + "proj_up.weight"})
    expect_std(name, std::sqrt(2.0 / (5 * 64)));
  expect_std(layer + "out_proj.weight", 2.0 / 2 / std::sqrt(64.0));
  expect_std(mlp + "proj_down.weight", 2.0 / 2 / std::sqrt(192.0));
}

TEST(XLstm, MemoriesGoWithTheirRows) {
  // Rows, layers, bytes; of four heads values, keys and m.
  expect_rows_keep_their_past(*Golden("xlstm", kDecoders).model(), 3 * 2 * 4 * (4 * 3 * 6 + 4 * 3 + 4));
}

}  // namespace
}  // namespace hone::test
