// Relatives of Llama whose config.json says what no other's does: what is refused, what published files have, what
// absent keys mean, and what training drops. What they compute: decoders_golden_test.cc.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/golden.h"
#include "models/small_config.h"

namespace hone::test {
namespace {

const SmallConfig kRelative(R"({"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2})");

TEST(Relatives, ThatCannotBeSayWhyOnce) {
  const std::pair<std::string, std::string> cases[] = {
      {R"("model_type": "ministral3", "rope_parameters": {"rope_theta": 100.0})",
       "rope_parameters.llama_4_scaling_beta: missing; ministral3 needs it"},
      {R"("model_type": "ministral3", "rope_parameters": {"rope_theta": 100.0, "llama_4_scaling_beta": 0.1})",
       "rope_parameters.original_max_position_embeddings: missing; ministral3 needs it"},
      {R"("model_type": "ministral3", "rope_scaling": {"type": "yarn", "factor": 2.0, "llama_4_scaling_beta": -1})",
       "rope_scaling.llama_4_scaling_beta: got -1"},
      {R"("model_type": "ministral3", "rope_parameters": {"rope_type": "dynamic", "factor": 2.0,
          "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 8})",
       "rope_parameters.rope_type: expected default, linear, llama3 or yarn"},
      {R"("model_type": "ministral3", "layer_types": ["full_attention", "full_attention"])",
       "layer_types: ministral3 has no such key"},
      {R"("model_type": "ministral", "sliding_window": null, "layer_types": ["sliding_attention", "full_attention"])",
       "layer_types.0: sliding_attention needs a sliding_window"},
      {R"("model_type": "olmoe", "num_experts": 4)", "num_experts_per_tok: got 8, expected at most as many"},
      {R"("model_type": "olmoe", "head_dim": 6)", "head_dim: got 6, expected hidden_size / num_attention_heads (8)"},
      {R"("model_type": "olmoe", "clip_qkv": 0)", "clip_qkv: got 0"},
      {R"("model_type": "olmoe", "mlp_bias": true)", "mlp_bias: olmoe has no such key"},
      {R"("model_type": "olmoe", "architectures": ["OlmoeForSequenceClassification"])",
       "architectures: transformers has no classifier of type olmoe"},
      {R"("model_type": "ernie4_5", "attention_bias": true)", "attention_bias: ernie4_5 has no such key"},
      {R"("model_type": "ernie4_5", "attention_dropout": 0.1)", "attention_dropout: ernie4_5 has no such key"},
      {R"("model_type": "cohere", "rms_norm_eps": 1e-5)", "rms_norm_eps: cohere has no such key"},
      {R"("model_type": "cohere", "sliding_window_pattern": 2)", "sliding_window_pattern: cohere has no such key"},
      {R"("model_type": "cohere", "logit_scale": 0)", "logit_scale: got 0"},
      {R"("model_type": "cohere2", "use_qk_norm": true)", "use_qk_norm: cohere2 has no such key"},
      {R"("model_type": "cohere2", "use_parallel_block": false)", "use_parallel_block: got false, expected true"},
      {R"("model_type": "cohere2", "rotary_pct": 0.5)", "rotary_pct: got 0.5, expected 1"},
      {R"("model_type": "cohere2", "head_dim": 6)", "head_dim: got 6, expected hidden_size / num_attention_heads (8)"},
      {R"("model_type": "cohere2", "sliding_window": null, "num_hidden_layers": 1)",
       "layer_types.0: sliding_attention needs a sliding_window"},
      {R"("model_type": "starcoder2", "residual_dropout": 1)", "residual_dropout: got 1"},
      {R"("model_type": "starcoder2", "rms_norm_eps": 1e-5)", "rms_norm_eps: starcoder2 has no such key"},
      {R"("model_type": "seed_oss", "residual_dropout": -0.1)", "residual_dropout: got -0.1"},
      {R"("model_type": "seed_oss", "layer_types": ["full_attention"])", "layer_types: seed_oss has no such key"},
      {R"("model_type": "hunyuan_v1_dense", "use_qk_norm": false)", "use_qk_norm: got false, expected true"},
      {R"("model_type": "hunyuan_v1_dense", "use_cla": true)", "use_cla: got true, expected false"},
      {R"("model_type": "hunyuan_v1_dense", "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 0})",
       "rope_scaling.alpha: got 0"},
      {R"("model_type": "hunyuan_v1_dense", "rope_parameters": {"rope_type": "dynamic", "alpha": 50.0})",
       "rope_parameters.factor: missing; rope_type dynamic needs it"},
      {R"("model_type": "exaone4", "sliding_window_pattern": "LLLG")", "sliding_window_pattern: "},
      {R"("model_type": "exaone4", "layer_types": ["full_attention"])", "layer_types: got 1 entries, expected"},
      {R"("model_type": "arcee", "hidden_act": "tanh")", "hidden_act: got \"tanh\""},
      {R"("model_type": "arcee", "max_window_layers": 1)", "max_window_layers: arcee has no such key"},
      {R"("model_type": "phi", "partial_rotary_factor": 0.4)", "partial_rotary_factor: got 0.4, expected a share"},
      {R"("model_type": "phi", "mlp_bias": true)", "mlp_bias: phi has no such key"},
      {R"("model_type": "stablelm", "head_dim": 16)", "head_dim: got 16, expected hidden_size / num_attention_heads"},
      {R"("model_type": "stablelm", "hidden_dropout": 2)", "hidden_dropout: got 2"},
      {R"("model_type": "nemotron", "rms_norm_eps": 1e-5)", "rms_norm_eps: nemotron has no such key"},
      {R"("model_type": "apertus", "hidden_act": "silu")", "hidden_act: got \"silu\", expected xielu"},
      {R"("model_type": "apertus", "qk_norm": false)", "qk_norm: got false, expected true"},
      {R"("model_type": "apertus", "post_norm": true)", "post_norm: got true, expected false"},
      {R"("model_type": "apertus", "architectures": ["ApertusForSequenceClassification"])",
       "architectures: transformers has no classifier of type apertus"}};
  kRelative.expect_problems(cases);
}

// Keys of published files that mean nothing, in transformers as here.
TEST(Relatives, OfPublishedFilesAreRead) {
  for (
      const char* more :
      {R"("model_type": "ministral3", "sliding_window": null, "rope_parameters": {"type": "yarn", "rope_type": "yarn",
           "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0,
           "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
           "max_position_embeddings": 262144})",
       R"("model_type": "olmoe", "num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": false,
           "clip_qkv": null, "output_router_logits": false, "router_aux_loss_coef": 0.01, "rope_scaling": null,
           "rope_theta": 10000.0)",
       R"("model_type": "ernie4_5", "use_bias": false, "rope_theta": 500000.0, "head_dim": 128, "rope_scaling": null)",
       R"("model_type": "cohere", "model_max_length": 131072, "pretraining_tp": 1, "use_qk_norm": true,
           "rope_theta": 75000000.0, "layer_norm_eps": 1e-05)",
       R"("model_type": "cohere2", "cache_implementation": "hybrid", "layer_switch": 4, "rope_scaling": null,
           "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj", "rotary_pct": 1.0,
           "sliding_window_pattern": 4, "use_embedding_sharing": true, "use_gated_activation": true,
           "use_parallel_block": true, "use_parallel_embedding": true, "head_dim": 8, "rope_theta": 50000)",
       R"("model_type": "starcoder2", "mlp_type": "default", "norm_type": "layer_norm", "norm_epsilon": 1e-05,
           "rope_theta": 1000000, "sliding_window": 4096, "use_bias": true, "initializer_range": 0.018042)",
       R"("model_type": "seed_oss", "attention_bias": true, "attention_out_bias": false, "pretraining_tp": 1,
           "rope_scaling": {"rope_type": "default"}, "rope_theta": 10000000.0, "mlp_bias": false)",
       R"("model_type": "hunyuan_v1_dense", "attention_head_dim": 128, "cla_share_factor": 2, "class_num": 0,
           "dense_list": [4096, 0], "eod_token_id": 3, "im_end_id": 5, "im_start_id": 4, "norm_type": "rms",
           "org_vocab_size": 128167, "pool_type": "last", "position_embedding_xdrope": false, "use_cla": false,
           "skip_cls_token": false, "use_qk_norm": true, "use_rotary_pos_emb": true, "mlp_bias": false,
           "add_classification_head": false, "rope_theta": 10000.0,
           "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
                            "mscale_all_dim": 1.0, "type": "dynamic"})",
       R"("model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLLG", "head_dim": 128,
           "layer_types": ["sliding_attention", "full_attention"], "rope_theta": 1000000, "rope_scaling":
           {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
            "rope_type": "llama3"})",
       R"("model_type": "arcee", "hidden_act": "relu2", "head_dim": 8, "mlp_bias": false, "rope_scaling":
           {"rope_type": "yarn", "factor": 20.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
            "original_max_position_embeddings": 4096})",
       R"("model_type": "phi", "partial_rotary_factor": 0.5, "qk_layernorm": false, "resid_pdrop": 0.1,
           "embd_pdrop": 0.0, "layer_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
           "hidden_act": "gelu_new", "num_key_value_heads": null)",
       R"("model_type": "stablelm", "partial_rotary_factor": 0.25, "rotary_scaling_factor": 1.0, "rope_theta": 10000,
           "layer_norm_eps": 1e-05, "use_qkv_bias": true, "num_key_value_heads": 2)",
       R"("model_type": "nemotron", "partial_rotary_factor": 0.5, "norm_eps": 1e-05, "head_dim": 8, "rope_theta": 10000,
           "hidden_act": "relu2", "rope_scaling": null, "mlp_bias": false, "attention_bias": false)",
       R"("model_type": "apertus", "hidden_act": "xielu", "hidden_dropout": 0.0, "mlp_bias": false, "post_norm": false,
           "qk_norm": true, "rope_theta": 12000000, "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0,
           "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"})"})
    EXPECT_EQ(kRelative.problem_with(more), "no error") << more;
}

// What transformers takes for keys that are absent.
TEST(Relatives, AbsentKeysMeanWhatTheyDoInTransformers) {
  using testing::HasSubstr;
  const auto told = [](const std::string& more) { return config::to_json(kRelative.with(more)->hf_config(), -1); };
  const std::string ministral3 = told(R"("model_type": "ministral3")");
  for (const char* part :
       {R"("head_dim": 128)", R"("llama_4_scaling_beta": 0.1)", R"("rope_type": "yarn")",
        R"("original_max_position_embeddings": 16384)", R"("sliding_window": null)", R"("rope_theta": 1e+06)"})
    EXPECT_THAT(ministral3, HasSubstr(part));
  EXPECT_THAT(told(R"("model_type": "ministral", "sliding_window": null)"), HasSubstr(R"("sliding_window": 4096)"));
  EXPECT_THAT(told(R"("model_type": "cohere2")"), HasSubstr(R"(["sliding_attention", "sliding_attention"])"));
  EXPECT_THAT(told(R"("model_type": "cohere2", "sliding_window_pattern": 2)"),
              HasSubstr(R"(["sliding_attention", "full_attention"])"));
  const std::string seed_oss = told(R"("model_type": "seed_oss")");
  for (const char* part : {R"("attention_bias": true)", R"("attention_dropout": 0.1)", R"("residual_dropout": 0.1)",
                           R"("attention_out_bias": false)", R"("head_dim": 128)"})
    EXPECT_THAT(seed_oss, HasSubstr(part));
  EXPECT_THAT(told(R"("model_type": "starcoder2")"), HasSubstr(R"("initializer_range": 0.018042)"));
  EXPECT_THAT(told(R"("model_type": "exaone4", "sliding_window": null)"), HasSubstr(R"("sliding_window": null)"));
  EXPECT_THAT(told(R"("model_type": "arcee")"), HasSubstr(R"("hidden_act": "relu2")"));
  EXPECT_THAT(told(R"("model_type": "phi")"), HasSubstr(R"("partial_rotary_factor": 0.5)"));
  EXPECT_THAT(told(R"("model_type": "stablelm")"), HasSubstr(R"("partial_rotary_factor": 0.25)"));
  const std::string apertus = told(R"("model_type": "apertus", "rope_theta": 100.0)");
  for (const char* part : {R"("hidden_act": "xielu")", R"("rope_type": "llama3")", R"("rope_theta": 1.2e+07)"})
    EXPECT_THAT(apertus, HasSubstr(part));
  const std::string nemotron = told(R"("model_type": "nemotron")");
  for (const char* part : {R"("partial_rotary_factor": 0.5)", R"("initializer_range": 0.0134)", R"("head_dim": 8)"})
    EXPECT_THAT(nemotron, HasSubstr(part));
}

TEST(Relatives, DropoutActsInTrainingOnlyAndFollowsThePassesSeed) {
  for (const char* more : {R"("model_type": "seed_oss", "attention_dropout": 0.0, "residual_dropout": 0.5)",
                           R"("model_type": "starcoder2", "residual_dropout": 0.5)",
                           R"("model_type": "starcoder2", "embedding_dropout": 0.5)",
                           R"("model_type": "phi", "resid_pdrop": 0.5)", R"("model_type": "phi", "embd_pdrop": 0.5)",
                           R"("model_type": "stablelm", "hidden_dropout": 0.5, "partial_rotary_factor": 0.5)"}) {
    const auto built = kRelative.with(more);
    init_weights(*built, 1, Precision::fp32);
    Batch batch;
    batch.ids_BT = at::arange(1, 10, at::kLong).unsqueeze(0);
    const auto run = [&](bool training, std::uint64_t seed) {
      Pass pass(batch);
      pass.training = training;
      pass.seed = seed;
      return built->forward(batch, pass).hidden_BTD.detach();
    };
    EXPECT_TRUE(at::equal(run(false, 1), run(false, 2))) << more;
    EXPECT_TRUE(at::equal(run(true, 1), run(true, 1))) << more;
    EXPECT_FALSE(at::equal(run(true, 1), run(false, 1))) << more;
    EXPECT_FALSE(at::equal(run(true, 1), run(true, 2))) << more;
  }
}

// Numbers without dimensions, too, which files have beside the learnt ones.
TEST(Relatives, ApertussActivationBeginsAsInTransformers) {
  const auto model = kRelative.with(R"("model_type": "apertus")");
  init_weights(*model, 1, Precision::fp32);
  std::map<std::string, Tensor> of_layer;
  model->each_weight([&](const std::string& name, Weight& weight) {
    if (name.starts_with("model.layers.1.mlp.act_fn.")) of_layer[name.substr(name.rfind('.') + 1)] = weight.use();
  });
  ASSERT_EQ(of_layer.size(), 4u);
  const std::tuple<const char*, double, int> expected[] = {
      {"alpha_p", 0.2033823, 1}, {"alpha_n", -1.0502256, 1}, {"beta", 0.5, 0}, {"eps", -1e-6, 0}};
  for (const auto& [name, value, dimensions] : expected) {
    EXPECT_NEAR(of_layer.at(name).item<double>(), value, 1e-6 * std::abs(value)) << name;
    EXPECT_EQ(of_layer.at(name).dim(), dimensions) << name;
  }
}

TEST(Relatives, HaveTheClassifiersOfTransformers) {
  for (const auto& [type, name] : {std::pair{"ministral3", "Ministral3ForSequenceClassification"},
                                   {"ministral", "MinistralForSequenceClassification"},
                                   {"starcoder2", "Starcoder2ForSequenceClassification"},
                                   {"seed_oss", "SeedOssForSequenceClassification"},
                                   {"hunyuan_v1_dense", "HunYuanDenseV1ForSequenceClassification"},
                                   {"exaone4", "Exaone4ForSequenceClassification"},
                                   {"arcee", "ArceeForSequenceClassification"},
                                   {"phi", "PhiForSequenceClassification"},
                                   {"stablelm", "StableLmForSequenceClassification"},
                                   {"nemotron", "NemotronForSequenceClassification"}}) {
    const auto model = kRelative.with(std::string(R"("model_type": ")") + type + R"(", "id2label": {"0": "a", "1": "b"},
                                   "architectures": [")" +
                                   name + R"("])");
    ASSERT_TRUE(model->classifier()) << type;
    EXPECT_EQ(model->hf_config().find("architectures")->items().at(0).text(), name);
  }
}

}  // namespace
}  // namespace hone::test
