// Data sets of records in memory.
#include <gtest/gtest.h>

#include "data/support.h"
#include "harness/errors.h"
#include "hone/data_in_memory.h"

namespace hone {
namespace {

std::vector<Record> three_forms() {
  return {{TextRecord{"a first text"}}, {PromptRecord{"2+2=", "4"}}, {IdsRecord{{5, 6, 7}, {}}}, {TextRecord{""}}};
}

TEST(MemoryData, IsWhatAFileOfTheSameRecordsIs) {
  const test::TempFolder folder;
  const auto tokenizer = load_tokenizer("bytes");
  const std::string lines =
      "{\"text\": \"one text\"}\n{\"text\": \"another one, longer than a row can be\"}\n{\"text\": \"end\"}\n";
  DataFile file;
  file.path = folder.write("lines.jsonl", lines);
  const Dataset::Options options{.max_length = 16};
  const auto from_file = Dataset::make({file}, *tokenizer, options);
  const auto made = make_dataset({{TextRecord{"one text"}},
                                 {TextRecord{"another one, longer than a row can be"}},
                                 {TextRecord{"end"}}},
                                "lines", *tokenizer, options);
  ASSERT_EQ(made->rows(), from_file->rows());
  for (std::int64_t row = 0; row < made->rows(); ++row) {
    const HostBatch one = made->batch({row}, 0), other = from_file->batch({row}, 0);
    EXPECT_EQ(one.ids, other.ids);
    EXPECT_EQ(one.labels, other.labels);
    EXPECT_EQ(one.segments, other.segments);
  }
  EXPECT_EQ(made->report().records, 3);
  EXPECT_EQ(made->record_name(1), "lines:2");
  const auto [held_out, rest] = made->split(0.3, 1);
  EXPECT_EQ(held_out->report().records + rest->report().records, 3);
}

TEST(MemoryData, FingerprintsAreOfTheContent) {
  const auto tokenizer = load_tokenizer("bytes");
  const Dataset::Options options{.max_length = 16};
  const auto print = [&](std::vector<Record> records) {
    return make_dataset(records, "some", *tokenizer, options)->fingerprint();
  };
  std::vector<Record> other = three_forms(), learnt = three_forms();
  other[1] = {PromptRecord{"2+2=", "5"}};
  learnt[2] = {IdsRecord{{5, 6, 7}, std::vector<std::int32_t>{-100, -100, 7}}};
  EXPECT_EQ(print(three_forms()), print(three_forms()));
  EXPECT_NE(print(three_forms()), print(other));
  EXPECT_NE(print(three_forms()), print(learnt));
}

TEST(MemoryData, WhatCannotBeTrainedOnIsNamed) {
  const auto tokenizer = load_tokenizer("bytes");
  const auto make = [&](std::vector<Record> records, const Dataset::Options& options = {}) {
    return make_dataset(records, "some", *tokenizer, options);
  };
  EXPECT_HONE_ERROR(make({}), data, "some: no records");
  EXPECT_HONE_ERROR(make({{TextRecord{""}}}), data, "some: no supervised token");
  EXPECT_HONE_ERROR(make({{TextRecord{"a"}}, {LabelledRecord{"b", {}, "good"}}}), data, "some:2");
  EXPECT_HONE_ERROR(make({{IdsRecord{{1, 900}, {}}}}, {.vocab_size = 259}), data, "some:1: token id 900");
}

}  // namespace
}  // namespace hone
