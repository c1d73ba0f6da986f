// A small model behind a server, and what clients ask of it.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <thread>

#include "base/signals.h"
#include "generate/rows.h"
#include "harness/errors.h"
#include "hone/hub.h"
#include "serve/client.h"
#include "serve/service.h"

namespace hone::test {

class Serving : public ::testing::Test {
 protected:
  void SetUp() override {
    ignore_write_signals();
    served.name = "small", served.model = model.get(), served.tokenizer = tokenizer;
    served.max_length = 4000, served.most_answers = 4;
    served.chat_text = [](const nlohmann::ordered_json& row) {
      std::string text;
      for (const nlohmann::ordered_json& message : row["messages"])
        text += message["role"].get<std::string>() + ":" + message["content"].get<std::string>() + "\n";
      return text;
    };
    served.whole_chat_text = [text = served.chat_text](const nlohmann::ordered_json& row) { return text(row) + "."; };
    served.template_reads = [](const std::string& name) { return name == "mood"; };
    served.finds_tool_calls = true;
    options.rows = 4;
  }
  void start() {
    service = std::make_unique<serve::Service>(served, options);
    server = std::make_unique<serve::HttpServer>(
        serve::HttpOptions{},
        [this](const serve::HttpRequest& request, const serve::Reply& reply) { service->handle(request, reply); },
        [this](const serve::HttpDone& done) { service->done(done); });
    worker = std::thread([this] { service->run([this] { return stopping.load(); }); });
  }
  void TearDown() override {
    stopping = true;
    if (worker.joinable()) worker.join();
  }
  Answered post(const std::string& path, const nlohmann::json& body, const std::string& headers = "") {
    if (!server) start();
    return asked(server->port(), "POST", path, body.dump(), headers);
  }
  Answered complete(const nlohmann::json& body) { return post("/v1/completions", body); }
  Answered chat(nlohmann::json body) {
    if (!body.contains("messages")) body["messages"] = {{{"role", "user"}, {"content", "12"}}};
    return post("/v1/chat/completions", body);
  }
  // What hone generate would write.
  std::string expected(const std::string& prompt, std::int64_t tokens, double temperature = 0, std::uint64_t seed = 0) {
    Generator generator(*model, tokenizer);
    GenerateConfig config;
    config.max_new_tokens = tokens, config.temperature = temperature, config.seed = seed;
    return generator.generate({generate::prompt_ids(*tokenizer, prompt)}, config)[0].text;
  }

  std::unique_ptr<Model> model = [] {
    Problems problems;
    auto made = build_model(config::parse_json(R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 259, "max_position_embeddings": 4000})",
                                               "test", problems),
                            "test");
    init_weights(*made, 5, Precision::fp32);
    return made;
  }();
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer("bytes");
  serve::Served served;
  serve::ServiceOptions options;
  std::unique_ptr<serve::Service> service;
  std::unique_ptr<serve::HttpServer> server;
  std::thread worker;
  std::atomic<bool> stopping = false;
};

// The events' objects, without the last one, which is no object.
inline std::vector<nlohmann::json> parts_of(const Answered& got) {
  std::vector<nlohmann::json> parts;
  bool ended = false;
  for (std::size_t at = 0; (at = got.body.find("data: ", at)) != std::string::npos;) {
    const std::size_t end = got.body.find("\n\n", at);
    const std::string data = got.body.substr(at + 6, end - at - 6);
    EXPECT_FALSE(ended);
    if (data == "[DONE]")
      ended = true;
    else
      parts.push_back(nlohmann::json::parse(data));
    at = end;
  }
  EXPECT_TRUE(ended);
  return parts;
}

}  // namespace hone::test
