// Several ranks on devices beside the host, each on one of its own: the bits that as many ranks give on the host with
// plain ATen, and nothing that is waited for besides. Ranks are processes here: this program, which each of them is
// started as once more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "device/pretend_device.h"
#include "device/pretend_exchange.h"
#include "device/same_numbers.h"
#include "dist/launcher.h"
#include "dist/ranks.h"
#include "dist/session.h"
#include "hone/config.h"
#include "ops/backend.h"
#include "tensor/device.h"
#include "train/bench.h"
#include "train/placement.h"
#include "train/support.h"

namespace hone::test {
namespace {

constexpr const char* kJob = "HONE_TEST_JOB";  // a folder: NAME.yaml are recipes, which are trained in this order

void write_file(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

std::vector<std::filesystem::path> recipes_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Of a step's micro-batches, as in one process (train_test.cc).
double waits_of_steps(const Recipe& recipe, const World& world) {
  const auto waits = [&](std::int64_t steps) {
    const std::int64_t before = pretend_waits();
    training::bench(recipe, {.warmup = 1, .steps = steps, .world = world});
    return pretend_waits() - before;
  };
  const std::int64_t few = waits(3), more = waits(5);
  return static_cast<double>(more - few) / 4;  // each is made twice
}

void do_job(const std::filesystem::path& file, const World& world) {
  const Recipe recipe = read_recipe(file.string());
  training::settle_on_device(recipe, world);  // a first sum is read
  const std::filesystem::path told = fmt::format("{}.{}", file.string(), world.rank());
  if (file.stem().string().find("waits") != std::string::npos)
    return write_file(told, fmt::format("{}", waits_of_steps(recipe, world)));
  std::optional<ops::BackendScope> plain;
  if (recipe.trainer.device == "cpu") plain.emplace(ops::reference_backend());
  TrainOptions options = quiet_options();
  options.world = world, options.handle_signals = false;
  if (file.stem().string().find("resumed") != std::string::npos) options.resume = "4";
  train(recipe, options);
  write_file(told, "done");
}

// What a rank is started for. By itself there is nothing to do.
TEST(ARank, DoesItsJob) {
  const char* folder = std::getenv(kJob);
  if (!folder) GTEST_SKIP() << "other tests start it";
  use_pretend_device();
  use_pretend_exchange();
  const std::unique_ptr<dist::Session> session = dist::Session::join();
  ASSERT_TRUE(session);
  try {
    for (const auto& file : recipes_in(folder)) do_job(file, session->world());
  } catch (const Error& error) {
    write_file(std::filesystem::path(folder) / fmt::format("error.{}", session->world().rank()), error.what());
    std::_Exit(1);
  }
}

class RanksOnDevices : public ::testing::Test {
 protected:
  RanksOnDevices() { std::filesystem::create_directories(jobs()); }
  std::filesystem::path jobs() const { return folder_.path() / "jobs"; }

  // One job more; into the folder `name`. Where that is done already, it goes on from step 4.
  void add(const std::string& name, const std::string& device, Overrides overrides) {
    overrides.insert(overrides.begin(), {{"trainer.batch_size", "2"}, {"trainer.accumulate", "4"}});
    overrides.insert(overrides.end(), {{"run.folder", (folder_ / name).string()}, {"trainer.device", device}});
    const std::string file = fmt::format("{:02}-{}{}", jobs_++, name, done_.insert(name).second ? "" : "-resumed");
    write_file(jobs() / (file + ".yaml"), config::to_yaml(write_recipe(small_recipe(folder_, overrides))));
    file_of_[name] = file;
  }
  int start(int ranks) {
    dist::LaunchOptions options;
    options.ranks = ranks;
    options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_filter=ARank.DoesItsJob",
                       "--gtest_brief=1"};
    ::setenv(kJob, jobs().c_str(), 1);
    const int code = dist::launch(options);
    ::unsetenv(kJob);
    return code;
  }
  // The same on the host and on devices; compared when they are started.
  void compare(const std::string& name, const Overrides& overrides) {
    add(name + "-host", "cpu", overrides);
    add(name + "-device", "pretend", overrides);
    compared_.push_back(name);
  }
  void expect_same(int ranks, std::int64_t step = 10) {
    ASSERT_EQ(start(ranks), 0);
    for (const std::string& name : compared_) {
      SCOPED_TRACE(name);
      expect_same_numbers(folder_ / (name + "-host"), folder_ / (name + "-device"), step);
    }
  }
  double told(const std::string& name, int rank) {
    return std::stod(read_text(jobs() / fmt::format("{}.yaml.{}", file_of_.at(name), rank)));
  }
  // All ranks fail; what one of them says.
  std::string fails(int ranks, const std::string& device, const Overrides& overrides = {}) {
    std::filesystem::remove_all(jobs());
    std::filesystem::create_directories(jobs());
    add("none", device, overrides);
    EXPECT_NE(start(ranks), 0);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
    std::string all;
    for (int rank = 0; rank < ranks; ++rank) all += read_text(jobs() / fmt::format("error.{}", rank)) + "\n";
    return all;
  }
  TempFolder folder_;
  int jobs_ = 0;
  std::set<std::string> done_;
  std::map<std::string, std::string> file_of_;
  std::vector<std::string> compared_;
};

const std::pair<std::string, std::string> kShares{"parallel.fsdp", "-1"};

TEST_F(RanksOnDevices, ThatHaveAllOfAModel) {
  compare("plain", {});
  compare("bf16", {{"trainer.precision", "bf16"}, {"trainer.max_grad_norm", "0.5"}});
  compare("fp16", {{"trainer.precision", "fp16"}, {"trainer.loss_scale", "{start: 1e9, grow_every: 2}"}});
  compare("recomputed", {{"trainer.checkpoint_blocks", "true"}, {"data.packing", "none"}});
  compare("averaged", {{"trainer.ema", "0.9"}, {"optimizer", "{type: lion, learning_rate: 1e-3}"}});
  compare("whole", {{"optimizer", "{type: muon, learning_rate: 1e-2}"}});
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
  compare("norms", {kShares, {"callbacks", "[{type: norms, every: 2}]"}});
  expect_same(2);
}

TEST_F(RanksOnDevices, OfAnyNumber) {
  compare("whole", {{"trainer.precision", "bf16"}});
  compare("shares", {kShares, {"trainer.precision", "bf16"}});
  expect_same(4);
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
  for (const auto& [name, overrides] :
       std::map<std::string, Overrides>{{"dora", dora}, {"dpo", dpo}, {"classes", classes}, {"balanced", balanced}}) {
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
  ASSERT_EQ(start(2), 0);
  for (const char* name : {"waits", "waits-shares", "waits-recomputed"})
    for (const int rank : {0, 1}) EXPECT_EQ(told(name, rank), 2) << name << ": the losses, and then the norm";
}

TEST_F(RanksOnDevices, HaveADeviceEach) {
  EXPECT_THAT(fails(5, "pretend", {{"trainer.accumulate", "5"}}),
              testing::HasSubstr("trainer.device: 5 ranks on this machine want a pretend device each, but this machine "
                                 "has 4 pretend devices\n  hint: start 4 ranks on each machine"));
  EXPECT_THAT(fails(2, "pretend:1"),
              testing::HasSubstr("trainer.device: got pretend:1, expected pretend: each of several ranks has a device "
                                 "of its own"));
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
