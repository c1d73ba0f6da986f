// The pretended device computes as the host does, and is strict.
#include "device/pretend_device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hone::test {
namespace {

const at::Device kDevice("privateuseone:0");

class PretendDevice : public ::testing::Test {
 protected:
  void SetUp() override { use_pretend_device(); }
};

TEST_F(PretendDevice, ComputesAsTheHostDoes) {
  at::Tensor x = at::arange(24, at::kFloat).view({4, 6}), y = x.to(kDevice);
  EXPECT_TRUE(at::equal((x.t() * 2).slice(0, 1, 3).sum(1), (y.t() * 2).slice(0, 1, 3).sum(1).to(at::kCPU)));
  y.select(0, 1).fill_(7);
  EXPECT_EQ(y.index({1, 5}).item<float>(), 7);
  EXPECT_TRUE(at::equal(at::mm(x, x.t()), at::mm(x.to(kDevice), x.to(kDevice).t()).to(at::kCPU)));
}

TEST_F(PretendDevice, Differentiates) {
  at::Tensor x = at::arange(6, at::kFloat).view({2, 3}).to(kDevice).requires_grad_(true);
  (x * x).sum().backward();
  EXPECT_TRUE(at::equal(x.grad().to(at::kCPU), 2 * at::arange(6, at::kFloat).view({2, 3})));
}

TEST_F(PretendDevice, RefusesTensorsOfTheHost) {
  const at::Tensor x = at::ones({3}), y = x.to(kDevice);
  EXPECT_ANY_THROW(x + y);
  EXPECT_NO_THROW(at::scalar_tensor(2.0) * y);  // a number is welcome
}

TEST_F(PretendDevice, CountsWaits) {
  const at::Tensor y = at::ones({3}).to(kDevice);
  const std::int64_t before = pretend_waits();
  at::Tensor z = y + 1;
  EXPECT_EQ(pretend_waits(), before);
  (void)z.sum().item<float>();
  (void)z.to(at::kCPU);
  EXPECT_EQ(pretend_waits(), before + 2);
}

TEST_F(PretendDevice, RemembersWorkInsteadOfDoingIt) {
  const at::Tensor x = at::ones({3}, at::kFloat).to(kDevice), count = at::zeros({1}, at::kFloat).to(kDevice);
  at::Tensor y;
  const auto recording = make_pretend_recording();
  recording->record([&] {
    y = (x * 2).index_select(0, at::arange(2, x.options().dtype(at::kLong))) + count;
    count.add_(1);
  });
  EXPECT_TRUE(y.cpu().isnan().all().item<bool>());  // not done yet
  EXPECT_EQ(count.cpu().item<float>(), 0);
  for (const float step : {0.f, 1.f, 2.f}) {
    x.fill_(step);
    recording->replay();
    EXPECT_EQ(y.cpu()[1].item<float>(), 3 * step);
  }
  EXPECT_EQ(count.cpu().item<float>(), 3);
  EXPECT_THROW(recording->record([&] { (void)x.cpu(); }), c10::Error);
  EXPECT_THROW(recording->record([&] { (void)at::ones({3}).to(kDevice); }), c10::Error);
  EXPECT_EQ(x.cpu()[0].item<float>(), 2);  // goes on as before
}

}  // namespace
}  // namespace hone::test
