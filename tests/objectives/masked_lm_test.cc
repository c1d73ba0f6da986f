// Which tokens are hidden, and what is seen in their places.
#include "objectives/mask_tokens.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/hub.h"
#include "hone/text.h"
#include "hone/world.h"
#include "text/tokenizer/roles.h"

namespace hone::objectives {
namespace {

struct NoModels final : Resources {
  RoleModel model(const std::string&) const override { throw Error(ErrorKind::bug, "none"); }
};

class MaskTokens : public ::testing::Test {
 protected:
  MaskTokens() {
    const auto bytes = add_tokens(*load_tokenizer("bytes"), {{.content = "[MASK]"}});
    tokenizer_ = text::with_roles(*bytes, {{"mask_token", "[MASK]"}});
    Problems problems;
    model_ = build_model(config::parse_json(R"({"model_type": "bert", "vocab_size": 260, "hidden_size": 8,
        "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8})",
                                            "config.json", problems),
                         "config.json", {.masked_lm = true});
  }
  StepContext context(std::int64_t step = 0, std::uint64_t seed = 1) {
    return {*model_, world_, none_, step, step, seed, tokenizer_};
  }
  // Rows of so many tokens, each one document between two special tokens.
  Batch batch_of(const std::vector<std::vector<std::int64_t>>& documents) {
    Batch batch;
    const std::int64_t length = std::ssize(documents[0]);
    batch.ids_BT = at::zeros({std::ssize(documents), length}, at::kLong);
    for (std::size_t i = 0; i < documents.size(); ++i) {
      batch.ids_BT[static_cast<std::int64_t>(i)].copy_(at::tensor(documents[i], at::kLong));
      batch.docs.push_back({.row = static_cast<std::int32_t>(i), .end = static_cast<std::int32_t>(length)});
    }
    batch.weight_BT = at::ones(batch.ids_BT.sizes());
    batch.weight_BT.select(1, length - 1).zero_();  // behind the last token there is none
    return batch;
  }
  std::vector<std::int64_t> text(std::int64_t first, std::int64_t length) {
    std::vector<std::int64_t> ids{256};
    for (std::int64_t i = 0; i < length; ++i) ids.push_back((first + 7 * i) % 256);
    ids.push_back(257);
    return ids;
  }

  NoModels none_;
  World world_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Model> model_;
};

TEST_F(MaskTokens, TheSharesAreThoseThatWereAskedFor) {
  const Masking masking{.share = 0.2, .replaced = 0.6, .by_random_token = 0.3};
  const Batch given = batch_of({text(0, 20000), text(3, 20000)}), made = masked(given, masking, context(), "0");
  const at::Tensor said = made.labels_BT.ne(-100), same = made.ids_BT.eq(given.ids_BT);
  const auto share = [](const at::Tensor& some, const at::Tensor& of) {
    return some.logical_and(of).sum().item<double>() / of.sum().item<double>();
  };
  EXPECT_NEAR(said.to(at::kDouble).mean().item<double>(), 0.2, 0.01);
  EXPECT_NEAR(share(made.ids_BT.eq(259), said), 0.6, 0.02);
  EXPECT_NEAR(share(same, said), 0.1 + 0.3 / 260, 0.02);
  EXPECT_TRUE(same.logical_or(said).all().item<bool>());  // nothing else is changed
  EXPECT_TRUE(at::where(said, made.labels_BT, given.ids_BT).equal(given.ids_BT));
  EXPECT_TRUE(made.weight_BT.equal(said.to(at::kFloat)));
  EXPECT_EQ(made.supervised, said.sum().item<std::int64_t>());
  for (const std::int64_t special : {256, 257})
    EXPECT_FALSE(given.ids_BT.eq(special).logical_and(said).any().item<bool>());
}

TEST_F(MaskTokens, AllMayBeSaid) {
  const Batch given = batch_of({text(0, 50)});
  const Batch made = masked(given, {.share = 1, .replaced = 1, .by_random_token = 0}, context(), "0");
  EXPECT_EQ(made.supervised, 50);
  EXPECT_EQ(made.ids_BT.eq(259).sum().item<std::int64_t>(), 50);
}

// What is not to be learnt is seen: a prompt, a turn of the user. Weights are those of the tokens that are hidden.
TEST_F(MaskTokens, OnlyWhatIsLearntIsHidden) {
  Batch given = batch_of({text(0, 50)});
  given.weight_BT.slice(1, 0, 20).zero_(), given.weight_BT.slice(1, 30, 40).fill_(0.5);
  const Batch made = masked(given, {.share = 1, .replaced = 1, .by_random_token = 0}, context(), "0");
  EXPECT_FALSE(made.labels_BT.slice(1, 0, 21).ne(-100).any().item<bool>());
  EXPECT_TRUE(made.weight_BT.slice(1, 21, 31).eq(1).all().item<bool>());
  EXPECT_TRUE(made.weight_BT.slice(1, 31, 41).eq(0.5).all().item<bool>());
  EXPECT_TRUE(made.extra.at(kHiddenPlaces).equal(at::arange(21, 51)));
}

// Of the step, the seed and the document's tokens alone.
TEST_F(MaskTokens, WhereADocumentLiesChangesNothing) {
  const auto a = text(0, 300), b = text(5, 300);
  const auto made = [&](const std::vector<std::vector<std::int64_t>>& all, const StepContext& now,
                        const std::string& when) { return masked(batch_of(all), {}, now, when); };
  const Batch both = made({a, b}, context(), "0"), turned = made({b, a}, context(), "0"),
              alone = made({b}, context(), "0");
  EXPECT_TRUE(both.ids_BT[1].equal(turned.ids_BT[0]));
  EXPECT_TRUE(both.labels_BT[1].equal(alone.labels_BT[0]));
  EXPECT_FALSE(both.labels_BT[0].ne(-100).equal(both.labels_BT[1].ne(-100)));
  EXPECT_FALSE(made({a, b}, context(), "1").labels_BT.equal(both.labels_BT));
  EXPECT_FALSE(made({a, b}, context(0, 2), "0").labels_BT.equal(both.labels_BT));
}

}  // namespace
}  // namespace hone::objectives
