// Ten AdamW steps of every golden model against transformers + torch (tools/golden.py), with the trainer's own parts.
#include <gtest/gtest.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "train/support.h"
#include "train/trainer.h"

namespace hone {
namespace {

// HF's input_ids, attention_mask, labels (unshifted) as a Batch.
Batch batch_of(const std::map<std::string, at::Tensor>& golden) {
  Batch batch;
  batch.ids_BT = golden.at("input_ids");
  batch.segments_BT = golden.at("attention_mask");
  batch.labels_BT = at::full_like(batch.ids_BT, -100);
  const std::int64_t length = batch.ids_BT.size(1);
  batch.labels_BT.narrow(1, 0, length - 1).copy_(golden.at("labels").narrow(1, 1, length - 1));
  batch.weight_BT = batch.labels_BT.ne(-100).to(at::kFloat);
  batch.positions_BT = at::arange(length).expand_as(batch.ids_BT).contiguous() * batch.segments_BT;
  for (std::int32_t row = 0; row < batch.ids_BT.size(0); ++row)
    batch.docs.push_back({row, 0, static_cast<std::int32_t>(batch.segments_BT[row].sum().item<std::int64_t>())});
  return batch;
}

template <class Made, class... Context>
std::unique_ptr<Made> make(const Registry<Made, Context...>& registry, const std::string& type, const std::string& yaml,
                           Context... context) {
  Problems problems;
  const auto options = registry.options(type);
  options->read(config::parse_yaml(yaml, "test", problems), problems, "");
  problems.raise();
  return registry.make(type, *options, context...);
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("models")))
    if (std::filesystem::exists(entry.path() / "golden.safetensors")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class TenSteps : public ::testing::TestWithParam<std::string> {};

TEST_P(TenSteps, EqualTransformers) {
  const std::filesystem::path folder = test::golden("models") / GetParam();
  const auto golden = test::read_tensors(folder / "golden.safetensors");
  const auto model = load_causal_lm(folder.string(), Precision::fp32);
  training::RunResources resources;
  const auto objective = make<Objective, Resources&>(registries().objectives, "causal_lm", "{}", resources);
  const auto optimizer = make<Optimizer>(registries().optimizers, "adamw",
                                         "{learning_rate: 1e-3, weight_decay: 0.1, schedule: constant}");
  training::Updater updater(*model, *optimizer, Precision::fp32);
  const Batch batch = batch_of(golden);
  const auto weights = objective->weights(batch);
  for (std::int64_t step = 0; step < 10; ++step) {
    Pass pass(batch);
    pass.training = true;
    const LossTerms terms = objective->loss(*model, batch, pass);
    const at::Tensor loss = terms.terms.at(0).sum / weights.at("loss");
    loss.backward();
    updater.add_gradients();
    const double expected = golden.at("ten_losses")[step].item<double>();
    EXPECT_NEAR(loss.item<double>(), expected, 1e-5 * std::max(1.0, expected)) << "step " << step;
    const double norm = updater.gradient_norm(), expected_norm = golden.at("ten_grad_norms")[step].item<double>();
    EXPECT_NEAR(norm, expected_norm, 1e-4 * std::max(1.0, expected_norm)) << "step " << step;
    updater.update(step + 1, optimizer->learning_rate(step, 10), norm, 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, TenSteps, ::testing::ValuesIn(golden_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace hone
