// Text and evaluations from a model on a device beside the host.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "device/pretend_device.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "nn/decoding/choose.h"
#include "nn/kv_cache.h"
#include "ops/backend.h"
#include "ops/recording.h"
#include "train/support.h"

namespace hone::test {
namespace {

const at::Device kPretended("privateuseone:0");

// The plain table, by a device that can remember work.
ops::Backend remembering_backend() {
  ops::Backend table = ops::reference_backend();
  table.make_recording = make_pretend_recording;
  return table;
}

class GenerateOnDevice : public ::testing::Test {
 protected:
  void SetUp() override { use_pretend_device(); }
  void make(const Overrides& more = {}) {
    Overrides overrides{{"trainer.steps", "2"}, {"trainer.device", "cpu"}, {"run.folder", (folder_ / "run").string()}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    train(small_recipe(folder_, overrides), quiet_options());
    config_.max_new_tokens = 40, config_.batch_size = 3, config_.ignore_eos = true;
  }
  std::vector<Generated> texts(at::Device device, const ops::Backend& table) {
    const ops::BackendScope plain(table);
    const auto model = load_frozen_model(find_model((folder_ / "run").string()), Precision::fp32, device);
    EXPECT_EQ(model->device().type(), device.type());
    Generator generator(*model, load_tokenizer("bytes"));
    return generator.generate({{84, 104, 101}, {100, 97, 121, 32, 49}, {49}}, config_);
  }
  // As the host, with as many steps remembered; returns how many steps were done again.
  std::int64_t expect_the_hosts_tokens() {
    const std::vector<Generated> host = texts(at::kCPU, ops::reference_backend());
    const ops::Backend plain = ops::reference_backend(), remembering = remembering_backend();
    const std::int64_t before = pretend_replays();
    for (const ops::Backend* table : {&plain, &remembering}) {
      const std::vector<Generated> device = texts(kPretended, *table);
      EXPECT_EQ(host.size(), device.size());
      for (std::size_t i = 0; i < host.size(); ++i) EXPECT_EQ(host[i].ids, device[i].ids) << i;
    }
    return pretend_replays() - before;
  }
  TempFolder folder_;
  GenerateConfig config_;
};

TEST_F(GenerateOnDevice, GivesTheHostsTokens) {
  make();
  for (const double temperature : {0.0, 1.0}) {
    config_.temperature = temperature;
    // Op by op: the first step, and those after the cache grew.
    EXPECT_GT(expect_the_hosts_tokens(), 30);
  }
}
TEST_F(GenerateOnDevice, OfSamplingOnlyTheLikeliestComeToTheHost) {
  make();
  for (const std::int64_t top_k : {1, 5, 50}) {
    config_.temperature = 1, config_.top_k = top_k, config_.top_p = 0.9;
    EXPECT_GT(expect_the_hosts_tokens(), 30);
  }
}
TEST_F(GenerateOnDevice, RowsLeaveARememberedStep) {
  make();
  config_.temperature = 1, config_.ignore_eos = false, config_.max_new_tokens = 60;
  for (int id = 97; id < 123; id += 3) config_.eos_token_id.push_back(id);
  EXPECT_GT(expect_the_hosts_tokens(), 0);
  // The device has gone on with a row that then leaves: with its second token, as the first ends none.
  config_.temperature = 0, config_.eos_token_id.clear();
  const std::vector<Generated> all = texts(at::kCPU, ops::reference_backend());
  for (const std::size_t length : {5, 9, 20}) config_.eos_token_id.push_back(all[length % 3].ids[length]);
  EXPECT_GT(expect_the_hosts_tokens(), 0);
}

// Of forced tokens, the logits of every third step, or of all; of the others the likeliest is asked for, with which the
// device then goes on.
std::vector<Tensor> logits_of_steps(const CausalLm& model, bool of_all) {
  constexpr int kSteps = 24;
  const at::NoGradGuard no_graph;
  nn::KvCache cache(model.cache_spec(), 2);
  Batch batch;
  batch.ids_BT = at::tensor({5, 9, 2, 17, 30, 8}, at::kLong).view({2, 3}).to(model.device());
  batch.docs = {{.row = 0, .begin = 0, .end = 3}, {.row = 1, .begin = 0, .end = 2}};
  Pass pass(batch);
  pass.cache = &cache;
  model.forward(batch, pass);
  const auto decoder = nn::maybe_make_decoder(model, 2);
  std::vector<Tensor> made;
  std::vector<std::int32_t> ids{4, 7};
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(decoder->step(ids, cache));
    if (of_all || step % 3 == 2) {
      const std::span<float> values = decoder->logits();
      if (step % 3 == 2) made.push_back(at::tensor(std::vector<float>(values.begin(), values.end())));
    } else {
      decoder->likeliest();
    }
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>((id * 7 + step) % model.vocab_size());
  }
  return made;
}
TEST_F(GenerateOnDevice, GoesBackWhereAnotherTokenIsChosen) {
  make();
  const ops::Backend table = remembering_backend();
  const ops::BackendScope scope(table);
  const auto model = load_frozen_model(find_model((folder_ / "run").string()), Precision::fp32, kPretended);
  const std::vector<Tensor> expected = logits_of_steps(*model->causal_lm(), true),
                            got = logits_of_steps(*model->causal_lm(), false);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
}

TEST_F(GenerateOnDevice, WindowsMoveOnWhileAStepIsRemembered) {
  make({{"model.type", "mistral"}, {"model.sliding_window", "5"}});
  config_.temperature = 1, config_.max_new_tokens = 100;
  EXPECT_GT(expect_the_hosts_tokens(), 80);
}
TEST_F(GenerateOnDevice, LearnedPositions) {
  make({{"model", "{type: gpt2, n_embd: 32, n_layer: 2, n_head: 4, n_positions: 256}"}});
  EXPECT_GT(expect_the_hosts_tokens(), 30);
}
TEST_F(GenerateOnDevice, WhatChangesWithTheLengthIsNotRemembered) {
  make({{"model.max_position_embeddings", "16"}, {"model.rope_scaling", "{rope_type: dynamic, factor: 2.0}"},
        {"data.max_length", "16"}});
  config_.temperature = 1;
  const std::int64_t again = expect_the_hosts_tokens();
  EXPECT_GT(again, 0);
  EXPECT_LT(again, 16);
}
TEST_F(GenerateOnDevice, ExpertsWhichTheHostWaitsForAreNotRemembered) {
  make({{"model", routed_model()}});
  EXPECT_EQ(expect_the_hosts_tokens(), 0);
}
TEST_F(GenerateOnDevice, TheHostWaitsOnceForAToken) {
  make();
  const ops::Backend table = remembering_backend();
  const auto waits_for = [&](std::int64_t tokens) {
    config_.max_new_tokens = tokens;
    const std::int64_t before = pretend_waits();
    texts(kPretended, table);
    return pretend_waits() - before;
  };
  EXPECT_EQ(waits_for(30) - waits_for(10), 20);
  config_.temperature = 1, config_.top_k = 5;
  EXPECT_EQ(waits_for(30) - waits_for(10), 20) << "sampling";
}

}  // namespace
}  // namespace hone::test
