// Llama in training and generation: checkpointing, the cache, precisions, and configurations that cannot be.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hone/registry.h"
#include "models/by_cache.h"
#include "models/golden_checks.h"
#include "nn/kv_cache.h"

namespace hone::test {
namespace {

TEST(Llama, CheckpointedBlocksGiveTheSameBits) {
  for (const char* name : {"llama", "qwen3-sliding", "llama-tied"})
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const Golden golden(name);
      const auto model = golden.model(precision);
      const Gradients kept = gradients(*model, golden.batch(), false), remade = gradients(*model, golden.batch(), true);
      for (const auto& [weight, expected] : kept)
        EXPECT_TRUE(at::equal(remade.at(weight), expected)) << name << " " << weight;
    }
}

TEST(Llama, TwoRunsGiveTheSameBits) {
  const Golden golden("llama-bias");
  const auto model = golden.model(Precision::bf16);
  const Gradients first = gradients(*model, golden.batch(), false), second = gradients(*model, golden.batch(), false);
  for (const auto& [weight, expected] : first) EXPECT_TRUE(at::equal(second.at(weight), expected)) << weight;
}

TEST(Llama, FrozenWeightsGetNoGradient) {
  const Golden golden("llama");
  const auto model = golden.model();
  model->each_weight(
      [](const std::string& name, Weight& w) { w.set_trainable(name.find("layers.1.mlp") != std::string::npos); });
  const Batch batch = golden.batch();
  for (const bool checkpoint : {false, true}) {
    Pass pass(batch);
    pass.checkpoint_blocks = checkpoint;
    mean_loss(*model, batch, pass).backward();
    model->each_weight([&](const std::string& name, Weight& w) {
      EXPECT_EQ(w.grad().defined(), w.trainable()) << name;
      w.clear_grad();
    });
  }
}

TEST(Llama, LowerPrecisionStaysNear) {
  const Golden golden("llama");
  const Tensor expected = golden["logits"];
  const auto logits = [&](Precision p) {
    return golden.model(p)->logits(golden.batch()) * golden["attention_mask"].unsqueeze(-1);
  };
  expect_close(logits(Precision::bf16), expected, 0.05 * largest(expected), "bf16");
  expect_close(logits(Precision::fp16), expected, 0.01 * largest(expected), "fp16");
  expect_close(logits(Precision::fp64), expected, 1e-5 * largest(expected), "fp64");
}

TEST(Llama, TheCacheGivesWhatAWholePassGives) {
  for (const char* name : {"llama", "mistral-sliding", "qwen3-sliding", "llama-one-kv-head"})
    for (const ops::Level level : {ops::Level::reference, ops::Level::amx}) {
      const ops::LevelScope scope(level);
      expect_cache_is_whole_pass(*Golden(name).model(), name);
    }
}

// Whatever the length of prompt and answer, no more is kept than the window and a little slack.
TEST(Llama, ASlidingWindowsCacheDoesNotGrowWithTheText) {
  const at::NoGradGuard no_graph;
  const Golden golden("mistral-sliding");
  const auto model = golden.model();
  const auto layer = model->cache_spec().layers.at(0);
  ASSERT_GT(layer.window, 0);
  const auto cached_tokens = [&](std::int64_t prompt, std::int64_t steps) {
    nn::KvCache cache(model->cache_spec(), 1);
    for (std::int64_t i = 0; i <= steps; ++i) {
      Batch batch;
      batch.ids_BT = at::ones({1, i == 0 ? prompt : 1}, at::kLong);
      Pass pass(batch);
      pass.cache = &cache;
      model->forward(batch, pass);
    }
    const std::int64_t token_bytes = 2 * 4 * layer.kv_heads * layer.head_size * std::ssize(model->cache_spec().layers);
    return cache.bytes() / token_bytes;
  };
  for (const std::int64_t prompt : {300, 3}) EXPECT_LE(cached_tokens(prompt, 300), layer.window + 16) << prompt;
  EXPECT_LE(cached_tokens(300, 0), layer.window + 16);
}

TEST(Llama, CacheRowsCanBeDroppedAndCopied) {
  const at::NoGradGuard no_graph;
  const Golden golden("mistral-sliding");
  const auto model = golden.model();
  nn::KvCache cache(model->cache_spec(), 3);
  const auto feed = [&](const Tensor& ids_BT) {
    Batch batch;
    batch.ids_BT = ids_BT;
    Pass pass(batch);
    pass.cache = &cache;
    return model->head().logits(model->forward(batch, pass).hidden_BTD, pass);
  };
  const Tensor first = at::arange(30, at::kLong).view({3, 10}).remainder(model->vocab_size()),
               next = at::tensor({4, 4}, at::kLong).view({2, 1});
  feed(first);
  cache.keep({2, 2});
  EXPECT_EQ(cache.rows(), 2);
  EXPECT_EQ(cache.length(1), 10);
  EXPECT_GT(cache.bytes(), 0);
  const Tensor got = feed(next);
  Batch whole;
  whole.ids_BT = at::cat({first.slice(0, 2, 3), next.slice(0, 0, 1)}, 1);
  for (const int row : {0, 1}) expect_close(got[row][0], model->logits(whole)[0][10], 2e-5, "kept row");
}

// ---- configurations

config::Node parse(const std::string& json) {
  Problems problems;
  const config::Node node = config::parse_json(json, "config.json", problems);
  problems.raise();
  return node;
}
std::string problem_of(const std::string& json) {
  try {
    build_model(parse(json), "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    return error.what();
  }
  return "no error";
}
std::string small(const std::string& more, const std::string& type = "llama") {
  auto config =
      nlohmann::json::parse(R"({"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
                                          "num_attention_heads": 2, "num_key_value_heads": 1})");
  config["model_type"] = type;
  config.update(nlohmann::json::parse("{" + more + "}"));
  return config.dump();
}

TEST(LlamaConfigs, ThatCannotBeSayWhy) {
  const std::pair<std::string, std::string> cases[] = {
      {small(R"("hidden_sizes": 3)"), "hidden_size"},
      {small(R"("hidden_act": "tanh")"), "hidden_act"},
      {small(R"("head_dim": 7)"), "even"},
      {small(R"("num_attention_heads": 3)"), "num_attention_heads"},
      {small(R"("hidden_size": 0)"), "hidden_size"},
      {small(R"("num_hidden_layers": -1)"), "num_hidden_layers"},
      {small(R"("num_hidden_layers": 1099511627776)"), "num_hidden_layers"},
      {small(R"("vocab_size": 1099511627776)"), "vocab_size"},
      {small(R"("vocab_size": 2000000000, "hidden_size": 131072)"), "GB"},
      {small(R"("vocab_size": "many")"), "vocab_size"},
      {small(R"("pretraining_tp": 2)"), "pretraining_tp"},
      {small(R"("is_causal": false)"), "is_causal"},
      {small(R"("quantization_config": {"bits": 4})"), "quantized"},
      {small(R"("final_logit_softcapping": 30.0)"), "final_logit_softcapping"},
      {small(R"("rope_scaling": {"rope_type": "banana", "factor": 2.0})"), "banana"},
      {small(R"("rope_scaling": {"type": "linear"})"), "factor"},
      {small(R"("rope_scaling": {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]})"),
       "short_factor"},
      {small(R"("rope_scaling": {"rope_type": "linear", "factor": 2.0, "fact": 1.0})"), "fact"},
      {small(R"("rope_scaling": {"rope_type": "linear", "factor": -2.0})"), "factor"},
      {small(R"("rope_parameters": {"full_attention": {"rope_type": "default"}})"), "full_attention"},
      {small(R"("rope_scaling": {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5})"),
       "partial_rotary_factor"},
      {small(R"("layer_types": ["sliding_attention", "full_attention"])", "qwen3"), "sliding_window"},
      {small(R"("layer_types": ["full_attention"])", "qwen3"), "layer_types"},
      {small(R"("layer_types": ["full_attention"])", "mistral"), "layer_types"},
      {small(R"("layer_types": ["full_attention", "sliding_attention"], "sliding_window": null)", "mistral"),
       "sliding_attention needs a sliding_window"},
      {small(R"("layer_types": ["full_attention", "chunked_attention"])", "qwen2"), "chunked_attention"},
      {small("", "lama"), "llama"},
      {R"({"vocab_size": 32})", "model_type"},
      {"[1, 2]", "JSON object"}};
  for (const auto& [json, expected] : cases) {
    const std::string problem = problem_of(json);
    EXPECT_NE(problem.find(expected), std::string::npos) << json << "\n gave: " << problem;
    EXPECT_NE(problem.find("config.json"), std::string::npos) << problem;
  }
}

// Mistral with layer_types is transformers' Ministral: the losses are its of the golden's weights (transformers 5.24).
TEST(LlamaConfigs, MistralSlidesByLayerWhereTheConfigurationSaysSo) {
  const Golden golden("mistral-sliding");
  const std::string slides = "\"sliding_attention\"", full = "\"full_attention\"";
  for (const auto& [types, loss] : {std::pair{slides + ", " + slides, 4.679616},
                                    {slides + ", " + full, 4.545259},
                                    {full + ", " + slides, 4.660389},
                                    {full + ", " + full, 4.569138}}) {
    config::Node node = config::read_file((golden.folder / "config.json").string());
    node.at_or_add("layer_types") = parse("[" + types + "]");
    for (int round = 0; round < 2; ++round) {  // and as a checkpoint keeps it
      const auto model = build_model(node, "config.json");
      load_weights(*model, golden.folder, Precision::fp32);
      const auto& lm = dynamic_cast<const CausalLm&>(*model);
      const Batch batch = golden.batch();
      Pass pass(batch);
      const at::NoGradGuard no_graph;
      EXPECT_NEAR(mean_loss(lm, batch, pass).item<double>(), loss, 1e-5) << types << " round " << round;
      node = model->hf_config();
    }
    const bool mixed = types.find(full) != std::string::npos && types.find(slides) != std::string::npos;
    EXPECT_EQ(node.find("layer_types") != nullptr, mixed) << types;
    if (mixed) {
      EXPECT_EQ(node.find("sliding_window")->text(), "5") << types;
    }
  }
}

TEST(LlamaConfigs, KeysThatDoNotMatterAreTaken) {
  EXPECT_EQ(
      problem_of(small(R"("torch_dtype": "float16", "architectures": ["X"], "use_cache": false, "pad_token_id": null,
                                "sliding_window": null, "rope_scaling": null, "eos_token_id": [1, 2], "top_k": 3)")),
      "no error");
}

TEST(LlamaConfigs, TypeStandsForModelType) {
  const auto model =
      build_model(parse(R"({"type": "qwen3", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
                                           "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1})"),
                  "recipe.yaml");
  EXPECT_EQ(model->hf_config().find("model_type")->text(), "qwen3");
  EXPECT_EQ(model->hf_config().find("head_dim")->text(), "128");  // what transformers takes when it is absent
}

TEST(LlamaConfigs, AbsentAndNullKeyValueHeadsDiffer) {
  const auto heads = [](const std::string& more) {
    return build_model(parse(R"({"model_type": "mistral", "vocab_size": 32, "hidden_size": 64, "intermediate_size": 24,
                                 "num_hidden_layers": 1, "num_attention_heads": 16)" +
                             more + "}"),
                       "config.json")
        ->hf_config()
        .find("num_key_value_heads")
        ->text();
  };
  EXPECT_EQ(heads(""), "8");
  EXPECT_EQ(heads(R"(, "num_key_value_heads": null)"), "16");
  EXPECT_EQ(heads(R"(, "num_key_value_heads": 4)"), "4");
}

TEST(LlamaConfigs, DropoutActsInTrainingOnlyAndFollowsThePassesSeed) {
  const auto built = build_model(parse(small(R"("attention_dropout": 0.5)")), "config.json");
  init_weights(*built, 1, Precision::fp32);
  Batch batch;
  batch.ids_BT = at::arange(1, 10, at::kLong).unsqueeze(0) % 5;
  const auto run = [&](bool training, std::uint64_t seed) {
    Pass pass(batch);
    pass.training = training;
    pass.seed = seed;
    return built->forward(batch, pass).hidden_BTD.detach();
  };
  EXPECT_TRUE(at::equal(run(false, 1), run(false, 2)));
  EXPECT_TRUE(at::equal(run(true, 1), run(true, 1)));
  EXPECT_FALSE(at::equal(run(true, 1), run(false, 1)));
  EXPECT_FALSE(at::equal(run(true, 1), run(true, 2)));
}

TEST(Llama, ATiedHeadIsListedOnce) {
  const auto model = Golden("llama-tied").model();
  std::vector<std::string> names;
  model->each_weight([&](const std::string& name, Weight&) { names.push_back(name); });
  EXPECT_EQ(names.front(), "model.embed_tokens.weight");
  EXPECT_EQ(std::count(names.begin(), names.end(), "lm_head.weight"), 0);
  EXPECT_EQ(names.back(), "model.norm.weight");
}

TEST(Llama, IdsBeyondTheVocabularyAreAnErrorOfTheData) {
  const auto model = Golden("llama").model();
  Batch batch;
  batch.ids_BT = at::full({1, 2}, 1 << 20, at::kLong);
  try {
    model->logits(batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
  }
}

}  // namespace
}  // namespace hone::test
