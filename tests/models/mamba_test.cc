// Hybrids with state spaces: their configurations, their fresh weights, their adapters, and what they keep in
// generation. What they compute: decoders_golden_test.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/files.h"
#include "hone/adapter.h"
#include "hub/adapter_files.h"
#include "models/by_cache.h"
#include "models/small_config.h"
#include "nn/lora.h"

namespace hone::test {
namespace {

// Small ones, three layers unless they are four.
nlohmann::json small_mamba(const std::string& type) {
  nlohmann::json json{{"model_type", type}, {"vocab_size", 90}, {"hidden_size", 24}};
  if (type == "mamba2") {
    json.update({{"num_hidden_layers", 3}, {"num_heads", 6}, {"head_dim", 8}, {"n_groups", 2}});
    return json;
  }
  if (type == "mamba" || type == "falcon_mamba") {
    json["num_hidden_layers"] = 3;
    return json;
  }
  json.update({{"intermediate_size", 40}, {"num_attention_heads", 4}, {"num_key_value_heads", 2}});
  if (type == "nemotron_h")
    json.update({{"mamba_num_heads", 6}, {"mamba_head_dim", 8}, {"n_groups", 2}, {"head_dim", 8}});
  else if (type == "jamba")
    json.update({{"num_hidden_layers", 3}, {"attn_layer_period", 3}, {"attn_layer_offset", 1}, {"num_experts", 4}});
  else
    json.update({{"num_hidden_layers", 3}, {"mamba_n_heads", 6}, {"mamba_d_state", 5}});
  if (type == "falcon_h1") json["mamba_d_ssm"] = 48;
  if (type == "bamba") json.update({{"num_attention_heads", 3}, {"num_key_value_heads", 1}});
  return json;
}

std::unique_ptr<Model> mamba_of(const std::string& type, const std::string& more) {
  return SmallConfig(small_mamba(type).dump()).with(more);
}

std::string problem_of_mamba(const std::string& type, const std::string& more) {
  return SmallConfig(small_mamba(type).dump()).problem_with(more);
}

TEST(MambaConfigs, WhatTheyCannotBeIsAnError) {
  const struct {
    const char *type, *json, *expected;
  } cases[] = {
      {"granitemoehybrid", R"("layer_types": ["mamba"])", "layer_types: got 1 entries, expected num_hidden_layers (3)"},
      {"granitemoehybrid", R"("layer_types": ["mamba", "attention", "conv"])",
       "layer_types.2: got \"conv\", expected linear_attention or full_attention"},
      {"granitemoehybrid", R"("mamba_n_heads": 7)", "mamba_n_heads: 7 heads of 6 make 42"},
      {"granitemoehybrid", R"("mamba_d_head": 9)", "mamba_n_heads: 6 heads of 9 make 54"},
      {"granitemoehybrid", R"("mamba_n_groups": 4)", "mamba_n_heads: got 6, expected a multiple of the groups (4)"},
      {"granitemoehybrid", R"("mamba_d_conv": 1)", "mamba_d_conv: got 1"},
      {"granitemoehybrid", R"("time_step_limit": [0.1])", "time_step_limit: expected two numbers"},
      {"granitemoehybrid", R"("time_step_limit": [0.3, 0.1])", "time_step_limit: got 0.3 and 0.1"},
      {"granitemoehybrid", R"("position_embedding_type": "alibi")", "position_embedding_type: got alibi"},
      {"granitemoehybrid", R"("normalization_function": "layernorm")", "normalization_function: got layernorm"},
      {"granitemoehybrid", R"("num_local_experts": 1)", "num_experts_per_tok: got 2"},
      {"granitemoehybrid", R"("num_experts_per_tok": 0)", "num_experts_per_tok: got 0, expected at least 1"},
      {"granitemoehybrid", R"("hidden_act": "gelu")", "hidden_act: expected silu"},
      {"granitemoehybrid", R"("architectures": ["GraniteMoeHybridForSequenceClassification"])",
       "architectures: transformers has no classifier"},
      {"bamba", R"("attn_layer_indices": [3])", "attn_layer_indices.0: got 3, expected a layer from 0 to 2"},
      {"bamba", R"("layer_types": ["mamba", "mamba", "mamba"])", "layer_types: bamba has no such key"},
      {"bamba", R"("z_loss_coefficient": 0.1)", "z_loss_coefficient: got a number above 0"},
      {"bamba", R"("partial_rotary_factor": 1.0)", "partial_rotary_factor: expected 0.5"},
      {"falcon_h1", R"("mamba_d_ssm": 50)", "mamba_n_heads: 6 heads of 8 make 48"},
      {"falcon_h1", R"("ssm_multipliers": [1, 2])", "ssm_multipliers: got 2 numbers, expected 5"},
      {"falcon_h1", R"("mlp_multipliers": [1])", "mlp_multipliers: got 1 numbers, expected 2"},
      {"falcon_h1", R"("mamba_use_mlp": false)", "mamba_use_mlp: got false"},
      {"nemotron_h", R"("layers_block_type": ["mlp", "conv"])", "layers_block_type: got \"conv\", expected"},
      {"nemotron_h", R"("hybrid_override_pattern": "MX")", "hybrid_override_pattern: got \"X\", expected M, *, - or E"},
      {"nemotron_h", R"("hybrid_override_pattern": "MM", "layers_block_type": ["mamba", "mlp"])",
       "hybrid_override_pattern: got MM, and layers_block_type says otherwise"},
      {"nemotron_h", R"("layers_block_type": [])", "layers_block_type: expected 1 to 10000 layers"},
      {"nemotron_h", R"("mamba_num_heads": 7)", "mamba_num_heads: got 7, expected a multiple of the groups (2)"},
      {"nemotron_h", R"("tie_word_embeddings": true)", "tie_word_embeddings: got true, expected false"},
      {"nemotron_h", R"("mlp_hidden_act": "silu")", "mlp_hidden_act: expected relu2, which experts have"},
      {"nemotron_h", R"("n_routed_experts": 7, "n_group": 2)", "n_routed_experts: got 7, expected a multiple"},
      {"nemotron_h", R"("mamba_hidden_act": "gelu")", "mamba_hidden_act: got gelu, expected silu"},
      {"nemotron_h", R"("layer_types": ["mamba"])", "layer_types: nemotron_h has no such key"},
      {"mamba2", R"("num_heads": 8)", "num_heads: 8 heads of 8 make 64"},
      {"mamba2", R"("n_groups": 4)", "num_heads: got 6, expected a multiple of the groups (4)"},
      {"mamba2", R"("hidden_act": "gelu")", "hidden_act: got gelu, expected silu"},
      {"mamba2", R"("num_attention_heads": 4)", "num_attention_heads: no such option"},
      {"mamba", R"("hidden_act": "gelu")", "hidden_act: got gelu, expected silu"},
      {"mamba", R"("time_step_rank": 0)", "time_step_rank: got 0"},
      {"mamba", R"("time_step_rank": "some")", "time_step_rank: got the string \"some\", expected a whole number"},
      {"mamba", R"("time_step_min": 0.2)", "time_step_max: expected at least time_step_min"},
      {"mamba", R"("time_step_init_scheme": "zeros")", "time_step_init_scheme: got zeros, expected random or constant"},
      {"mamba", R"("mixer_rms_eps": 1e-6)", "mixer_rms_eps: no such option"},
      {"falcon_mamba", R"("conv_kernel": 1)", "conv_kernel: got 1"},
      {"jamba", R"("attn_layer_offset": 3)", "attn_layer_offset: got 3, expected less than the period (3)"},
      {"jamba", R"("expert_layer_offset": 2)", "expert_layer_offset: got 2, expected less than the period (2)"},
      {"jamba", R"("num_experts_per_tok": 5)", "num_experts_per_tok: got 5"},
      {"jamba", R"("mamba_inner_layernorms": false)", "mamba_inner_layernorms: got false, expected true"},
      {"jamba", R"("rope_theta": 1000)", "rope_theta: jamba has no such key"},
      {"jamba", R"("hidden_act": "gelu")", "hidden_act: expected silu"},
      {"jamba", R"("mamba_dt_rank": 0)", "mamba_dt_rank: got 0"}};
  for (const auto& [type, json, expected] : cases) {
    const std::string problem = problem_of_mamba(type, json);
    EXPECT_NE(problem.find(expected), std::string::npos) << json << "\n gave: " << problem;
    EXPECT_TRUE(problem.starts_with("1 problem in config.json\n")) << problem;
  }
}

// Only pairs of values that are rotated ask for an even number of them: Jamba has no positions.
TEST(MambaConfigs, HeadsThatAreNotRotatedMayBeOdd) {
  EXPECT_EQ(problem_of_mamba("jamba", R"("hidden_size": 20)"), "no error");
  EXPECT_NE(problem_of_mamba("bamba", R"("hidden_size": 15)").find("got 5, expected an even number"), std::string::npos);
  const at::NoGradGuard no_graph;
  const auto model = mamba_of("jamba", R"("hidden_size": 20)");
  init_weights(*model, 1, Precision::fp32);
  Batch batch;
  batch.ids_BT = at::arange(12).view({1, 12});
  batch.docs = {{.row = 0, .end = 7}, {.row = 0, .begin = 7, .end = 12}};
  const Tensor together = model->causal_lm()->logits(batch);
  for (const auto& [begin, end] : {std::pair{0, 7}, {7, 12}}) {
    Batch alone;
    alone.ids_BT = batch.ids_BT.slice(1, begin, end).contiguous();
    alone.docs = {{.row = 0, .end = end - begin}};
    expect_close(together.slice(1, begin, end), model->causal_lm()->logits(alone), 1e-5, "a document alone");
  }
  expect_cache_is_whole_pass(*model->causal_lm(), "heads of five");
}

// Keys of published files.
TEST(MambaConfigs, OfPublishedFilesAreRead) {
  EXPECT_EQ(problem_of_mamba("granitemoehybrid", R"("architectures": ["GraniteMoeHybridForCausalLM"],
      "attention_bias": false, "attention_dropout": 0.0, "attention_multiplier": 0.015625, "bos_token_id": 57,
      "embedding_multiplier": 12, "eos_token_id": 57, "hidden_act": "silu", "init_method": "mup",
      "initializer_range": 0.1, "layer_types": ["mamba", "mamba", "attention"], "logits_scaling": 8,
      "mamba_chunk_size": 256, "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": 8, "mamba_expand": 2,
      "mamba_n_groups": 1, "mamba_proj_bias": false, "max_position_embeddings": 131072,
      "normalization_function": "rmsnorm", "num_experts_per_tok": 0, "num_local_experts": 0,
      "output_router_logits": false, "pad_token_id": 56, "position_embedding_type": "nope",
      "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000,
      "router_aux_loss_coef": 0.01, "shared_intermediate_size": 80, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.56.0", "use_cache": true)"),
            "no error");
  EXPECT_EQ(problem_of_mamba("bamba", R"("attn_layer_indices": [1], "attn_rotary_emb": 3, "mlp_bias": false,
      "num_logits_to_keep": 1, "rope_scaling": null, "rope_theta": 10000.0, "mamba_d_head": "auto",
      "pad_token_id": 0)"),
            "no error");
  EXPECT_EQ(problem_of_mamba("falcon_h1", R"("attn_layer_indices": null, "head_dim": 6, "key_multiplier": 0.39,
      "lm_head_multiplier": 0.0195, "mamba_norm_before_gate": false, "mamba_rms_norm": false, "mamba_use_mlp": true,
      "mlp_expansion_factor": 8, "mlp_multipliers": [0.88, 0.58], "projectors_bias": false, "rope_scaling": null,
      "rope_theta": 100000000000.0, "ssm_in_multiplier": 1.25, "ssm_multipliers": [0.35, 0.25, 0.35, 0.5, 0.35],
      "ssm_out_multiplier": 0.23, "attention_in_multiplier": 1.0, "attention_out_multiplier": 0.93,
      "embedding_multiplier": 5.65, "num_logits_to_keep": 1)"),
            "no error");
}

// What Python writes, which is no JSON.
TEST(MambaConfigs, StepsMayHaveNoEnd) {
  for (const char* end : {"Infinity", R"({"__float__": "Infinity"})", "0.5"}) {
    std::string json = small_mamba("bamba").dump();
    json.insert(json.size() - 1, fmt::format(R"(, "time_step_limit": [0.25, {}])", end));
    Problems problems;
    const auto model = build_model(config::parse_json(json, "config.json", problems), "config.json");
    EXPECT_EQ(config::to_json(*model->hf_config().find("time_step_limit"), -1),
              std::string("[0.25, ") + (end == std::string("0.5") ? end : R"({"__float__": "Infinity"})") + "]");
  }
}

// As GraniteMoeHybridConfig(num_hidden_layers=2, layer_types=["mamba", "attention"]), BambaConfig(num_hidden_layers=2)
// and FalconH1Config(num_hidden_layers=2) write them.
TEST(MambaConfigs, AbsentKeysMeanWhatTheyDoInTransformers) {
  const auto made = [](const std::string& json) {
    Problems problems;
    const auto node = config::parse_json(json, "config.json", problems);
    return nlohmann::json::parse(config::to_json(build_model(node, "config.json")->hf_config(), -1));
  };
  const auto all = nlohmann::json::parse(R"({"attention_bias": false, "attention_dropout": 0.0, "hidden_act": "silu",
      "hidden_size": 4096, "initializer_range": 0.02, "mamba_chunk_size": 256, "mamba_conv_bias": true,
      "mamba_d_conv": 4, "mamba_d_state": 256, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 128,
      "mamba_proj_bias": false, "num_attention_heads": 32, "num_hidden_layers": 2, "tie_word_embeddings": false,
      "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
      "time_step_limit": [0.0, {"__float__": "Infinity"}], "use_cache": true})");
  const auto expect = [&](const char* json, const char* more) {
    auto expected = all;
    expected.update(nlohmann::json::parse(more));
    const auto config = made(json);
    EXPECT_EQ(config, expected) << config.dump(1) << expected.dump(1);  // as numbers: 1 is 1.0
  };
  expect(R"({"model_type": "granitemoehybrid", "num_hidden_layers": 2,
                     "layer_types": ["mamba", "attention"]})",
         R"({"architectures": ["GraniteMoeHybridForCausalLM"], "attention_multiplier": 1.0,
      "embedding_multiplier": 1.0, "intermediate_size": 11008, "layer_types": ["linear_attention", "full_attention"],
      "logits_scaling": 1.0, "mamba_d_head": 64, "max_position_embeddings": 2048, "model_type": "granitemoehybrid",
      "num_experts_per_tok": 2, "num_key_value_heads": 32, "num_local_experts": 8, "output_router_logits": false,
      "position_embedding_type": null, "residual_multiplier": 1.0, "rms_norm_eps": 1e-06,
      "router_aux_loss_coef": 0.001, "shared_intermediate_size": 1024, "vocab_size": 32000})");
  expect(R"({"model_type": "bamba", "num_hidden_layers": 2})",
         R"({"architectures": ["BambaForCausalLM"], "attn_layer_indices": null, "intermediate_size": 14336,
      "mamba_d_head": 64, "max_position_embeddings": 262144, "mlp_bias": false, "model_type": "bamba",
      "num_key_value_heads": 8, "num_logits_to_keep": 1, "rms_norm_eps": 1e-05, "rope_parameters":
      {"partial_rotary_factor": 0.5, "rope_theta": 10000.0, "rope_type": "default"}, "vocab_size": 128000,
      "z_loss_coefficient": 0.0})");
  expect(R"({"model_type": "falcon_h1", "num_hidden_layers": 2})",
         R"({"architectures": ["FalconH1ForCausalLM"], "attention_in_multiplier": 1.0,
      "attention_out_multiplier": 1.0, "embedding_multiplier": 1.0, "intermediate_size": 14336, "key_multiplier": 1.0,
      "lm_head_multiplier": 1.0, "mamba_d_head": 8, "mamba_d_ssm": 1024, "mamba_norm_before_gate": true,
      "mamba_rms_norm": false, "max_position_embeddings": 8192, "mlp_bias": false, "mlp_multipliers": [1.0, 1.0],
      "model_type": "falcon_h1", "num_key_value_heads": 8, "num_logits_to_keep": 1, "projectors_bias": false,
      "rms_norm_eps": 1e-05, "ssm_in_multiplier": 1.0, "ssm_multipliers": [1.0, 1.0, 1.0, 1.0, 1.0],
      "ssm_out_multiplier": 1.0, "vocab_size": 128000})");
}

TEST(Mamba, FreshWeightsAreThoseOfTransformers) {
  const auto model =
      mamba_of("granitemoehybrid", R"("hidden_size": 200, "mamba_n_heads": 50, "mamba_proj_bias": true)");
  init_weights(*model, 1, Precision::fp32);
  std::map<std::string, Tensor> weights;
  model->each_weight([&](const std::string& name, Weight& weight) { weights[name] = weight.use(); });
  const std::string layer = "model.layers.0.mamba.";
  for (const char* name : {"dt_bias", "D"}) EXPECT_TRUE(weights.at(layer + name).equal(at::ones({50}))) << name;
  EXPECT_TRUE(weights.at(layer + "norm.weight").equal(at::ones({400})));
  const Tensor rates = at::arange(1, 51).to(at::kFloat).log();
  EXPECT_LE(largest(weights.at(layer + "A_log") - rates), 1e-6);
  for (const char* name : {"conv1d.weight", "in_proj.weight", "out_proj.weight"})
    EXPECT_NEAR(weights.at(layer + name).std().item<double>(), 0.02, 0.002) << name;
  for (const char* name : {"conv1d.bias", "in_proj.bias", "out_proj.bias"})
    EXPECT_EQ(largest(weights.at(layer + name)), 0) << name;
}

// Of channels: each has the same rates, and steps of its own.
TEST(Mamba, FreshChannelsAreThoseOfTransformers) {
  const auto model = mamba_of("mamba", R"("hidden_size": 320, "state_size": 7, "use_bias": true)");
  init_weights(*model, 1, Precision::fp32);
  std::map<std::string, Tensor> weights;
  model->each_weight([&](const std::string& name, Weight& weight) { weights[name] = weight.use(); });
  const std::string layer = "backbone.layers.1.mixer.";
  const Tensor rates = at::arange(1, 8).to(at::kFloat).log();
  EXPECT_LE(largest(weights.at(layer + "A_log") - rates.expand({640, 7})), 1e-6);
  EXPECT_TRUE(weights.at(layer + "D").equal(at::ones({640})));
  const Tensor steps = at::softplus(weights.at(layer + "dt_proj.bias"));
  EXPECT_GE(steps.min().item<double>(), 0.00099);
  EXPECT_LE(steps.max().item<double>(), 0.1001);
  const std::pair<const char*, double> deviations[] = {{"in_proj.weight", 0.1},
                                                       {"x_proj.weight", 0.1},
                                                       {"dt_proj.weight", 1 / std::sqrt(3 * 20.0)},
                                                       {"conv1d.weight", 1 / std::sqrt(3 * 4.0)},
                                                       {"out_proj.weight", 1 / std::sqrt(3 * 640.0)}};
  for (const auto& [name, deviation] : deviations)
    EXPECT_NEAR(weights.at(layer + name).std().item<double>(), deviation, 0.05 * deviation) << name;
}

// Steps whose logarithms lie evenly, as softplus makes them of their biases.
TEST(Mamba, FreshStepsAreThoseOfTransformers) {
  for (const char* type : {"nemotron_h", "mamba2"}) {
    const bool alone = type == std::string("mamba2");
    const auto model = mamba_of(type, alone ? R"("hidden_size": 400, "num_heads": 400, "head_dim": 2)"
                                            : R"("mamba_num_heads": 400, "layers_block_type": ["mamba"])");
    init_weights(*model, 1, Precision::fp32);
    std::map<std::string, Tensor> weights;
    model->each_weight([&](const std::string& name, Weight& weight) { weights[name] = weight.use(); });
    const Tensor steps = at::softplus(weights.at("backbone.layers.0.mixer.dt_bias"));
    EXPECT_GE(steps.min().item<double>(), 0.00099) << type;
    EXPECT_LE(steps.max().item<double>(), 0.1001) << type;
    EXPECT_NEAR(steps.log().mean().item<double>(), std::log(0.01), 0.2) << type;
    const double read = alone ? 800 : 3200;
    EXPECT_NEAR(weights.at("backbone.layers.0.mixer.out_proj.weight").std().item<double>(), 1 / std::sqrt(3 * read),
                0.1 / std::sqrt(3 * read))
        << type;
  }
}

TEST(Mamba, StatesGoWithTheirRows) {
  // Rows and bytes; two layers with six heads' states and three tokens of 68 channels, one with keys and values of two
  // heads, with room for 16 tokens.
  expect_rows_keep_their_past(*Golden("granitemoehybrid", kDecoders).model(),
                              3 * 4 * (2 * (6 * 5 * 8 + 3 * 68) + 2 * 2 * 16 * 6));
  // Three layers with 48 channels, of which each has five states, and three tokens of theirs.
  expect_rows_keep_their_past(*Golden("mamba", kDecoders).model(), 3 * 4 * 3 * (48 * 5 + 3 * 48));
  // Two layers with both.
  expect_rows_keep_their_past(*Golden("falcon_h1-plain", kDecoders).model(),
                              3 * 4 * 2 * (6 * 5 * 8 + 3 * 58 + 2 * 2 * 16 * 6));
}

// A step that goes by the cache's keys and values alone would lose what states keep, also where they lie beside these.
TEST(Mamba, NoStepGoesWithoutItsStates) {
  const at::NoGradGuard no_graph;
  for (const char* type : {"granitemoehybrid", "falcon_h1", "mamba", "jamba"}) {
    const auto model = mamba_of(type, "");
    init_weights(*model, 1, Precision::fp32);
    nn::KvCache cache(model->causal_lm()->cache_spec(), 1);
    Batch batch;
    batch.ids_BT = at::arange(5).view({1, 5});
    batch.docs = {{.row = 0, .end = 5}};
    Pass pass(batch);
    pass.cache = &cache;
    model->forward(batch, pass);
    EXPECT_EQ(cache.room_for_one_each(), nullptr) << type;
    EXPECT_FALSE(cache.has_room_for_one_each()) << type;
  }
}

std::set<std::string> adapted(Model& model, const std::string& target) {
  LoraConfig config;
  config.targets = {target};
  apply_lora(model, config, 1);
  std::set<std::string> ends;
  each_adapter(model, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter&) {
    if (module.find("layers.0.") != module.npos) ends.insert(module.substr(module.find("layers.0.") + 9));
  });
  return ends;
}

// As PEFT's all-linear takes them.
TEST(Mamba, AdaptersAreOfLinearLayers) {
  const auto granite = mamba_of("granitemoehybrid", R"("num_local_experts": 0)");
  init_weights(*granite, 1, Precision::fp32);
  EXPECT_EQ(adapted(*granite, "all-linear"),
            (std::set<std::string>{"mamba.in_proj", "mamba.out_proj", "shared_mlp.input_linear",
                                   "shared_mlp.output_linear"}));
}

// PEFT refuses adapters there, for fast kernels take the weight by itself.
TEST(Mamba, AdaptersAreWherePeftHasThem) {
  const auto model = mamba_of("falcon_h1", "");
  init_weights(*model, 1, Precision::fp32);
  EXPECT_EQ(adapted(*model, "all-linear"),
            (std::set<std::string>{"mamba.in_proj", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                   "self_attn.o_proj", "feed_forward.gate_proj", "feed_forward.up_proj",
                                   "feed_forward.down_proj"}));
  const auto other = mamba_of("falcon_h1", "");
  init_weights(*other, 1, Precision::fp32);
  try {
    adapted(*other, "out_proj");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("adapter.targets: \"out_proj\": PEFT has no adapters there in falcon_h1"),
              std::string::npos)
        << error.what();
  }
}

// What steps are made by transformers takes by itself, so that an adapter there would do nothing.
TEST(Mamba, AdaptersOfChannelsAreWherePeftHasThem) {
  const auto jamba = mamba_of("jamba", "");
  init_weights(*jamba, 1, Precision::fp32);
  EXPECT_EQ(adapted(*jamba, "all-linear"),
            (std::set<std::string>{"mamba.in_proj", "mamba.x_proj", "mamba.out_proj", "feed_forward.gate_proj",
                                   "feed_forward.up_proj", "feed_forward.down_proj"}));
  const auto mamba = mamba_of("falcon_mamba", "");
  init_weights(*mamba, 1, Precision::fp32);
  EXPECT_EQ(adapted(*mamba, "all-linear"), (std::set<std::string>{"mixer.in_proj", "mixer.x_proj"}));
  for (const auto& [type, target] : {std::pair{"mamba", "out_proj"}, {"mamba", "dt_proj"}, {"jamba", "dt_proj"}}) {
    const auto model = mamba_of(type, "");
    init_weights(*model, 1, Precision::fp32);
    EXPECT_THROW(adapted(*model, target), Error) << type << " " << target;
  }
}

// Of Nemotron-H's files the body has another name than in memory, where PEFT finds it.
TEST(Mamba, AdaptersOfNemotronHHaveThePeftNames) {
  const TempFolder root;
  const auto model = mamba_of("nemotron_h", R"("layers_block_type": ["mamba", "mlp", "attention"])");
  init_weights(*model, 1, Precision::fp32);
  hub::AdapterConfig config;
  config.lora.targets = {"in_proj", "q_proj", "up_proj"};
  config.lora.modules_to_save = {"norm_f"};
  apply_lora(*model, config.lora, 1);
  hub::save_adapter_folder(root / "adapter", *model, config, {}, {});
  const auto tensors = read_all(root / "adapter" / "adapter_model.safetensors");
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) names.insert(name);
  std::set<std::string> expected{"base_model.model.model.norm_f.weight"};
  for (const char* module : {"0.mixer.in_proj", "1.mixer.up_proj", "2.mixer.q_proj"})
    for (const char* part : {"A", "B"})
      expected.insert(fmt::format("base_model.model.model.layers.{}.lora_{}.weight", module, part));
  EXPECT_EQ(names, expected);
  const auto again = mamba_of("nemotron_h", R"("layers_block_type": ["mamba", "mlp", "attention"])");
  init_weights(*again, 1, Precision::fp32);
  load_adapter(*again, root / "adapter");
  std::map<std::string, Tensor> read;
  each_adapter(*again, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter& adapter) {
    adapter.each_weight([&](const std::string& name, Weight& weight) { read[module + "." + name] = weight.use(); });
  });
  ASSERT_EQ(read.size(), 6u);
  for (const auto& [name, tensor] : read)
    EXPECT_TRUE(tensor.equal(tensors.at("base_model.model.model." + name.substr(std::string("backbone.").size()))))
        << name;
}

}  // namespace
}  // namespace hone::test
