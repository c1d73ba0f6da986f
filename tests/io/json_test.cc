// JSON with limits: size, depth, duplicate keys, places in errors.
#include "io/json.h"

#include <gtest/gtest.h>

#include "harness/errors.h"
#include "harness/files.h"

namespace hone::io {
namespace {

TEST(Json, ReadsAValue) {
  const auto value = parse_json(R"({"a": [1, -2, 2.5, "x\u00e9", true, null]})", "x");
  EXPECT_EQ(value["a"][0].get<int>(), 1);
  EXPECT_EQ(value["a"][3].get<std::string>(), "x\u00e9");
}

TEST(Json, NamesLineAndColumn) {
  EXPECT_HONE_ERROR(parse_json("{\n  \"a\": 1,\n  \"b\": ?\n}", "f.json"), data, "f.json:3:8: not JSON");
  EXPECT_HONE_ERROR(parse_json_line("{\"a\": ?}", "rows.jsonl", 143), data, "rows.jsonl:143:7: not JSON");
}

TEST(Json, RefusesWhatIsNotOneValue) {
  for (const std::string text :
       {"",      " ",      "{",   "{} {}",    "[1,]",   "{\"a\":1,}", "nul",         "'a'",      "01",
        "+1",    "1.",     "NaN", "Infinity", "\"\t\"", "\"\\x\"",    "\"\\ud800\"", "\"\xff\"", "\"\xed\xa0\x80\"",
        "1e400", "// x\n1"})
    EXPECT_HONE_ERROR(parse_json(text, "x"), data, "x");
  EXPECT_HONE_ERROR(parse_json(std::string("{}\0{", 4), "x"), data, "a NUL byte");
}

TEST(Json, KeepsLargeIntegersWhereTheyAreWanted) {
  const JsonLimits limits{.keeps_integers = true};
  const auto found = [&](const std::string& text) { return find_big_integer(parse_ordered_json(text, "x", limits)); };
  EXPECT_EQ(found(R"({"a": [1, {"b": -9223372036854775809}]})"), "-9223372036854775809");
  EXPECT_EQ(found("18446744073709551616"), "18446744073709551616");
  EXPECT_EQ(found("[1, 18446744073709551615]"), "18446744073709551615");
  EXPECT_EQ(found("[9223372036854775807, -9223372036854775808, 1e30, 123456789012345678901.0]"), std::nullopt);
  EXPECT_TRUE(parse_ordered_json("18446744073709551616", "x").is_number_float());
}

TEST(Json, RefusesDuplicateKeys) {
  EXPECT_HONE_ERROR(parse_json(R"({"a": 1, "b": {"c": 1, "c": 2}})", "x"), data, "the key \"c\" is given twice");
  EXPECT_NO_THROW(parse_json(R"([{"a": 1}, {"a": 1}, {"b": {"a": 1}}])", "x"));
}

TEST(Json, DepthIsLimitedWithoutRecursion) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(100), "x"));
  EXPECT_HONE_ERROR(parse_json(nested(101), "x"), data, "nested deeper than 100");
  EXPECT_HONE_ERROR(parse_json(nested(5'000'000), "x"), data, "nested deeper than 100");
}

TEST(Json, SizeIsLimitedBeforeReading) {
  const test::TempFolder folder;
  const auto path = folder.write("big.json", "");
  std::filesystem::resize_file(path, 17'000'000);
  EXPECT_HONE_ERROR(read_json_file(path), checkpoint, "17.0 MB, expected at most 16.0 MB");
  EXPECT_HONE_ERROR(parse_json("[1,2,3]", "x", {.bytes = 3}), data, "expected at most 3 B");
  EXPECT_HONE_ERROR(read_json_file(folder / "none.json"), checkpoint, "none.json: cannot open: No such file");
}

TEST(Json, EscapesHostileKeysInItsErrors) {
  EXPECT_HONE_ERROR(parse_json("{\"\\u001b[2J\": 1, \"\\u001b[2J\": 2}", "x"), data, "\\x1b[2J");
}

}  // namespace
}  // namespace hone::io
