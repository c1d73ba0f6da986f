// Counts of what a server has done and does, in Prometheus' text format.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/http.h"

namespace hone::serve {

// How often something took up to so many seconds. One thread.
class Histogram {
 public:
  static constexpr std::array kBounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.,
                                         2.5,   5.,   10.,   25.,  50., 100., 250., 500.};
  void add(double seconds);
  // labels: of all its lines, as `route="/x"`; "": none.
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::array<std::int64_t, kBounds.size() + 1> counts_ = {};  // of each range alone; the last one: above all bounds
  double sum_ = 0;
};

// Thread-safe.
class Metrics {
 public:
  // answered: paths of requests that the model answers; others: further ones that are there. All else counts as one.
  Metrics(std::string model, std::vector<std::string> answered, std::vector<std::string> others);

  // A number that is asked for whenever somebody wants to know; of any thread, and not slow. unit: the name's end.
  void gauge(const std::string& name, const std::string& help, std::function<double()> value);
  void count_request(const HttpDone& done);
  // Of an answer that is begun: its prompt's tokens, and those of them that were not read anew.
  void count_prompt(std::int64_t tokens, std::int64_t cached);
  void count_generated() { ++generated_; }
  void first_token_after(double seconds);
  std::string text() const;

  static constexpr const char* kType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Gauge {
    std::string name, help;
    std::function<double()> value;
  };
  std::string route_of(const std::string& path) const;

  const std::string model_;
  const std::vector<std::string> answered_, others_;
  std::vector<Gauge> gauges_;  // before there are threads
  std::atomic<std::int64_t> prompt_ = 0, cached_ = 0, generated_ = 0;
  mutable std::mutex mutex_;  // of all below
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
  std::map<std::string, Histogram> seconds_;  // of answers, by route
  Histogram first_token_;
};

}  // namespace hone::serve
