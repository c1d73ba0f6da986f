// What clients of rerankers send, and what they get.
#include "serve/rerank.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "base/signals.h"
#include "hone/error.h"
#include "serve/client.h"

namespace hone::serve {
namespace {

using nlohmann::json;
using test::Answered;
using test::asked;

// A pair's score: how many letters of the query the document has less 2; a token for each letter.
class Reranking : public ::testing::Test {
 protected:
  void SetUp() override {
    ignore_write_signals();
    scores.front = {.name = "small", .max_length = 12};
    scores.pairs = 4, scores.most_texts = 20, scores.shows_sigmoid = true;
    scores.tokenizer = load_tokenizer("bytes");
    scores.read = [](const std::string& query, const std::string& document, const std::string& where) {
      if (document == "bad") throw Error(ErrorKind::data, where + ": is bad");
      ScoredPair pair;
      for (const char c : query + document) pair.ids.push_back(static_cast<unsigned char>(c));
      pair.is_cut = pair.ids.size() > 12, pair.second = query.size();
      pair.ids.resize(std::min<std::size_t>(pair.ids.size(), 12));
      return pair;
    };
    scores.scores = [this](const std::vector<ScoredPair>& pairs) {
      most = std::max(most.load(), std::ssize(pairs));
      if (fails) throw Error(ErrorKind::bug, "no scores today");
      std::vector<double> made;
      for (const ScoredPair& pair : pairs) made.push_back(score_of(pair));
      return made;
    };
  }
  static double score_of(const ScoredPair& pair) {
    const auto behind = pair.ids.begin() + static_cast<std::ptrdiff_t>(pair.second);
    double score = -2;
    for (auto id = pair.ids.begin(); id != behind; ++id)
      score += static_cast<double>(std::count(behind, pair.ids.end(), *id));
    return score;
  }
  void start() {
    service = std::make_unique<RerankService>(scores);
    server = std::make_unique<HttpServer>(
        HttpOptions{}, [this](const HttpRequest& request, const Reply& reply) { service->handle(request, reply); },
        [this](const HttpDone& done) { service->done(done); });
    worker = std::thread([this] { service->run([this] { return stopping.load(); }); });
  }
  void TearDown() override {
    stopping = true;
    if (worker.joinable()) worker.join();
  }
  Answered post(const std::string& path, const json& body) {
    if (!server) start();
    return asked(server->port(), "POST", path, body.dump());
  }

  Scores scores;
  std::atomic<std::int64_t> most = 0;  // pairs of a pass
  std::atomic<bool> stopping = false, fails = false;
  std::unique_ptr<RerankService> service;
  std::thread worker;
  std::unique_ptr<HttpServer> server;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_F(Reranking, TheHighestScoresComeFirst) {
  const json documents = {"b", "aa", {{"text", "abab"}}, "x", "ab", "ba"};
  const json body = {{"model", "small"}, {"query", "ab"}, {"documents", documents}};
  const json reply = post("/v1/rerank", body).json();
  EXPECT_EQ(reply["model"], "small");
  EXPECT_TRUE(reply["id"].get<std::string>().starts_with("rerank-"));
  EXPECT_EQ(reply["usage"], (json{{"prompt_tokens", 24}, {"total_tokens", 24}}));
  const std::vector<std::size_t> order = {2, 1, 4, 5, 0, 3};  // of equal ones the earlier
  const std::vector<double> shown = {2, 0, 0, 0, -1, -2};
  ASSERT_EQ(reply["results"].size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(reply["results"][i]["index"], order[i]) << reply;
    EXPECT_NEAR(reply["results"][i]["relevance_score"].get<double>(), sigmoid(shown[i]), 1e-12);
    EXPECT_FALSE(reply["results"][i].contains("document"));
  }
  EXPECT_EQ(most, 4);
  for (const char* path : {"/rerank", "/v2/rerank"}) EXPECT_EQ(post(path, body).json()["results"], reply["results"]);
}

TEST_F(Reranking, SomeOfThemWithTheirTexts) {
  const json body = {{"query", "ab"}, {"documents", {"b", "aab", "a"}}, {"top_n", 2}, {"return_documents", true}};
  const json results = post("/rerank", body).json()["results"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0]["document"], (json{{"text", "aab"}}));
  EXPECT_EQ(results[1]["document"], (json{{"text", "b"}}));
  json all = body;
  all["top_n"] = 0;
  EXPECT_EQ(post("/rerank", all).json()["results"].size(), 3u);
  all["top_n"] = 9;
  EXPECT_EQ(post("/rerank", all).json()["results"].size(), 3u);
}

TEST_F(Reranking, ScoresAsTheModelHasThem) {
  const auto score = [&](json more) {
    json body = {{"query", "ab"}, {"documents", {"abab"}}};
    body.update(more);
    return post("/rerank", body).json()["results"][0]["relevance_score"].get<double>();
  };
  EXPECT_NEAR(score(json::object()), sigmoid(2), 1e-12);
  EXPECT_EQ(score({{"use_activation", false}}), 2);
  EXPECT_EQ(score({{"raw_scores", true}}), 2);
  EXPECT_EQ(score(json{{"use_activation", false}, {"raw_scores", true}}), 2);
  EXPECT_NEAR(score(json{{"use_activation", true}, {"raw_scores", false}}), sigmoid(2), 1e-12);
  for (const bool both : {false, true}) {
    const Answered got = post("/rerank", {{"query", "ab"}, {"documents", {"b"}}, {"use_activation", both},
                                          {"raw_scores", both}});
    EXPECT_EQ(got.status, 400) << got.body;
    EXPECT_NE(got.body.find("says the opposite"), std::string::npos) << got.body;
  }
}

TEST_F(Reranking, SaysWhatThereIs) {
  const Answered got = post("/v1/chat/completions", json::object());
  EXPECT_EQ(got.status, 404);
  EXPECT_NE(got.body.find("no such path: /v1/chat/completions; this server has /v1/rerank, /rerank, /v2/rerank"),
            std::string::npos)
      << got.body;
}

TEST_F(Reranking, ModelsWithoutASigmoidShowNone) {
  scores.shows_sigmoid = false;
  EXPECT_EQ(post("/rerank", {{"query", "ab"}, {"documents", {"abab"}}}).json()["results"][0]["relevance_score"], 2);
}

TEST_F(Reranking, PairsInTheirOrder) {
  const json one = post("/v1/score", {{"text_1", "ab"}, {"text_2", {"b", "abab"}}}).json();
  EXPECT_EQ(one["object"], "list");
  ASSERT_EQ(one["data"].size(), 2u);
  EXPECT_EQ(one["data"][1]["object"], "score");
  EXPECT_EQ(one["data"][1]["index"], 1);
  EXPECT_NEAR(one["data"][1]["score"].get<double>(), sigmoid(2), 1e-12);
  EXPECT_EQ(one["usage"]["total_tokens"], 9);
  const json each = post("/score", {{"text_1", {"b", "ab"}}, {"text_2", {"b", "abab"}}}).json();
  EXPECT_NEAR(each["data"][0]["score"].get<double>(), sigmoid(-1), 1e-12);
  const json single = post("/score", {{"text_1", "ab"}, {"text_2", "ab"}}).json();
  EXPECT_NEAR(single["data"][0]["score"].get<double>(), 0.5, 1e-12);
}

TEST_F(Reranking, OfManyRequestsEachHasItsOwn) {
  start();
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c)
    clients.emplace_back([&, c] {
      json documents = json::array();
      for (int i = 0; i < 7; ++i) documents.push_back(std::string(static_cast<std::size_t>(1 + (i * 3 + c) % 7), 'a'));
      const json reply = post("/score", {{"text_1", c % 2 ? "a" : "aa"}, {"text_2", documents}}).json();
      for (int i = 0; i < 7; ++i) {
        const double expected = (1 + (i * 3 + c) % 7) * (c % 2 ? 1 : 2) - 2;
        EXPECT_NEAR(reply["data"][static_cast<std::size_t>(i)]["score"].get<double>(), sigmoid(expected), 1e-12);
      }
    });
  for (std::thread& client : clients) client.join();
}

TEST_F(Reranking, WhatIsWrongIsSaid) {
  const auto refused = [&](const char* path, const json& body, const std::string& param, const std::string& part) {
    const Answered got = post(path, body);
    EXPECT_EQ(got.status, param == "model" ? 404 : 400) << got.body;
    const json error = got.json()["error"];
    EXPECT_EQ(error["param"], param) << error;
    EXPECT_NE(error["message"].get<std::string>().find(part), std::string::npos) << error;
  };
  const auto with = [](const char* field, json value) {
    json body = {{"query", "a"}, {"documents", {"b"}}};
    body[field] = std::move(value);
    return body;
  };
  refused("/rerank", {{"documents", {"a"}}}, "query", "missing");
  refused("/rerank", {{"query", "a"}}, "documents", "missing");
  refused("/rerank", with("query", 5), "query", "expected a text, or an object with a text");
  refused("/rerank", with("documents", "b"), "documents", "expected a list of texts");
  refused("/rerank", with("documents", json::array()), "documents", "got 0 texts, expected 1 to 20");
  refused("/rerank", with("documents", {"a", 5}), "documents", "documents[1]: expected a text");
  refused("/rerank", with("documents", {"a", "bad"}), "documents", "documents[1]: is bad");
  refused("/rerank", with("documents", {"1234567890123"}), "documents", "documents[0]: more than 12 tokens");
  refused("/rerank", with("top_n", -1), "top_n", "a whole number from 0");
  refused("/rerank", with("model", "large"), "model", "expected \"small\"");
  refused("/rerank", with("max_tokens_per_doc", 5), "max_tokens_per_doc", "no such field");
  refused("/rerank", with("truncate_prompt_tokens", 5), "truncate_prompt_tokens", "-1 cuts");
  refused("/score", {{"text_1", {"a", "b"}}, {"text_2", {"a", "b", "c"}}}, "text_1",
          "got 2 texts, expected one, or as");
  refused("/score", {{"text_1", "a"}}, "text_2", "missing");
  EXPECT_EQ(post("/rerank", with("truncate_prompt_tokens", -1)).status, 200);
  json cut = with("documents", {"1234567890123"});
  cut["truncate_prompt_tokens"] = -1;
  EXPECT_EQ(post("/rerank", cut).json()["usage"]["total_tokens"], 12);
  EXPECT_EQ(asked(server->port(), "GET", "/rerank").status, 405);
  EXPECT_EQ(post("/v1/embeddings", json::object()).status, 404);
}

TEST_F(Reranking, AnErrorIsOneRequestsAndTokensAreCounted) {
  const json body = {{"query", "a"}, {"documents", {"b"}}};
  fails = true;
  EXPECT_EQ(post("/rerank", body).status, 500);
  fails = false;
  EXPECT_EQ(post("/rerank", body).status, 200);
  EXPECT_EQ(post("/tokenize", {{"prompt", "ab"}}).json()["tokens"], (json{97, 98}));
  const std::string metrics = asked(server->port(), "GET", "/metrics").body;
  EXPECT_NE(metrics.find("hone_prompt_tokens_total 4\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("hone_requests_total{route=\"/rerank\",status=\"500\"} 1\n"), std::string::npos) << metrics;
}

}  // namespace
}  // namespace hone::serve
