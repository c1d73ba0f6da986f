// Expressions of folders against what Python's re.match says of them, and those that are not read.
#include "hub/packed/target_pattern.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "hub/packed_files.h"

namespace hone::test {
namespace {

using testing::HasSubstr;

bool matches(const std::string& expression, const std::string& text) {
  return hub::TargetPattern(expression).matches(text);
}

std::string refusal(const std::string& expression) {
  try {
    const hub::TargetPattern read(expression);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(TargetPattern, FitsWhatPythonsFits) {
  const std::string name = "model.layers.12.self_attn.q_proj";
  for (const char* expression : {"", "model", "model.layers", ".*q_proj$", ".*self_attn\\.(q|k|v|o)_proj$",
                                 "^model\\.layers\\.(1[0-9]|2\\d)\\.", ".*layers\\.\\d+\\..*", ".*layers\\.\\d{2}\\.",
                                 "(?:a|model|b).+?_proj", "^(?!.*lm_head)(?=model).*", "[a-z]+[.][^0-9]+[\\d]{1,2}",
                                 "m{1}o{0,}d?del", ".*[]_]proj\\Z", "\\w+\\.\\S+", "((((m|n)*)*)*)*odel", "x|y|model"})
    EXPECT_TRUE(matches(expression, name)) << expression;
  for (const char* expression :
       {"odel", "model$", ".*k_proj", "^(?!.*q_proj).*", "(?=lm).*", ".*layers\\.\\d\\.", "model\\.layers\\.[^1]",
        "x|y", "m{2}odel", "Model", "\\D+$", ".*proj.", "model(?:s|\\.)layers\\.\\s"})
    EXPECT_FALSE(matches(expression, name)) << expression;
}

// With backtracking these take longer than anybody waits.
TEST(TargetPattern, TakesNoLongerWhateverAFolderSays) {
  const std::string text(900, 'a');
  for (const char* expression :
       {"((a+)+)+$", "(.*)*(.*)*x$", "(a|a)*(a|aa)+$", ".*.*.*.*.*.*.*.*.*.*.*.*x", "(a?){300}a{300}x"})
    EXPECT_FALSE(matches(expression, text + "b")) << expression;
  EXPECT_TRUE(matches("((a+)+)+$", text));
}

TEST(TargetPattern, WhatIsNotReadIsSaid) {
  for (const auto& [expression, fact] : std::vector<std::pair<std::string, std::string>>{
           {"(a)\\1", "\\1"},
           {"\\bmodel", "\\b"},
           {"(?<=a)b", "a group of another kind than (?:, (?= and (?!"},
           {"(?i)a", "a group of another kind"},
           {"a(?!b)", "looking ahead behind the expression's beginning"},
           {"((?!a).)*", "looking ahead behind"},
           {"(?=a)*", "a quantifier of ^ or of looking ahead"},
           {"^*", "a quantifier of ^"},
           {"a++", "a possessive quantifier"},
           {"(a", "a ( without )"},
           {"a)", "a ) that nothing opens"},
           {"[a", "a [ without ]"},
           {"[z-a]", "a range that is none"},
           {"[\\d-x]", "a range that is none"},
           {"*", "a * with nothing before it"},
           {"a{2,1}", "braces that are no quantifier"},
           {"a{99999999999999999999}", "a quantifier beyond 1000"},
           {"(a{100}){100}", "more than 1000 steps"},
           {"a\\", "a \\ at the end"},
           {std::string(1001, 'a'), "got 1001 characters, expected at most 1000"}})
    EXPECT_THAT(refusal(expression), HasSubstr(fact)) << expression;
}

class TargetsOfFolders : public PackedFiles {
 protected:
  std::string error_of_targets(const std::string& target, const std::string& module) {
    const auto group = [](const std::string& targets) {
      return R"({"targets": [")" + targets + R"("], "weights": {"num_bits": 8, "strategy": "channel"}})";
    };
    return error_with(R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"a": )" +
                          group(target) + R"(, "b": )" + group("only.this") + "}}",
                      {{module + ".weight", "I8", {3, 8}, 24}, {module + ".weight_scale", "F32", {3, 1}, 12}});
  }
};

TEST_F(TargetsOfFolders, AreFoundInAShortTime) {
  const std::string module(40, 'a');
  EXPECT_EQ(error_of_targets("re:((a+)+)+$", module), "no error");
  for (const std::string target : {"re:((a+)+)+$", "re:(.*)*(.*)*x$"})
    EXPECT_THAT(error_of_targets(target, module + "b"),
                HasSubstr("quantized, and no target of config.json's config_groups is it"));
}

}  // namespace
}  // namespace hone::test
