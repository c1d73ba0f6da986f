// Tables that grow with the tokens: old rows as they were, new ones near the mean of those that stand for tokens.
#include "hub/more_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "hone/hub.h"
#include "hone/layers.h"
#include "ops/linear_weight.h"

namespace hone::test {
namespace {

std::unique_ptr<Model> fresh_model(const std::string& json, Precision precision = Precision::fp32,
                                   const HeadRequest& head = {}) {
  Problems problems;
  auto model = build_model(config::parse_json(json, "config.json", problems), "config.json", head);
  init_weights(*model, 3, precision);
  return model;
}

constexpr const char* kUntied = R"({"model_type": "llama", "vocab_size": 20, "hidden_size": 8, "intermediate_size": 12,
    "num_hidden_layers": 1, "num_attention_heads": 2})";
constexpr const char* kTied = R"({"model_type": "gemma2", "vocab_size": 20, "hidden_size": 8, "intermediate_size": 12,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4})";
constexpr const char* kMarian = R"({"model_type": "marian", "vocab_size": 20, "d_model": 8, "encoder_layers": 1,
    "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12, "pad_token_id": 0, "decoder_start_token_id": 0, "decoder_vocab_size": 20})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2,
    "n_positions": 16})";

std::map<std::string, at::Tensor> grown(const Model& model, std::int64_t rows, std::int64_t first, std::int64_t end) {
  const auto larger = hub::with_vocab_size(model, rows);
  std::map<std::string, at::Tensor> all;
  for (const hub::SavedWeight& weight : hub::with_more_rows(model, *larger, first, end))
    all[weight.name] = weight.value.clone();
  // What is made fits the model that it is for.
  larger->each_weight([&](const std::string& name, const Weight& weight) {
    EXPECT_EQ(all.at(name).sizes().vec(), weight.shape()) << name;
  });
  return all;
}

TEST(MoreRows, NewOnesAreNearTheMeanAndAllElseStays) {
  const std::map<std::string, std::vector<std::string>> tables_of = {
      {kUntied, {"model.embed_tokens.weight", "lm_head.weight"}},
      {kTied, {"model.embed_tokens.weight"}},
      {kMarian, {"model.shared.weight", "final_logits_bias"}},
      {kGpt2, {"transformer.wte.weight"}}};
  for (const auto& [json, tables] : tables_of)
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const auto model = fresh_model(json, precision);
      const auto made = grown(*model, 32, 18, 23);  // two rows stand for no token yet
      std::size_t changed = 0;
      model->each_weight([&](const std::string& name, const Weight& weight) {
        const auto by_token = [](const at::Tensor& x) { return x.dim() == 2 && x.size(0) == 1 ? x.t() : x; };
        const at::Tensor before = by_token(weight.use()), after = by_token(made.at(name));
        if (std::find(tables.begin(), tables.end(), name) == tables.end()) {
          EXPECT_TRUE(at::equal(after, before)) << name;
          return;
        }
        ++changed;
        EXPECT_TRUE(at::equal(after.narrow(0, 0, 18), before.narrow(0, 0, 18))) << name;
        const at::Tensor known = before.narrow(0, 0, 18).to(at::kDouble), mean = known.mean(0);
        const double apart = 1e-2 * (known - mean).square().mean().sqrt().item<double>();
        for (std::int64_t row = 23; row < 32; ++row)  // no token's
          EXPECT_TRUE(at::equal(after[row], mean.to(before.scalar_type()))) << name << " " << row;
        for (std::int64_t row = 18; row < 23; ++row)
          EXPECT_LE((after[row].to(at::kDouble) - mean).abs().max().item<double>(),
                    5 * apart + 1e-2 * mean.abs().max().item<double>())
              << name << " " << row;
      });
      EXPECT_EQ(changed, tables.size());
    }
}

// Of equal rows a frozen head makes equal outputs, whatever is learnt in front of it: an end of turn that has the row
// of other new tokens would never be the likeliest.
TEST(MoreRows, NoTwoTokensHaveTheSameRow) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto model = fresh_model(kUntied, precision);
    const auto made = grown(*model, 64, 18, 40), again = grown(*model, 48, 18, 40);
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
      const at::Tensor& table = made.at(name);
      for (std::int64_t one = 0; one < 41; ++one)  // 40 is padding
        for (std::int64_t other = one + 1; other < 41; ++other)
          EXPECT_FALSE(at::equal(table[one], table[other])) << name << " " << one << " " << other;
      EXPECT_TRUE(at::equal(table.narrow(0, 0, 40), again.at(name).narrow(0, 0, 40))) << "a function of the row";
    }
    EXPECT_FALSE(at::equal(made.at("model.embed_tokens.weight")[18] - made.at("model.embed_tokens.weight")[40],
                           made.at("lm_head.weight")[18] - made.at("lm_head.weight")[40]));
  }
}

TEST(MoreRows, ReservedRowsThatNobodyNamesStay) {
  const auto model = fresh_model(kUntied);
  const auto made = grown(*model, 20, 12, 14);  // rows 12 and 13 get tokens, 14 to 19 stay reserved
  const at::Tensor before = model->causal_lm()->head().with_bias().weight_OI, after = made.at("lm_head.weight");
  EXPECT_TRUE(at::equal(after.narrow(0, 14, 6), before.narrow(0, 14, 6)));
  EXPECT_FALSE(at::equal(after.narrow(0, 12, 2), before.narrow(0, 12, 2)));
}

TEST(MoreRows, ClassifiersKeepTheirHead) {
  const auto model = fresh_model(kUntied, Precision::fp32, {.labels = {"ham", "spam"}});
  const auto made = grown(*model, 24, 20, 22);
  EXPECT_EQ(made.at("score.weight").size(0), 2);
  EXPECT_EQ(made.at("model.embed_tokens.weight").size(0), 24);
}

}  // namespace
}  // namespace hone::test
