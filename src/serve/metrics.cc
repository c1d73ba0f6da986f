#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace hone::serve {
namespace {

void head(std::string& out, const std::string& name, const char* type, const std::string& help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

// A label's value, with what the format escapes.
std::string value_of(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? "\\n" : std::string(1, c);
  }
  return escaped;
}

void counter(std::string& out, const std::string& name, const std::string& help, std::int64_t value) {
  head(out, name, "counter", help);
  out += fmt::format("{} {}\n", name, value);
}

}  // namespace

void Histogram::add(double seconds) {
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
  sum_ += seconds;
}

void Histogram::write(std::string& out, const std::string& name, const std::string& labels) const {
  const std::string before = labels.empty() ? "" : labels + ",", all = labels.empty() ? "" : "{" + labels + "}";
  std::int64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < kBounds.size() ? fmt::format("{}", kBounds[i]) : "+Inf";
    out += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, before, bound, count);
  }
  out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, all, sum_, name, all, count);
}

Metrics::Metrics(std::string model, std::vector<std::string> answered, std::vector<std::string> others)
    : model_(std::move(model)), answered_(std::move(answered)), others_(std::move(others)) {}

void Metrics::gauge(const std::string& name, const std::string& help, std::function<double()> value) {
  gauges_.push_back({name, help, std::move(value)});
}

// Paths are the clients' to choose: what they make up is counted as one.
std::string Metrics::route_of(const std::string& path) const {
  if (std::ranges::count(answered_, path) + std::ranges::count(others_, path) > 0) return path;
  return path == "/v1/models/" + model_ ? "/v1/models" : "other";
}

void Metrics::count_request(const HttpDone& done) {
  const std::string route = route_of(done.path);
  const std::lock_guard lock(mutex_);
  ++requests_[{route, done.status}];
  if (done.status == 200 && std::ranges::count(answered_, route) > 0) seconds_[route].add(done.seconds);
}

void Metrics::count_prompt(std::int64_t tokens, std::int64_t cached) { prompt_ += tokens, cached_ += cached; }

void Metrics::first_token_after(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}

std::string Metrics::text() const {
  std::string out;
  head(out, "hone_info", "gauge", "1, with the model that is served and the version that serves it.");
  out += fmt::format("hone_info{{model=\"{}\",version=\"{}\"}} 1\n", value_of(model_), HONE_VERSION);
  for (const Gauge& gauge : gauges_) {
    head(out, gauge.name, "gauge", gauge.help);
    out += fmt::format("{} {}\n", gauge.name, gauge.value());
  }
  counter(out, "hone_prompt_tokens_total", "Tokens of prompts, also those that were not read anew.", prompt_);
  counter(out, "hone_cached_prompt_tokens_total", "Those of them that were taken from texts read before.", cached_);
  counter(out, "hone_generated_tokens_total", "Tokens of answers.", generated_);
  const std::lock_guard lock(mutex_);
  head(out, "hone_requests_total", "counter",
       "Requests that were answered, by path and HTTP status; 499: the client left before.");
  for (const auto& [key, count] : requests_)
    out += fmt::format("hone_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", value_of(key.first), key.second,
                       count);
  head(out, "hone_time_to_first_token_seconds", "histogram", "From a request to the first token of its answer.");
  first_token_.write(out, "hone_time_to_first_token_seconds", "");
  head(out, "hone_request_seconds", "histogram", "From a request to the end of its answer, of those with status 200.");
  for (const auto& [route, histogram] : seconds_)
    histogram.write(out, "hone_request_seconds", fmt::format("route=\"{}\"", value_of(route)));
  return out;
}

}  // namespace hone::serve
