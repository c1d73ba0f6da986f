// FLOPs of a token: those that a pass makes, counted product by product, and attention pair by pair.
#include "nn/flops.h"

#include <gtest/gtest.h>

#include "base/sections.h"
#include "hone/adapter.h"
#include "models/golden.h"
#include "ops/kernels.h"

namespace hone::test {
namespace {

double flop(const sections::Totals& totals) {
  double sum = 0;
  for (const double one : totals.flop) sum += one;
  return sum;
}

// What the products of a pass over the batch and of its backward pass come to, by token; the loss reads all logits.
nn::TokenFlops counted(const CausalLm& model, const Batch& batch) {
  const auto tokens = static_cast<double>(batch.tokens);
  nn::TokenFlops made;
  Pass pass(batch);
  pass.training = true;
  sections::start();
  const Tensor logits = model.head().logits(model.forward(batch, pass).hidden_BTD, pass);
  made.forward = flop(sections::stop()) / tokens;
  sections::start();
  logits.square().mean().backward();
  made.backward = flop(sections::stop()) / tokens;
  return made;
}

std::unique_ptr<Model> built(const std::string& config, const HeadRequest& head = {}) {
  Problems problems;
  const config::Node node = config::parse_yaml(config, "config.yaml", problems);
  return build_model(node, "config.yaml", head);
}

Batch one_document(std::int64_t length) {
  const Tensor ids = at::arange(length, at::kLong).remainder(20).unsqueeze(0);
  return make_batch(ids, ids, at::ones_like(ids));
}

// Attention is no product of weights: it is taken off.
nn::TokenFlops products(const Model& model, const nn::FlopsOptions& options) {
  nn::TokenFlops made = nn::flops_per_token(model, options);
  for (const AttentionLayer& layer : model.attention()) {
    const double attention = 4 * static_cast<double>(layer.heads * layer.head_size) *
                             nn::mean_context(options.document_length, layer);
    made.forward -= attention, made.backward -= 2 * attention;
  }
  return made;
}

void expect_counted(const CausalLm& model, const std::string& what) {
  const Batch batch = one_document(16);
  const nn::TokenFlops told = nn::flops_per_token(model, {.document_length = 16}), made = counted(model, batch);
  EXPECT_GT(made.forward, 0) << what;
  EXPECT_NEAR(told.forward, made.forward, 1e-9 * made.forward) << what;
  EXPECT_NEAR(told.backward, made.backward, 1e-9 * made.backward) << what;
}

TEST(Flops, AreThoseOfTheProductsThatAPassMakes) {
  for (const std::string name : {"llama", "llama-tied", "llama-bias", "qwen3-sliding"})
    expect_counted(*Golden(name).model(), name);
}

TEST(Flops, OfMemoriesAreThoseOfTheirTokens) {
  for (const std::string name : {"xlstm", "xlstm-wide", "mamba", "falcon_mamba", "jamba"})
    expect_counted(*Golden(name, kDecoders).model(), name);
}

TEST(Flops, ExpertsCountByTheirShareOfTheTokens) {
  for (const std::string& name : golden_names(kExperts)) expect_counted(*Golden(name, kExperts).model(), name);
}

TEST(Flops, AnAdapterIsCountedAndWhatIsFrozenLearnsNothing) {
  const auto model = Golden("llama").model();
  const nn::TokenFlops whole = products(*model, {});
  LoraConfig lora;
  lora.rank = 4, lora.targets = {"all-linear"};
  apply_lora(*model, lora, 1);
  double adapters = 0;
  model->each_weight([&](const std::string& name, Weight& weight) {
    weight.set_trainable(false);
    if (weight.adapter()) adapters += 2.0 * 4 * static_cast<double>(weight.shape()[0] + weight.shape()[1]);
    EXPECT_TRUE(!weight.adapter() || name.ends_with("_proj.weight")) << name;
  });
  const nn::TokenFlops told = products(*model, {});
  EXPECT_GT(adapters, 0);
  EXPECT_DOUBLE_EQ(told.forward, whole.forward + adapters);
  EXPECT_DOUBLE_EQ(told.backward, whole.forward + 2 * adapters);
}

TEST(Flops, AHeadThatSeesFewTokensCostsLess) {
  for (const char* name : {"llama", "llama-tied"}) {
    const auto model = Golden(name).model();
    double head = 0;
    model->each_weight([&](const std::string&, Weight& weight) {
      if (model->head().is_weight(weight)) head = 2 * static_cast<double>(weight.numel());
    });
    const double whole = nn::flops_per_token(*model, {}).forward;
    EXPECT_DOUBLE_EQ(whole - nn::flops_per_token(*model, {.supervised = 0.25}).forward, 0.75 * head);
  }
}

// 12 D^2 a layer, and the tied head once.
TEST(Flops, OfGpt2) {
  const std::string config = "{model_type: gpt2, n_embd: 48, n_layer: 3, n_head: 4, vocab_size: 100, n_positions: 32}";
  const auto model = built(config);
  EXPECT_DOUBLE_EQ(products(*model, {}).forward, 2.0 * (3 * 12 * 48 * 48 + 100 * 48));
  EXPECT_EQ(model->attention().size(), 3u);
}

TEST(Flops, AClassifiersHeadReadsOneTokenOfADocument) {
  const std::string config =
      "{model_type: bert, hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 60, "
      "vocab_size: 50, max_position_embeddings: 32}";
  const auto body = built(config);
  const auto headed = built(config, {.labels = {"a", "b", "c"}});
  const double layers = 2.0 * 2 * (4 * 24 * 24 + 2 * 24 * 60);
  EXPECT_DOUBLE_EQ(products(*body, {.document_length = 10}).forward, layers);
  EXPECT_NEAR(products(*headed, {.document_length = 10}).forward, layers + 2.0 * (24 * 24 + 3 * 24) / 10, 1e-9);
}

TEST(Flops, ContextIsCountedPairByPair) {
  for (const bool causal : {true, false})
    for (const std::int64_t window : {0, 1, 3, 8})
      for (const std::int64_t length : {1, 2, 5, 8}) {
        std::int64_t pairs = 0;
        for (std::int64_t q = 0; q < length; ++q)
          for (std::int64_t k = 0; k < length; ++k)
            pairs += (causal ? k <= q : true) && (window == 0 || std::abs(q - k) < window) ? 1 : 0;
        EXPECT_DOUBLE_EQ(nn::mean_context(static_cast<double>(length), {1, 1, window, causal}),
                         static_cast<double>(pairs) / static_cast<double>(length))
            << length << ' ' << window << ' ' << causal;
      }
}

}  // namespace
}  // namespace hone::test
