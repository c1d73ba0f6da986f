// Runs on a device beside the host: the bits that the host gives with plain ATen, and nothing that is read in between.
#include <gtest/gtest.h>

#include "device/pretend_device.h"
#include "device/same_numbers.h"
#include "hone/callback.h"
#include "hone/registry.h"
#include "ops/backend.h"
#include "tensor/device.h"
#include "train/bench.h"
#include "train/support.h"

namespace hone::test {
namespace {

struct Case {
  std::string name;
  Overrides overrides;
};

// In step 4 a weight is not a number, and then what it was.
class Poison final : public Callback {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  explicit Poison(const Config&) {}
  bool sees_gradients() const override { return false; }
  void on_step_start(const TrainView& view) override {
    if (view.step != 3) return;
    view.model.each_weight([&](const std::string& name, Weight& weight) {
      if (name.find("layers.0.mlp.up_proj") == name.npos) return;
      at_ = weight.value().detach();
      before_ = at_.clone();
      at_.fill_(NAN);
    });
  }
  Action on_step_end(const TrainView&, Metrics&) override {
    if (before_.defined()) at_.copy_(before_), before_ = at::Tensor();
    return Action::go_on;
  }

 private:
  at::Tensor before_, at_;
};

Case with_optimizer(const std::string& type, const std::string& more = "") {
  return {type, {{"optimizer", "{type: " + type + ", learning_rate: 1e-2" + more + "}"}}};
}

// Plain ATen's table, but for products of rows by groups, which it makes without asking the device for their sizes:
// what a device with kernels for them has.
ops::RowGroups known(const ops::RowGroups& groups) {
  if (groups.begin().is_meta()) return groups;  // of a run's plan
  const auto* begin = static_cast<const std::int64_t*>(groups.begin().data_ptr());
  std::vector<std::int64_t> counts;
  for (std::int64_t g = 0; g < groups.size(); ++g) counts.push_back(begin[g + 1] - begin[g]);
  return ops::RowGroups(groups.begin(), counts);
}
const ops::Backend& grouping_table() {
  static const ops::Backend table = [] {
    ops::Backend made = ops::reference_backend();
    made.products.grouped = [](at::Tensor& out, const std::vector<ops::GroupedFactors>& factors,
                               const ops::RowGroups& groups) {
      ops::reference_backend().products.grouped(out, factors, known(groups));
    };
    made.products.over_groups = [](const at::Tensor& a, const at::Tensor& b, const ops::RowGroups& groups,
                                   const std::vector<ops::Target>& to) {
      ops::reference_backend().products.over_groups(a, b, known(groups), to);
    };
    return made;
  }();
  return table;
}

class TrainOnDevice : public ::testing::Test {
 protected:
  void SetUp() override { use_pretend_device(); }

  Recipe recipe(const std::string& name, const std::string& device, Overrides overrides) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    overrides.emplace_back("trainer.device", device);
    return small_recipe(folder_, overrides);
  }
  void run_on_host(const Overrides& overrides, const TrainOptions& options = quiet_options()) {
    const ops::BackendScope plain(ops::reference_backend());
    train(recipe("host", "cpu", overrides), options);
  }
  void run_on_device(const Overrides& overrides, const TrainOptions& options = quiet_options()) {
    train(recipe("device", "pretend", overrides), options);
  }
  void expect_same_files(std::int64_t step) { expect_same_numbers(folder_ / "host", folder_ / "device", step); }
  void expect_same(const Case& one) {
    SCOPED_TRACE(one.name);
    run_on_host(one.overrides);
    run_on_device(one.overrides);
    expect_same_files(10);
    for (const char* run : {"host", "device"}) std::filesystem::remove_all(folder_ / run);
  }

  // Values that the device was asked for, of a micro-batch alone.
  double waits_per_micro_batch(Overrides overrides) {
    const auto waits = [&](const std::string& accumulate) {
      Overrides all = overrides;
      all.insert(all.end(), {{"trainer.accumulate", accumulate}, {"trainer.batch_size", "2"}});
      const Recipe one = recipe("bench", "pretend", all);
      training::bench(one, {.warmup = 1, .steps = 1});
      const std::int64_t before = pretend_waits();
      training::bench(one, {.warmup = 1, .steps = 3});
      const std::int64_t between = pretend_waits();
      training::bench(one, {.warmup = 1, .steps = 5});
      return static_cast<double>(pretend_waits() - between - (between - before)) / 4;  // of a step: each is made twice
    };
    const double one = waits("1"), three = waits("3");
    return (three - one) / 2;
  }
  TempFolder folder_;
};

TEST_F(TrainOnDevice, GivesTheHostsBits) {
  expect_same({"plain", {}});
  expect_same({"bf16", {{"trainer.precision", "bf16"}}});
  expect_same({"fp64", {{"trainer.precision", "fp64"}}});
  expect_same({"fp16", {{"trainer.precision", "fp16"}, {"trainer.loss_scale", "{start: 1e9, grow_every: 2}"}}});
  for (const char* recipe : {"tensorwise", "rowwise"})
    expect_same({recipe, {{"trainer.precision", "bf16"}, {"trainer.fp8", recipe}}});
  expect_same({"recomputed", {{"trainer.checkpoint_blocks", "true"}, {"trainer.accumulate", "2"}}});
  expect_same({"unpacked", {{"data.packing", "none"}, {"trainer.precision", "bf16"}}});
  expect_same({"averaged", {{"trainer.ema", "0.9"}}});
  expect_same({"beside", {{"trainer.save.asynchronous", "true"}}});
  expect_same({"smoothed", {{"objective", "{type: causal_lm, label_smoothing: 0.1, z_loss: 0.01}"}}});
  expect_same({"noisy", {{"objective", "{type: causal_lm, loss_type: dft}"}, {"trainer.neftune_noise_alpha", "5"}}});
}

TEST_F(TrainOnDevice, WithEveryOptimizer) {
  for (const char* type : {"adamw", "adam", "sgd", "lion", "adafactor", "adamw_8bit", "adamax", "ademamix", "lamb",
                           "mars", "muon", "nadam", "radam", "rmsprop", "adamw_schedule_free", "sophia"})
    expect_same(with_optimizer(type));
  expect_same({"prodigy", {{"optimizer", "{type: prodigy}"}}});
}

TEST_F(TrainOnDevice, WithOtherModels) {
  const auto model = [](const std::string& text) { return Overrides{{"model", text}}; };
  expect_same({"routed", model(routed_model(", output_router_logits: true"))});
  expect_same({"windows", model("{type: mistral, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
                                "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256, "
                                "sliding_window: 16}")});
  expect_same({"gpt2", model("{type: gpt2, n_embd: 32, n_layer: 2, n_head: 4, n_positions: 256, attn_pdrop: 0.1, "
                             "resid_pdrop: 0.1, embd_pdrop: 0.1}")});
}

TEST_F(TrainOnDevice, ClassifiesAndCompares) {
  std::string labelled, pairs;
  for (int i = 0; i < 40; ++i) {
    labelled += fmt::format("{{\"text\": \"text {}\", \"label\": {}}}\n", i, i % 2);
    pairs += fmt::format("{{\"prompt\": \"{0}+1=\", \"chosen\": \"{1}\", \"rejected\": \"{0}0\"}}\n", i, i + 1);
  }
  folder_.write("labelled.jsonl", labelled);
  folder_.write("pairs.jsonl", pairs);
  const auto file = [&](const char* name) { return (folder_ / name).string(); };
  expect_same({"classification",
               {{"data.train", file("labelled.jsonl")},
                {"objective", "{type: classification}"},
                {"model", "{type: bert, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, "
                          "num_attention_heads: 2, max_position_embeddings: 64}"}}});
  expect_same({"dpo", {{"data.train", file("pairs.jsonl")}, {"objective", "{type: dpo}"}}});
  expect_same({"reward", {{"data.train", file("pairs.jsonl")}, {"objective", "{type: reward}"}}});
  expect_same({"labels", {{"data.train", file("labelled.jsonl")}, {"objective", "{type: classification}"}}});
  expect_same({"orpo", {{"data.train", file("pairs.jsonl")}, {"objective", "{type: orpo}"}}});
  train(recipe("teacher", "cpu", {{"trainer.steps", "2"}, {"run.seed", "5"}}), quiet_options());
  const std::string teacher = "{type: distillation, beta: 0.5, alpha: 0.7, teacher: " + file("teacher") + "}";
  expect_same({"distillation", {{"objective", teacher}}});
  expect_same({"distillation-bf16", {{"objective", teacher}, {"trainer.precision", "bf16"}}});
}

TEST_F(TrainOnDevice, TrainsAdapters) {
  train(recipe("base", "cpu", {{"trainer.steps", "2"}}), quiet_options());
  const auto adapter = [&](const std::string& more) {
    return Overrides{{"model", "{path: " + (folder_ / "base").string() + "}"},
                     {"tokenizer", ""},
                     {"adapter", "{type: lora, rank: 4" + more + "}"}};
  };
  expect_same({"lora", adapter(", dropout: 0.1")});
  expect_same({"dora", adapter(", dora: true")});
  expect_same({"pissa", adapter(", init: pissa_niter_4")});
}

TEST_F(TrainOnDevice, WithWhatIsMeasuredAndChangedOnTheWay) {
  expect_same({"callbacks",
               {{"callbacks", "[{type: histograms, every: 2, gradients: true}, intermediates, learning_rate, "
                              "{type: pruning, every: 1, scope: global}, {type: early_stopping, patience: 9}, "
                              "{type: samples, prompts: [The, day], every: 5, max_new_tokens: 4}]"}}});
  expect_same({"stages",
               {{"trainer.accumulate", "4"},
                {"trainer.batch_size", "1"},
                {"trainer.batch_warmup", "[{steps: 3, accumulate: 2}]"},
                {"model.trainable", "[{match: lm_head, from: 2}, {match: layers}]"},
                {"trainer.skip_spikes", "{sigma: 1, window: 3}"},
                {"trainer.max_grad_value", "0.1"},
                {"objective", "{type: causal_lm, metrics: [accuracy]}"}}});
}

TEST_F(TrainOnDevice, GoesOn) {
  const Overrides overrides{{"trainer.precision", "bf16"}, {"optimizer", "{type: adamw, learning_rate: 1e-2}"}};
  run_on_host(overrides);
  run_on_device(overrides);
  TrainOptions options = quiet_options();
  options.resume = "4";
  run_on_device(overrides, options);
  expect_same_files(10);
}

TEST_F(TrainOnDevice, WaitsForNothingInAMicroBatch) {
  EXPECT_EQ(waits_per_micro_batch({}), 0);
  EXPECT_EQ(waits_per_micro_batch({{"trainer.precision", "bf16"}, {"trainer.checkpoint_blocks", "true"}}), 0);
  EXPECT_EQ(waits_per_micro_batch({{"model", routed_model()}}), 2);  // plain ATen asks how many tokens experts have
  const ops::BackendScope grouping(grouping_table());
  EXPECT_EQ(waits_per_micro_batch({{"model", routed_model(", output_router_logits: true")},
                                   {"trainer.checkpoint_blocks", "true"}}), 0);
}

TEST_F(TrainOnDevice, GivesTheHostsBitsWithoutAskingWhatExpertsHave) {
  const Overrides routed{{"model", routed_model(", output_router_logits: true")}, {"trainer.precision", "bf16"}};
  run_on_host(routed);
  {
    const ops::BackendScope grouping(grouping_table());
    run_on_device(routed);
  }
  expect_same_files(10);
}

TEST_F(TrainOnDevice, WaitsOnceInAStep) {
  const auto waits = [&](std::int64_t steps, const Overrides& overrides) {
    const Recipe one = recipe("bench", "pretend", overrides);
    const std::int64_t before = pretend_waits();
    training::bench(one, {.warmup = 1, .steps = steps});
    return pretend_waits() - before;
  };
  const auto of_a_step = [&](const Overrides& overrides) {  // each is made twice
    return static_cast<double>(waits(7, overrides) - waits(3, overrides)) / 8;
  };
  EXPECT_EQ(of_a_step({}), 1);
  EXPECT_EQ(of_a_step({{"trainer.skip_spikes", "{sigma: 9}"}}), 2) << "the norm is read before the update";
}

TEST_F(TrainOnDevice, LeavesOutWhatIsNotFinite) {
  static const bool once = [] { return registries().callbacks.add<Poison>("poison", "NaN in step 4."), true; }();
  (void)once;
  const Overrides poisoned{{"callbacks", "[{type: poison}]"}, {"trainer.skip_not_finite", "1"}};
  for (const char* precision : {"fp32", "bf16"}) {
    Overrides all = poisoned;
    all.insert(all.end(), {{"trainer.precision", precision}, {"trainer.save.every", "1"}});
    if (precision == std::string("bf16")) all.emplace_back("trainer.max_grad_norm", "0");
    expect_same({precision, all});
    run_on_device(all);
    const auto bytes = [&](std::int64_t step) {
      return read_text(folder_ / "device" / step_folder(step) / "state/optimizer-00000-of-00001.safetensors");
    };
    EXPECT_TRUE(bytes(3) == bytes(4));
    EXPECT_FALSE(bytes(4) == bytes(5));
    std::filesystem::remove_all(folder_ / "device");
  }
}

// The update is asked for before the host has seen the losses, or after it: with a callback that looks at gradients.
TEST_F(TrainOnDevice, GoesOnToTheUpdateWithTheSameBits) {
  for (const char* optimizer : {"adamw", "lion", "sgd", "sophia"}) {
    const Overrides ahead{{"optimizer", fmt::format("{{type: {}, learning_rate: 1e-2}}", optimizer)},
                          {"trainer.max_grad_norm", "0.5"}};
    Overrides after = ahead;
    after.emplace_back("callbacks", "[{type: norms, every: 1}]");
    train(recipe("host", "pretend", after), quiet_options());
    train(recipe("device", "pretend", ahead), quiet_options());
    for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
      EXPECT_TRUE(read_text(folder_ / "host" / step_folder(10) / file) ==
                  read_text(folder_ / "device" / step_folder(10) / file))
          << optimizer << ": " << file;
    for (const char* run : {"host", "device"}) std::filesystem::remove_all(folder_ / run);
  }
}

TEST_F(TrainOnDevice, RoundsProductsOnRequest) {
  const Overrides rounded{{"trainer.matmul_precision", "high"}, {"trainer.steps", "2"}};
  run_on_device(rounded);
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  EXPECT_HONE_ERROR(train(recipe("none", "cpu", rounded), quiet_options()), config, "trainer.matmul_precision");
  run_on_host({{"trainer.steps", "2"}});
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
}

TEST_F(TrainOnDevice, AsksForTheSameBitsUnlessToldNotTo) {
  const Overrides fast{{"trainer.deterministic", "fast"}, {"trainer.steps", "2"}};
  run_on_device(fast);
  EXPECT_FALSE(devices::same_bits_wanted());
  EXPECT_HONE_ERROR(train(recipe("none", "cpu", fast), quiet_options()), config, "trainer.deterministic");
  run_on_host({{"trainer.steps", "2"}});
  EXPECT_TRUE(devices::same_bits_wanted());
}

TEST_F(TrainOnDevice, RefusesFloat8WhereNothingHasIt) {
  static const ops::Backend older = [] {
    ops::Backend made = ops::reference_backend();
    made.products.float8_by = [](const at::Tensor&) { return ops::Float8By::nothing; };
    return made;
  }();
  const ops::BackendScope scope(older);
  const Overrides wanted{{"trainer.precision", "bf16"}, {"trainer.fp8", "rowwise"}};
  EXPECT_HONE_ERROR(run_on_device(wanted), config, "expected a GPU of compute capability 8.9 or later");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "device"));
}

TEST_F(TrainOnDevice, RefusesWhatIsNotThere) {
  const auto start = [&](const std::string& device) { train(recipe("none", device, {}), quiet_options()); };
  EXPECT_HONE_ERROR(start("gpu"), config, "trainer.device: got \"gpu\"");
  EXPECT_HONE_ERROR(start("pretend:9"), config, "4 pretend devices");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
}

}  // namespace
}  // namespace hone::test
