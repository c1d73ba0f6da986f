// The door between tensors and host memory.
#include "tensor/host.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/error.h"

namespace hone {
namespace {

TEST(Host, ValuesAreTheTensorsOwn) {
  const at::Tensor x = host::tensor_of(std::vector<std::int64_t>{3, 1, 4, 1}, {2, 2});
  EXPECT_TRUE(x.equal(at::tensor({3, 1, 4, 1}, at::kLong).view({2, 2})));
  host::mutable_values<std::int64_t>(x)[3] = 5;
  EXPECT_EQ(x[1][1].item<std::int64_t>(), 5);
  EXPECT_EQ(host::values<std::int64_t>(x).size(), 4u);
  EXPECT_EQ(host::bytes(x).data(), static_cast<const void*>(x.const_data_ptr()));
  EXPECT_EQ(host::mutable_bytes(x).size(), 32u);
}

TEST(Host, RefusesWhatIsNotThere) {
  EXPECT_THROW(host::values<float>(at::zeros({3, 2}).t()), Error);
  EXPECT_THROW(host::bytes(at::empty({3}, at::TensorOptions().device(at::kMeta))), Error);
  EXPECT_THROW(host::tensor_of(std::vector<float>{1, 2}, {3}), Error);
  EXPECT_ANY_THROW(host::values<float>(at::zeros({3}, at::kDouble)));
}

TEST(Host, NumbersAreReadTogether) {
  const std::int64_t before = host::waits();
  const std::vector<double> all =
      host::numbers({at::scalar_tensor(0.5), at::full({1}, 0.1, at::kDouble), at::scalar_tensor(7, at::kLong)});
  EXPECT_EQ(all, (std::vector<double>{0.5, 0.1, 7}));
  EXPECT_EQ(host::waits() - before, 1);
  EXPECT_TRUE(host::numbers({}).empty());
  EXPECT_EQ(host::waits() - before, 1);
}

TEST(Host, CountsWhatWouldWait) {
  const at::Tensor x = at::ones({2, 3});
  const std::int64_t before = host::waits();
  EXPECT_TRUE(host::read(x.t()).equal(at::ones({3, 2})));
  EXPECT_EQ(host::number(x.sum()), 6);
  EXPECT_EQ(host::waits() - before, 2);
  host::values<float>(x), host::bytes(x);
  EXPECT_EQ(host::waits() - before, 2);
}

}  // namespace
}  // namespace hone
