// Counts in Prometheus' text format, and lines of requests.
#include "serve/metrics.h"

#include <map>
#include <mutex>
#include <sstream>

#include "base/log.h"
#include "base/strings.h"
#include "serve/serving.h"

namespace hone::serve {
namespace {

using nlohmann::json;
using test::asked;
using test::Client;
using test::Serving;

// Samples by their names and labels. Each has a HELP and a TYPE before it, of its family, which comes once.
std::map<std::string, double> samples_of(const std::string& text) {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
  std::istringstream lines(text);
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = split(line, ' ');
    if (line.starts_with("# HELP ")) {
      family = words[2];
      EXPECT_FALSE(types.contains(family)) << family;
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_EQ(words[2], family);
      types[family] = words[3];
    } else {
      const std::size_t end = line.rfind(' ');
      const std::string name = line.substr(0, line.find_first_of("{ "));
      EXPECT_TRUE(name == family || (types[family] == "histogram" && name.starts_with(family + "_"))) << line;
      EXPECT_FALSE(samples.contains(line.substr(0, end))) << line;
      samples[line.substr(0, end)] = parse_double(line.substr(end + 1)).value_or(-1);
    }
  }
  return samples;
}

TEST(Metrics, HistogramsCountWhatIsAtMostTheirBounds) {
  Histogram histogram;
  for (const double seconds : {0.001, 0.005, 0.3, 1e6}) histogram.add(seconds);
  std::string text;
  histogram.write(text, "x", "route=\"/a\"");
  const auto samples = samples_of("# HELP x y\n# TYPE x histogram\n" + text);
  EXPECT_EQ(samples.at("x_bucket{route=\"/a\",le=\"0.005\"}"), 2);
  EXPECT_EQ(samples.at("x_bucket{route=\"/a\",le=\"0.25\"}"), 2);
  EXPECT_EQ(samples.at("x_bucket{route=\"/a\",le=\"0.5\"}"), 3);
  EXPECT_EQ(samples.at("x_bucket{route=\"/a\",le=\"500\"}"), 3);
  EXPECT_EQ(samples.at("x_bucket{route=\"/a\",le=\"+Inf\"}"), 4);
  EXPECT_EQ(samples.at("x_count{route=\"/a\"}"), 4);
  EXPECT_NEAR(samples.at("x_sum{route=\"/a\"}"), 1e6 + 0.306, 1e-9);
}

TEST(Metrics, PathsThatClientsMakeUpAreCountedAsOne) {
  Metrics metrics("a\"b\\", {"/v1/completions"}, {"/v1/models"});
  for (const char* path : {"/x", "/y", "/v1/models/a\"b\\", "/v1/completions"})
    metrics.count_request({"1.2.3.4", "GET", path, 404});
  const auto samples = samples_of(metrics.text());
  EXPECT_EQ(samples.at("hone_requests_total{route=\"other\",status=\"404\"}"), 2);
  EXPECT_EQ(samples.at("hone_requests_total{route=\"/v1/models\",status=\"404\"}"), 1);
  EXPECT_NE(metrics.text().find("model=\"a\\\"b\\\\\""), std::string::npos);
}

TEST_F(Serving, CountsWhatItDoes) {
  options.kept_bytes = 1 << 26, options.most_cache_bytes = 1 << 20;
  options.cache_bytes = [](std::int64_t rows, std::int64_t tokens) { return rows * tokens; };
  const std::string prompt = "How far is the moon from here?";
  const json body = {{"prompt", prompt}, {"max_tokens", 8}, {"ignore_eos", true}};
  const json first = complete(body).json(), second = complete(body).json();
  EXPECT_EQ(complete({{"prompt", 5}}).status, 400);
  asked(server->port(), "GET", "/nowhere");
  const test::Answered got = asked(server->port(), "GET", "/metrics");
  EXPECT_NE(got.head.find("Content-Type: text/plain; version=0.0.4"), std::string::npos) << got.head;
  const auto samples = samples_of(got.body);
  EXPECT_EQ(samples.at("hone_requests_total{route=\"/v1/completions\",status=\"200\"}"), 2);
  EXPECT_EQ(samples.at("hone_requests_total{route=\"/v1/completions\",status=\"400\"}"), 1);
  EXPECT_EQ(samples.at("hone_requests_total{route=\"other\",status=\"404\"}"), 1);
  EXPECT_EQ(samples.at("hone_prompt_tokens_total"), 2 * std::ssize(prompt));
  EXPECT_EQ(samples.at("hone_cached_prompt_tokens_total"), std::ssize(prompt) - 1);
  EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"], std::ssize(prompt) - 1);
  EXPECT_EQ(samples.at("hone_generated_tokens_total"), 16);
  EXPECT_EQ(samples.at("hone_time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(samples.at("hone_request_seconds_count{route=\"/v1/completions\"}"), 2);
  EXPECT_GT(samples.at("hone_request_seconds_sum{route=\"/v1/completions\"}"),
            samples.at("hone_time_to_first_token_seconds_sum"));
  EXPECT_EQ(samples.at("hone_cache_limit_bytes"), 1 << 20);
  EXPECT_EQ(samples.at("hone_answers_limit"), 4);
  EXPECT_GT(samples.at("hone_kept_text_bytes"), 0);
  EXPECT_EQ(samples.at("hone_requests_waiting"), 0);
  EXPECT_EQ(samples.count("hone_info{model=\"small\",version=\"" HONE_VERSION "\"}"), 1u);
}

TEST_F(Serving, TellsWhatItIsAbout) {
  options.rows = 1, served.most_answers = 1, options.most_cache_bytes = 1 << 20;
  options.cache_bytes = [](std::int64_t rows, std::int64_t tokens) { return rows * tokens; };
  start();
  const Client first(server->port()), second(server->port());
  const json body = {{"prompt", "a"}, {"max_tokens", 3900}, {"ignore_eos", true}, {"stream", true}};
  first.ask("POST", "/v1/completions", body.dump());
  first.read("data: ");
  second.ask("POST", "/v1/completions", body.dump());
  std::map<std::string, double> samples;
  // The numbers are those after a step, and the first part of an answer comes within one.
  for (int i = 0; i < 500 && (samples["hone_requests_waiting"] != 1 || samples["hone_requests_running"] != 1); ++i)
    samples = samples_of(asked(server->port(), "GET", "/metrics").body);
  EXPECT_EQ(samples["hone_requests_waiting"], 1);
  EXPECT_EQ(samples["hone_requests_running"], 1);
  EXPECT_EQ(samples["hone_answers_running"], 1);
  EXPECT_EQ(samples["hone_cache_bytes"], 3901);
}

TEST_F(Serving, MetricsAskForTheKeyToo) {
  options.api_key = "secret";
  start();
  EXPECT_EQ(asked(server->port(), "GET", "/metrics").status, 401);
  EXPECT_EQ(asked(server->port(), "GET", "/metrics", "", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(asked(server->port(), "POST", "/metrics", "", "Authorization: Bearer secret\r\n").status, 405);
}

// What log::write() was given while one lives.
class Lines {
 public:
  Lines() {
    log::set_sink([this](log::Level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      all_.emplace_back(line);
    });
  }
  ~Lines() { log::set_sink({}); }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};

TEST_F(Serving, WritesALineForEachRequestWithoutItsTexts) {
  options.log_requests = true;
  Lines lines;
  complete({{"prompt", "secret"}, {"max_tokens", 3}, {"ignore_eos", true}});
  complete({{"prompt", "secret"}, {"secret", 1}});
  asked(server->port(), "GET", "/health");
  asked(server->port(), "GET", "/metrics");
  asked(server->port(), "GET", "/v1/models");
  server.reset();
  const std::vector<std::string> all = lines.all();
  ASSERT_EQ(all.size(), 3u);
  using ::testing::MatchesRegex;
  const std::string when = "[0-9]+-[0-9]+-[0-9]+T[0-9:]+Z 127\\.0\\.0\\.1 ";
  EXPECT_THAT(all[0], MatchesRegex(when + "POST /v1/completions 200 [0-9.]+ ms, 6 tokens in, 3 out"));
  EXPECT_THAT(all[1], MatchesRegex(when + "POST /v1/completions 400 [0-9.]+ ms"));
  EXPECT_THAT(all[2], MatchesRegex(when + "GET /v1/models 200 [0-9.]+ ms"));
}

TEST_F(Serving, WritesNoLineUnlessItIsAskedFor) {
  Lines lines;
  complete({{"prompt", "a"}, {"max_tokens", 1}});
  server.reset();
  EXPECT_TRUE(lines.all().empty());
}

}  // namespace
}  // namespace hone::serve
