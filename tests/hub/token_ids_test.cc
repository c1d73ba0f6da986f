// Token ids in config.json and in the generation_config.json that goes into exports.
#include <gmock/gmock.h>

#include "hub/folders.h"

namespace hone::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string problem_of(const std::string& key, const std::string& value) {
  std::string text = config_text();
  const std::string own = "\"eos_token_id\": 2";
  text.replace(text.find(own), own.size(), "\"" + key + "\": " + value);
  Problems problems;
  const config::Node node = config::parse_json(text, "config.json", problems);
  return error_of([&] { build_model(node, "m/config.json"); }, ErrorKind::config);
}

TEST(TokenIds, OfAConfigAreTokensOfTheModel) {
  for (const char* good : {"2", "0", "11", "null", "[2, 3]"}) EXPECT_EQ(problem_of("eos_token_id", good), "no error");
  for (const char* bad : {"\"x\"", "-1", "12", "99999", "2.5", "true", "[]", "[[2]]", "[2, \"x\"]", "{}"})
    EXPECT_THAT(problem_of("eos_token_id", bad),
                AllOf(HasSubstr("m/config.json"), HasSubstr("eos_token_id: got "), HasSubstr("0 to 11")));
  for (const char* key : {"bos_token_id", "pad_token_id"}) {
    EXPECT_EQ(problem_of(key, "null"), "no error");
    for (const char* bad : {"\"x\"", "-1", "12", "2.5", "true", "[2]"})
      EXPECT_THAT(problem_of(key, bad), HasSubstr(std::string(key) + ": got ")) << bad;
  }
}

class Export : public Folders {};

TEST_F(Export, NeverHasATokenThatTheModelHasNot) {
  const auto model = small_model();
  const fs::path file = root_ / "generation_config.json";
  for (const char* bad : {"\"x\"", "-1", "12"}) {
    write_text(file, std::string(R"({"eos_token_id": )") + bad + "}");
    EXPECT_THAT(error_of([&] { hub::model_files(*model, root_, nullptr); }, ErrorKind::config),
                AllOf(HasSubstr(file.string()), HasSubstr("eos_token_id: got ")));
  }
}

}  // namespace
}  // namespace hone::test
