// Which texts of other records stand beside a query's own, and how they are read behind it.
#include "objectives/drawn_texts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tensor/host.h"

namespace hone::objectives {
namespace {

using Texts = std::vector<std::string>;

class TextsDrawn : public ::testing::Test {
 protected:
  QueryTexts::Tokens tokens(const std::string& text) const {
    const auto ids = tokenizer_->encode_fitting({text, {}}, 0).ids;
    return {ids.begin(), ids.end()};
  }
  QueryTexts query(std::int64_t record, const std::string& text, const Texts& texts) const {
    QueryTexts made{.record = record, .query = tokens(text)};
    for (const std::string& one : texts) made.texts.push_back(tokens(one));
    return made;
  }
  // Eight queries with a right text and another one each.
  std::vector<QueryTexts> step() const {
    std::vector<QueryTexts> all;
    for (int i = 0; i < 8; ++i)
      all.push_back(query(i, fmt::format("q{}", i), {fmt::format("right{}", i), fmt::format("other{}", i)}));
    return all;
  }
  Drawing drawing(std::optional<std::int64_t> most, const std::string& when = "0", std::int64_t max_length = 32) const {
    return {.most = most, .seed = 3, .when = when, .tokenizer = *tokenizer_, .max_length = max_length};
  }
  // Of each row its documents, "*" before the right one.
  std::vector<Texts> rows(const Batch& batch) const {
    std::vector<Texts> all(static_cast<std::size_t>(batch.rows()));
    const auto ids = host::values<std::int64_t>(batch.ids_BT);
    for (const Doc& doc : batch.docs) {
      const auto part = ids.subspan(static_cast<std::size_t>(doc.row * batch.length() + doc.begin),
                                    static_cast<std::size_t>(doc.end - doc.begin));
      const std::vector<std::int32_t> some(part.begin(), part.end());
      all[static_cast<std::size_t>(doc.row)].push_back((doc.role == Role::chosen ? "*" : "") +
                                                       tokenizer_->decode(some, true));
    }
    return all;
  }
  std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer("bytes");
};

TEST_F(TextsDrawn, AreOfOtherRecordsAndNoneTwice) {
  for (const std::int64_t most : {1, 4, 13, 14, 99}) {
    const std::vector<Texts> made = rows(with_drawn_texts(step(), step(), drawing(most)));
    ASSERT_EQ(made.size(), 8u);
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].size(), 2 + static_cast<std::size_t>(std::min<std::int64_t>(most, 14)));
      EXPECT_EQ(made[i].front(), fmt::format("*q{0}right{0}", i));
      EXPECT_EQ(made[i].back(), fmt::format("q{0}other{0}", i));
      EXPECT_EQ(std::set(made[i].begin(), made[i].end()).size(), made[i].size());
      for (const std::string& one : made[i]) EXPECT_TRUE(one.find(fmt::format("q{}", i)) != std::string::npos) << one;
      EXPECT_EQ(std::ranges::count(made[i], fmt::format("q{0}right{0}", i)), 0);
    }
  }
  EXPECT_EQ(rows(with_drawn_texts(step(), step(), drawing({})))[0].size(), 16u);
}

TEST_F(TextsDrawn, AreTheSameHoweverAStepIsCutAndOthersInTheNext) {
  const std::vector<QueryTexts> whole = step(), part(whole.begin() + 2, whole.begin() + 5);
  const std::vector<Texts> all = rows(with_drawn_texts(whole, whole, drawing(3))),
                           some = rows(with_drawn_texts(part, whole, drawing(3))),
                           later = rows(with_drawn_texts(whole, whole, drawing(3, "1")));
  EXPECT_EQ(some, std::vector(all.begin() + 2, all.begin() + 5));
  EXPECT_NE(all, later);
  std::vector<QueryTexts> turned = whole;
  std::ranges::reverse(turned);
  const World alone;
  EXPECT_EQ(rows(with_drawn_texts(whole, all_of_step(turned, alone), drawing(3))), all);
}

// What is right for a query is no negative of it, nor of one that asks the same.
TEST_F(TextsDrawn, AreNotRightOnes) {
  const std::vector<QueryTexts> step{query(0, "q", {"a"}), query(1, "q", {"b", "c"}), query(2, "r", {"a"}),
                                     query(3, "s", {"c"})};
  std::vector<Texts> made = rows(with_drawn_texts(step, step, drawing({})));
  EXPECT_EQ(made[0], (Texts{"*qa", "qc", "qc"}));
  EXPECT_EQ(made[1], (Texts{"*qb", "qc"}));  // its own, and none of others'
  EXPECT_EQ(made[2], (Texts{"*ra", "rb", "rc", "rc"}));
}

TEST_F(TextsDrawn, AreCutToTheLengthOfAPair) {
  const std::vector<QueryTexts> step{query(0, "abc", {"defgh"}), query(1, "ij", {"klmnopqrs"})};
  const std::vector<Texts> made = rows(with_drawn_texts(step, step, drawing({}, "0", 6)));
  EXPECT_EQ(made[0], (Texts{"*abcdef", "abcklm"}));
  EXPECT_EQ(made[1], (Texts{"*ijklmn", "ijdefg"}));
}

}  // namespace
}  // namespace hone::objectives
