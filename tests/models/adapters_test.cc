// An adapter on every matrix of a model: what the merged model computes, and nothing where they are off.
#include "nn/low_rank.h"

#include "models/golden.h"
#include "nn/decoding/choose.h"

namespace hone::test {
namespace {

using Case = std::pair<std::filesystem::path, std::string>;

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* root :
       {"tests/golden/models", "tests/golden/experts", "tests/golden/gpt2", "tests/golden/classifiers"})
    for (const std::string& name : golden_names(root)) all.emplace_back(root, name);
  return all;
}

LowRank::Options options_for(const Weight& weight) {
  return {.table = weight.use_as() == WeightUse::table, .in_out = weight.use_as() == WeightUse::product_in_out};
}

class Adapted : public ::testing::TestWithParam<Case> {
 protected:
  Adapted() : golden_(GetParam().second, GetParam().first) {
    const std::string file = (golden_.folder / "config.json").string();
    model_ = build_model(config::read_file(file), file);
    load_weights(*model_, golden_.folder, Precision::fp64);
  }
  // Hidden states, and what an own head makes of them.
  std::vector<Tensor> run(bool adapters) {
    const at::NoGradGuard no_grad;
    const Tensor ids_BT = golden_["input_ids"];
    const Batch batch = make_batch(ids_BT, at::full_like(ids_BT, -100), golden_["attention_mask"]);
    Pass pass(batch);
    if (!adapters) pass.adapter.clear();
    const Output output = model_->forward(batch, pass);
    std::vector<Tensor> made{output.hidden_BTD};
    if (model_->classifier()) made.push_back(model_->classifier()->logits(output, pass));
    const CausalLm* lm = model_->causal_lm();
    if (lm && !lm->head().tied()) made.push_back(lm->head().logits(output.hidden_BTD, pass));
    return made;
  }
  Golden golden_;
  std::unique_ptr<Model> model_;
};

TEST_P(Adapted, EqualsTheMergedModel) {
  const std::vector<Tensor> plain = run(true);
  std::map<Weight*, Tensor> merged;
  std::uint64_t seed = 0;
  model_->each_weight([&](const std::string&, Weight& weight) {
    if (weight.shape().size() != 2 || weight.use_as() == WeightUse::other) return;
    LowRank::Options options = options_for(weight);
    options.scale = 0.02;
    merged[&weight] = adapt(weight, options, seed += 10).merged(weight.use());
  });
  const std::vector<Tensor> with = run(true), off = run(false);
  EXPECT_EQ(nn::maybe_make_decoder(*model_, 1), nullptr);  // it is no sum of low ranks
  for (const auto& [weight, value] : merged) weight->set_adapter(nullptr), weight->fill(value);
  const std::vector<Tensor> expected = run(true);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(at::equal(off[i], plain[i])) << i;
    EXPECT_NE(difference(with[i], plain[i], 1e-3), "") << i;
    expect_close(with[i], expected[i], 1e-9 * std::max(1.0, expected[i].abs().max().item<double>()), "merged");
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Adapted, ::testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.first.filename().string() + "_" + info.param.second;
  std::replace(name.begin(), name.end(), '-', '_');
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace hone::test
