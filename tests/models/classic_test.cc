// Older decoders: what their config.json may not say, what published files have, what absent keys mean, dropout, and
// which names adapters may have. What they compute: decoders_golden_test.cc.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "hone/adapter.h"
#include "models/documents.h"
#include "models/golden_checks.h"
#include "models/small_config.h"

namespace hone::test {
namespace {

SmallConfig small(const std::string& type) {
  static const std::map<std::string, std::string> sizes{
      {"opt", R"("hidden_size": 16, "ffn_dim": 24, "num_hidden_layers": 2, "num_attention_heads": 2)"},
      {"gpt_neo", R"("hidden_size": 16, "num_layers": 2, "num_heads": 2,
                     "attention_types": [[["global", "local"], 1]])"},
      {"gptj", R"("n_embd": 16, "n_layer": 2, "n_head": 2, "rotary_dim": 4)"},
      {"codegen", R"("n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4)"},
      {"bloom", R"("hidden_size": 16, "n_layer": 2, "n_head": 2)"},
      {"falcon", R"("hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2)"},
      {"mpt", R"("d_model": 16, "n_layers": 2, "n_heads": 2)"},
      {"gpt_bigcode", R"("n_embd": 16, "n_layer": 2, "n_head": 2)"},
      {"xglm", R"("d_model": 16, "ffn_dim": 24, "num_layers": 2, "attention_heads": 2)"},
      {"biogpt", R"("hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2)"},
      {"modernbert-decoder", R"("hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
                                "num_attention_heads": 2, "pad_token_id": 0)"}};
  return SmallConfig(R"({"model_type": ")" + type + R"(", "vocab_size": 32, )" + sizes.at(type) + "}");
}

TEST(ClassicDecoders, ThatCannotBeSayWhyOnce) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"opt", R"("num_attention_heads": 3)", "hidden_size: got 16, expected a multiple of num_attention_heads (3)"},
      {"opt", R"("activation_function": "tanh")", "activation_function: got \"tanh\""},
      {"opt", R"("pad_token_id": 40)", "pad_token_id: got 40, expected an id below vocab_size (32)"},
      {"opt", R"("architectures": ["OPTForTokenClassification"])",
       "architectures: transformers has no classifier of tokens of type opt"},
      {"gpt_neo", R"("attention_types": [[["global"], 3]])", "attention_types: got 3 layers, expected num_layers (2)"},
      {"gpt_neo", R"("attention_types": [["global", 2]])", "attention_types: expected lists of layers"},
      {"gpt_neo", R"("attention_types": [[["near"], 2]])", "attention_types: got near, expected global or local"},
      {"gpt_neo", R"("attention_layers": ["local", "global"])", "attention_layers: differs from attention_types"},
      {"gptj", R"("rotary_dim": 10)", "rotary_dim: got 10, expected an even number of at most 8"},
      {"gptj", R"("rotary": false)", "rotary: got false, expected true"},
      {"codegen", R"("n_head": 2)", "n_head: got 2, expected a multiple of 4"},
      {"codegen", R"("architectures": ["CodeGenForSequenceClassification"])",
       "architectures: transformers has no classifier of type codegen"},
      {"bloom", R"("num_attention_heads": 4)", "n_head: got 2, and num_attention_heads 4; they mean the same"},
      {"bloom", R"("n_embed": 8)", "n_embed: got 8, and hidden_size 16; they mean the same"},
      {"falcon", R"("num_kv_heads": 1, "multi_query": false)", "num_kv_heads: got 1, expected num_attention_heads (2)"},
      {"falcon", R"("new_decoder_architecture": true, "parallel_attn": false)", "parallel_attn: got false"},
      {"falcon", R"("num_ln_in_parallel_attn": 2)", "num_ln_in_parallel_attn: got 2, expected 1"},
      {"falcon", R"("new_decoder_architecture": true, "num_attention_heads": 4, "num_kv_heads": 3)",
       "num_kv_heads: got 3, expected a divisor"},
      {"mpt", R"("attn_config": {"alibi": false})", "attn_config.alibi: got false, expected true"},
      {"mpt", R"("attn_config": {"qk_ln": true})", "attn_config.qk_ln: got true, expected false"},
      {"mpt", R"("attn_config": {"attn_type": "multiquery_attention"})", "attn_config.attn_type: got"},
      {"mpt", R"("attn_config": {"alibi_bias_max": 4})", "attn_config.alibi_bias_max: got 4, expected 8"},
      {"mpt", R"("attn_config": {"window": 3})", "attn_config.window: no such option"},
      {"mpt", R"("no_bias": false)", "no_bias: got false, expected true"},
      {"mpt", R"("expansion_ratio": 2)", "expansion_ratio: got 2, expected 4"},
      {"mpt", R"("logit_scale": 0.5)", "logit_scale: got a number, expected null"},
      {"gpt_bigcode", R"("num_key_value_heads": 2)", "num_key_value_heads: differs from multi_query"},
      {"modernbert-decoder", R"("sliding_window": 3)", "sliding_window: differs from local_attention / 2 (64)"},
      {"modernbert-decoder", R"("layer_types": ["full_attention"])", "layer_types: got 1 layer, expected one for each"},
      {"modernbert-decoder", R"("rope_parameters": {"rope_theta": 3})",
       "rope_parameters: got \"rope_theta\", expected sections full_attention and sliding_attention"}};
  for (const auto& [type, more, expected] : cases) small(type).expect_problems(std::array{std::pair{more, expected}});
}

// Keys of published files that mean nothing, or what is so anyhow.
TEST(ClassicDecoders, OfPublishedFilesAreRead) {
  const std::pair<const char*, const char*> cases[] = {
      {"opt", R"("_remove_final_layer_norm": false, "activation_dropout": 0.0, "layerdrop": 0.0, "prefix": "</s>",
          "pad_token_id": 1, "word_embed_proj_dim": 16, "torch_dtype": "float16")"},
      {"gpt_neo", R"("attention_layers": ["global", "local"], "summary_type": "cls_index", "embed_dropout": 0,
          "gradient_checkpointing": false, "summary_use_proj": true, "summary_activation": null,
          "summary_first_dropout": 0.1, "summary_proj_to_labels": true)"},
      {"gptj", R"("rotary": true, "gradient_checkpointing": false, "scale_attn_weights": true,
          "summary_type": "cls_index", "n_inner": null, "tokenizer_class": "GPT2Tokenizer")"},
      {"codegen", R"("n_ctx": 2048, "gradient_checkpointing": false, "scale_attn_weights": true)"},
      {"bloom", R"("attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "masked_softmax_fusion": true,
          "n_inner": null, "num_attention_heads": 2, "n_embed": 16, "offset_alibi": 100, "pretraining_tp": 4,
          "seq_length": 2048, "skip_bias_add": true, "skip_bias_add_qkv": false, "slow_but_exact": false,
          "unk_token_id": 0, "pad_token_id": 3)"},
      {"falcon", R"("apply_residual_connection_post_layernorm": false, "ff_factor": 4, "rope_theta": 500042.0,
          "rope_scaling": null, "new_decoder_architecture": true, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1)"},
      {"mpt", R"("attn_config": {"alibi": true, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
          "attn_type": "multihead_attention", "attn_uses_sequence_id": false, "clip_qkv": null, "prefix_lm": false,
          "qk_ln": false, "softmax_scale": null}, "init_config": {"name": "kaiming_normal_"}, "verbose": 0,
          "learned_pos_emb": true, "tokenizer_name": "EleutherAI/gpt-neox-20b", "resid_pdrop": 0, "emb_pdrop": 0)"},
      {"gpt_bigcode", R"("attention_softmax_in_fp32": true, "scale_attention_softmax_in_fp32": true,
          "inference_runner": 0, "max_batch_size": null, "pad_key_length": true, "pre_allocate_kv_cache": false,
          "validate_runner_input": true, "summary_type": "cls_index")"},
      {"xglm", R"("activation_dropout": 0, "layerdrop": 0.0, "decoder_start_token_id": 2)"},
      {"biogpt", R"("activation_dropout": 0.0, "layerdrop": 0.0, "layer_norm_eps": 1e-12)"},
      {"modernbert-decoder", R"("global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
          "local_rope_theta": 10000.0, "classifier_pooling": "mean", "deterministic_flash_attn": false,
          "layer_norm_eps": 1e-5, "position_embedding_type": "absolute", "sparse_prediction": false)"}};
  for (const auto& [type, more] : cases) EXPECT_EQ(small(type).problem_with(more), "no error") << type;
}

// What transformers takes for keys that are absent.
TEST(ClassicDecoders, AbsentKeysMeanWhatTheyDoInTransformers) {
  const auto expect_told = [](const char* type, const std::vector<const char*>& parts) {
    const std::string told = config::to_json(small(type).with("")->hf_config(), -1);
    for (const char* part : parts) EXPECT_THAT(told, testing::HasSubstr(part)) << type;
  };
  expect_told("opt", {R"("dropout": 0.1)", R"("pad_token_id": 1)", R"("word_embed_proj_dim": 16)"});
  expect_told("gpt_neo", {R"("attention_layers": ["global", "local"])", R"("window_size": 256)"});
  expect_told("codegen", {R"("n_ctx": 2048)", R"(["CodeGenForCausalLM"])"});
  expect_told("falcon", {R"("num_kv_heads": 2)", R"("ffn_hidden_size": 64)", R"("rope_type": "default")"});
  expect_told("gpt_bigcode", {R"("num_key_value_heads": 1)", R"("attn_pdrop": 0.1)"});
  expect_told("modernbert-decoder", {R"("sliding_window": 64)", R"("rope_theta": 160000.0)"});
}

// In training alone, other parts with another seed, and the same with the same one.
TEST(ClassicDecoders, DropWhatTheirConfigurationsSay) {
  const std::pair<const char*, const char*> cases[] = {
      {"opt", R"("dropout": 0.3)"},
      {"opt", R"("dropout": 0.0, "attention_dropout": 0.3)"},
      {"gpt_neo", R"("resid_dropout": 0.3)"},
      {"gpt_neo", R"("embed_dropout": 0.3)"},
      {"gptj", R"("attn_pdrop": 0.3)"},
      {"codegen", R"("resid_pdrop": 0.3)"},
      {"bloom", R"("hidden_dropout": 0.3)"},
      {"bloom", R"("attention_dropout": 0.3)"},
      {"falcon", R"("hidden_dropout": 0.3)"},
      {"falcon", R"("alibi": true, "attention_dropout": 0.3)"},
      {"falcon", R"("parallel_attn": false, "attention_dropout": 0.3)"},
      {"mpt", R"("attn_config": {"attn_pdrop": 0.3})"},
      {"gpt_bigcode", R"("resid_pdrop": 0.0, "embd_pdrop": 0.0)"},
      {"xglm", R"("dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.3)"},
      {"biogpt", R"("hidden_dropout_prob": 0.0)"},
      {"modernbert-decoder", R"("mlp_dropout": 0.3)"},
      {"modernbert-decoder", R"("embedding_dropout": 0.3)"}};
  for (const auto& [type, more] : cases) {
    const auto model = small(type).with(more);
    init_weights(*model, 3, Precision::fp32);
    const Batch batch = three_documents(true, 31);
    const auto made = [&](bool training, std::uint64_t seed) {
      const at::NoGradGuard no_graph;
      Pass pass(batch);
      pass.training = training, pass.seed = seed;
      return model->forward(batch, pass).hidden_BTD;
    };
    EXPECT_FALSE(at::allclose(made(false, 1), made(true, 1))) << type << more;
    EXPECT_FALSE(at::allclose(made(true, 2), made(true, 1))) << type << more;
    EXPECT_TRUE(at::equal(made(true, 1), made(true, 1))) << type << more;
  }
  // Where heads are rotated transformers drops none of Falcon's weights of attention, though the key is there.
  const auto falcon = small("falcon").with(R"("attention_dropout": 0.3)");
  init_weights(*falcon, 3, Precision::fp32);
  const Batch batch = three_documents(true, 31);
  Pass plain(batch), training(batch);
  training.training = true, training.seed = 1;
  const at::NoGradGuard no_graph;
  EXPECT_TRUE(at::equal(falcon->forward(batch, plain).hidden_BTD, falcon->forward(batch, training).hidden_BTD));
}

// As PEFT: every linear layer but the head.
TEST(ClassicDecoders, AllLinearIsEveryLinearLayer) {
  const std::pair<const char*, std::size_t> counts[] = {
      {"opt", 12}, {"gpt_neo", 12}, {"gptj", 12}, {"codegen", 8}, {"bloom", 8}, {"falcon", 8},
      {"mpt", 8},  {"gpt_bigcode", 8}, {"xglm", 12}, {"biogpt", 12}, {"modernbert-decoder", 13}};
  for (const auto& [type, count] : counts) {
    const auto model = small(type).with("");
    LoraConfig config;
    config.rank = 4;
    EXPECT_EQ(plan_lora(*model, config).adapted.size(), count) << type;
  }
}

// Masks and waves that old folders hold are no weights.
TEST(ClassicDecoders, WhatOldFoldersHoldBesidesIsPassedOver) {
  EXPECT_TRUE(small("gpt_neo").with("")->is_no_weight("transformer.h.1.attn.attention.masked_bias"));
  EXPECT_TRUE(small("gptj").with("")->is_no_weight("transformer.h.1.attn.bias"));
  EXPECT_TRUE(small("codegen").with("")->is_no_weight("transformer.h.1.attn.causal_mask"));
  EXPECT_TRUE(small("opt").with("")->is_no_weight("model.decoder.version"));
  EXPECT_TRUE(small("xglm").with("")->is_no_weight("model.embed_positions.weights"));
  for (const char* type : {"gpt_neo", "gptj", "codegen", "gpt_bigcode", "xglm"}) {
    const auto model = small(type).with("");
    model->each_weight([&](const std::string& name, Weight&) { EXPECT_FALSE(model->is_no_weight(name)) << name; });
  }
}

}  // namespace
}  // namespace hone::test
