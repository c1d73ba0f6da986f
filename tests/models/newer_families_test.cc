// Decoders that came later: what their config.json may not say, what published files have, what absent keys mean, what
// their routers keep, and which names adapters may have. What they compute: decoders_golden_test.cc.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/files.h"
#include "hone/adapter.h"
#include "models/golden_checks.h"
#include "models/small_config.h"
#include "models/write_tensors.h"

namespace hone::test {
namespace {

const SmallConfig kSmallNewer(R"({"vocab_size": 64, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2})");

const std::string kCohere = R"("model_type": "cohere2_moe", )";
const std::string kMistral4 = R"("model_type": "mistral4", "num_key_value_heads": 2, "n_routed_experts": 8, )";
const std::string kExaoneMoe = R"("model_type": "exaone_moe", "num_experts": 8, )";
const std::string kHy = R"("model_type": "hy_v3", "num_experts": 8, )";

TEST(NewerFamilies, ThatCannotBeSayWhyOnce) {
  const std::string internlm = R"("model_type": "internlm3", )", coder = R"("model_type": "iquestcoder", )",
                    jais = R"("model_type": "jais2", )", vault = R"("model_type": "vaultgemma", )",
                    solar = R"("model_type": "solar_open", )", mellum = R"("model_type": "mellum", )",
                    lfm3 = R"("model_type": "lfm3", )", olmo = R"("model_type": "olmo_hybrid", )",
                    nano = R"("model_type": "nanochat", )";
  const std::pair<std::string, std::string> cases[] = {
      {internlm + R"("qkv_bias": true)", "qkv_bias: got true, expected false, as bias says"},
      {internlm + R"("attention_bias": true, "qkv_bias": false)", "qkv_bias: differs from attention_bias"},
      {internlm + R"("mlp_bias": true, "bias": false)", "bias: differs from mlp_bias"},
      {internlm + R"("layer_types": ["full_attention", "full_attention"])", "layer_types: internlm3 has no such key"},
      {coder + R"("clip_qkv": 8.0)", "clip_qkv: got a number, expected null"},
      {coder + R"("use_sliding_window": true)", "use_sliding_window: got true, expected false"},
      {jais + R"("rms_norm_eps": 1e-5)", "rms_norm_eps: jais2 has no such key"},
      {jais + R"("hidden_act": "tanh")", "hidden_act: got \"tanh\""},
      {vault + R"("use_bidirectional_attention": true)", "use_bidirectional_attention: got true"},
      {vault + R"("rope_local_base_freq": 3)", "rope_local_base_freq: vaultgemma has no such key"},
      {vault + R"("num_attention_heads": 3, "num_key_value_heads": 3)", "hidden_size: got 16, expected a multiple"},
      {solar + R"("use_qk_norm": true)", "use_qk_norm: got true, expected false"},
      {solar + R"("first_k_dense_replace": 1)", "first_k_dense_replace: solar_open has no such key"},
      {solar + R"("scoring_func": "softmax")", "scoring_func: got \"softmax\", expected sigmoid"},
      {solar + R"("n_group": 3)", "n_routed_experts: got 128, expected a multiple of n_group (3)"},
      {kExaoneMoe + R"("sliding_window": null)", "sliding_window: got null, expected a number"},
      {kExaoneMoe + R"("n_group": 3)", "num_experts: got 8, expected a multiple of n_group (3)"},
      {kExaoneMoe + R"("n_routed_experts": 4)", "n_routed_experts: exaone_moe has no such key"},
      {kExaoneMoe + R"("mlp_layer_types": ["sparse"])", "mlp_layer_types: got 1 entries, expected"},
      {kExaoneMoe + R"("is_moe_layer": [true, true])", "is_moe_layer: differs from mlp_layer_types"},
      {kExaoneMoe + R"("sliding_window_pattern": "LLLG")", "sliding_window_pattern: "},
      {kHy + R"("routed_scaling_factor": 2.0)", "routed_scaling_factor: hy_v3 has no such key"},
      {kHy + R"("qk_norm": false)", "qk_norm: got false, expected true"},
      {kHy + R"("route_norm": false)", "route_norm: got false, expected true"},
      {kHy + R"("expert_hidden_dim": 9)", "expert_hidden_dim: got 9, expected moe_intermediate_size (1536)"},
      {kHy + R"("first_k_dense_replace": 2)", "first_k_dense_replace: hy_v3 has no such key"},
      {kHy + R"("num_experts_per_tok": 9)", "num_experts_per_tok: got 9, expected at most"},
      {kMistral4 + R"("rope_parameters": {"rope_type": "yarn", "factor": 2.0})",
       "rope_parameters.llama_4_scaling_beta: missing; mistral4 needs it"},
      {kMistral4 + R"("rope_parameters": {"rope_type": "default", "llama_4_scaling_beta": 0.1})",
       "rope_parameters.rope_type: expected yarn"},
      {kMistral4 + R"("rope_parameters": {"rope_type": "yarn", "factor": 2.0, "llama_4_scaling_beta": 0.1,
          "partial_rotary_factor": 0.25})",
       "rope_parameters.partial_rotary_factor: got 0.25, expected 0.5"},
      {kMistral4 + R"("head_dim": 64)", "head_dim: got 64, expected 128"},
      {kMistral4 + R"("topk_method": "noaux_tc")", "topk_method: got \"noaux_tc\", expected greedy"},
      {kMistral4 + R"("router_bias_update_rate": 0.1)", "router_bias_update_rate: mistral4 has no such key"},
      {mellum + R"("rope_theta": 3)", "rope_theta: mellum has no such key"},
      {mellum + R"("decoder_sparse_step": 2)", "decoder_sparse_step: mellum has no such key"},
      {mellum + R"("mlp_layer_types": ["sparse", "both"])",
       "mlp_layer_types.1: got \"both\", expected sparse or dense"},
      {mellum + R"("num_experts": 8, "num_local_experts": 9)", "num_experts: got 8, and num_local_experts 9"},
      {mellum + R"("num_nextn_predict_layers": 2)", "num_nextn_predict_layers: got 2"},
      {mellum + R"("sliding_window": null, "layer_types": ["sliding_attention", "full_attention"])",
       "layer_types.0: sliding_attention needs a sliding_window"},
      {lfm3 + R"("layer_types": ["conv", "linear_attention"])", "layer_types.1: got \"linear_attention\", expected"},
      {lfm3 + R"("rms_norm_eps": 1e-5)", "rms_norm_eps: lfm3 has no such key"},
      {lfm3 + R"("hidden_act": "gelu")", "hidden_act: got gelu, expected silu"},
      {lfm3 + R"("rope_theta": 3)", "rope_theta: lfm3 has no such key"},
      {olmo + R"("layer_types": ["linear_attention", "linear_attention"])", "layer_types: expected both"},
      {olmo + R"("layer_types": ["conv", "full_attention"])", "layer_types.0: got \"conv\", expected full_attention"},
      {olmo + R"("linear_num_key_heads": 2, "linear_num_value_heads": 3)", "linear_num_value_heads: got 3, expected"},
      {olmo + R"("linear_dt_max": 0.0001)", "linear_dt_max: got 0.0001, expected at least"},
      {olmo + R"("hidden_act": "gelu")", "hidden_act: got gelu, expected silu"},
      {kCohere + R"("expert_selection_fn": "top2")", "expert_selection_fn: got \"top2\", expected softmax or sigmoid"},
      {kCohere + R"("shared_expert_combination_strategy": "max")",
       "shared_expert_combination_strategy: got \"max\", expected average or sum"},
      {kCohere + R"("num_experts_per_tok": 9)", "num_experts_per_tok: got 9, expected at most"},
      {kCohere + R"("mlp_layer_types": ["dense"])", "mlp_layer_types: got 1 entries, expected num_hidden_layers"},
      {kCohere + R"("num_hidden_layers": 1, "sliding_window": null)",
       "layer_types.0: sliding_attention needs a sliding_window"},
      {nano + R"("final_logit_softcapping": -1)", "final_logit_softcapping: got -1"},
      {nano + R"("mlp_bias": true)", "mlp_bias: nanochat has no such key"}};
  kSmallNewer.expect_problems(cases);
}

// Keys of published files that mean nothing, or what is so anyhow.
TEST(NewerFamilies, OfPublishedFilesAreRead) {
  for (const std::string& more :
       {std::string(
            R"("model_type": "internlm3", "bias": false, "qkv_bias": false, "head_dim": 128, "rope_theta": 50000000,
           "rope_scaling": {"factor": 6.0, "rope_type": "dynamic"})"),
        std::string(R"("model_type": "iquestcoder", "clip_qkv": null, "use_sliding_window": false,
           "sliding_window": null, "head_dim": 128, "rope_theta": 500000.0, "rope_scaling": null)"),
        std::string(R"("model_type": "jais2", "attention_bias": true, "mlp_bias": true, "hidden_act": "relu2",
           "layer_norm_eps": 1e-05, "rope_theta": 500000, "head_dim": 8)"),
        std::string(R"("model_type": "vaultgemma", "attn_logit_softcapping": null, "final_logit_softcapping": null,
           "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256, "sliding_window": 512,
           "cache_implementation": "hybrid", "layer_types": ["full_attention", "full_attention"])"),
        std::string(R"("model_type": "solar_open", "intermediate_size": 10240, "first_k_dense_replace": 0,
           "use_qk_norm": false, "partial_rotary_factor": 1.0, "n_group": 1, "topk_group": 1, "rope_theta": 1000000,
           "rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 65536})"),
        kExaoneMoe + R"("first_k_dense_replace": 1, "is_moe_layer": [false, true], "scoring_func": "sigmoid",
           "topk_method": "noaux_tc", "num_nextn_predict_layers": 1, "sliding_window": 128,
           "sliding_window_pattern": "LLLG", "layer_types": ["sliding_attention", "full_attention"],
           "mlp_layer_types": ["dense", "sparse"], "num_shared_experts": 1, "rope_theta": 1000000)",
        kHy + R"("expert_hidden_dim": 1536, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "qk_norm": true,
           "route_norm": true, "router_scaling_factor": 2.826, "enable_moe_fp32_combine": false,
           "rope_parameters": {"rope_theta": 11158840.0, "rope_type": "default"})",
        kMistral4 + R"("rope_interleave": true, "topk_method": "greedy", "scoring_func": "softmax", "head_dim": 128,
           "rope_parameters": {"type": "yarn", "rope_type": "yarn", "rope_theta": 10000.0, "factor": 128.0,
           "original_max_position_embeddings": 8192, "max_position_embeddings": 1048576, "beta_fast": 32.0,
           "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
           "partial_rotary_factor": 0.5})",
        std::string(R"("model_type": "mellum", "num_experts": 64, "num_nextn_predict_layers": 1,
           "mtp_layer_types": ["sliding_attention"], "mtp_mlp_layer_types": ["sparse"],
           "layer_types": ["sliding_attention", "full_attention"], "mlp_layer_types": ["sparse", "sparse"])"),
        std::string(R"("model_type": "lfm3", "use_sandwich_norm": true, "use_attention_gate": true, "conv_bias": false,
           "layer_types": ["conv", "sliding_attention"], "norm_eps": 1e-05, "attention_bias": false)"),
        std::string(R"("model_type": "olmo_hybrid", "rope_parameters": {"rope_theta": null, "rope_type": "default"},
           "linear_allow_neg_eigval": true, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2,
           "linear_a_log_min": 0.0, "layer_types": ["linear_attention", "full_attention"])"),
        kCohere + R"("first_k_dense_replace": 1, "rms_norm_eps": null, "layer_norm_eps": 1e-05, "rope_scaling": null,
           "rope_theta": 50000.0, "prefix_dense_intermediate_size": null, "sliding_window_pattern": 2,
           "rope_parameters": {"rope_theta": 50000.0, "rope_type": "default"})",
        std::string(R"("model_type": "nanochat", "final_logit_softcapping": 15.0, "rope_theta": 10000.0,
           "hidden_act": "relu2", "attention_bias": false)")})
    EXPECT_EQ(kSmallNewer.problem_with(more), "no error") << more;
}

// What transformers takes for keys that are absent.
TEST(NewerFamilies, AbsentKeysMeanWhatTheyDoInTransformers) {
  const auto expect_told = [](const std::string& more, const std::vector<const char*>& parts) {
    const std::string told = config::to_json(kSmallNewer.with(more)->hf_config(), -1);
    for (const char* part : parts) EXPECT_THAT(told, testing::HasSubstr(part)) << more;
  };
  expect_told(R"("model_type": "internlm3")",
              {R"("head_dim": 128)", R"("mlp_bias": false)", R"(["LlamaForCausalLM"])"});
  expect_told(R"("model_type": "jais2")",
              {R"("attention_bias": true)", R"("mlp_bias": true)", R"("hidden_act": "relu2")", R"("head_dim": 8)"});
  expect_told(R"("model_type": "vaultgemma")",
              {R"("attn_logit_softcapping": 50.0)", R"("final_logit_softcapping": 30.0)",
               R"("layer_types": ["sliding_attention", "full_attention"])", R"("sliding_window": 4096)"});
  expect_told(R"("model_type": "solar_open")", {R"("n_routed_experts": 128)", R"("moe_intermediate_size": 1280)",
                                                R"("rope_theta": 1e+06)", R"("routed_scaling_factor": 1.0)"});
  expect_told(kExaoneMoe + R"("num_experts_per_tok": 2)",
              {R"("mlp_layer_types": ["dense", "sparse"])", R"("routed_scaling_factor": 2.5)",
               R"("first_k_dense_replace": 1)", R"("sliding_window": 4096)", R"("sliding_window_pattern": 4)",
               R"("layer_types": ["sliding_attention", "sliding_attention"])", R"("num_shared_experts": 1)"});
  expect_told(R"("model_type": "hy_v3")",
              {R"("num_experts": 192)", R"("mlp_layer_types": ["dense", "sparse"])", R"("initializer_range": 0.006)",
               R"("router_scaling_factor": 2.826)", R"("enable_moe_fp32_combine": true)", R"("head_dim": 128)"});
  expect_told(kMistral4 + R"("num_experts_per_tok": 2)",
              {R"("kv_lora_rank": 256)", R"("q_lora_rank": 1024)", R"("head_dim": 128)", R"("v_head_dim": 128)",
               R"("factor": 128.0)", R"("llama_4_scaling_beta": 0.1)", R"("partial_rotary_factor": 0.5)",
               R"("original_max_position_embeddings": 8192)"});
  expect_told(R"("model_type": "mellum")",
              {R"("num_local_experts": 64)", R"("moe_intermediate_size": 896)", R"("sliding_window": 1024)",
               R"("layer_types": ["full_attention", "full_attention"])", R"("norm_topk_prob": true)",
               R"("full_attention": {"rope_theta": 5e+05)", R"("sliding_attention": {"rope_theta": 10000.0)"});
  expect_told(R"("model_type": "lfm3", "num_hidden_layers": 5)",
              {R"(["conv", "conv", "full_attention", "conv", "sliding_attention"])", R"("sliding_window": 256)",
               R"("conv_L_cache": 7)", R"("rope_type": "proportional")", R"("partial_rotary_factor": 0.5)",
               R"("tie_word_embeddings": true)"});
  expect_told(R"("model_type": "olmo_hybrid")",
              {R"("linear_key_head_dim": 6)", R"("linear_value_head_dim": 12)", R"("linear_num_key_heads": 2)",
               R"(["linear_attention", "full_attention"])", R"("rope_theta": 10000.0)"});
  expect_told(kCohere + R"("first_k_dense_replace": 1)",
              {R"("layer_types": ["full_attention", "sliding_attention"])", R"("head_dim": 128)",
               R"("mlp_layer_types": ["dense", "sparse"])", R"("rms_norm_eps": null)", R"("num_shared_experts": 0)"});
  expect_told(R"("model_type": "nanochat")", {R"("final_logit_softcapping": 15.0)", R"("hidden_act": "relu2")"});
}

TEST(NewerFamilies, CorrectionsFollowTheTokens) {
  for (const std::string& more : {kExaoneMoe, kHy}) {
    const auto model = kSmallNewer.with(more + R"("num_experts_per_tok": 2, "router_bias_update_rate": 0.01)");
    init_weights(*model, 3, Precision::bf16);
    std::vector<std::string> corrections;
    model->each_weight([&](const std::string& name, Weight& weight) {
      if (weight.is_buffer()) corrections.push_back(name);
    });
    EXPECT_EQ(corrections, std::vector<std::string>{more == kHy ? "model.layers.1.mlp.expert_bias"
                                                                : "model.layers.1.mlp.e_score_correction_bias"});
    EXPECT_EQ(model->hf_config().find("router_bias_update_rate")->text(), "0.01");
  }
}

TEST(NewerFamilies, LayersThatGuessFurtherTokensArePassedOver) {
  const std::pair<const char*, const char*> cases[] = {{"exaone_moe", "mtp.layers.0.mlp.up_proj.weight"},
                                                       {"hy_v3", "model.layers.3.eh_proj.weight"},
                                                       {"mellum-plain", "mtp.layers.0.mlp.up_proj.weight"}};
  for (const auto& [name, tensor] : cases) {
    const TempFolder root;
    const Golden golden(name, kDecoders);
    std::filesystem::copy(golden.folder / "config.json", root / "config.json");
    auto tensors = read_all(golden.folder / "model.safetensors");
    tensors[tensor] = at::ones({2, 2});
    write_tensors(root / "model.safetensors", tensors);
    const std::string file = root / "config.json";
    const auto model = build_model(config::read_file(file), file);
    load_weights(*model, root.path(), Precision::fp32);
    expect_close(model->causal_lm()->logits(golden.batch()) * golden["attention_mask"].unsqueeze(-1), golden["logits"],
                 1e-5 * std::max(1.0, largest(golden["logits"])), name);
  }
}

// What transformers 5 has under other names gets none, for PEFT could not read it.
TEST(NewerFamilies, AdaptersHaveNamesThatPeftKnows) {
  const auto adapted = [](const char* name, std::vector<std::string> targets) {
    const auto model = Golden(name, kDecoders).model();
    LoraConfig lora;
    lora.rank = 2, lora.targets = std::move(targets);
    std::vector<std::string> modules = apply_lora(*model, lora, 1).adapted;
    for (std::string& module : modules) module = module.substr(module.find("layers.") + 7);
    return modules;
  };
  EXPECT_THAT(adapted("lfm3", {"all-linear"}), testing::Contains("1.self_attn.q_proj"));
  EXPECT_THAT(adapted("lfm3", {"all-linear"}), testing::Not(testing::Contains("1.self_attn.gate_proj")));
  EXPECT_THAT(adapted("hy_v3", {"all-linear"}), testing::Contains("0.mlp.gate_proj"));
  EXPECT_THAT(adapted("hy_v3", {"all-linear"}), testing::Not(testing::Contains("1.mlp.shared_mlp.gate_proj")));
  EXPECT_THAT(adapted("olmo_hybrid", {"all-linear"}), testing::Contains("0.linear_attn.g_proj"));
  EXPECT_THAT(adapted("mistral4", {"all-linear"}), testing::Contains("1.self_attn.kv_b_proj"));
  EXPECT_THAT(adapted("nanochat", {"all-linear"}), testing::Contains("0.mlp.fc1"));
  EXPECT_HONE_ERROR(adapted("lfm3", {"gate_proj"}), config, "not for LFM3's gates of heads");
  EXPECT_HONE_ERROR(adapted("hy_v3", {".*shared_mlp.up_proj"}), config, "not for Hy3's shared experts");
}

TEST(NewerFamilies, HaveTheClassifiersOfTransformers) {
  for (const char* architecture : {"Mistral4ForSequenceClassification", "Mistral4ForTokenClassification"}) {
    const auto model = kSmallNewer.with(kMistral4 + R"("num_experts_per_tok": 2, "id2label": {"0": "a", "1": "b"},
                                "architectures": [")" +
                                architecture + R"("])");
    ASSERT_TRUE(model->classifier());
    EXPECT_EQ(model->hf_config().find("architectures")->items().at(0).text(), architecture);
  }
  for (const char* type : {"internlm3", "iquestcoder", "jais2", "vaultgemma", "solar_open", "exaone_moe", "hy_v3",
                           "mellum", "lfm3", "olmo_hybrid", "nanochat", "cohere2_moe", "granitemoeshared"})
    EXPECT_NE(kSmallNewer.problem_with(std::string(R"("model_type": ")") + type +
                               R"(", "architectures": ["XForSequenceClassification"])")
                  .find(std::string("transformers has no classifier of type ") + type),
              std::string::npos)
        << type;
}

}  // namespace
}  // namespace hone::test
