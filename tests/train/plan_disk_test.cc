// What a plan says of the disk is never less than what the run writes, and not much more.
#include <sys/stat.h>

#include "train/plan.h"
#include "train/together.h"

namespace hone {
namespace {

class PlanDisk : public test::Together {
 protected:
  // Blocks that a folder's files and folders have, in bytes.
  static std::uint64_t on_disk(const std::filesystem::path& folder) {
    const auto of = [](const std::filesystem::path& path) {
      struct stat info{};
      EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
      return std::max<std::uint64_t>(static_cast<std::uint64_t>(info.st_blocks) * 512,
                                     static_cast<std::uint64_t>(info.st_size));
    };
    std::uint64_t bytes = of(folder);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) bytes += of(entry.path());
    return bytes;
  }
  void check(const std::string& name, int ranks, test::Overrides more) {
    SCOPED_TRACE(name);
    more.insert(more.end(), {{"trainer.save.every", "2"}, {"trainer.save.keep", "0"}, {"trainer.eval_every", "2"}});
    test::Overrides all = with(more);
    all.emplace_back("run.folder", in(name).string());
    const training::RunPlan plan =
        training::plan_run(test::small_recipe(folder_, all), {.ranks = ranks, .measure = false});
    run(ranks, name, more);
    std::uint64_t largest = 0, sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(in(name) / "checkpoints")) {
      largest = std::max(largest, on_disk(entry.path()));
      sum += on_disk(entry.path());
    }
    EXPECT_LE(largest, plan.memory.checkpoint);
    EXPECT_LE(sum, plan.disk);
    EXPECT_LT(plan.memory.checkpoint, largest + largest / 4 + 300'000);
  }
};

TEST_F(PlanDisk, HoldsForEachOptimizer) {
  for (const std::string type : {"adamw", "sgd", "lion", "adafactor", "muon", "sophia"})
    check(type, 1, {{"optimizer", "{type: " + type + ", learning_rate: 1e-3}"}});
}

TEST_F(PlanDisk, HoldsForEachPrecisionAndAverages) {
  for (const std::string precision : {"fp32", "bf16", "fp16"})
    check(precision, 1, {{"trainer.precision", precision}});
  check("ema", 1, {{"trainer.ema", "{decay: 0.9}"}, {"trainer.precision", "bf16"}});
  check("without", 1, {{"trainer.save.optimizer", "false"}, {"trainer.precision", "bf16"}});
}

TEST_F(PlanDisk, HoldsForAnAdapter) {
  run(1, "base", {});
  const std::string base = "{path: " + in("base").string() + "}";
  check("lora", 1, {{"model", base}, {"tokenizer", ""}, {"adapter.type", "lora"}, {"adapter.rank", "4"}});
}

TEST_F(PlanDisk, HoldsForSharesOfRanks) {
  check("shares", 2, {{"trainer.precision", "bf16"}, {"parallel.fsdp", "-1"}});
  check("replicas", 2, {{"trainer.precision", "bf16"}});
}

TEST_F(PlanDisk, HoldsForManyLinesOfTheLog) {
  check("long", 1, {{"trainer.steps", "60"}, {"trainer.log_every", "1"}});
}

}  // namespace
}  // namespace hone
