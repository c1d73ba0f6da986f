// Several ranks on devices beside the host, each on one of its own: the bits that as many ranks give on the host with
// plain ATen, and nothing that is waited for besides.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "device/pretend_device.h"
#include "device/pretend_exchange.h"
#include "device/rank_jobs.h"
#include "device/same_numbers.h"
#include "dist/ranks.h"

namespace hone::test {
namespace {

class RanksOnDevices : public RankJobs {
 protected:
  // The same on the host and on devices; compared when they are started.
  void compare(const std::string& name, const Overrides& overrides) {
    add(name + "-host", "cpu", overrides);
    add(name + "-device", "pretend", overrides);
    compared_.push_back(name);
  }
  void expect_same(int ranks) {
    ASSERT_EQ(start(ranks), 0);
    for (const std::string& name : compared_) {
      SCOPED_TRACE(name);
      expect_same_numbers(folder_ / (name + "-host"), folder_ / (name + "-device"), 10);
    }
  }

 private:
  std::vector<std::string> compared_;
};

// From the second step on no loss is finite, on any rank.
const Overrides kExploding{{"optimizer", "{type: sgd, learning_rate: 1e30}"},
                           {"trainer.skip_not_finite", "20"},
                           {"data.eval.held_out", "0"}};

TEST_F(RanksOnDevices, ThatHaveAllOfAModel) {
  compare("plain", {});
  compare("bf16", {{"trainer.precision", "bf16"}, {"trainer.max_grad_norm", "0.5"}});
  compare("fp16", {{"trainer.precision", "fp16"}, {"trainer.loss_scale", "{start: 1e9, grow_every: 2}"}});
  compare("recomputed", {{"trainer.checkpoint_blocks", "true"}, {"data.packing", "none"}});
  compare("averaged", {{"trainer.ema", "0.9"}, {"optimizer", "{type: lion, learning_rate: 1e-3}"}});
  compare("whole", {{"optimizer", "{type: muon, learning_rate: 1e-2}"}});
  compare("exploding", kExploding);
  compare("callbacks", {{"callbacks", "[{type: norms, every: 2}, {type: histograms, every: 2}]"},
                        {"trainer.skip_spikes", "{sigma: 1, window: 3}"}});
  expect_same(2);
}

TEST_F(RanksOnDevices, ThatHaveAShareEach) {
  compare("plain", {kShares});
  compare("bf16", {kShares, {"trainer.precision", "bf16"}, {"trainer.max_grad_norm", "0.5"}});
  compare("fp16", {kShares, {"trainer.precision", "fp16"}, {"trainer.loss_scale", "{start: 1e9, grow_every: 2}"}});
  compare("recomputed", {kShares, {"trainer.checkpoint_blocks", "true"}, {"data.packing", "none"}});
  compare("averaged", {kShares, {"trainer.ema", "0.9"}});
  compare("exploding", {kShares, kExploding[0], kExploding[1], kExploding[2]});
  compare("norms", {kShares, {"callbacks", "[{type: norms, every: 2}]"}});
  expect_same(2);
}

TEST_F(RanksOnDevices, OfAnyNumber) {
  compare("whole", {{"trainer.precision", "bf16"}});
  compare("shares", {kShares, {"trainer.precision", "bf16"}});
  compare("pairs", {{"parallel.context", "2"}, {"trainer.precision", "bf16"}});
  expect_same(4);
}

// Of micro-batches: what goes between them within a pass.
TEST_F(RanksOnDevices, ThatComputeTogether) {
  const Overrides::value_type two{"parallel.context", "2"};
  compare("whole", {two});
  compare("shares", {two, kShares, {"trainer.precision", "bf16"}, {"trainer.checkpoint_blocks", "true"}});
  compare("balanced", {two, {"model", routed_model(", output_router_logits: true")}});
  expect_same(2);
}

TEST_F(RanksOnDevices, ThatGoOn) {
  for (const auto& [name, overrides] :
       std::map<std::string, Overrides>{{"whole", {{"trainer.precision", "bf16"}}}, {"shares", {kShares}}}) {
    compare(name, overrides);
    add(name + "-device", "pretend", overrides);
  }
  expect_same(2);
}

TEST_F(RanksOnDevices, ThatTrainOtherThings) {
  train(small_recipe(folder_, {{"run.folder", (folder_ / "base").string()}, {"trainer.steps", "2"}}), quiet_options());
  const std::string base = (folder_ / "base").string();
  std::string pairs, labelled;
  for (int i = 0; i < 40; ++i) {
    pairs += fmt::format("{{\"prompt\": \"{0}+1=\", \"chosen\": \"{1}\", \"rejected\": \"{0}0\"}}\n", i, i + 1);
    labelled += fmt::format("{{\"text\": \"text {}\", \"label\": {}}}\n", i, i % 2);
  }
  const std::string pairs_file = folder_.write("pairs.jsonl", pairs), labels = folder_.write("labels.jsonl", labelled);
  const Overrides dora{{"model", "{path: " + base + "}"}, {"tokenizer", ""},
                       {"adapter", "{type: lora, rank: 4, dora: true, dropout: 0.1}"}};
  const Overrides dpo{{"data.train", pairs_file}, {"objective", "{type: dpo}"}, {"model", "{path: " + base + "}"},
                      {"tokenizer", ""}, {"trainer.precision", "bf16"}};
  const Overrides classes{{"data.train", labels}, {"objective", "{type: classification}"},
                          {"model", "{type: bert, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, "
                                    "num_attention_heads: 2, max_position_embeddings: 64}"}};
  const Overrides balanced{{"model", routed_model(", output_router_logits: true")}};
  Overrides beside = dpo, first = dpo;  // a reference of its own, which lies in its file as it is computed with
  beside.insert(beside.end(), {{"objective.reference", base}, {"trainer.precision", "fp32"}});
  first.insert(first.end(), {{"objective.precompute_reference", "true"}});
  for (const auto& [name, overrides] : std::map<std::string, Overrides>{{"dora", dora},
                                                                        {"dpo", dpo},
                                                                        {"beside", beside},
                                                                        {"first", first},
                                                                        {"classes", classes},
                                                                        {"balanced", balanced}}) {
    compare(name, overrides);
    Overrides shares = overrides;
    shares.push_back(kShares);
    compare(name + "-shares", shares);
  }
  expect_same(2);
}

TEST_F(RanksOnDevices, WaitForNothingInAMicroBatch) {
  const Overrides six{{"trainer.accumulate", "6"}};
  add("waits", "pretend", six);
  add("waits-shares", "pretend", {six[0], kShares, {"trainer.precision", "bf16"}});
  add("waits-recomputed", "pretend", {six[0], kShares, {"trainer.checkpoint_blocks", "true"}});
  add("waits-together", "pretend", {six[0], {"parallel.context", "2"}});
  ASSERT_EQ(start(2), 0);
  for (const char* name : {"waits", "waits-shares", "waits-recomputed", "waits-together"})
    for (const int rank : {0, 1}) EXPECT_EQ(waits(name, rank), 2) << name << ": the losses, and then the norm";
}

TEST_F(RanksOnDevices, HaveADeviceEach) {
  EXPECT_THAT(fails(5, "pretend", {{"trainer.accumulate", "5"}}),
              testing::HasSubstr("trainer.device: 5 ranks on this machine want a pretend device each, but this machine "
                                 "has 4 pretend devices\n  hint: start 4 ranks on each machine"));
  EXPECT_THAT(fails(2, "pretend:1"),
              testing::HasSubstr("trainer.device: got pretend:1, expected pretend: each of several ranks has a device "
                                 "of its own"));
}

TEST_F(RanksOnDevices, ThatSeeTheSameOneAreRefused) {
  ::setenv(kPretendDevices, "1", 1);
  EXPECT_THAT(fails(2, "pretend"), testing::HasSubstr("ranks 0 and 1 have one pretend device between them"));
  ::unsetenv(kPretendDevices);
}

TEST(RanksOnOneDevice, AreRefusedBeforeAnyWork) {
  use_pretend_device();
  use_pretend_exchange();
  const auto meet = [](const std::vector<std::string>& devices) {
    on_ranks(static_cast<int>(devices.size()), [&](const World& world) {
      world.compute_on(at::Device(devices[static_cast<std::size_t>(world.rank())]));
    });
  };
  EXPECT_HONE_ERROR(meet({"pretend:0", "pretend:1", "pretend:0"}), config,
                    "ranks 0 and 2 have one pretend device between them, pretend:0; each needs its own");
  EXPECT_HONE_ERROR(meet({"pretend:0", "cpu"}), config, "rank 1 computes on cpu, and rank 0 on pretend");
}

TEST(RanksOnOneDevice, TheSumsOfDevicesAreThoseOfTheHost) {
  use_pretend_device();
  use_pretend_exchange();
  on_ranks(3, [&](const World& world) {
    const at::Device own(at::kPrivateUse1, static_cast<c10::DeviceIndex>(world.rank()));
    world.compute_on(own);
    for (const std::int64_t size : {1, 7, 1000})
      for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kInt}) {
        const at::Tensor here = (at::arange(1, size + 1, at::kDouble) * (world.rank() + 1)).sin().mul(1e4).to(type);
        const at::Tensor there = world.total(here.to(own, /*non_blocking=*/true));
        EXPECT_EQ(there.device(), own);
        EXPECT_TRUE(at::equal(world.total(here), there.cpu()));
      }
  });
}

}  // namespace
}  // namespace hone::test
