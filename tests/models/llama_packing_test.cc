// Documents one by one, packed in one row, padded on the left: the same logits, losses and gradients.
#include <gtest/gtest.h>

#include "models/golden.h"
#include "ops/kernels.h"

namespace hone::test {
namespace {

class LlamaPacking : public testing::TestWithParam<std::string> {
 protected:
  Golden golden_{GetParam()};
  std::map<std::string, Tensor> packing_ = read_all(golden_.folder / "packing.safetensors");
  std::unique_ptr<CausalLm> model_ = golden_.model();

  Batch packed() const {
    Batch batch;
    const auto row = [&](const char* name) { return packing_.at(std::string("packed.") + name).unsqueeze(0); };
    batch.ids_BT = row("input_ids");
    batch.labels_BT = shifted(row("labels"));
    batch.weight_BT = (batch.labels_BT != -100).to(at::kFloat);
    batch.segments_BT = row("segments");
    batch.supervised = (batch.labels_BT != -100).sum().item<std::int64_t>();
    return batch;
  }
  Tensor doc(int i, const std::string& what) const { return packing_.at("doc" + std::to_string(i) + "." + what); }
};

TEST_P(LlamaPacking, EachDocumentAloneIsTransformers) {
  for (int i = 0; i < 3; ++i) {
    const Tensor ids = doc(i, "input_ids").unsqueeze(0);
    Batch batch = make_batch(ids, doc(i, "labels").unsqueeze(0), at::ones_like(ids));
    expect_close(model_->logits(batch)[0], doc(i, "logits"), 1e-5 * std::max(1.0, largest(doc(i, "logits"))), "alone");
    Pass pass(batch);
    const at::NoGradGuard no_graph;
    EXPECT_NEAR(mean_loss(*model_, batch, pass).item<double>() * static_cast<double>(batch.supervised),
                doc(i, "loss_sum").item<double>(), 1e-4);
  }
}

TEST_P(LlamaPacking, PackedIsOneByOne) {
  const Batch batch = packed();
  const Tensor logits = model_->logits(batch)[0];
  std::int64_t at = 0;
  for (int i = 0; i < 3; ++i) {
    const Tensor expected = doc(i, "logits");
    expect_close(logits.slice(0, at, at + expected.size(0)), expected, 1e-5 * std::max(1.0, largest(expected)),
                 "packed");
    at += expected.size(0);
  }
  Pass pass(batch);
  const Tensor loss = mean_loss(*model_, batch, pass);
  EXPECT_NEAR(loss.item<double>(), packing_.at("packed.loss").item<double>(),
              1e-6 * std::max(1.0, loss.item<double>()));
  loss.backward();
  if (packing_.contains("grad.model.norm.weight"))
    model_->each_weight([&](const std::string& name, Weight& w) {
      expect_close(w.grad(), packing_.at("grad." + name), 1e-5 * std::max(largest(packing_.at("grad." + name)), 1e-3),
                   name);
    });
}

TEST_P(LlamaPacking, LeftPaddingIsNone) {
  const Tensor ids = packing_.at("left.input_ids"), mask = packing_.at("left.attention_mask");
  const Tensor logits = model_->logits(make_batch(ids, at::full_like(ids, -100), mask));
  for (int i = 0; i < 3; ++i) {
    const Tensor expected = doc(i, "logits");
    expect_close(logits[i].slice(0, ids.size(1) - expected.size(0)), expected, 1e-5 * std::max(1.0, largest(expected)),
                 "left");
  }
}

TEST_P(LlamaPacking, PaddingCostsNothingInGradientsEither) {
  const auto gradients = [&](bool pad) {
    const Tensor ids = doc(0, "input_ids").unsqueeze(0), labels = doc(0, "labels").unsqueeze(0),
                 ones = at::ones_like(ids);
    const auto wide = [&](const Tensor& x, std::int64_t fill) {
      return pad ? at::cat({at::full({1, 3}, fill, at::kLong), x, at::full({1, 2}, fill, at::kLong)}, 1) : x;
    };
    const Batch batch = make_batch(wide(ids, 0), wide(labels, -100), wide(ones, 0));
    Pass pass(batch);
    mean_loss(*model_, batch, pass).backward();
    std::map<std::string, Tensor> all;
    model_->each_weight([&](const std::string& name, Weight& w) { all[name] = w.grad().clone(), w.clear_grad(); });
    return all;
  };
  const auto plain = gradients(false), padded = gradients(true);
  for (const auto& [name, expected] : plain)
    expect_close(padded.at(name), expected, 1e-6 * std::max(1e-3, largest(expected)), name);
}

TEST_P(LlamaPacking, LaterTokensChangeNothingBefore) {
  Batch batch = packed();
  const Tensor before = model_->logits(batch);
  batch.ids_BT = batch.ids_BT.clone();
  batch.ids_BT[0][14] =
      (batch.ids_BT[0][14].item<std::int64_t>() + 1) % model_->vocab_size();  // in the second document
  const Tensor after = model_->logits(batch);
  EXPECT_TRUE(at::equal(before.slice(1, 0, 14), after.slice(1, 0, 14)));
  EXPECT_FALSE(at::equal(before.slice(1, 14, 15), after.slice(1, 14, 15)));
  EXPECT_TRUE(at::equal(before.slice(1, 18), after.slice(1, 18)));  // the third document
}

std::vector<std::string> packing_names() {
  std::vector<std::string> names;
  for (const std::string& name : golden_names())
    if (std::filesystem::exists(kGoldens / name / "packing.safetensors")) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Models, LlamaPacking, testing::ValuesIn(packing_names()), [](const auto& info) {
  std::string text = info.param;
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

}  // namespace
}  // namespace hone::test
