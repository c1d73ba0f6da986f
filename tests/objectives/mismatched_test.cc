// Prompts with the answers of others: which answers they meet, in one batch, in a ring of several, in pairs.
#include "objectives/mismatched.h"

#include <gmock/gmock.h>

#include "tensor/host.h"

namespace hone::objectives {
namespace {

using ::testing::ElementsAre;

// "ab:c" is a prompt and its answer, of which the group is said.
Batch batch_of(const std::vector<std::pair<std::string, std::int64_t>>& docs, bool in_one_row) {
  std::vector<HostRow> rows;
  for (const auto& [text, group] : docs) {
    HostDoc doc;
    const std::size_t prompt = text.find(':');
    for (const char c : text)
      if (c != ':') doc.ids.push_back(c);
    doc.targets.assign(doc.ids.size(), -100);
    for (std::size_t i = prompt; i < doc.ids.size(); ++i) doc.targets[i - 1] = doc.ids[i];
    doc.group = group;
    if (!in_one_row || rows.empty()) rows.emplace_back();
    rows.back().push_back(std::move(doc));
  }
  return to_batch(pad(rows, 0));
}

// As batch_of() has them.
std::vector<std::string> texts_of(const std::optional<Batch>& batch) {
  std::vector<std::string> all;
  if (!batch) return all;
  const auto ids = host::values<std::int64_t>(batch->ids_BT), labels = host::values<std::int64_t>(batch->labels_BT);
  for (const Doc& doc : batch->docs) {
    std::string text;
    bool learns = false;
    for (std::int64_t t = doc.begin; t < doc.end; ++t) {
      const auto at = static_cast<std::size_t>(doc.row * batch->length() + t);
      text += static_cast<char>(ids[at]);
      if (labels[at] == -100) continue;
      if (t + 1 < doc.end) {
        EXPECT_EQ(labels[at], ids[at + 1]);
      }
      if (!std::exchange(learns, true)) text += ':';
    }
    all.push_back(text);
  }
  return all;
}

constexpr std::int64_t kAny = 1000;

TEST(Mismatched, EachPromptMeetsTheAnswerBeforeItInARing) {
  for (const bool in_one_row : {true, false}) {
    const Batch batch = batch_of({{"ab:c", 0}, {"d:efg", 1}, {"hij:k", 2}}, in_one_row);
    EXPECT_THAT(texts_of(mismatched(batch, last_answer(batch), kAny)), ElementsAre("ab:k", "d:c", "hij:efg"));
    EXPECT_THAT(texts_of(mismatched(batch, last_answer(batch_of({{"x:yz", 0}}, true)), kAny)),
                ElementsAre("ab:yz", "d:c", "hij:efg"));
    EXPECT_THAT(texts_of(mismatched(batch, std::nullopt, kAny)), ElementsAre("d:c", "hij:efg"));
  }
}

TEST(Mismatched, APromptDoesNotMeetTheOtherAnswerToItself) {
  const Batch batch = batch_of({{"a:b", 0}, {"a:c", 0}, {"d:e", 1}, {"d:f", 1}}, true);
  EXPECT_THAT(texts_of(mismatched(batch, last_answer(batch), kAny)), ElementsAre("a:f", "a:f", "d:c", "d:c"));
  EXPECT_TRUE(has_several_groups(batch));
  const Batch one = batch_of({{"a:b", 0}, {"a:c", 0}}, true);
  EXPECT_FALSE(has_several_groups(one));
  EXPECT_FALSE(mismatched(one, std::nullopt, kAny).has_value());
}

TEST(Mismatched, WhatIsTooLongLosesItsEnd) {
  const Batch batch = batch_of({{"abc:d", 0}, {"e:fghi", 1}}, false);
  EXPECT_THAT(texts_of(mismatched(batch, last_answer(batch), 5)), ElementsAre("abc:fg", "e:d"));
}

TEST(Mismatched, AnswersAreTheSameBehindTheirWay) {
  const Batch batch = batch_of({{"a:bc", 0}, {"d:e", 1}}, false);
  const std::vector<AnswerTokens> all = answers_of_text(to_text({last_answer(batch), {}}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].ids, last_answer(batch).ids);
  EXPECT_EQ(all[0].targets, last_answer(batch).targets);
  EXPECT_TRUE(all[1].ids.empty());
}

}  // namespace
}  // namespace hone::objectives
