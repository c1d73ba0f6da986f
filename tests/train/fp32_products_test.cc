// Training in fp32 with LibTorch's products, as on CPUs where they are the faster ones: as exact as with ours, and
// resumed bit for bit.
#include <gtest/gtest.h>

#include "ops/kernels.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

using ops::Fp32Products;
using test::Overrides;

class Fp32Training : public ::testing::Test {
 protected:
  Fp32Training() { test::register_test_callbacks(); }
  Summary run(const std::string& name, Overrides overrides) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    return train(test::small_recipe(folder_, overrides), test::quiet_options());
  }
  test::TempFolder folder_;
};

// The weights after one step of plain descent at a rate that leaves little of them but their gradients; those of a run
// in fp64 are what is right.
class Fp32Gradients : public Fp32Training {
 protected:
  std::map<std::string, at::Tensor> after_a_step(const std::string& name, const std::string& precision) {
    run(name, {{"optimizer", "{type: sgd, learning_rate: 1e6}"},
               {"trainer.steps", "1"},
               {"trainer.max_grad_norm", "0"},
               {"trainer.precision", precision}});
    return test::read_tensors(folder_ / name / test::step_folder(1) / "model.safetensors");
  }
  double error_of(const std::string& name) {
    double error = 0;
    for (const auto& [weight, got] : after_a_step(name, "fp32")) {
      const at::Tensor& right = exact_.at(weight);
      EXPECT_EQ(right.scalar_type(), at::kDouble);
      error += ((got.to(at::kDouble) - right).norm() / right.norm()).item<double>();
    }
    return error / static_cast<double>(exact_.size());
  }
  std::map<std::string, at::Tensor> exact_ = after_a_step("exact", "fp64");
};

TEST_F(Fp32Gradients, AreAsNearToFp64ByLibTorchAsByOurs) {
  const auto by = [&](Fp32Products products) {
    const ops::Fp32ProductsScope scope(products);
    return error_of(std::string(ops::name(products)));
  };
  const double ours = by(Fp32Products::ours), libtorch = by(Fp32Products::libtorch);
  EXPECT_GT(libtorch, 0);
  EXPECT_NE(libtorch, ours);
  EXPECT_LT(ours, 1e-5);
  EXPECT_LT(libtorch, 1.2 * ours);
}

class Fp32Resume : public Fp32Training, public ::testing::WithParamInterface<Fp32Products> {};

TEST_P(Fp32Resume, GoesOnBitForBit) {
  const ops::Fp32ProductsScope scope(GetParam());
  EXPECT_EQ(run("whole", {}).step, 10);
  EXPECT_EQ(run("parts", {{"callbacks", "[{type: raise_at, step: 3}]"}}).step, 3);
  const Summary rest = run("parts", {});
  EXPECT_EQ(rest.resumed_from, 3);
  test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 10);
}

INSTANTIATE_TEST_SUITE_P(By, Fp32Resume, testing::Values(Fp32Products::ours, Fp32Products::libtorch),
                         [](const auto& info) { return std::string(ops::name(info.param)); });

}  // namespace
}  // namespace hone
