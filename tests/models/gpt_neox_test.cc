// GPT-NeoX's configuration. What it computes: decoders_golden_test.cc.
#include <gtest/gtest.h>

#include "hone/adapter.h"
#include "models/golden.h"
#include "models/small_config.h"

namespace hone::test {
namespace {

const SmallConfig kSmallNeox(R"({"model_type": "gpt_neox", "num_hidden_layers": 2})");

TEST(GptNeoXConfigs, WhatItCannotBeIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("hidden_size": 64, "num_attention_heads": 6)", "hidden_size: got 64, expected a multiple"},
      {R"("hidden_size": 12, "num_attention_heads": 4)", "hidden_size: got 12, of which a head has 3"},
      {R"("hidden_size": 64, "num_attention_heads": 4, "rotary_pct": 0.2)", "partial_rotary_factor: got 0.2"},
      {R"("hidden_act": "tanh")", "hidden_act: got \"tanh\""},
      {R"("num_key_value_heads": 2)", "num_key_value_heads: no such option"}};
  kSmallNeox.expect_problems(cases, /*alone=*/false);
}

TEST(GptNeoXConfigs, OfPublishedFilesAreRead) {  // Pythia's keys
  EXPECT_EQ(kSmallNeox.problem_with(R"("architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0,
      "hidden_act": "gelu", "hidden_size": 512, "initializer_range": 0.02, "intermediate_size": 2048,
      "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 8, "rotary_emb_base": 10000,
      "rotary_pct": 0.25, "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.24.0",
      "use_cache": true, "use_parallel_residual": true, "vocab_size": 50304)"),
            "no error");
}

// As PEFT: its output layer is no linear layer of the body, whatever it is called.
TEST(GptNeoX, AllLinearLeavesTheHeadOut) {
  const auto model = kSmallNeox.with(R"("hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96)");
  LoraConfig config;
  config.rank = 4;
  const LoraReport report = plan_lora(*model, config);
  EXPECT_EQ(report.adapted.size(), 8u);
  for (const std::string& module : report.adapted) EXPECT_EQ(module.find("embed_out"), std::string::npos) << module;
}

}  // namespace
}  // namespace hone::test
