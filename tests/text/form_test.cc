// Texts of a form: as Python's re and jsonschema have it, within limits, and as tokens write them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "harness/cpu_time.h"
#include "harness/errors.h"
#include "harness/scale.h"
#include "hone/random.h"
#include "text/form/token_form.h"

namespace hone::text {
namespace {

using nlohmann::json;

Automaton of_regex(const std::string& pattern) { return Automaton(grammar_of_regex(pattern, "regex")); }
Automaton of_schema(const std::string& schema) { return Automaton(grammar_of_json_schema(schema, "json_schema")); }

template <class Make>
void expect_as_golden(const char* file, const char* key, Make&& make) {
  std::ifstream lines(std::string(HONE_SOURCE_DIR) + "/tests/golden/text/" + file);
  ASSERT_TRUE(lines);
  int forms = 0;
  for (std::string line; std::getline(lines, line); ++forms) {
    const json one = json::parse(line);
    const auto form = one[key].get<std::string>();
    SCOPED_TRACE(form);
    if (one.contains("bad")) {
      EXPECT_HONE_ERROR(make(form), config, "");
      continue;
    }
    Automaton automaton = make(form);
    for (const auto& text : one["yes"]) EXPECT_TRUE(automaton.accepts(text.get<std::string>())) << text;
    for (const auto& text : one["no"]) EXPECT_FALSE(automaton.accepts(text.get<std::string>())) << text;
  }
  EXPECT_GT(forms, 90);
}

TEST(RegexForms, AreThoseOfPython) { expect_as_golden("regex_forms.jsonl", "pattern", of_regex); }
TEST(SchemaForms, AreThoseOfJsonschema) { expect_as_golden("schema_forms.jsonl", "schema", of_schema); }

// ------------------------------------------------------------------------------------------------------------ limits

TEST(Forms, AreFollowedWithinLimits) {
  const std::string many(20'000 / test::kSlowness, 'a');
  for (const char* pattern :
       {"(a?){1000}a{1000}", "(a|b)*a(a|b){200}", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)x", "(a|aa|aaa)+", "((a+)+)+b",
        "(\\w{0,50}){50}", "[ab]{0,90000}", "(.{0,100}x?){50}"}) {
    SCOPED_TRACE(pattern);
    Automaton form = of_regex(pattern);
    form.accepts(many.substr(0, 1000 / test::kSlowness));
  }
  EXPECT_TRUE(of_regex("[ab]{0,90000}").accepts(many));
  EXPECT_TRUE(of_regex("(a|aa)+").accepts(many));
  EXPECT_FALSE(of_regex("((a*)*)*b").accepts(many));
  EXPECT_HONE_ERROR(of_regex("((a{0,100}){0,100}){0,100}"), config, "too large");
  EXPECT_HONE_ERROR(of_regex("a{2000000}"), config, "more than 1000000 times");
  EXPECT_HONE_ERROR(of_regex(std::string(10'000, '(')), config, "nested too deep");
  EXPECT_HONE_ERROR(of_regex(std::string(100'000, '[')), config, "a [ without its ]");
  EXPECT_HONE_ERROR(of_regex("\xFF"), config, "not UTF-8");
}

// Of 200,000 states, made in the order that is worst for whoever goes through them again and again: a form of ten times
// the size takes ten times as long, not a hundred times.
TEST(Forms, AreMadeInTimeThatGrowsWithTheirSize) {
  for (const auto& [part, times] : std::initializer_list<std::pair<const char*, int>>{
           {"(.{50}x?)", 1900}, {"(.{100}x?)", 900}, {"(?:(?:a?b?){90}x?)", 200}}) {
    SCOPED_TRACE(part);
    const auto repeated = [&](int n) { return fmt::format("{}{{{}}}", part, n); };
    const double tenths = test::cpu_seconds_of([&] { for (int i = 0; i < 10; ++i) of_regex(repeated(times / 10)); });
    EXPECT_LT(test::cpu_seconds_of([&] { of_regex(repeated(times)); }), 5 * tenths);
  }
}

// 6,300 ways at a time.
TEST(Forms, HaveAllTheirWaysFollowed) {
  const int most = 2100 / test::kSlowness;
  Automaton many = of_regex(fmt::format("(?:(a?){{{0}}}|(b?){{{0}}}|(c?){{{0}}})z", most));
  for (const char* text : {"z", "aaaz", "bbbz", "cccz"}) EXPECT_TRUE(many.accepts(text)) << text;
  EXPECT_TRUE(many.accepts(repeat("c", most) + "z"));
  EXPECT_FALSE(many.accepts(repeat("c", most + 1) + "z"));
  EXPECT_FALSE(many.accepts("abz"));
}

TEST(Forms, OfSchemasEndWhereTheyAreNestedDeep) {
  Automaton any = of_schema("{}");
  EXPECT_TRUE(any.accepts(repeat("[", 60) + repeat("]", 60)));
  EXPECT_FALSE(any.accepts(repeat("[", 100'000)));
  // Two ways into each bracket: 2^n ways through n of them, and no more places than brackets.
  Automaton twice = of_schema(R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [
    {"type": "array", "items": {"$ref": "#/$defs/a"}}, {"type": "array", "items": {"$ref": "#/$defs/a"}},
    {"type": "null"}]}}})");
  EXPECT_TRUE(twice.accepts(repeat("[", 90) + "null" + repeat("]", 90)));
  // Only what can be finished is begun: the last brackets that may be opened leave room for what they need.
  Automaton chain = of_schema(R"({"type": "object", "properties": {"v": {"anyOf": [{"$ref": "#"}, {"const": 1}]}},
    "required": ["v"]})");
  std::string text;
  int depth = 0;
  while (chain.accepts(text + repeat(R"({"v":)", 1) + "1" + repeat("}", depth + 1)) && depth < 1000)
    text += R"({"v":)", ++depth;
  EXPECT_GT(depth, 90);
  EXPECT_LT(depth, 1000);
  EXPECT_TRUE(chain.accepts(text + "1" + repeat("}", depth)));
}

TEST(Forms, SayWhatASchemaAsksInVain) {
  const auto refused = [](const char* schema, const char* part) { EXPECT_HONE_ERROR(of_schema(schema), config, part); };
  refused(R"({"properties": {"a": {"type": "string", "frob": 1}}})", "#/properties/a/frob: answers cannot be held");
  refused(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "no value is by both 0 and 1");
  refused(R"({"type": "number", "maximum": 0.5})", "#/maximum: answers are held to bounds that are whole");
  refused(R"({"$ref": "#/$defs/a"})", "there is no \"#/$defs/a\"");
  refused(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "refers to itself");
  refused(R"+({"type": "string", "pattern": "(?=a)"})+", "look-around");
  refused(R"({"minLength": "3"})", "got \"3\", expected a whole number");
}

TEST(Forms, LeaveNoRoomForEndlessBlanks) {
  Automaton any = of_schema("{}");
  EXPECT_TRUE(any.accepts("{\n    \"a\": [\n        1,\n        2\n    ]\n}"));
  EXPECT_TRUE(any.accepts(" {\"a\":1}"));
  EXPECT_FALSE(any.accepts("{\"a\":  1}"));
  EXPECT_FALSE(any.accepts("{\n\n\"a\": 1}"));
  EXPECT_FALSE(any.accepts("{\n" + repeat(" ", 41) + "\"a\": 1}"));
  EXPECT_FALSE(any.accepts("{} "));
}

// ------------------------------------------------------------------------------------------------------------ tokens

// Draws tokens that may come until none may, or the text may end and chance has it.
struct Drawn {
  std::vector<std::int32_t> ids;
  bool ended = false;
};
Drawn draw(TokenForm& form, std::uint64_t seed, std::size_t most) {
  const Random random(seed, "draw");
  Drawn drawn;
  auto state = form.start();
  for (std::uint64_t step = 0; drawn.ids.size() < most; ++step) {
    const auto allowed = form.allowed(state, drawn.ids.empty());
    std::vector<std::int32_t> ids;
    for (std::int32_t id = 0; id < form.tokens().size(); ++id)
      if (allowed->has(id)) ids.push_back(id);
    if (ids.empty() || (state->may_end() && random.uniform(2 * step) < 0.3)) {
      EXPECT_TRUE(state->may_end()) << "nothing may follow, and the text may not end";
      drawn.ended = true;
      return drawn;
    }
    // Short ones, so that forms come to their ends.
    std::ranges::stable_sort(ids, {}, [&](std::int32_t id) { return form.tokens().text(id, false).size(); });
    const double place = random.uniform(2 * step + 1);
    drawn.ids.push_back(ids[static_cast<std::size_t>(place * place * static_cast<double>(ids.size()))]);
    state = form.after(state, drawn.ids.back(), drawn.ids.size() == 1);
    EXPECT_TRUE(state);
    if (!state) return drawn;
  }
  return drawn;
}

const std::vector<std::pair<const char*, std::string>> kForms = {
    {"regex", "[a-z]{2,8}( [a-z]+)*"},
    {"regex", "\\d{4}-\\d\\d"},
    {"regex", "(yes|no|maybe)[.!?]?"},
    {"regex", "(a?){30}b{2}"},
    {"regex", ".{3,12}"},
    {"regex", "[a-zé日😀]{1,6}"},
    {"json_schema", "{}"},
    {"json_schema", R"({"type": "object"})"},
    {"json_schema", R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
      "age": {"type": "integer", "minimum": 0, "maximum": 150}, "ok": {"type": "boolean"}}, "required": ["name", "age"]})"},
    {"json_schema", R"({"type": "array", "items": {"enum": ["red", "green", null]}, "minItems": 1, "maxItems": 4})"}};

Grammar grammar_of(const std::pair<const char*, std::string>& form) {
  return form.first == std::string("regex") ? grammar_of_regex(form.second, "regex")
                                            : grammar_of_json_schema(form.second, "json_schema");
}

void expect_forms_held(const std::string& folder, int seeds) {
  const auto tokenizer = load_tokenizer(folder);
  const auto texts = std::make_shared<const TokenTexts>(*tokenizer, tokenizer->vocab_size());
  for (const auto& one : kForms) {
    SCOPED_TRACE(folder + ": " + one.second);
    std::unique_ptr<TokenForm> form;
    try {
      form = std::make_unique<TokenForm>(grammar_of(one), texts, one.first);
    } catch (const Error& error) {  // a vocabulary of words without braces
      EXPECT_THAT(error.what(), testing::HasSubstr("the tokenizer has no tokens"));
      continue;
    }
    Automaton plain(grammar_of(one));
    int ended = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      const Drawn drawn = draw(*form, static_cast<std::uint64_t>(seed), 60);
      std::string text;
      for (std::size_t i = 0; i < drawn.ids.size(); ++i) text += texts->text(drawn.ids[i], i == 0);
      if (!drawn.ended) continue;
      ++ended;
      EXPECT_TRUE(plain.accepts(text)) << text;
      EXPECT_EQ(tokenizer->decode(drawn.ids), text);
      StreamDecoder decoder(*tokenizer);
      std::string streamed;
      for (const std::int32_t id : drawn.ids) streamed += decoder.push(id);
      EXPECT_EQ(streamed + decoder.finish(), text);
    }
    EXPECT_GT(ended, seeds / 20);
  }
}

TEST(TokenForms, AreWrittenByTokens) { expect_forms_held("bytes", 60); }

TEST(TokenForms, AreWrittenByTheTokensOfRealTokenizers) {
  const char* data = std::getenv("HONE_TEST_DATA");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  std::vector<std::string> names = {"models/stories260K", "tokenizers/minimind", "tokenizers/gpt2",
                                    "tokenizers/mistral-7b-instruct"};
  if (test::kSlowness > 1) names.resize(2);
  for (const std::string& name : names) expect_forms_held(std::string(data) + "/" + name, 12);
  const auto cleans = load_tokenizer(std::string(data) + "/tokenizers/t5-small");  // blanks before punctuation
  EXPECT_HONE_ERROR(TokenTexts(*cleans, cleans->vocab_size()), config, "do not read alone as they do in");
}

// What a token costs where states are new: known ones are looked up.
TEST(TokenForms, AreFoundFastInALargeVocabulary) {
  const char* data = std::getenv("HONE_TEST_DATA");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const auto tokenizer = load_tokenizer(std::string(data) + "/tokenizers/qwen3");
  const auto texts = std::make_shared<const TokenTexts>(*tokenizer, tokenizer->vocab_size());
  for (const auto& one : kForms) {
    TokenForm form(grammar_of(one), texts, one.first);
    double walked = 0;
    int states = 0;
    for (const char* text : {"{\"name\": \"Ann\", \"age\": 31, \"ok\": [true, \"some words, and more of them\"]}",
                             "abcdef ghi", "[\"red\", null]", "1234-56"}) {
      auto state = form.start();
      for (const std::int32_t id : tokenizer->encode(text, false).ids) {
        walked += test::cpu_seconds_of([&] { form.allowed(state, false); });
        ++states;
        state = form.after(state, id, false);
        if (!state) break;
      }
    }
    EXPECT_LT(walked / states, 0.3) << one.second;
  }
}

// By each token's bytes, one after the other, what may come next is found again.
TEST(TokenForms, AllowWhatTheirBytesAllow) {
  const auto tokenizer = load_tokenizer("bytes");
  const auto texts = std::make_shared<const TokenTexts>(*tokenizer, tokenizer->vocab_size());
  for (const auto& one : kForms) {
    TokenForm form(grammar_of(one), texts, one.first);
    Automaton plain(grammar_of(one));
    auto state = form.start();
    auto at = plain.start();
    for (const std::int32_t id : draw(form, 7, 40).ids) {
      const auto allowed = form.allowed(state, false);
      for (std::int32_t other = 0; other < 256; ++other)
        EXPECT_EQ(allowed->has(other), plain.step(*at, static_cast<std::uint8_t>(other)) != nullptr);
      for (std::int32_t special = 256; special < 259; ++special) EXPECT_FALSE(allowed->has(special));
      state = form.after(state, id, false);
      at = plain.step(*at, static_cast<std::uint8_t>(id))->shared_from_this();
      EXPECT_EQ(state->may_end(), at->may_end());
    }
  }
}

// Nothing is left out: what would take too long is an error.
TEST(TokenForms, SayWhereThereAreTooManyWays) {
  const char* data = std::getenv("HONE_TEST_DATA");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const auto tokenizer = load_tokenizer(std::string(data) + "/tokenizers/qwen3");
  const auto texts = std::make_shared<const TokenTexts>(*tokenizer, tokenizer->vocab_size());
  const auto of = [&](const char* pattern) { return TokenForm(grammar_of_regex(pattern, "regex"), texts, "regex"); };
  for (const char* pattern : {"(.{50}x?){1900}", ".*a.{1000}", "(?:(a?){2100}|(b?){2100}|(c?){2100})z"}) {
    SCOPED_TRACE(pattern);
    TokenForm form = of(pattern);
    auto state = form.start();
    for (int i = 0; i < 20 / test::kSlowness; ++i) {
      form.allowed(state, false);
      state = form.after(state, tokenizer->encode("c", false).ids[0], false);
      ASSERT_TRUE(state);
    }
  }
  TokenForm many = of("(.{0,300}x?){300}");
  for (int i = 0; i < 2; ++i)
    EXPECT_HONE_ERROR(many.allowed(many.start(), false), config,
                      "regex: too many ways to go on at a time: what may follow here takes more than 2000000 steps to "
                      "find");
  EXPECT_TRUE(many.after(many.start(), tokenizer->encode("c", false).ids[0], false)) << "one token's bytes are few";
}

TEST(TokenForms, RefuseWhatNoTokensWrite) {
  const auto tokenizer = load_tokenizer("bytes");
  const auto texts = std::make_shared<const TokenTexts>(*tokenizer, tokenizer->vocab_size());
  EXPECT_HONE_ERROR(TokenForm(grammar_of_regex("[^\\w\\W]", "regex"), texts, "regex"), config, "no text has this form");
  EXPECT_HONE_ERROR(TokenForm(grammar_of_regex("a{0}", "regex"), texts, "regex"), config, "the empty text alone");
  EXPECT_HONE_ERROR(TokenForm(grammar_of_json_schema(R"({"properties": {"a": false}, "required": ["a"]})", "s"), texts, "s"),
                    config, "no text has this form");
}

}  // namespace
}  // namespace hone::text
