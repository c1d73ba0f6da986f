// What one client asks for is no matter of the others.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "serve/serving.h"

namespace hone::serve {
namespace {

using nlohmann::json;
using test::Answered;
using test::Client;
using test::Serving;

// After three tokens there are more ways to go on than are followed.
const json kManyWays = [] {
  std::string letters;
  for (char c = 'a'; c <= 'z'; ++c) letters += std::string(1, c) + "?";
  return json{{"regex", "x{3}(?:" + letters + "){1000}"}};
}();

TEST_F(Serving, FormsAreNotMadeWhereRequestsAreRead) {
  const auto request = read_completion({{"prompt", "a"}, {"structured_outputs", {{"regex", "(a"}}}}, served);
  EXPECT_FALSE(request.form);
  ASSERT_TRUE(request.make_form);
  EXPECT_THROW(request.make_form({*request.config, request.prompts}), Refused);
  EXPECT_EQ(complete({{"prompt", "a"}, {"structured_outputs", {{"regex", "(a"}}}}).status, 400);
  EXPECT_EQ(complete({{"prompt", "a"}, {"structured_outputs", {{"regex", "ab"}}}}).status, 200);
}

TEST_F(Serving, AnAnswerThatCannotGoOnEndsAlone) {
  start();
  const Client other(server->port());
  other.ask("POST", "/v1/completions",
            json{{"prompt", "a"}, {"max_tokens", 300}, {"ignore_eos", true}, {"stream", true}}.dump());
  const std::string begin = other.read("data: ");
  json body = {{"prompt", "a"}, {"max_tokens", 9}, {"n", 2}, {"structured_outputs", kManyWays}};
  const Answered whole = complete(body);
  EXPECT_EQ(whole.status, 400) << whole.body;
  EXPECT_EQ(whole.json()["error"]["param"], "structured_outputs");
  EXPECT_NE(whole.body.find("too many ways to go on"), std::string::npos) << whole.body;
  body["stream"] = true;
  const Answered parts = complete(body);
  EXPECT_EQ(parts.status, 200);
  EXPECT_NE(parts.body.find("too many ways to go on"), std::string::npos) << parts.body;
  EXPECT_NE((begin + other.read()).find("[DONE]"), std::string::npos);
  EXPECT_EQ(complete({{"prompt", "ab"}, {"max_tokens", 4}, {"temperature", 0}}).json()["choices"][0]["text"],
            expected("ab", 4));
}

class Queue : public Serving {
 protected:
  // Nobody makes answers yet.
  void listen() {
    service = std::make_unique<Service>(served, options);
    server = std::make_unique<HttpServer>(
        HttpOptions{}, [this](const HttpRequest& request, const Reply& reply) { service->handle(request, reply); });
  }
  void add() {
    clients.push_back(std::make_unique<Client>(server->port()));
    clients.back()->ask("POST", "/v1/completions", body);
    const std::string line = fmt::format("\nhone_requests_waiting {}\n", clients.size());
    for (int i = 0; i < 1000; ++i) {
      if (test::asked(server->port(), "GET", "/metrics", "").body.find(line) != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "request " << clients.size() << " does not wait";
  }
  Answered further() { return test::asked(server->port(), "POST", "/v1/completions", body); }
  void expect_all_answered() {
    worker = std::thread([this] { service->run([this] { return stopping.load(); }); });
    for (const auto& client : clients) EXPECT_NE(client->read("choices").find(" 200 "), std::string::npos);
  }
  const std::string body = json{{"prompt", "a"}, {"max_tokens", 2}}.dump();
  std::vector<std::unique_ptr<Client>> clients;
};

TEST_F(Queue, WhatTheNextPassBeginsDoesNotWait) {
  options.rows = 2, options.queue = 1;
  listen();
  for (int i = 0; i < 3; ++i) add();
  const Answered late = further();
  EXPECT_EQ(late.status, 503);
  EXPECT_NE(late.body.find("1 request waits already; try again later"), std::string::npos) << late.body;
  expect_all_answered();
}

TEST_F(Queue, OfNoneBeginsWhatThereIsRoomFor) {
  options.rows = 2, options.queue = 0;
  listen();
  for (int i = 0; i < 2; ++i) add();
  EXPECT_NE(further().body.find("all room is taken, and no request may wait"), std::string::npos);
  expect_all_answered();
  EXPECT_EQ(further().status, 200) << "there is room again";
}

// What is said names the field that a client gave, and nothing that only who runs the server can do.
TEST_F(Serving, ErrorsOfTheTemplateNameTheirField) {
  served.chat_text = [](const nlohmann::ordered_json& row) -> std::string {
    const bool kwargs = row.contains("chat_template_kwargs");
    const std::string name = kwargs ? row["chat_template_kwargs"].begin().key() : "";
    throw Error(ErrorKind::data, kwargs ? "the request: variables of the template: it has none named " + name
                                 : row.contains("tools") ? "the request: tools[0]: the chat template does not write it"
                                 : row.contains("documents")
                                     ? "the request: documents[0]: the chat template does not write it"
                                     : "the request: messages[0].content: the chat template does not write it")
        .hint("choose another template (--chat-template)");
  };
  const auto param = [&](const char* field, json value) {
    json body;
    if (*field != '\0') body[field] = std::move(value);
    const Answered got = chat(body);
    EXPECT_EQ(got.status, 400);
    EXPECT_EQ(got.body.find("hint"), std::string::npos) << got.body;
    return got.json()["error"]["param"];
  };
  EXPECT_EQ(param("", {}), "messages");
  EXPECT_EQ(param("documents", {{{"text", "a"}}}), "documents");
  EXPECT_EQ(param("chat_template_kwargs", {{"mood", "glad"}}), "chat_template_kwargs");
  EXPECT_EQ(param("reasoning_effort", "low"), "reasoning_effort");
  const json tool = {{"type", "function"}, {"function", {{"name", "f"}, {"parameters", {{"type", "object"}}}}}};
  EXPECT_EQ(param("tools", json::array({tool})), "tools");
}

}  // namespace
}  // namespace hone::serve
