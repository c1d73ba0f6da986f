// What transformers computes, computed on every device beside the host: the pretended one, and GPUs where there are
// any.
#include <gtest/gtest.h>

#include "device/pretend_device.h"
#include "models/golden_checks.h"
#include "tensor/device.h"

namespace hone::test {
namespace {

struct OnDevice {
  at::Device device;
  std::filesystem::path root;
  std::string name;
};

std::vector<OnDevice> goldens_of_devices() {
  use_pretend_device();
  std::vector<OnDevice> all;
  for (const at::Device device : devices::all())
    for (const std::filesystem::path& root : {kGoldens, std::filesystem::path("tests/golden/gpt2"), kExperts})
      for (const std::string& name : golden_names(root))
        if (!device.is_cpu()) all.push_back({device, root, name});
  return all;
}

class GoldenOnDevice : public ::testing::TestWithParam<OnDevice> {
 protected:
  GoldenOnDevice() : golden_(GetParam().name, GetParam().root), model_(golden_.model()), batch_(golden_.batch()) {
    model_->each_weight([&](const std::string&, Weight& weight) { weight.set_device(GetParam().device); });
    batch_ = batch_.to(GetParam().device);
  }
  // Of GPT-2 the golden has no dropout; of experts it has the router's loss.
  bool trains() const { return GetParam().root.filename() != "gpt2"; }
  // fp32 sums in another order than the host's.
  static constexpr double kTolerance = 2e-5;
  Golden golden_;
  std::unique_ptr<CausalLm> model_;
  Batch batch_;
};

TEST_P(GoldenOnDevice, LogitsAndLoss) {
  const Tensor logits = model_->logits(batch_).cpu() * golden_["attention_mask"].unsqueeze(-1);
  expect_close(logits, golden_["logits"], kTolerance * std::max(1.0, largest(golden_["logits"])), "logits");
  Pass pass(batch_);
  pass.training = trains();
  const at::NoGradGuard no_graph;
  EXPECT_NEAR(mean_loss(*model_, batch_, pass).item<double>(), golden_["loss"].item<double>(), kTolerance);
}

TEST_P(GoldenOnDevice, EveryGradient) {
  Pass pass(batch_);
  pass.training = trains();
  mean_loss(*model_, batch_, pass).backward();
  expect_golden_gradients(*model_, golden_.tensors, [](const std::string&) { return 1e-3; }, kTolerance);
}

TEST_P(GoldenOnDevice, TenSteps) {
  expect_ten_golden_steps(*model_, batch_, golden_["ten_losses"],
                          [&](Pass& pass) { return mean_loss(*model_, batch_, pass); }, trains(), kTolerance);
}

std::string named(const testing::TestParamInfo<OnDevice>& info) {
  std::string text = c10::DeviceTypeName(info.param.device.type(), true) +
                     std::to_string(info.param.device.index()) + "_" + info.param.name;
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Devices, GoldenOnDevice, testing::ValuesIn(goldens_of_devices()), named);

}  // namespace
}  // namespace hone::test
