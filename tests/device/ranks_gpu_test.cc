// Ranks on GPUs: sums over NCCL, with one rank where there is one GPU alone; runs of two where there are two.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "device/rank_jobs.h"
#include "dist/ranks.h"
#include "tensor/device.h"

namespace hone::test {
namespace {

int gpus() {
  const auto all = devices::all();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [](at::Device one) { return one.is_cuda(); }));
}

// Of sizes that a number of ranks divides, and others.
void compare_sums(int ranks) {
  on_ranks(ranks, [&](const World& world) {
    const at::Device own(at::kCUDA, static_cast<c10::DeviceIndex>(world.rank()));
    devices::make_current(own);
    world.compute_on(own);
    for (const std::int64_t size : {1, 7, 1000, 3'000'001})
      for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kInt}) {
        const at::Tensor here = (at::arange(1, size + 1, at::kDouble) * (world.rank() + 1)).sin().mul(1e4).to(type);
        EXPECT_TRUE(at::equal(world.total(here), world.total(here.to(own)).cpu())) << size;
      }
    const at::Tensor share = at::full({1 << 20}, world.rank() + 1.0, at::TensorOptions().device(own)),
                     whole = at::empty({(1 << 20) * ranks}, share.options());
    world.begin_gather(share, whole)->wait();
    for (int rank = 0; rank < ranks; ++rank) EXPECT_TRUE((whole.chunk(ranks)[rank] == rank + 1).all().item<bool>());
  });
}

TEST(RanksOnGpus, SumAsOnTheHost) {
  if (gpus() < 1) GTEST_SKIP() << "no GPU, or a build without CUDA";
  compare_sums(1);
  if (gpus() > 1) compare_sums(2);
}

class RunsOnGpus : public RankJobs {
 protected:
  void expect_same(const std::string& one, const std::string& other) {
    SCOPED_TRACE(one + ", " + other);
    const auto file = std::filesystem::path(step_folder(10)) / "model.safetensors";
    EXPECT_TRUE(read_text(folder_ / one / file) == read_text(folder_ / other / file));
  }
};

// One micro-batch for each rank, and no clipping: shares are then added in the order of whole models.
TEST_F(RunsOnGpus, GiveTheSameBitsTwiceAndInShares) {
  if (gpus() < 2) GTEST_SKIP() << "fewer than two GPUs";
  const Overrides own{{"trainer.accumulate", "2"}, {"trainer.max_grad_norm", "0"}, {"trainer.precision", "bf16"}};
  Overrides shares = own;
  shares.push_back(kShares);
  add("once", "cuda", own);
  add("twice", "cuda", own);
  add("shares", "cuda", shares);
  add("shares", "cuda", shares);  // once more, from step 4
  ASSERT_EQ(start(2), 0);
  expect_same("once", "twice");
  expect_same("once", "shares");
}

TEST_F(RunsOnGpus, HaveOneEach) {
  if (gpus() < 1) GTEST_SKIP() << "no GPU, or a build without CUDA";
  const int ranks = gpus() + 1;
  const std::string fact = gpus() == 1 ? "ranks 0 and 1 have one cuda device between them" : "want a cuda device each";
  EXPECT_THAT(fails(ranks, "cuda", {{"trainer.accumulate", std::to_string(ranks)}}), testing::HasSubstr(fact));
}

}  // namespace
}  // namespace hone::test
