// Answers that call tools, as a language: what find_tool_calls() finds in its texts.
#include "text/form/calls.h"

#include <gtest/gtest.h>

#include "harness/errors.h"
#include "text/chat/tool_calls.h"
#include "text/form/automaton.h"

namespace hone::text {
namespace {

constexpr const char* kAgeSchema = R"({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})";

CallForm call_form(bool must_call, bool several) {
  CallForm made;
  made.functions = {{"born", kAgeSchema, "tools[0]"}, {"now", "", "tools[1]"}};
  made.must_call = must_call, made.several = several;
  return made;
}

std::string call_text(const std::string& name, const std::string& arguments) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
}
const std::string kBornCall = call_text("born", R"({"age": 5})"), kNowCall = call_text("now", R"({"a": {"b": [1]}})");

TEST(Calls, OfWhichThereHasToBeOne) {
  Automaton one(grammar_of_calls(call_form(true, false))), several(grammar_of_calls(call_form(true, true)));
  for (Automaton* either : {&one, &several}) {
    EXPECT_TRUE(either->accepts(kBornCall));
    EXPECT_TRUE(either->accepts(kNowCall));
    EXPECT_TRUE(either->accepts(call_text("now", "{}")));
    EXPECT_FALSE(either->accepts(""));
    EXPECT_FALSE(either->accepts("I see.\n" + kBornCall));
    EXPECT_FALSE(either->accepts(kBornCall + "\nSo."));
    EXPECT_FALSE(either->accepts(call_text("born", R"({"age": "5"})")));
    EXPECT_FALSE(either->accepts(call_text("born", "{}")));
    EXPECT_FALSE(either->accepts(call_text("died", "{}")));
    EXPECT_FALSE(either->accepts(call_text("now", "[]")));
    EXPECT_FALSE(either->accepts("<think>\nWell.\n</think>\n" + kBornCall));
  }
  const std::string both = kBornCall + "\n" + kNowCall + "\n" + kBornCall;
  EXPECT_TRUE(several.accepts(both));
  EXPECT_FALSE(one.accepts(both));
  EXPECT_EQ(find_tool_calls(both).calls.size(), 3u);
}

TEST(Calls, ThatMayComeBetweenOtherTexts) {
  Automaton one(grammar_of_calls(call_form(false, false))), several(grammar_of_calls(call_form(false, true)));
  for (Automaton* either : {&one, &several}) {
    EXPECT_TRUE(either->accepts(""));
    EXPECT_TRUE(either->accepts("It is < 5, <tool, <tool_cal and <tool_call"));
    const std::string rest = kBornCall.substr(std::string("<tool_call>").size());
    EXPECT_TRUE(either->accepts("I see: \xE4\xBD\xA0<<tool_call>" + rest));
    EXPECT_FALSE(either->accepts("I see <tool_call> there"));
    EXPECT_FALSE(either->accepts("I see.\n" + call_text("born", "{}")));
    EXPECT_FALSE(either->accepts("So </think> it is"));
  }
  EXPECT_TRUE(several.accepts("First " + kBornCall + " then " + kNowCall + " so."));
  EXPECT_TRUE(one.accepts("First " + kBornCall));
  EXPECT_FALSE(one.accepts("First " + kBornCall + " then " + kNowCall));
}

TEST(Calls, ComeBehindWhatIsThought) {
  CallForm may = call_form(true, false), begun = may;
  may.thinking = CallForm::Thinking::may_come, begun.thinking = CallForm::Thinking::is_begun;
  Automaton of_may(grammar_of_calls(may)), of_begun(grammar_of_calls(begun));
  const std::string thought = "\nA <tool_call>, </thin </</think>\n\n";
  EXPECT_TRUE(of_may.accepts(kBornCall));
  EXPECT_TRUE(of_may.accepts("<think>" + thought + kBornCall));
  EXPECT_FALSE(of_may.accepts(thought + kBornCall));
  EXPECT_FALSE(of_may.accepts("<think>" + thought));
  EXPECT_FALSE(of_may.accepts("<think>" + thought + thought + kBornCall));
  EXPECT_TRUE(of_begun.accepts(thought + kBornCall));
  EXPECT_FALSE(of_begun.accepts(kBornCall));
  EXPECT_EQ(find_tool_calls(thought + kBornCall, /*reasons=*/true).calls.size(), 1u);
  may.must_call = false;
  Automaton free(grammar_of_calls(may));
  EXPECT_TRUE(free.accepts("<think>" + thought + "So: " + kBornCall));
  EXPECT_FALSE(free.accepts("<think>" + thought + "So: <tool_call>"));
}

// Of a free answer what stands before it would be thought.
TEST(Calls, MaySayThatSomethingIsThought) {
  const std::string text = call_text("now", R"({"a": "x</think>y"})");
  EXPECT_TRUE(Automaton(grammar_of_calls(call_form(true, false))).accepts(text));
  EXPECT_EQ(find_held_calls(text, false).calls.size(), 1u);
  EXPECT_EQ(find_held_calls("<think>So <tool_call></think>" + text, false).calls.size(), 1u);
  EXPECT_EQ(find_held_calls("So </think>" + text, true).calls.size(), 1u);
  EXPECT_EQ(find_held_calls("So " + text.substr(0, 30), true).calls.size(), 0u);
  EXPECT_EQ(find_tool_calls(text).calls.size(), 0u);
}

TEST(Calls, NamesAreTextsOfJsonAndSchemasReferToThemselves) {
  CallForm odd;
  odd.functions = {{"a\"b", R"({"type": "object", "properties": {"next": {"$ref": "#"}}})", "tools[0]"}};
  Automaton form(grammar_of_calls(odd));
  const std::string text = call_text("a\\\"b", R"({"next": {"next": {}}})");
  EXPECT_TRUE(form.accepts(text));
  EXPECT_EQ(find_tool_calls(text).calls[0]["function"]["name"], "a\"b");
  EXPECT_FALSE(form.accepts(call_text("a\\\"b", R"({"next": 1})")));
  odd.functions[0].schema = R"({"not": {}})";
  EXPECT_HONE_ERROR(grammar_of_calls(odd), config, "tools[0]: #/not: answers cannot be held");
}

}  // namespace
}  // namespace hone::text
