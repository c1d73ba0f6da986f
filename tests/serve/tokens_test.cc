// What vLLM's clients send to /tokenize and /detokenize.
#include "serve/serving.h"

namespace hone::serve {
namespace {

using nlohmann::json;
using test::Answered;
using test::Serving;

TEST_F(Serving, TellsTheTokensOfATextAndOfAChat) {
  const json text = post("/tokenize", {{"model", "small"}, {"prompt", "ab"}}).json();
  EXPECT_EQ(text, (json{{"count", 2}, {"max_model_len", 4000}, {"tokens", {97, 98}}, {"token_strs", nullptr}}));
  const json named = post("/tokenize", {{"prompt", "ab"}, {"return_token_strs", true}}).json();
  EXPECT_EQ(named["token_strs"], (json{"a", "b"}));
  const json chat = post("/tokenize", {{"messages", {{{"role", "user"}, {"content", "12"}}}}}).json();
  EXPECT_EQ(chat["tokens"], json(generate::prompt_ids(*tokenizer, "user:12\n")));
}

TEST_F(Serving, TellsTheTokensOfAChatThatIsNotAnswered) {
  const json turn = {{"role", "user"}, {"content", "1"}}, answer = {{"role", "assistant"}, {"content", "2"}};
  const auto tokens = [&](const json& messages) {
    return post("/tokenize", {{"messages", messages}, {"add_generation_prompt", false}}).json()["tokens"];
  };
  EXPECT_EQ(tokens(json::array({turn})), json(generate::prompt_ids(*tokenizer, "user:1\n.")));
  EXPECT_EQ(tokens(json::array({turn, answer})), json(generate::prompt_ids(*tokenizer, "user:1\nassistant:2\n.")));
}

TEST_F(Serving, TellsTheTextOfTokens) {
  const auto ids = tokenizer->encode("caf\u00e9", /*special=*/false).ids;
  EXPECT_EQ(post("/detokenize", {{"tokens", ids}}).json(), (json{{"prompt", "caf\u00e9"}}));
  EXPECT_EQ(post("/detokenize", {{"tokens", {256, 97}}}).json()["prompt"], "<|bos|>a");
  EXPECT_EQ(post("/detokenize", {{"tokens", json::array()}}).json()["prompt"], "");
}

TEST_F(Serving, SaysWhatIsWrongWithTokens) {
  const auto refused = [&](const char* path, const json& body, const std::string& param, const std::string& part) {
    const Answered got = post(path, body);
    EXPECT_EQ(got.status, 400) << got.body;
    const json error = got.json()["error"];
    EXPECT_EQ(error["param"], param) << error;
    EXPECT_NE(error["message"].get<std::string>().find(part), std::string::npos) << error;
  };
  refused("/tokenize", json::object(), "prompt", "expected a prompt, or messages");
  refused("/tokenize", {{"prompt", 5}}, "prompt", "expected a text");
  refused("/tokenize", {{"prompt", "a"}, {"messages", json::array()}}, "messages", "expected a prompt, or messages");
  refused("/tokenize", {{"prompt", "a"}, {"truncate", true}}, "truncate", "no such field");
  const json turn = {{"role", "user"}, {"content", "1"}}, answer = {{"role", "assistant"}, {"content", "2"}};
  refused("/tokenize", {{"messages", json::array({turn})}, {"add_generation_prompt", 5}}, "add_generation_prompt",
          "true or false");
  refused("/tokenize", {{"messages", json::array({turn, answer})}}, "messages", "a turn of its own");
  refused("/v1/chat/completions", {{"messages", json::array({turn})}, {"add_generation_prompt", false}},
          "add_generation_prompt", "a turn of its own");
  refused("/detokenize", json::object(), "tokens", "missing");
  refused("/detokenize", {{"tokens", "a"}}, "tokens", "a list of token ids below 259");
  refused("/detokenize", {{"tokens", {259}}}, "tokens", "a token id below 259");
  refused("/detokenize", {{"tokens", {-1}}}, "tokens", "a token id below 259");
}

}  // namespace
}  // namespace hone::serve
