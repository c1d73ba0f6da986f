// Runs of masked language modelling: what must hold of them, on one rank and on two.
#include "hone/hub.h"
#include "hone/text.h"
#include "text/tokenizer/roles.h"
#include "train/together.h"

namespace hone {
namespace {

using test::values;

class MaskedRuns : public test::Together {
 protected:
  static constexpr const char* kBert =
      "{type: bert, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
      "max_position_embeddings: 64, hidden_dropout_prob: 0, attention_probs_dropout_prob: 0}";

  // The bytes tokenizer with a mask token, as a folder.
  std::string tokenizer() {
    const auto made =
        text::with_roles(*add_tokens(*load_tokenizer("bytes"), {{.content = "[MASK]"}}), {{"mask_token", "[MASK]"}});
    for (const auto& [name, content] : made->files) folder_.write("tokenizer/" + name, content);
    return in("tokenizer").string();
  }
  test::Overrides masked(const test::Overrides& more = {}) {
    test::Overrides all{
        {"model", kBert}, {"tokenizer", tokenizer()}, {"objective", "{type: masked_lm, mlm_probability: 0.3}"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(MaskedRuns, LearnWhatWasHidden) {
  run(1, "run", masked({{"trainer.steps", "60"}, {"trainer.precision", "fp32"}, {"trainer.eval_every", "30"}}));
  const auto loss = values(in("run"), "eval_loss"), accuracy = values(in("run"), "eval_accuracy");
  ASSERT_EQ(loss.size(), 2u);
  EXPECT_LT(loss[1], loss[0]);
  EXPECT_GT(accuracy[1], 0.2);
  EXPECT_EQ(values(in("run"), "accuracy").size(), 60u);
  const auto model = load_model(in("run").string(), Precision::fp32);
  EXPECT_NE(model->masked_lm(), nullptr);
}

TEST_F(MaskedRuns, HowAStepIsCutChangesNothing) {
  run(1, "one", masked());
  run(1, "whole", masked({{"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}}));
  run(2, "two", masked());
  run(2, "shares", masked({{"parallel.fsdp", "-1"}}));
  for (const char* other : {"whole", "two", "shares"}) expect_close(in("one"), in(other), 1e-9);
  run(1, "packed", masked({{"data.packing", "best_fit"}, {"trainer.steps", "2"}}));
  EXPECT_EQ(values(in("packed"), "loss").size(), 2u);
}

TEST_F(MaskedRuns, GoOnToTheSameBits) {
  run(1, "straight", masked());
  run(1, "broken", masked());
  TrainOptions options;
  options.resume = "4";
  run(1, "broken", masked(), options);
  test::expect_equal_runs(in("straight"), in("broken"), 8);
}

TEST_F(MaskedRuns, WhatTheyCannotDoWithoutIsAskedForFirst) {
  test::Overrides no_mask = masked();
  no_mask[1].second = "bytes";
  EXPECT_NE(fails(1, no_mask, ErrorKind::config).find("the tokenizer has no mask token"), std::string::npos);
  test::Overrides no_bert = masked();
  no_bert[0].second =
      "{type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 4}";
  EXPECT_NE(fails(1, no_bert, ErrorKind::config).find("needs a head for masked tokens"), std::string::npos);
}

}  // namespace
}  // namespace hone
