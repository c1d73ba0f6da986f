// Passes that a device has remembered: the bits of the same passes op by op, whatever documents are in them.
#include <gtest/gtest.h>

#include "device/asking_nobody.h"
#include "device/pretend_device.h"
#include "train/bench.h"
#include "train/support.h"

namespace hone::test {
namespace {

// A device that can remember nothing when it comes to it.
class Unable final : public ops::Recording {
 public:
  void record(const std::function<void()>&) override { TORCH_CHECK(false, "no room"); }
  std::unique_ptr<ops::Recording> beside() const override { return std::make_unique<Unable>(); }
  void replay() override {}
};

class RecordedPasses : public ::testing::Test {
 protected:
  void SetUp() override {
    use_pretend_device();
    table_.make_recording = make_pretend_recording;
    unable_.make_recording = [] { return std::unique_ptr<ops::Recording>(std::make_unique<Unable>()); };
  }
  Recipe recipe(const std::string& name, Overrides overrides) {
    overrides.insert(overrides.begin(), {"trainer.cuda_graphs", "always"});
    overrides.insert(overrides.begin(), {"trainer.device", "pretend"});
    overrides.emplace_back("run.folder", (folder_ / name).string());
    return small_recipe(folder_, overrides);
  }
  Summary run(const std::string& name, const ops::Backend& table, const Overrides& overrides,
              const TrainOptions& options = quiet_options()) {
    const ops::BackendScope scope(table);
    return train(recipe(name, overrides), options);
  }
  std::int64_t replays(const std::string& name, const Overrides& overrides,
                       const TrainOptions& options = quiet_options()) {
    const std::int64_t before = pretend_replays();
    run(name, table_, overrides, options);
    return pretend_replays() - before;
  }
  void expect_same_runs(const char* one, const char* other) {
    expect_equal_runs(folder_ / one, folder_ / other, 10);
    for (const char* name : {one, other}) std::filesystem::remove_all(folder_ / name);
  }
  // Returns how many passes were done again.
  std::int64_t expect_same(const std::string& name, const Overrides& overrides) {
    SCOPED_TRACE(name);
    run("by_op", unable_, overrides);
    const std::int64_t made = replays("again", overrides);
    expect_same_runs("by_op", "again");
    return made;
  }
  void expect_refused(const Overrides& overrides, const std::string& reason) {
    EXPECT_HONE_ERROR(run("none", table_, overrides), config, "trainer.cuda_graphs: got always, but " + reason);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
  }

  ops::Backend table_ = table_that_asks_nobody(), unable_ = table_that_asks_nobody();
  const Overrides packed_{{"data.packing", "concat"}};
  TempFolder folder_;
};

TEST_F(RecordedPasses, GiveTheBitsOfPassesOpByOp) {
  EXPECT_EQ(expect_same("full rows", packed_), 6);  // the others are the first ones of as many documents
  EXPECT_GE(expect_same("rows with padding", {}), 2);
  EXPECT_GE(expect_same("bf16", {{"trainer.precision", "bf16"}}), 2);
  EXPECT_GE(expect_same("fp64", {{"trainer.precision", "fp64"}}), 2);
  EXPECT_GE(expect_same("several", {{"trainer.accumulate", "3"}, {"trainer.batch_size", "2"}}), 10);
  Overrides four = packed_;
  four.insert(four.end(), {{"trainer.accumulate", "4"}, {"trainer.batch_size", "2"}});
  EXPECT_GE(expect_same("the same one after another", four), 20);
  EXPECT_GE(expect_same("recomputed", {{"trainer.checkpoint_blocks", "true"}, {"trainer.accumulate", "2"}}), 5);
  EXPECT_GE(expect_same("averaged", {{"trainer.ema", "0.9"}, {"trainer.save.asynchronous", "true"}}), 2);
  EXPECT_GE(expect_same("measured", {{"objective", "{type: causal_lm, label_smoothing: 0.1, z_loss: 0.01, metrics: "
                                                   "[accuracy, z_loss]}"}}), 2);
}

TEST_F(RecordedPasses, OfOtherModels) {
  const auto model = [&](const std::string& text) {
    Overrides all = packed_;
    all.emplace_back("model", text);
    return all;
  };
  EXPECT_EQ(expect_same("routed", model(routed_model(", output_router_logits: true"))), 4);
  EXPECT_EQ(expect_same("positions", model("{type: gpt2, n_embd: 32, n_layer: 2, n_head: 4, n_positions: 256, "
                                           "attn_pdrop: 0, resid_pdrop: 0, embd_pdrop: 0}")), 6);
  EXPECT_EQ(expect_same("windows", model("{type: mistral, hidden_size: 32, intermediate_size: 64, "
                                         "num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
                                         "max_position_embeddings: 256, sliding_window: 16}")), 6);
}

TEST_F(RecordedPasses, PaddingThatIsComputedChangesNothing) {
  const auto last_loss = [&](const char* graphs) {
    const Overrides overrides{{"trainer.precision", "fp64"}, {"trainer.cuda_graphs", graphs}};
    const double loss = run(graphs, table_, overrides).metrics.at("loss");
    return loss;
  };
  EXPECT_NEAR(last_loss("always"), last_loss("never"), 1e-12);
}

TEST_F(RecordedPasses, AResumedRunGoesOnWithTheSameBits) {
  const Overrides overrides{{"trainer.precision", "bf16"}, {"trainer.accumulate", "2"}};
  EXPECT_GE(replays("whole", overrides), 5);
  run("again", table_, overrides);
  TrainOptions options = quiet_options();
  options.resume = "4";
  EXPECT_GE(replays("again", overrides, options), 2);
  expect_same_runs("whole", "again");
}

TEST_F(RecordedPasses, AutoTakesSmallModels) {
  Overrides small = packed_;
  small.emplace_back("trainer.cuda_graphs", "auto");
  EXPECT_EQ(replays("small", small), 6);
  small.back().second = "never";
  EXPECT_EQ(replays("never", small), 0);
}

TEST_F(RecordedPasses, NobodyWaitsInThem) {
  const ops::BackendScope scope(table_);
  const auto waits = [&](std::int64_t steps) {
    const std::int64_t before = pretend_waits();
    training::bench(recipe("bench", packed_), {.warmup = 3, .steps = steps});
    return pretend_waits() - before;
  };
  EXPECT_EQ(waits(7) - waits(3), 8);  // each step is made twice, and read once
}

TEST_F(RecordedPasses, WhatOnlyOneHasIsNotRemembered) {
  const auto gives_up = [&](const Overrides& overrides, int more = 1) {
    Overrides quiet = overrides;
    quiet.emplace_back("trainer.cuda_graphs", "auto");
    const std::int64_t quietly = run("quiet", table_, quiet).warnings, before = pretend_replays();
    EXPECT_EQ(run("loud", table_, overrides).warnings, quietly + more);
    EXPECT_EQ(pretend_replays(), before);
    for (const char* name : {"quiet", "loud"}) std::filesystem::remove_all(folder_ / name);
  };
  gives_up({{"model", "{type: gpt2, n_embd: 32, n_layer: 2, n_head: 4, n_positions: 256}"}});  // dropout
  table_.attention.forward = ops::reference_backend().attention.forward;
  gives_up({});  // documents, on the host
  table_ = unable_;
  gives_up({}, 0);  // which is told in any case
}

TEST_F(RecordedPasses, PassesThatSomebodyLooksIntoAreMadeOpByOp) {
  const Overrides looked{{"callbacks", "[{type: intermediates, match: layers.0.output}]"}};
  EXPECT_EQ(replays("looked", looked), 0);
}

TEST_F(RecordedPasses, AreRefusedWhereTheyCannotBe) {
  expect_refused({{"trainer.precision", "fp16"}}, "a run in fp16 has none");
  expect_refused({{"objective", "dpo"}}, "objective dpo has none");
  table_.make_recording = nullptr;
  expect_refused({}, "pretend:0 remembers no work");
  expect_refused({{"trainer.device", "cpu"}}, "they are a GPU's");
}

}  // namespace
}  // namespace hone::test
