// Text and evaluations from a model on a device beside the host.
#include <gtest/gtest.h>

#include "device/pretend_device.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "ops/backend.h"
#include "train/support.h"

namespace hone::test {
namespace {

class GenerateOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    use_pretend_device();
    Overrides overrides{{"trainer.steps", "2"}, {"trainer.device", "cpu"}, {"run.folder", (folder_ / "run").string()}};
    train(small_recipe(folder_, overrides), quiet_options());
  }
  std::vector<Generated> texts(at::Device device, const GenerateConfig& config) {
    std::optional<ops::BackendScope> plain;
    if (device.is_cpu()) plain.emplace(ops::reference_backend());
    const auto model = load_frozen_model(find_model((folder_ / "run").string()), Precision::fp32, device);
    EXPECT_EQ(model->device().type(), device.type());
    Generator generator(*model, load_tokenizer("bytes"));
    return generator.generate({{84, 104, 101}, {100, 97, 121, 32, 49}, {49}}, config);
  }
  TempFolder folder_;
};

TEST_F(GenerateOnDevice, GivesTheHostsTokens) {
  GenerateConfig config;
  config.max_new_tokens = 20, config.batch_size = 3, config.ignore_eos = true;
  for (const double temperature : {0.0, 1.0}) {
    config.temperature = temperature;
    const std::vector<Generated> host = texts(at::kCPU, config), device = texts(at::Device("pretend:0"), config);
    ASSERT_EQ(host.size(), device.size());
    for (std::size_t i = 0; i < host.size(); ++i) EXPECT_EQ(host[i].ids, device[i].ids);
  }
}

}  // namespace
}  // namespace hone::test
