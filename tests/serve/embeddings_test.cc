// What OpenAI's clients send to /v1/embeddings, and what they get.
#include "serve/embeddings.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "base/signals.h"
#include "serve/client.h"

namespace hone::serve {
namespace {

using nlohmann::json;
using test::answer_of;
using test::Answered;
using test::asked;
using test::Client;

// A text's vector: its first byte, how many there are, and their sum; of length 3.
Tensor vectors(const std::vector<Ids>& texts, std::optional<std::int64_t> dims) {
  std::vector<float> all;
  for (const Ids& ids : texts) {
    float sum = 0;
    for (const std::int32_t id : ids) sum += static_cast<float>(id);
    const float values[] = {static_cast<float>(ids.front()), static_cast<float>(ids.size()), sum / 2};
    all.insert(all.end(), values, values + dims.value_or(3));
  }
  return at::tensor(all).view({std::ssize(texts), -1});
}

class Embeddings : public ::testing::Test {
 protected:
  void SetUp() override {
    ignore_write_signals();
    embeds.front = {.name = "small", .max_length = 8};
    embeds.width = 3, embeds.texts = 4, embeds.most_texts = 20, embeds.vocab_size = 256;
    embeds.prompt = [](const std::string& name) -> std::string {
      if (name != "" && name != "query") throw Error(ErrorKind::usage, "no prompt " + name);
      return name == "query" ? "Q" : "";
    };
    embeds.tokens = [](const std::string& text, const std::string& prompt, bool, const std::string& where) {
      if (text.empty()) throw Error(ErrorKind::data, where + ": nothing to embed");
      Ids ids;
      for (const char c : prompt + text) ids.push_back(static_cast<unsigned char>(c));
      return ids;
    };
    embeds.vectors = [this](const std::vector<Ids>& texts, std::optional<std::int64_t> dims) {
      most = std::max(most.load(), std::ssize(texts));
      if (fails) throw Error(ErrorKind::bug, "no vectors today");
      return vectors(texts, dims);
    };
  }
  void start() {
    service = std::make_unique<EmbeddingService>(embeds);
    server = std::make_unique<HttpServer>(
        HttpOptions{}, [this](const HttpRequest& request, const Reply& reply) { service->handle(request, reply); });
    worker = std::thread([this] { service->run([this] { return stopping.load(); }); });
  }
  void TearDown() override {
    stopping = true;
    if (worker.joinable()) worker.join();
  }
  Answered embed(const json& body, const std::string& headers = "") {
    if (!server) start();
    return asked(server->port(), "POST", "/v1/embeddings", body.dump(), headers);
  }
  std::vector<std::vector<double>> vectors_of(const json& body) {
    const json reply = embed(body).json();
    std::vector<std::vector<double>> all;
    for (std::size_t i = 0; i < reply["data"].size(); ++i) {
      EXPECT_EQ(reply["data"][i]["index"], i);
      all.push_back(reply["data"][i]["embedding"].get<std::vector<double>>());
    }
    return all;
  }

  Embeds embeds;
  std::atomic<std::int64_t> most = 0;  // texts of a pass
  std::atomic<bool> stopping = false, fails = false;
  std::unique_ptr<EmbeddingService> service;
  std::thread worker;
  std::unique_ptr<HttpServer> server;
};

TEST_F(Embeddings, InputsOfAllForms) {
  const std::vector<std::vector<double>> one = {{97, 1, 48.5}};
  EXPECT_EQ(vectors_of({{"input", "a"}}), one);
  EXPECT_EQ(vectors_of({{"input", {"a"}}}), one);
  EXPECT_EQ(vectors_of({{"input", {97}}}), one);
  EXPECT_EQ(vectors_of({{"input", json::array({{97}})}}), one);
  EXPECT_EQ(vectors_of({{"input", {"a", "bbb", "cc"}}}),
            (std::vector<std::vector<double>>{{97, 1, 48.5}, {98, 3, 147}, {99, 2, 99}}));
  EXPECT_EQ(vectors_of({{"input", "a"}, {"dimensions", 2}}), (std::vector<std::vector<double>>{{97, 1}}));
  EXPECT_EQ(vectors_of({{"input", "a"}, {"prompt_name", "query"}}), (std::vector<std::vector<double>>{{81, 2, 89}}));
}

TEST_F(Embeddings, AnAnswerHasTheForm) {
  const json reply = embed({{"input", {"a", "bb"}}, {"model", "small"}, {"user", "me"}}).json();
  EXPECT_EQ(reply["object"], "list");
  EXPECT_EQ(reply["model"], "small");
  EXPECT_EQ(reply["data"][1]["object"], "embedding");
  EXPECT_EQ(reply["usage"], (json{{"prompt_tokens", 3}, {"total_tokens", 3}}));
  // 97, 1 and 48.5 as little-endian floats.
  const json coded = embed({{"input", "a"}, {"encoding_format", "base64"}}).json();
  EXPECT_EQ(coded["data"][0]["embedding"], "AADCQgAAgD8AAEJC");
  EXPECT_EQ(embed({{"input", "a"}, {"encoding_format", "base64"}, {"dimensions", 2}}).json()["data"][0]["embedding"],
            "AADCQgAAgD8=");
}

TEST_F(Embeddings, OfManyTextsAndRequestsEachHasItsOwn) {
  start();
  std::vector<std::thread> clients;
  std::map<int, json> replies;
  std::mutex mutex;
  for (int c = 0; c < 8; ++c)
    clients.emplace_back([&, c] {
      json texts = json::array();
      for (int i = 0; i < 11; ++i) texts.push_back(std::string(static_cast<std::size_t>(1 + (i * 5 + c) % 8), 'a' + c));
      const json reply = embed({{"input", texts}, {"dimensions", 2 + c % 2}}).json();
      const std::lock_guard lock(mutex);
      replies[c] = reply;
    });
  for (std::thread& client : clients) client.join();
  for (int c = 0; c < 8; ++c)
    for (int i = 0; i < 11; ++i) {
      const auto vector = replies[c]["data"][static_cast<std::size_t>(i)]["embedding"].get<std::vector<double>>();
      ASSERT_EQ(vector.size(), static_cast<std::size_t>(2 + c % 2));
      EXPECT_EQ(vector[0], 'a' + c);
      EXPECT_EQ(vector[1], 1 + (i * 5 + c) % 8);
    }
  EXPECT_EQ(most, 4);
}

TEST_F(Embeddings, WhatIsWrongIsSaid) {
  const auto refused = [&](const json& body, int status, const std::string& param, const std::string& text) {
    const Answered got = embed(body);
    EXPECT_EQ(got.status, status) << got.body;
    const json error = got.json()["error"];
    EXPECT_EQ(error["param"], param);
    EXPECT_NE(error["message"].get<std::string>().find(text), std::string::npos) << error;
  };
  refused({{"model", "small"}}, 400, "input", "missing");
  refused({{"input", json::array()}}, 400, "input", "got 0 texts, expected 1 to 20");
  refused({{"input", json::array({json::array()})}}, 400, "input", "a text, a list of texts");
  refused({{"input", 5}}, 400, "input", "a text, a list of texts");
  refused({{"input", {"a", ""}}}, 400, "input", "input[1]: nothing to embed");
  refused({{"input", {1, 256}}}, 400, "input", "a token id below 256");
  refused({{"input", {1, "a"}}}, 400, "input", "a token id below 256");
  refused({{"input", {"a", {97}, {"b"}}}}, 400, "input", "a text, a list of texts");
  refused({{"input", "123456789"}}, 400, "input", "got 9 tokens, expected at most 8");
  refused({{"input", "a"}, {"dimensions", 4}}, 400, "dimensions", "from 1 to 3");
  refused({{"input", "a"}, {"encoding_format", "hex"}}, 400, "encoding_format", "float or base64");
  refused({{"input", "a"}, {"prompt_name", "passage"}}, 400, "prompt_name", "no prompt passage");
  refused({{"input", "a"}, {"model", "large"}}, 404, "model", "expected \"small\"");
  refused({{"input", "a"}, {"temperature", 1}}, 400, "temperature", "no such field");
  EXPECT_EQ(vectors_of({{"input", "123456789"}, {"truncate_prompt_tokens", -1}})[0][1], 8);
  EXPECT_EQ(asked(server->port(), "GET", "/v1/embeddings").status, 405);
  EXPECT_EQ(asked(server->port(), "POST", "/v1/completions", "{}").status, 404);
  EXPECT_EQ(asked(server->port(), "GET", "/v1/models").json()["data"][0]["max_model_len"], 8);
}

TEST_F(Embeddings, AKeyIsAskedForAndAnErrorIsOneRequests) {
  embeds.front.api_key = "secret";
  EXPECT_EQ(embed({{"input", "a"}}).status, 401);
  const std::string key = "Authorization: Bearer secret\r\n";
  EXPECT_EQ(embed({{"input", "a"}}, key).status, 200);
  fails = true;
  EXPECT_EQ(embed({{"input", "a"}}, key).status, 500);
  fails = false;
  EXPECT_EQ(embed({{"input", "a"}}, key).status, 200);
}

}  // namespace
}  // namespace hone::serve
