// Answers held to a form: whatever a model would say, what it says is of the form.
#include "generate/form.h"

#include <gtest/gtest.h>

#include "generate/rows.h"
#include "harness/errors.h"
#include "hone/hub.h"
#include "text/form/automaton.h"

namespace hone {
namespace {

using Ids = std::vector<std::int32_t>;

const std::vector<std::pair<std::string, std::string>> kForms = {
    {"[a-z]{2,8}( [a-z]{1,9}){0,4}\\.", ""},
    {"\\d{4}-\\d\\d-\\d\\d", ""},
    {"(yes|no|maybe)[.!?]?", ""},
    {"(a?){20}b{2}", ""},
    {".{3,12}", ""},
    {"[a-zé日😀]{1,6}", ""},
    {"", R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer",
      "minimum": 0, "maximum": 150}, "ok": {"type": "boolean"}}, "required": ["name", "age"]})"},
    {"", R"({"type": "array", "items": {"enum": ["red", "green", null]}, "minItems": 1, "maxItems": 4})"},
    {"", R"({"type": "object"})"}};

struct Speaker {
  const Model& model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string prompt;
};

GenerateConfig config_held_to(const std::pair<std::string, std::string>& form) {
  GenerateConfig config;
  config.regex = form.first, config.json_schema = form.second;
  config.max_new_tokens = 60;
  return config;
}

bool is_of(const std::pair<std::string, std::string>& form, const std::string& text) {
  text::Automaton automaton(form.second.empty() ? text::grammar_of_regex(form.first, "regex")
                                                : text::grammar_of_json_schema(form.second, "json_schema"));
  return automaton.accepts(text);
}

// How many answers came to their end; each of these has its form, and the others are cut.
int count_held(const Speaker& asked, const std::pair<std::string, std::string>& form, const GenerateConfig& config) {
  Generator generator(asked.model, asked.tokenizer);
  const Ids prompt = generate::prompt_ids(*asked.tokenizer, asked.prompt);
  int ended = 0;
  for (const Generated& answer : generator.generate({prompt, prompt, prompt}, config)) {
    if (answer.reason == FinishReason::length) {
      EXPECT_EQ(std::ssize(answer.ids), config.max_new_tokens);
      continue;
    }
    EXPECT_TRUE(is_of(form, answer.text)) << answer.text;
    ++ended;
  }
  return ended;
}

void expect_all_held(const Speaker& asked, std::uint64_t seeds) {
  int ended = 0;
  for (const auto& form : kForms) {
    SCOPED_TRACE(form.first + form.second);
    GenerateConfig config = config_held_to(form);
    ended += count_held(asked, form, config);
    for (config.seed = 0; config.seed < seeds; ++config.seed) {
      config.temperature = 0.5 + static_cast<double>(config.seed % 4);
      config.top_k = config.seed % 3 == 0 ? 5 : 0, config.top_p = config.seed % 3 == 1 ? 0.7 : 1;
      config.repetition_penalty = config.seed % 5 == 0 ? 1.5 : 1;
      config.min_new_tokens = config.seed % 7 == 0 ? 30 : 0;
      ended += count_held(asked, form, config);
    }
    config = config_held_to(form);
    config.num_beams = 3;
    ended += count_held(asked, form, config);
  }
  EXPECT_GT(ended, static_cast<int>(seeds * kForms.size()));
}

std::unique_ptr<Model> model_of(std::int64_t vocab_size) {
  Problems problems;
  const std::string config = R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 400, "vocab_size": )" +
                             std::to_string(vocab_size) + "}";
  auto model = build_model(config::parse_json(config, "test", problems), "test");
  init_weights(*model, 3, Precision::fp32);
  return model;
}

class Forms : public ::testing::Test {
 protected:
  std::unique_ptr<Model> model = model_of(300);  // more than the tokenizer has
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer("bytes");
  Speaker asked{*model, tokenizer, "ab"};
  Generated answer(const GenerateConfig& config) {
    return Generator(*model, tokenizer).generate({{97, 98}}, config)[0];
  }
};

TEST_F(Forms, HoldWhateverTheModelSays) { expect_all_held(asked, 12); }

TEST(FormsOfRealTokenizers, HoldWhateverTheModelSays) {
  const char* data = std::getenv("HONE_TEST_DATA");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const std::string stories = std::string(data) + "/models/stories260K";
  const auto model = load_model(stories, Precision::fp32);
  for (const char* prompt : {"", "Once upon a time", "{"})
    expect_all_held({*model, load_tokenizer(stories), prompt}, 8);
  for (const char* name : {"minimind", "mistral-7b-instruct"}) {
    const auto tokenizer = load_tokenizer(std::string(data) + "/tokenizers/" + name);
    const auto small = model_of(tokenizer->vocab_size());
    expect_all_held({*small, tokenizer, "Hi"}, 2);
  }
}

// An answer that would have the form anyway is what it would have been.
TEST_F(Forms, ChangeNoAnswerThatHasThem) {
  GenerateConfig config;
  config.max_new_tokens = 20;
  const Generated free = answer(config);
  config.regex = "(?s).*";
  const Generated held = answer(config);
  if (is_of({"(?s).*", ""}, free.text) && free.text.find("\xEF\xBF\xBD") == std::string::npos) {
    EXPECT_EQ(free.ids, held.ids);
  }
  GenerateConfig sampled = config;
  sampled.regex = "[0-9]{3}x";
  sampled.temperature = 1;
  const Generated first = answer(sampled);
  sampled.regex = "[0-9]{3}(x)";  // the same language by another pattern
  EXPECT_EQ(first.ids, answer(sampled).ids);
}

TEST_F(Forms, EndAtTheirEnds) {
  GenerateConfig config;
  config.regex = "abc";
  Generated got = answer(config);
  EXPECT_EQ(got.text, "abc");
  EXPECT_EQ(got.reason, FinishReason::eos);
  EXPECT_EQ(got.ids, (Ids{97, 98, 99, 257}));
  config.min_new_tokens = 30;  // the form has no more
  EXPECT_EQ(answer(config).text, "abc");
  config.ignore_eos = true;  // and no token ends it
  got = answer(config);
  EXPECT_EQ(got.ids, (Ids{97, 98, 99}));
  EXPECT_EQ(got.reason, FinishReason::stop);
  config.num_beams = 4;
  got = answer(config);
  EXPECT_EQ(got.ids, (Ids{97, 98, 99}));
  EXPECT_EQ(got.reason, FinishReason::stop);
  config = {};
  config.regex = "abc", config.max_new_tokens = 2;
  EXPECT_EQ(answer(config).reason, FinishReason::length);
  config.max_new_tokens = 20, config.suppress_tokens = {98};  // the form's only way
  EXPECT_EQ(answer(config).text, "abc");
  config.stop = {"<|pad|>"}, config.eos_token_id = {256};
  EXPECT_THAT((Ids{256, 258}), testing::Contains(answer(config).ids.back()));
}

// Where fewer answers have the form than there are beams, the likeliest of them is given.
TEST_F(Forms, LeaveBeamsTheLikeliestAnswer) {
  const auto score = [&](const std::string& text) {
    GenerateConfig config;
    config.regex = text, config.num_beams = 2;
    return answer(config).text;
  };
  EXPECT_EQ(score("x"), "x");
  GenerateConfig config;
  config.regex = "(yes|no)", config.num_beams = 8;
  const Generated got = answer(config);
  EXPECT_TRUE(got.text == "yes" || got.text == "no") << got.text;
  EXPECT_EQ(got.reason, FinishReason::eos);
  EXPECT_LE(got.ids.size(), 4u);
}

TEST_F(Forms, AreRefusedWhereTheyCannotBeHeld) {
  GenerateConfig config;
  config.regex = "a", config.json_schema = "{}";
  EXPECT_HONE_ERROR(answer(config), config, "an answer is held to one form");
  config = {};
  config.regex = "(a";
  EXPECT_HONE_ERROR(answer(config), config, "regex: a ( without its )");
  config = {};
  config.json_schema = R"({"not": {}})";
  EXPECT_HONE_ERROR(answer(config), config, "json_schema: #/not: answers cannot be held to this keyword");
}

}  // namespace
}  // namespace hone
