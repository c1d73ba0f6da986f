// Tokens that are drawn from the geometric mixture of two models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/generate.h"
#include "hone/hub.h"
#include "hone/layers.h"
#include "objectives/rollouts.h"

namespace hone::objectives {
namespace {

std::unique_ptr<Model> model_of(std::uint64_t seed, int layers) {
  Problems problems;
  auto model =
      build_model(config::parse_json(fmt::format(R"({{"model_type": "llama", "vocab_size": 259, "hidden_size": 32,
                                         "intermediate_size": 48, "num_hidden_layers": {},
                                         "num_attention_heads": 4, "num_key_value_heads": 2}})",
                                                 layers),
                                     "config.json", problems),
                  "config.json");
  init_weights(*model, seed, Precision::fp64);
  model->each_weight([](const std::string&, Weight& weight) { weight.value().detach().mul_(8); });  // of some entropy
  return model;
}

class Mixture : public ::testing::Test {
 protected:
  std::vector<std::vector<std::int32_t>> said(double share, double temperature, bool mixed = true) {
    Generator generator(*own_, load_tokenizer("bytes"));
    if (mixed) generator.mix_with(*other_, kDefaultAdapter, share);
    GenerateConfig config;
    config.max_new_tokens = 9, config.temperature = temperature, config.ignore_eos = true, config.batch_size = 3;
    std::vector<std::vector<std::int32_t>> all;
    for (const Generated& one : generator.generate(prompts_, config)) all.push_back(one.ids);
    return all;
  }
  Tensor last_logits(const Model& model, const std::vector<std::int32_t>& ids) {
    HostDoc doc{.ids = {ids.begin(), ids.end()}, .targets = {}};
    doc.targets.assign(doc.ids.size(), -100);
    return model.causal_lm()->logits(to_batch(pad({{doc}}, 0))).select(1, -1).flatten();
  }
  std::unique_ptr<Model> own_ = model_of(3, 2), other_ = model_of(4, 3);
  // The same one twice, one that is asked in another batch.
  const std::vector<std::vector<std::int32_t>> prompts_{{65, 66}, {65, 66}, {70, 71, 72, 73}, {80}};
};

TEST_F(Mixture, TheLikeliestTokensAreThoseOfMixedLogits) {
  for (const double share : {0.3, 0.5}) {
    const auto answers = said(share, 0);
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      std::vector<std::int32_t> ids = prompts_[i];
      for (const std::int32_t id : answers[i]) {
        const Tensor mixed = (1 - share) * last_logits(*own_, ids) + share * last_logits(*other_, ids);
        EXPECT_EQ(mixed.argmax().item<std::int64_t>(), id);
        ids.push_back(id);
      }
    }
  }
}

TEST_F(Mixture, AtItsEndsItIsOneOfTheModels) {
  EXPECT_EQ(said(0, 1), said(0, 1, /*mixed=*/false));
  const auto mixed = said(1, 1);
  std::swap(own_, other_);
  EXPECT_EQ(mixed, said(0, 1, /*mixed=*/false));
}

}  // namespace
}  // namespace hone::objectives
