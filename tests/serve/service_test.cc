// The whole way, from a request over a socket to a model's answer: what OpenAI's clients send, and what they get.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "generate/prompt_log_probs.h"
#include "serve/serving.h"

namespace hone::serve {
namespace {

using nlohmann::json;
using test::answer_of;
using test::Answered;
using test::asked;
using test::Client;
using test::parts_of;
using test::Serving;

// As OpenAI's client and vLLM's users ask for it.
TEST_F(Serving, HoldsAnswersToAForm) {
  const json schema = {{"type", "object"},
                       {"properties", {{"age", {{"type", "integer"}, {"minimum", 10}, {"maximum", 99}}},
                                       {"kind", {{"enum", {"a", "b"}}}}}},
                       {"required", {"age", "kind"}},
                       {"additionalProperties", false}};
  for (const int seed : {1, 2, 3}) {
    const Answered held = chat({{"seed", seed},
                                {"response_format",
                                 {{"type", "json_schema"},
                                  {"json_schema", {{"name", "person"}, {"strict", true}, {"schema", schema}}}}}});
    ASSERT_EQ(held.status, 200) << held.body;
    const json choice = json::parse(held.body)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    const json said = json::parse(choice["message"]["content"].get<std::string>());
    EXPECT_EQ(said.size(), 2u);
    EXPECT_GE(said["age"], 10);
    EXPECT_LE(said["age"], 99);
  }
  const auto text = [&](const json& outputs) {
    const Answered held = complete({{"prompt", "a"}, {"max_tokens", 40}, {"structured_outputs", outputs}});
    EXPECT_EQ(held.status, 200) << held.body;
    return json::parse(held.body)["choices"][0]["text"].get<std::string>();
  };
  EXPECT_EQ(text({{"regex", "x{3}y"}}), "xxxy");
  EXPECT_EQ(text({{"choice", json::array({"a.b|c"})}}), "a.b|c");
  EXPECT_EQ(text({{"json", {{"const", 5}}}}).back(), '5');
  const Answered object =
      complete({{"prompt", "a"}, {"max_tokens", 5}, {"response_format", {{"type", "json_object"}}}});
  EXPECT_EQ(json::parse(object.body)["choices"][0]["text"].get<std::string>().find_first_not_of(" \n"),
            json::parse(object.body)["choices"][0]["text"].get<std::string>().find('{'));
}

TEST_F(Serving, ContinuesATextAsGenerateDoes) {
  const json got = complete({{"model", "small"}, {"prompt", "ab"}, {"max_tokens", 8}, {"temperature", 0}}).json();
  EXPECT_EQ(got["object"], "text_completion");
  EXPECT_EQ(got["model"], "small");
  EXPECT_EQ(got["choices"][0]["text"], expected("ab", 8));
  EXPECT_EQ(got["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(got["choices"][0]["logprobs"], nullptr);
  EXPECT_EQ(got["usage"], (json{{"prompt_tokens", 2},
                                {"completion_tokens", 8},
                                {"total_tokens", 10},
                                {"prompt_tokens_details", {{"cached_tokens", 0}}}}));
  EXPECT_EQ(complete({{"prompt", "ab"}, {"temperature", 0.9}, {"seed", 7}}).json()["choices"][0]["text"],
            expected("ab", 16, 0.9, 7));
}

TEST_F(Serving, AChatsNextTurnIsReadFromWhereTheLastOneEnded) {
  options.kept_bytes = 1 << 26;
  json messages = {{{"role", "user"}, {"content", "How far is the moon?"}}};
  const json first = chat({{"messages", messages}, {"max_tokens", 8}, {"temperature", 0}}).json();
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  messages.push_back({{"role", "assistant"}, {"content", "Far."}});
  messages.push_back({{"role", "user"}, {"content", "And the sun?"}});
  const json ask = {{"messages", messages}, {"max_tokens", 8}, {"temperature", 0}, {"n", 2}};
  const json second = chat(ask).json();
  const std::int64_t in_common = std::string("user:How far is the moon?\n").size();
  EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"], in_common);
  const json third = chat(ask).json();
  EXPECT_EQ(third["usage"]["prompt_tokens_details"]["cached_tokens"],
            third["usage"]["prompt_tokens"].get<std::int64_t>() - 1);
  EXPECT_EQ(third["choices"], second["choices"]);
}

TEST_F(Serving, SeveralPromptsHaveSeveralAnswersEach) {
  const json got =
      complete({{"prompt", {"ab", "cd"}}, {"n", 2}, {"max_tokens", 5}, {"temperature", 0.8}, {"seed", 1}}).json();
  ASSERT_EQ(got["choices"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(got["choices"][i]["index"], i);
  EXPECT_NE(got["choices"][0]["text"], got["choices"][1]["text"]);
  EXPECT_EQ(got["choices"][0]["text"], expected("ab", 5, 0.8, 1));
  EXPECT_EQ(got["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(got["usage"]["completion_tokens"], 20);
  const json of_ids = complete({{"prompt", {{97, 98}, {99}}}, {"max_tokens", 5}, {"temperature", 0}}).json();
  EXPECT_EQ(of_ids["choices"][0]["text"], expected("ab", 5));
}

// As lm-eval's harness asks for the likelihood of a text.
TEST_F(Serving, EchoesATextWithItsProbabilities) {
  const json got =
      complete({{"prompt", "abcd"}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 2}, {"temperature", 0}}).json();
  const json& choice = got["choices"][0];
  EXPECT_EQ(choice["text"], "abcd" + expected("abcd", 1));
  const json& told = choice["logprobs"];
  ASSERT_EQ(told["tokens"].size(), 5u);
  EXPECT_EQ(told["tokens"][1], "b");
  EXPECT_EQ(told["token_logprobs"][0], nullptr);
  EXPECT_EQ(told["text_offset"], (json{0, 1, 2, 3, 4}));
  const at::NoGradGuard no_grad;
  const std::vector<std::int32_t> ids{97, 98, 99, 100};
  const auto of_model = generate::prompt_log_probs(*model->causal_lm(), "", {ids}, 2)[0];
  for (std::size_t t = 1; t < 4; ++t) {
    EXPECT_NEAR(told["token_logprobs"][t].get<double>(), of_model[t - 1].chosen, 1e-6);
    EXPECT_EQ(told["top_logprobs"][t].size(), 2u);
  }
  double highest = -1e9;
  for (const auto& [token, log_prob] : told["top_logprobs"][4].items())
    highest = std::max(highest, log_prob.get<double>());
  EXPECT_EQ(told["token_logprobs"][4], highest);
  const json none = complete({{"prompt", "abcd"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}}).json();
  EXPECT_EQ(none["choices"][0]["text"], "abcd");
  EXPECT_EQ(none["choices"][0]["logprobs"]["tokens"].size(), 4u);
}

TEST_F(Serving, AnswersAChat) {
  const json got = chat({{"max_tokens", 6}, {"temperature", 0}, {"logprobs", true}, {"top_logprobs", 2}}).json();
  EXPECT_EQ(got["object"], "chat.completion");
  EXPECT_EQ(got["choices"][0]["message"], (json{{"role", "assistant"}, {"content", expected("user:12\n", 6)}}));
  const json& told = got["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(told.size(), 6u);
  EXPECT_EQ(told[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(told[0]["logprob"], told[0]["top_logprobs"][0]["logprob"]);
  const json parts = {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "12"}}}}}};
  EXPECT_EQ(chat({{"messages", parts}, {"max_tokens", 6}, {"temperature", 0}}).json()["choices"][0]["message"],
            got["choices"][0]["message"]);
}

TEST_F(Serving, StreamsWhatItWouldAnswer) {
  const json wish = {{"max_tokens", 12}, {"temperature", 0.8}, {"seed", 3}, {"n", 2}};
  const json whole = chat(wish).json();
  json streamed = wish;
  streamed["stream"] = true, streamed["stream_options"] = {{"include_usage", true}};
  const std::vector<json> parts = parts_of(chat(streamed));
  std::string texts[2];
  json reasons[2];
  for (const json& part : parts) {
    EXPECT_EQ(part["object"], "chat.completion.chunk");
    for (const json& choice : part["choices"]) {
      const std::size_t i = choice["index"];
      texts[i] += choice["delta"].value("content", "");
      if (!choice["finish_reason"].is_null()) reasons[i] = choice["finish_reason"];
    }
  }
  EXPECT_EQ(parts[0]["choices"][0]["delta"]["role"], "assistant");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(texts[i], whole["choices"][i]["message"]["content"]);
    EXPECT_EQ(reasons[i], whole["choices"][i]["finish_reason"]);
  }
  EXPECT_EQ(parts.back()["usage"], whole["usage"]);
  EXPECT_GT(parts.size(), 6u);
  const json text_wish = {{"prompt", "ab"}, {"max_tokens", 5}, {"temperature", 0},
                          {"stream", true}, {"echo", true},    {"logprobs", 1}};
  std::string text;
  std::size_t tokens = 0;
  for (const json& part : parts_of(complete(text_wish))) {
    text += part["choices"][0]["text"];
    if (!part["choices"][0]["logprobs"].is_null()) tokens += part["choices"][0]["logprobs"]["tokens"].size();
  }
  EXPECT_EQ(text, "ab" + expected("ab", 5));
  EXPECT_EQ(tokens, 7u);
}

TEST_F(Serving, ManyAtATimeEachGetTheirOwn) {
  start();
  std::vector<std::unique_ptr<Client>> clients;
  const auto body = [](int i) {
    return json{{"prompt", fmt::format("{}+{}=", i, 7 * i % 11)},
                {"max_tokens", 3 + i % 9},
                {"temperature", i % 2 ? 0.7 : 0.0},
                {"seed", i}};
  };
  for (int i = 0; i < 24; ++i) {
    clients.push_back(std::make_unique<Client>(server->port()));
    clients.back()->ask("POST", "/v1/completions", body(i).dump());
  }
  for (int i = 0; i < 24; ++i) {
    const json got = answer_of(clients[i]->read()).json();
    EXPECT_EQ(got["choices"][0]["text"], expected(body(i)["prompt"], 3 + i % 9, i % 2 ? 0.7 : 0.0, i)) << i;
  }
}

// Nobody's answer holds up the others.
TEST_F(Serving, LeavesAnswersThatNobodyWaitsFor) {
  options.rows = 1, served.most_answers = 1;
  start();
  Client first(server->port());
  first.ask("POST", "/v1/completions",
            json{{"prompt", "a"}, {"max_tokens", 3900}, {"ignore_eos", true}, {"stream", true}}.dump());
  first.read("data: ");
  first.close();
  const json got = complete({{"prompt", "ab"}, {"max_tokens", 4}, {"temperature", 0}}).json();
  EXPECT_EQ(got["choices"][0]["text"], expected("ab", 4));
}

TEST_F(Serving, FinishesWhatIsBegunAndRefusesTheRest) {
  start();
  const Client client(server->port());
  client.ask("POST", "/v1/completions",
             json{{"prompt", "a"}, {"max_tokens", 600}, {"ignore_eos", true}, {"stream", true}}.dump());
  const std::string begin = client.read("data: ");
  stopping = true;
  for (int i = 0; i < 200; ++i) {
    const Answered late = asked(server->port(), "POST", "/v1/completions", R"({"prompt": "a"})");
    EXPECT_TRUE(late.status == 503 || late.status == 200);
    if (late.status == 503) break;
    ASSERT_LT(i, 199);
  }
  EXPECT_NE((begin + client.read()).find("[DONE]"), std::string::npos);
}

TEST_F(Serving, FindsCallsOfTools) {
  // A model that writes a call is not to be had here: its answer's form is proved by reply_json_test.
  const json tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  const json got = chat({{"tools", tools}, {"max_tokens", 4}, {"temperature", 0}}).json();
  EXPECT_EQ(got["choices"][0]["message"]["content"], expected("user:12\n", 4));
  EXPECT_FALSE(got["choices"][0]["message"].contains("tool_calls"));
}

// What is biased enough comes whatever the model says, what is punished does not come a second time.
TEST_F(Serving, TokensAreWantedMoreOrLess) {
  const auto text = [&](json more) {
    json body = {{"prompt", "a"}, {"max_tokens", 6}, {"temperature", 0}, {"ignore_eos", true}};
    body.update(more);
    return complete(body).json()["choices"][0]["text"].get<std::string>();
  };
  const json two = {{"120", 100}, {"121", 99.5}};  // x and y, the bytes' ids
  EXPECT_EQ(text({{"logit_bias", two}}), "xxxxxx");
  EXPECT_EQ(text({{"logit_bias", two}, {"presence_penalty", 1}}), "xyxxxx");
  EXPECT_EQ(text({{"logit_bias", two}, {"frequency_penalty", 1}}), "xyxyxy");
}

TEST_F(Serving, SaysWhatItDoesNotDo) {
  const auto refused = [&](const Answered& got, int status, const std::string& param, const std::string& text) {
    EXPECT_EQ(got.status, status) << got.body;
    const json error = got.json()["error"];
    EXPECT_EQ(error["param"], param.empty() ? json() : json(param));
    EXPECT_NE(error["message"].get<std::string>().find(text), std::string::npos) << error;
  };
  const json ok = {{"prompt", "a"}, {"max_tokens", 1}};
  const auto with = [&](const char* field, json value) {
    json body = ok;
    body[field] = std::move(value);
    return complete(body);
  };
  EXPECT_EQ(with("user", "me").status, 200);
  EXPECT_EQ(with("frequency_penalty", 0).status, 200);
  EXPECT_EQ(with("suffix", nullptr).status, 200);
  refused(with("frequency_penalty", 3), 400, "frequency_penalty", "expected a number from -2 to 2");
  refused(with("tempurature", 0.5), 400, "tempurature", "no such field");
  refused(with("temperature", "hot"), 400, "temperature", "got \"hot\", expected a number from 0 to 100");
  refused(with("n", 5), 400, "n", "expected a whole number from 1 to 4, the server's --batch-size");
  refused(with("model", "other"), 404, "model", "expected \"small\"");
  refused(with("logit_bias", {{"5", 101}}), 400, "logit_bias", "each with a number from -100 to 100");
  refused(with("logit_bias", {{"100000", 1}}), 400, "logit_bias", "token ids below");
  refused(with("logit_bias", {{"a", 1}}), 400, "logit_bias", "token ids below");
  refused(with("logit_bias", json::array({1})), 400, "logit_bias", "expected an object");
  refused(with("min_tokens", 2), 400, "min_tokens", "got 2, expected at most 1");
  refused(with("min_tokens", -1), 400, "min_tokens", "a whole number from 0");
  refused(with("stop", ""), 400, "stop", "a text that is not empty");
  refused(with("max_tokens", 4000), 400, "max_tokens", "together they may have 4000");
  refused(with("prompt", {1, 300}), 400, "prompt", "got 300, expected a token id below 259");
  refused(with("prompt", {{1, 2}, {1, -1}}), 400, "prompt[1]", "got -1, expected a token id below 259");
  refused(with("prompt", json::array({18446744073709551615ULL})), 400, "prompt",
          "got 18446744073709551615, expected a token id below 259");
  refused(with("prompt", {"a", "b", "c", "d", "e"}), 400, "prompt",
          "expected at most 4 answers of a request, the server's --batch-size");
  refused(with("prompt", json::array()), 400, "prompt", "empty list");
  refused(with("prompt", 5), 400, "prompt", "expected a text");
  refused(with("stream_options", json::object()), 400, "stream_options", "only with stream");
  refused(chat({{"top_logprobs", 2}}), 400, "top_logprobs", "only with logprobs");
  refused(chat({{"response_format", {{"type", "json_objects"}}}}), 400, "response_format", "json_object or");
  refused(chat({{"response_format", {{"type", "json_schema"}}}}), 400, "response_format", "an object with name");
  refused(with("response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "a"}}}}), 400, "response_format",
          "schema: missing");
  const json negated = {{"schema", {{"not", json::object()}}}};
  refused(with("response_format", {{"type", "json_schema"}, {"json_schema", negated}}), 400, "response_format",
          "#/not: answers cannot be held to this keyword");
  refused(with("structured_outputs", {{"grammar", "x"}}), 400, "grammar", "no such field");
  refused(with("structured_outputs", json::object()), 400, "structured_outputs", "got 0 forms");
  refused(with("structured_outputs", {{"regex", "b(a"}}), 400, "structured_outputs", "a ( without its ) at byte 1");
  refused(chat({{"response_format", {{"type", "json_object"}}}, {"tools", {{{"type", "function"}}}}}), 400,
          "response_format", "beside tools");
  refused(chat({{"messages", json::array()}}), 400, "messages", "at least one");
  refused(chat({{"messages", {{{"role", "assistant"}, {"content", "x"}}}}}), 400, "messages",
          "the last one is the assistant's");
  refused(chat({{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}}), 400, "messages",
          "only parts of type text");
  refused(chat({{"messages", {{{"role", 5}, {"content", "x"}}}}}), 400, "messages",
          "messages[0].role: expected a text");
  refused(chat({{"messages", {{{"role", "user"}, {"content", {{{"type", 7}}}}}}}}), 400, "messages",
          "only parts of type text");
  const auto says = [](const char* field) {
    return json{{"messages", {{{"role", "user"}, {"content", "x"}, {field, "y"}}}}, {"max_tokens", 1}};
  };
  EXPECT_EQ(chat(says("mood")).status, 200);
  refused(chat(says("name")), 400, "messages", "messages[0].name: the model's chat template does not read it");
  refused(asked(server->port(), "POST", "/v1/completions", "{\"prompt\": "), 400, "", "body");
  refused(asked(server->port(), "POST", "/v1/completions", "[]"), 400, "", "not a JSON object");
  refused(asked(server->port(), "GET", "/v1/completions"), 405, "", "expected POST");
  refused(asked(server->port(), "GET", "/v2"), 404, "",
          "no such path: /v2; this server has /v1/completions, /v1/chat/completions");
}

TEST_F(Serving, TellsItsModelAndAsksForItsKey) {
  options.api_key = "secret";
  start();
  EXPECT_EQ(asked(server->port(), "GET", "/health").status, 200);
  EXPECT_EQ(asked(server->port(), "GET", "/v1/models").status, 401);
  EXPECT_EQ(asked(server->port(), "GET", "/v1/models", "", "Authorization: Bearer secreT\r\n").status, 401);
  EXPECT_EQ(asked(server->port(), "GET", "/v1/models", "", "Authorization: Bearer secret1\r\n").status, 401);
  const json got = asked(server->port(), "GET", "/v1/models", "", "Authorization: Bearer secret\r\n").json();
  EXPECT_EQ(got["data"][0]["id"], "small");
  EXPECT_EQ(got["data"][0]["max_model_len"], 4000);
  EXPECT_EQ(post("/v1/completions", {{"prompt", "a"}}).status, 401);
  EXPECT_EQ(post("/v1/completions", {{"prompt", "a"}}, "Authorization: bearer secret\r\n").status, 200);
}

TEST_F(Serving, TellsProbesThatItIsAboutToEnd) {
  start();
  const auto health = [&] { return asked(server->port(), "GET", "/health"); };
  EXPECT_EQ(health().body, R"({"status": "ok"})");
  Answered last;
  std::thread client([&] { last = complete({{"prompt", "a"}, {"max_tokens", 800}, {"ignore_eos", true}}); });
  while (asked(server->port(), "GET", "/metrics").body.find("hone_requests_running 1") == std::string::npos)
    std::this_thread::yield();
  stopping = true;
  while (health().status == 200) std::this_thread::yield();
  EXPECT_EQ(health().status, 503);
  EXPECT_EQ(complete({{"prompt", "b"}}).status, 503);
  client.join();
  EXPECT_EQ(last.status, 200) << "what was begun is finished";
}

TEST_F(Serving, TakesNoMoreThanThereIsRoomFor) {
  options.most_cache_bytes = 1000,
  options.cache_bytes = [](std::int64_t rows, std::int64_t tokens) { return rows * tokens; };
  EXPECT_EQ(complete({{"prompt", "a"}, {"max_tokens", 900}, {"n", 2}}).status, 400);
  EXPECT_EQ(complete({{"prompt", "a"}, {"max_tokens", 400}, {"n", 2}}).status, 200);
}

}  // namespace
}  // namespace hone::serve
