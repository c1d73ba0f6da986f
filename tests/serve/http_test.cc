// Replies that come later and from other threads, connections that go, bodies that are too long.
#include "serve/http.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/signals.h"
#include "harness/errors.h"
#include "serve/client.h"

namespace hone::serve {
namespace {

using test::answer_of;
using test::asked;
using test::Client;

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

TEST(HttpServer, HandsOverWhatWasAsked) {
  ignore_write_signals();
  HttpServer server({}, [](const HttpRequest& r, const Reply& reply) {
    reply.send(201, r.method + " " + r.path + " " + r.authorization + " " + r.body);
  });
  const test::Answered got = asked(server.port(), "POST", "/a/b?c=d", "x y", "Authorization: Bearer k\r\n");
  EXPECT_EQ(got.status, 201);
  EXPECT_EQ(got.body, "POST /a/b Bearer k x y");
  EXPECT_NE(got.head.find("Content-Type: application/json"), std::string::npos);
  EXPECT_EQ(got.head.find("Access-Control"), std::string::npos);
}

TEST(HttpServer, WritesPartsFromAnotherThread) {
  std::mutex mutex;
  std::vector<std::thread> threads;
  HttpServer server({}, [&](const HttpRequest&, const Reply& reply) {
    const std::lock_guard lock(mutex);
    threads.emplace_back([reply] {
      reply.begin_events();
      for (const char* part : {"one", "two"}) sleep(0.02), reply.event(part);
      reply.end();
      reply.event("late");
      reply.send(200, "late");
    });
  });
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<Client>(server.port()));
  for (const auto& client : clients) client->ask("GET", "/");
  for (const auto& client : clients) {
    const test::Answered got = answer_of(client->read());
    EXPECT_EQ(got.body, "data: one\n\ndata: two\n\n");
    EXPECT_NE(got.head.find("text/event-stream"), std::string::npos);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HttpServer, SaysThatNobodyWaitsAnyLonger) {
  std::mutex mutex;
  std::vector<Reply> replies;
  HttpServer server({}, [&](const HttpRequest&, const Reply& reply) {
    const std::lock_guard lock(mutex);
    replies.push_back(reply);
  });
  {
    const Client whole(server.port()), parts(server.port());
    whole.ask("GET", "/"), parts.ask("GET", "/");
    for (;; sleep(0.01)) {
      const std::lock_guard lock(mutex);
      if (replies.size() == 2) break;
    }
    replies[1].begin_events();
    EXPECT_FALSE(replies[0].is_gone());
  }
  for (int i = 0; i < 500 && !(replies[0].is_gone() && replies[1].is_gone()); ++i) sleep(0.01);
  EXPECT_TRUE(replies[0].is_gone());
  EXPECT_TRUE(replies[1].is_gone());
  replies[0].send(200, "{}"), replies[1].event("x"), replies[1].end();
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// Their connections are closed here, too, so that nothing waits for them.
TEST(HttpServer, LetsGoOfThoseWhoHaveGone) {
  std::mutex mutex;
  std::vector<Reply> replies;
  HttpServer server({}, [&](const HttpRequest&, const Reply& reply) {
    const std::lock_guard lock(mutex);
    replies.push_back(reply);
  });
  const std::ptrdiff_t before = open_files();
  for (int i = 0; i < 20; ++i) Client(server.port()).ask("POST", "/", "{}");
  for (int i = 0; i < 500; ++i, sleep(0.01)) {
    const std::lock_guard lock(mutex);
    if (replies.size() == 20 && std::all_of(replies.begin(), replies.end(), [](const Reply& r) { return r.is_gone(); }))
      break;
  }
  EXPECT_EQ(open_files(), before);
  server.finish(1000);  // what it would take if one was still waited for
}

TEST(HttpServer, RefusesBodiesThatMayBeReadOtherwise) {
  HttpServer server({}, [](const HttpRequest&, const Reply& reply) { reply.send(200, "{}"); });
  EXPECT_EQ(asked(server.port(), "POST", "/", "{}", "Content-Length: 1\r\n").status, 400);
  EXPECT_EQ(asked(server.port(), "POST", "/", "{}", "Content-Encoding: gzip\r\n").status, 415);
  const test::Answered head = asked(server.port(), "HEAD", "/");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_HONE_ERROR(HttpServer({.host = "nowhere.invalid"}, {}), usage, "cannot listen at nowhere.invalid: ");
}

TEST(HttpServer, KeepsAConnectionForMoreRequests) {
  HttpServer server({}, [](const HttpRequest& r, const Reply& reply) { reply.send(200, "<" + r.path + ">"); });
  const Client client(server.port());
  for (const char* path : {"/1", "/2", "/3"}) {
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_NE(client.read(">").find(std::string("<") + path + ">"), std::string::npos);
  }
}

TEST(HttpServer, RefusesWhatIsTooLong) {
  HttpServer server({.most_body = 1000}, [](const HttpRequest&, const Reply& reply) { reply.send(200, "{}"); });
  EXPECT_EQ(asked(server.port(), "POST", "/", std::string(1000, 'x')).status, 200);
  EXPECT_EQ(asked(server.port(), "POST", "/", std::string(1001, 'x')).status, 413);
}

// Also what libevent refuses itself, whose own pages are HTML.
TEST(HttpServer, ErrorsAreJsonInTheFormOfTheApi) {
  HttpServer server({.most_body = 1000, .allow_origin = "http://a"},
                    [](const HttpRequest&, const Reply& reply) { reply.send(200, "{}"); });
  const auto error = [&](const test::Answered& got, int status) {
    EXPECT_EQ(got.status, status) << got.head;
    EXPECT_NE(got.head.find("Content-Type: application/json"), std::string::npos) << got.head;
    EXPECT_NE(got.head.find("Access-Control-Allow-Origin: http://a"), std::string::npos) << got.head;
    EXPECT_EQ(got.body.find("<"), std::string::npos) << got.body;
    const nlohmann::json told = got.json().at("error");
    EXPECT_EQ(told.at("type"), status >= 500 ? "server_error" : "invalid_request_error");
    return told.at("message").get<std::string>();
  };
  EXPECT_EQ(error(asked(server.port(), "POST", "/", std::string(1001, 'x')), 413),
            "the body: expected at most 1000 bytes");
  EXPECT_EQ(error(asked(server.port(), "POST", "/", "{}", "Content-Encoding: gzip\r\n"), 415),
            "Content-Encoding: bodies are read as they are");
  EXPECT_EQ(error(asked(server.port(), "POST", "/", "{}", "Content-Length: 1\r\n"), 400),
            "More than one length of the body");
  EXPECT_EQ(error(asked(server.port(), "TRACE", "/"), 501), "the request: 501 Not Implemented");
  const auto raw = [&](const std::string& text) {
    const Client client(server.port());
    client.send(text);
    return answer_of(client.read());
  };
  EXPECT_EQ(error(raw("what is this\r\n\r\n"), 400), "the request: 400 Bad Request");
  EXPECT_EQ(error(raw("GET / HTTP/1.1\r\nno header\r\n\r\n"), 400), "the request: 400 Bad Request");
  EXPECT_EQ(asked(server.port(), "POST", "/", "{}").body, "{}");
}

TEST(HttpServer, AnswersBrowsersOfOneOrigin) {
  HttpServer server({.allow_origin = "http://a"},
                    [](const HttpRequest&, const Reply& reply) { reply.send(200, "{}"); });
  for (const char* method : {"OPTIONS", "GET"}) {
    const test::Answered got = asked(server.port(), method, "/v1/models");
    EXPECT_EQ(got.status, *method == 'O' ? 204 : 200);
    EXPECT_NE(got.head.find("Access-Control-Allow-Origin: http://a"), std::string::npos);
  }
}

TEST(HttpServer, TellsWhatBecameOfEachRequest) {
  std::mutex mutex;
  std::vector<HttpDone> all;
  std::vector<Reply> kept;
  HttpServer server(
      {.most_body = 1000},
      [&](const HttpRequest& request, const Reply& reply) {
        reply.count_tokens(5, 7);
        if (request.path == "/answered") return reply.send(201, "{}");
        const std::lock_guard lock(mutex);
        kept.push_back(reply);
      },
      [&](const HttpDone& done) {
        const std::lock_guard lock(mutex);
        all.push_back(done);
      });
  const auto newest = [&](std::size_t count) {
    for (int i = 0; i < 500; ++i, sleep(0.01)) {
      const std::lock_guard lock(mutex);
      if (all.size() == count) return all.back();
    }
    ADD_FAILURE() << "no request number " << count;
    return HttpDone();
  };
  asked(server.port(), "POST", "/answered?secret", "{}");
  const HttpDone answered = newest(1);
  EXPECT_EQ(answered.address, "127.0.0.1");
  EXPECT_EQ(answered.method, "POST");
  EXPECT_EQ(answered.path, "/answered");
  EXPECT_EQ(answered.status, 201);
  EXPECT_GE(answered.seconds, 0);
  EXPECT_EQ(answered.prompt_tokens, 5);
  EXPECT_EQ(answered.generated_tokens, 7);
  Client(server.port()).ask("GET", "/left");
  EXPECT_EQ(newest(2).status, HttpDone::kGone);
  EXPECT_EQ(newest(2).path, "/left");
  asked(server.port(), "OPTIONS", "/");
  EXPECT_EQ(newest(3).status, 204);
  asked(server.port(), "POST", "/", "{}", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(newest(4).status, 415);
  asked(server.port(), "POST", "/", std::string(1001, 'x'));
  EXPECT_EQ(newest(5).status, 413);
  EXPECT_EQ(newest(5).path, "-");
}

TEST(HttpServer, SaysWhyItCannotListen) {
  const HttpServer first({}, [](const HttpRequest&, const Reply&) {});
  EXPECT_HONE_ERROR(HttpServer({.port = first.port()}, {}), usage, "cannot listen at 127.0.0.1, port");
}

TEST(HttpServer, WaitsForWhatIsAnswered) {
  std::optional<std::thread> later;
  HttpServer server({}, [&](const HttpRequest&, const Reply& reply) {
    later.emplace([reply] { sleep(0.2), reply.send(200, "there"); });
  });
  const Client client(server.port());
  client.ask("GET", "/");
  while (!later) sleep(0.01);
  server.finish(10);
  EXPECT_EQ(answer_of(client.read()).body, "there");
  later->join();
}

}  // namespace
}  // namespace hone::serve
