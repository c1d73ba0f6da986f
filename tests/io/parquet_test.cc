// Parquet rows as JSON objects where the build has Arrow; a clear error where it has not.
#include "io/parquet.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/files.h"

namespace hone::io {
namespace {

TEST(Parquet, WithoutArrowSaysHowToGetIt) {
  if (has_parquet()) GTEST_SKIP() << "this build has Parquet";
  EXPECT_HONE_ERROR(ParquetReader("x.parquet"), data, "x.parquet: this build cannot read Parquet");
  EXPECT_HONE_ERROR(ParquetReader("x.parquet"), data, "HONE_PYARROW_DIR");
}

class ParquetFiles : public test::WithFolder {
 protected:
  void SetUp() override {
    if (!has_parquet()) GTEST_SKIP() << "this build has no Parquet (HONE_PYARROW_DIR)";
  }
};

TEST_F(ParquetFiles, ReadsTextAndNumbers) {
  HONE_NEEDS_DATA(path, "datasets/poem_sentiment_parquet/train-00000-of-00001.parquet");
  ParquetReader reader(path);
  EXPECT_EQ(reader.columns(), (std::vector<std::string>{"id", "verse_text", "label"}));
  nlohmann::ordered_json row;
  std::int64_t count = 0;
  while (reader.next(row)) {
    ASSERT_TRUE(row["id"].is_number_integer() && row["verse_text"].is_string());
    ASSERT_EQ(row["id"], count);
    ASSERT_EQ(reader.row(), ++count);
  }
  EXPECT_EQ(count, 892);
  EXPECT_EQ(reader.rows(), 892);
}

TEST_F(ParquetFiles, ReadsChosenColumnsAndNestedOnes) {
  HONE_NEEDS_DATA(flat, "datasets/gsm8k/hf_main_test.parquet");
  ParquetReader chosen(flat, {"answer"});
  nlohmann::ordered_json row;
  ASSERT_TRUE(chosen.next(row));
  EXPECT_EQ(row.size(), 1u);
  EXPECT_HONE_ERROR(ParquetReader(flat, {"answr"}), data, "did you mean \"answer\"?");
  HONE_NEEDS_DATA(nested, "datasets/gsm8k/verl_nested_test.parquet");
  ParquetReader reader(nested);
  std::int64_t count = 0;
  for (; reader.next(row); ++count) ASSERT_TRUE(row["prompt"][0]["content"].is_string()) << row;
  EXPECT_EQ(count, 1319);
}

TEST_F(ParquetFiles, DamagedFilesAreErrors) {
  HONE_NEEDS_DATA(path, "datasets/poem_sentiment_parquet/test-00000-of-00001.parquet");
  const std::string good = test::content_of(path);
  const auto read_all = [](const std::filesystem::path& file) {
    ParquetReader reader(file);
    for (nlohmann::ordered_json row; reader.next(row);) {
    }
  };
  for (const std::size_t size : {std::size_t{0}, std::size_t{4}, good.size() / 2, good.size() - 1})
    EXPECT_HONE_ERROR(read_all(folder_.write("cut.parquet", good.substr(0, size))), data,
                      "cut.parquet: not a readable Parquet file");
  EXPECT_HONE_ERROR(read_all(folder_.path()), data, "not a regular file");
}

}  // namespace
}  // namespace hone::io
