#include "cli/prompt_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/errors.h"
#include "io/parquet.h"

namespace hone::cli {
namespace {

// tools/golden/golden_parquet.py made the files.
std::vector<std::string> rows_of(const std::string& name) {
  std::vector<std::string> rows;
  read_prompt_file(std::string(HONE_SOURCE_DIR) + "/tests/golden/data/" + name,
                   [&](const nlohmann::ordered_json& row, const data::Place& place) {
                     EXPECT_EQ(place.line, std::ssize(rows) + 1);
                     rows.push_back(row.dump());
                   });
  return rows;
}

TEST(PromptFile, ReadsParquet) {
  if (!io::has_parquet()) GTEST_SKIP() << "this build reads no Parquet";
  const std::vector<std::string> rows = rows_of("classes.parquet");
  ASSERT_FALSE(rows.empty());
  EXPECT_NE(rows[0].find("\"text\":\""), std::string::npos) << rows[0];
  EXPECT_HONE_ERROR(rows_of("bytes.parquet"), data, "bytes.parquet:2: field \"messages\": invalid UTF-8");
}

}  // namespace
}  // namespace hone::cli
