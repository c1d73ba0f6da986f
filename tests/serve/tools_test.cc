// Answers that have to call tools, or may: what OpenAI's clients ask with tool_choice, parallel_tool_calls and strict.
#include "serve/serving.h"

namespace hone::serve {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using test::Answered;
using test::parts_of;

json age_schema() {
  return {{"type", "object"},
          {"properties", {{"age", {{"type", "integer"}, {"minimum", 10}, {"maximum", 99}}}}},
          {"required", {"age"}},
          {"additionalProperties", false}};
}
json function(const std::string& name, json parameters, json strict = nullptr) {
  json made{{"name", name}, {"parameters", std::move(parameters)}};
  if (!strict.is_null()) made["strict"] = strict;
  return {{"type", "function"}, {"function", made}};
}
json of_kind(const std::string& kind) {
  return {{"type", "object"}, {"properties", {{"kind", {{"const", kind}}}}}, {"required", {"kind"}}};
}

class ServedTools : public test::Serving {
 protected:
  json ask(json body) {
    if (!body.contains("tools")) body["tools"] = tools;
    const Answered got = chat(std::move(body));
    EXPECT_EQ(got.status, 200) << got.body;
    return got.json();
  }
  const json tools = {function("born", age_schema()),
                      function("is", of_kind("a")),
                      {{"type", "function"}, {"function", {{"name", "now"}}}}};
};

// Names, arguments and the rest of a call.
void expect_call(const json& call) {
  EXPECT_EQ(call["type"], "function");
  EXPECT_FALSE(call["id"].get<std::string>().empty());
  const std::string name = call["function"]["name"];
  const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
  if (name == "born") {
    EXPECT_EQ(arguments.size(), 1u);
    EXPECT_GE(arguments["age"], 10);
    EXPECT_LE(arguments["age"], 99);
  } else if (name == "is") {
    EXPECT_EQ(arguments, (json{{"kind", "a"}}));
  } else {
    EXPECT_EQ(name, "now");
    EXPECT_EQ(arguments, json::object());
  }
}

TEST_F(ServedTools, AnAnswerHasToCallOne) {
  for (int seed = 1; seed <= 6; ++seed) {
    const json wish = {{"seed", seed}, {"tool_choice", "required"}, {"parallel_tool_calls", false}};
    const json choice = ask(wish)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_EQ(choice["message"]["content"], nullptr);
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
    expect_call(choice["message"]["tool_calls"][0]);
    json streamed = wish;
    streamed["stream"] = true, streamed["tools"] = tools;
    json calls, reason;
    for (const json& part : parts_of(chat(streamed))) {
      if (part["choices"][0]["delta"].contains("tool_calls")) calls = part["choices"][0]["delta"]["tool_calls"];
      if (!part["choices"][0]["finish_reason"].is_null()) reason = part["choices"][0]["finish_reason"];
    }
    ASSERT_EQ(calls.size(), 1u);
    EXPECT_EQ(calls[0]["index"], 0);
    EXPECT_EQ(calls[0]["function"], choice["message"]["tool_calls"][0]["function"]);
    EXPECT_EQ(reason, "tool_calls");
  }
}

TEST_F(ServedTools, SeveralCallsOfAnAnswer) {
  std::size_t most = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    const json choice = ask({{"seed", seed}, {"tool_choice", "required"}, {"max_tokens", 600}})["choices"][0];
    const json& calls = choice["message"]["tool_calls"];
    ASSERT_GE(calls.size(), 1u);
    for (const json& call : calls) expect_call(call);
    most = std::max(most, calls.size());
  }
  EXPECT_GE(most, 2u);
}

// As OpenAI's API has it, the reason is no other than that of a text.
TEST_F(ServedTools, TheOneThatIsNamed) {
  const json named = {{"type", "function"}, {"function", {{"name", "is"}}}};
  const json choice = ask({{"seed", 3}, {"tool_choice", named}})["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "is");
  expect_call(choice["message"]["tool_calls"][0]);
  const json cut = ask({{"tool_choice", named}, {"max_tokens", 5}})["choices"][0];
  EXPECT_EQ(cut["finish_reason"], "length");
  EXPECT_EQ(cut["message"]["content"], "<tool");
}

TEST_F(ServedTools, SeveralAnswersOfARequestEachHaveTheirs) {
  const json got = ask({{"tool_choice", "required"}, {"parallel_tool_calls", false}, {"n", 3}, {"seed", 1}});
  for (const json& choice : got["choices"]) {
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
    expect_call(choice["message"]["tool_calls"][0]);
  }
}

// A token that begins a call, and a model that is made to want it.
TEST_F(ServedTools, CallsThatMayComeAreHeldToStrictSchemas) {
  tokenizer = add_tokens(*tokenizer, {{.content = "<tool_call>", .special = false}});
  const auto begin = tokenizer->id_of("<tool_call>");
  ASSERT_TRUE(begin);
  Problems problems;
  model = build_model(config::parse_json(R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 300, "max_position_embeddings": 4000})",
                                         "test", problems),
                      "test");
  init_weights(*model, 5, Precision::fp32);
  served.model = model.get(), served.tokenizer = tokenizer;
  const json bias = {{std::to_string(*begin), 100}};
  const auto text = [&](json more) {
    json body = {{"logit_bias", bias}, {"temperature", 0}, {"max_tokens", 300}};
    body.update(more);
    return ask(body)["choices"][0];
  };
  const json free = text(json::object());
  EXPECT_FALSE(free["message"].contains("tool_calls"));
  EXPECT_TRUE(free["message"]["content"].get<std::string>().starts_with("<tool_call><tool_call>"));
  const json strict = text({{"tools", {function("born", age_schema(), true)}}});
  ASSERT_GE(strict["message"]["tool_calls"].size(), 1u);
  for (const json& call : strict["message"]["tool_calls"]) expect_call(call);
  // Behind the one call the answer ends.
  const json one = text({{"tools", {function("born", age_schema(), true)}}, {"parallel_tool_calls", false}});
  EXPECT_EQ(one["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(one["message"]["content"], nullptr);
  EXPECT_EQ(one["finish_reason"], "tool_calls");
  // What is not strict may have any arguments, and a call is one all the same.
  const json any = text({{"parallel_tool_calls", false}, {"tools", {function("born", {{"not", 1}})}}});
  EXPECT_TRUE(any["message"].contains("tool_calls") || any["finish_reason"] == "length");
}

TEST_F(ServedTools, TheTemplateIsNotTold) {
  std::string told;
  served.chat_text = [&told](const ordered_json& row) {
    told = row["tools"].dump();
    return std::string("x\n");
  };
  ask({{"tools", {function("born", age_schema(), true)}}, {"max_tokens", 1}});
  EXPECT_NE(told.find("\"born\""), std::string::npos) << told;
  EXPECT_EQ(told.find("strict"), std::string::npos) << told;
}

// A model that thinks first may do so, and one whose prompt has begun it has to come to an end of it.
TEST_F(ServedTools, WhatIsThoughtComesFirst) {
  served.template_reads = [](const std::string& name) { return name == "<think>"; };
  served.chat_text = [](const ordered_json& row) {
    const bool thinks = row.contains("chat_template_kwargs");
    return std::string(thinks ? "x<think>\n" : "x<think>\n\n</think>\n\n");
  };
  const json body = {{"tool_choice", "required"}, {"parallel_tool_calls", false}, {"seed", 2}, {"max_tokens", 300}};
  const json none = ask(body)["choices"][0];
  EXPECT_EQ(none["finish_reason"], "tool_calls");
  EXPECT_EQ(none["message"]["content"], nullptr);
  json thinking = body;
  thinking["chat_template_kwargs"] = {{"x", 1}};
  const json begun = ask(thinking)["choices"][0];
  EXPECT_EQ(begun["finish_reason"], "length");  // this model finds no end
  EXPECT_FALSE(begun["message"].contains("tool_calls"));
  EXPECT_NE(begun["message"]["content"].get<std::string>().substr(0, 10), "<tool_call");
}

TEST_F(ServedTools, WhatIsWrongIsSaid) {
  const auto refused = [&](json body, const std::string& param, const std::string& part) {
    if (!body.contains("tools")) body["tools"] = tools;
    const Answered got = chat(std::move(body));
    EXPECT_EQ(got.status, 400) << got.body;
    const json error = got.json()["error"];
    EXPECT_EQ(error["param"], param) << error;
    EXPECT_NE(error["message"].get<std::string>().find(part), std::string::npos) << error;
  };
  const auto named = [](const std::string& name) { return json{{"type", "function"}, {"function", {{"name", name}}}}; };
  refused({{"tool_choice", "any"}}, "tool_choice", "expected auto, none, required, or {");
  refused({{"tool_choice", {{"type", "allowed_tools"}}}}, "tool_choice", "expected auto, none, required, or {");
  refused({{"tool_choice", named("other")}}, "tool_choice",
          "got \"other\", which is none of the tools; expected one of \"born\", \"is\", \"now\"");
  refused({{"tool_choice", "required"}, {"tools", json::array()}}, "tool_choice", "no tools to choose from");
  refused({{"tool_choice", "required"}, {"tools", {{{"type", "function"}}}}}, "tools",
          "tools[0].function: expected an object with a name");
  refused({{"tool_choice", "required"}, {"tools", {function("a", {{"not", json::object()}})}}}, "tool_choice",
          "tools[0].function.parameters: #/not: answers cannot be held to this keyword");
  refused({{"tool_choice", "required"}, {"tools", {function("a", {{"type", "array"}})}}}, "tools",
          "tools[0].function.parameters.type: expected object");
  refused({{"tool_choice", "required"}, {"tools", {function("a", age_schema()), function("a", age_schema())}}}, "tools",
          "tools[1].function.name: \"a\" comes twice");
  refused({{"tools", {function("a", age_schema(), 5)}}}, "tools", "strict: true or false");
  refused({{"tools", {function("a", {{"not", json::object()}}, true)}}}, "tools", "#/not");
  refused({{"parallel_tool_calls", 1}}, "parallel_tool_calls", "true or false");
  refused({{"tool_choice", "required"}, {"response_format", {{"type", "json_object"}}}}, "response_format",
          "beside tools");
}

TEST_F(ServedTools, ATemplateWithOtherCallsIsHeldToNone) {
  served.finds_tool_calls = false;
  const Answered got = chat({{"tools", tools}, {"tool_choice", "required"}});
  EXPECT_EQ(got.status, 400);
  EXPECT_NE(got.body.find("tool_choice: the model's chat template does not have calls between <tool_call>"),
            std::string::npos)
      << got.body;
  EXPECT_EQ(chat({{"tools", tools}, {"max_tokens", 1}}).status, 200);
}

}  // namespace
}  // namespace hone::serve
