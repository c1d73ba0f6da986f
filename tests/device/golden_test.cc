// What transformers computes, computed beside the host: on GPUs where there are any, else on the pretended device.
#include <gtest/gtest.h>

#include "device/pretend_device.h"
#include "models/adapter_golden.h"
#include "models/classifier_golden.h"
#include "tensor/device.h"
#include "train/golden_run.h"

namespace hone::test {
namespace {

struct OnDevice {
  at::Device device;
  std::filesystem::path root;
  std::string name;
};

std::vector<OnDevice> on_devices(const std::vector<std::filesystem::path>& roots) {
  std::vector<OnDevice> all;
  for (const at::Device device : devices_beside_the_host())
    for (const std::filesystem::path& root : roots)
      for (const std::string& name : golden_names(root)) all.push_back({device, root, name});
  return all;
}

// fp32 sums in another order than the host's.
constexpr double kTolerance = 2e-5;

void move(Model& model, at::Device device) {
  model.each_weight([&](const std::string&, Weight& weight) { weight.set_device(device); });
}

class GoldenOnDevice : public ::testing::TestWithParam<OnDevice> {
 protected:
  GoldenOnDevice() : golden_(GetParam().name, GetParam().root), model_(golden_.model()), batch_(golden_.batch()) {
    move(*model_, GetParam().device);
    batch_ = batch_.to(GetParam().device);
  }
  // Of GPT-2 the golden has no dropout; of experts it has the router's loss.
  bool trains() const { return GetParam().root.filename() != "gpt2"; }
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
  expect_golden_gradients(
      *model_, golden_.tensors, [&](const std::string& name) { return floor_of_decoder(GetParam().name, name); },
      kTolerance);
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

INSTANTIATE_TEST_SUITE_P(Devices, GoldenOnDevice,
                         testing::ValuesIn(on_devices({kGoldens, "tests/golden/gpt2", kExperts, kDecoders})), named);

class ClassifierOnDevice : public ::testing::TestWithParam<OnDevice> {};

TEST_P(ClassifierOnDevice, LogitsEveryGradientAndTenSteps) {
  auto golden = read_all(kClassifiers / GetParam().name / "golden.safetensors");
  const auto model = load_classifier(GetParam().name);
  move(*model, GetParam().device);
  const bool of_tokens = model->classifier()->of_tokens();
  const Batch on_host = of_tokens ? token_batch_of(golden) : batch_of(golden), batch = on_host.to(GetParam().device);
  const LossOf loss = [&](Pass& pass) { return classification_loss(*model, batch, on_host, pass); };
  {
    const at::NoGradGuard no_graph;
    Pass pass(batch);
    Tensor logits = model->classifier()->logits(model->forward(batch, pass), pass).cpu();
    if (of_tokens) logits = logits * golden["attention_mask"].unsqueeze(-1);  // not of padding
    expect_close(logits, golden["logits"], kTolerance * std::max(1.0, largest(golden["logits"])), "logits");
  }
  Pass pass(batch);
  loss(pass).backward();
  expect_golden_gradients(*model, golden, floor_of_classifiers, kTolerance);
  model->each_weight([](const std::string&, Weight& weight) { weight.clear_grad(); });
  expect_ten_golden_steps(*model, batch, golden["ten_losses"], loss, /*training=*/false, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Devices, ClassifierOnDevice, testing::ValuesIn(on_devices({kClassifiers})), named);

class AdapterOnDevice : public ::testing::TestWithParam<OnDevice> {};

TEST_P(AdapterOnDevice, LogitsEveryGradientAndTenSteps) {
  const AdapterGolden golden(GetParam().name);
  const auto model = golden.model();
  move(*model, GetParam().device);
  expect_close(golden.logits(*model), golden["logits"], kTolerance * largest(golden["logits"]), "logits");
  const Batch batch = golden.base.batch().to(GetParam().device);
  Pass pass(batch);
  pass.training = golden.trains();
  mean_loss(*model, batch, pass).backward();
  golden.expect_gradients(*model, kTolerance);
  if (GetParam().name.starts_with("plus")) return;  // its ten steps have learning rates of their own
  model->each_with_adapters([](const std::string&, Weight& weight) { weight.clear_grad(); });
  expect_ten_golden_steps(*model, batch, golden["ten_losses"],
                          [&](Pass& pass) { return mean_loss(*model, batch, pass); }, golden.trains(), kTolerance);
}

std::vector<OnDevice> adapters_on_devices() {
  std::vector<OnDevice> all = on_devices({kAdapters});
  std::erase_if(all, [](const OnDevice& one) { return !goes_with_its_base(one.name); });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Devices, AdapterOnDevice, testing::ValuesIn(adapters_on_devices()), named);

TEST(RunsOnDevices, TwelveStepsEqualHfTrainer) {
  const TempFolder folder;
  for (const at::Device device : devices_beside_the_host()) {
    SCOPED_TRACE(device.str());
    Recipe recipe = golden_recipe("models/llama", "batch_size: 2, accumulate: 3, steps: 12",
                                  (folder / device.str()).string());
    recipe.trainer.device = device.str();
    train(recipe, quiet_options());
    expect_golden_history(recipe.run.folder, "train/tiny_12_steps.json", kTolerance);
  }
}

}  // namespace
}  // namespace hone::test
