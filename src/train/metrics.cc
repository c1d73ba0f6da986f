// How numbers of micro-batches and steps become the numbers of a log line.
#include "train/metrics.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "hone/trainer.h"

namespace hone {

const std::vector<std::string>& nondeterministic_metrics() {
  static const std::vector<std::string> names{
      "tokens_per_second", "step_seconds", "eval_seconds", "peak_memory_bytes",
      // of the callbacks timers, throughput and memory
      "time/data", "time/forward", "time/backward", "time/ranks", "time/update", "time/other", "time/log",
      "time/evaluation", "time/save", "epoch_seconds", "elapsed_seconds", "throughput/step_seconds",
      "throughput/tokens_per_second", "throughput/samples_per_second", "throughput/tflops", "throughput/mfu",
      "memory_bytes", "highest_memory_bytes", "tensor_memory_bytes", "available_memory_bytes", "memory_limit_bytes",
      "memory_limit_used_bytes"};
  return names;
}

}  // namespace hone

namespace hone::training {
namespace {

double ratio(const Metric& metric) { return metric.weight == 0 ? 0 : metric.sum / metric.weight; }

// A mean over nothing is no number.
bool is_there(const Metric& metric) { return metric.mode != LogMode::mean || metric.weight != 0; }

double sum_of_ratios(const std::map<std::string, Metric>& terms) {
  double loss = 0;
  for (const auto& [name, term] : terms) loss += ratio(term);
  return loss;
}

void combine_all(std::map<std::string, Metric>& into, const std::map<std::string, Metric>& values) {
  for (const auto& [name, value] : values) {
    const auto [place, is_new] = into.try_emplace(name, value);
    if (!is_new) combine(place->second, value);
  }
}

nlohmann::json to_json(const std::map<std::string, Spread>& spreads) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, one] : spreads)
    json[name] = {one.steps, json_number(one.last), json_number(one.max), json_number(one.mean),
                  json_number(one.squares)};
  return json;
}

std::map<std::string, Spread> spreads_from_json(const nlohmann::json& json) {
  std::map<std::string, Spread> spreads;
  for (const auto& [name, entry] : json.items())
    spreads[name] = {entry.at(0).get<std::int64_t>(), number_from_json(entry.at(1)), number_from_json(entry.at(2)),
                     number_from_json(entry.at(3)), number_from_json(entry.at(4))};
  return spreads;
}

void say(const std::string& name, const Spread& spread, std::span<const LogAs> modes, Metrics& values) {
  for (const LogAs mode : modes) {
    if (mode == LogAs::single) values[name + "_single"] = spread.last;
    if (mode == LogAs::max) values[name + "_max"] = spread.max;
    if (mode == LogAs::std) values[name + "_std"] = spread.deviation();
    if (mode != LogAs::mean) continue;
    const auto plain = values.find(name);
    values[name + "_mean"] = plain == values.end() || name == "grad_norm" ? spread.mean : plain->second;
  }
}

nlohmann::json to_json(const std::map<std::string, Metric>& metrics) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, metric] : metrics)
    json[name] = {json_number(metric.sum), json_number(metric.weight), static_cast<int>(metric.mode)};
  return json;
}

std::map<std::string, Metric> metrics_from_json(const nlohmann::json& json) {
  std::map<std::string, Metric> metrics;
  for (const auto& [name, entry] : json.items())
    metrics[name] = {number_from_json(entry.at(0)), number_from_json(entry.at(1)),
                     static_cast<LogMode>(entry.at(2).get<int>())};
  return metrics;
}

}  // namespace

void add(Sums& total, const Sums& more) {
  for (const auto& [name, amount] : more) total[name] += amount;
}

void combine(Metric& into, const Metric& value) {
  if (value.mode == LogMode::mean || value.mode == LogMode::sum) {
    into.sum += value.sum;
    into.weight += value.weight;
  } else if (value.mode == LogMode::last ||
             (value.mode == LogMode::max ? value_of(value) > value_of(into) : value_of(value) < value_of(into))) {
    into = value;
  }
}

double value_of(const Metric& metric) { return metric.mode == LogMode::sum ? metric.sum : ratio(metric); }

Sums amounts_of(const Batch& batch) {
  return {{"tokens", static_cast<double>(batch.tokens)},
          {"rows", static_cast<double>(batch.rows())},
          {"documents", static_cast<double>(batch.docs.size())}};
}

void StepReport::add(const LossTerms& micro_batch, std::span<const double> sums, std::span<const double> means,
                     const Sums& step_sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Metric& total = terms[micro_batch.terms[i].name];
    total.sum += sums[i];
    total.weight = step_sums.at(micro_batch.terms[i].per);
  }
  combine_all(metrics, micro_batch.metrics);
  for (std::size_t i = 0; i < micro_batch.means.size(); ++i) {
    const MeasuredMean& mean = micro_batch.means[i];
    if (mean.mode == LogMode::mean || means[2 * i + 1] != 0)
      combine_all(metrics, {{mean.name, {means[2 * i], means[2 * i + 1], mean.mode}}});
  }
}

void StepReport::add(const StepReport& update) {
  combine_all(terms, update.terms);
  combine_all(metrics, update.metrics);
  grad_norm = update.grad_norm;
  learning_rate = update.learning_rate;
  tokens += update.tokens;
  supervised += update.supervised;
  rows += update.rows;
  documents += update.documents;
  squares += update.squares;
  micro_batches += update.micro_batches;
  host_waits += update.host_waits;
  spikes += update.spikes;
  overflows += update.overflows;
  lost_estimates += update.lost_estimates;
  not_finite += update.not_finite;
}

// A term's divisor is of the whole step already.
void StepReport::total(const World& world) {
  if (world.size() == 1) return;
  const std::vector<std::string> all =
      world.gather(nlohmann::json{{"terms", to_json(terms)}, {"metrics", to_json(metrics)}}.dump());
  terms.clear(), metrics.clear();
  for (const std::string& one : all) {
    const nlohmann::json json = nlohmann::json::parse(one);
    for (const auto& [name, term] : metrics_from_json(json.at("terms"))) {
      const auto [place, is_new] = terms.try_emplace(name, term);
      if (!is_new) place->second.sum += term.sum;
    }
    combine_all(metrics, metrics_from_json(json.at("metrics")));
  }
}

double StepReport::loss() const { return sum_of_ratios(terms); }

void Spread::add(double value) {
  max = steps == 0 ? value : std::max(max, value);
  last = value;
  steps += 1;
  const double off = value - mean;
  mean += off / static_cast<double>(steps);
  squares += off * (value - mean);
}

double Spread::deviation() const { return steps == 0 ? 0 : std::sqrt(squares / static_cast<double>(steps)); }

void Window::add(const StepReport& report) {
  if (!report.skipped) {
    spreads["loss"].add(report.loss());
    spreads["grad_norm"].add(report.grad_norm);
    if (report.terms.size() > 1)
      for (const auto& [name, term] : report.terms) spreads[name].add(ratio(term));
    for (const auto& [name, metric] : report.metrics)
      if (is_there(metric)) spreads[name].add(value_of(metric));
  }
  combine_all(terms, report.terms);
  combine_all(metrics, report.metrics);
  grad_norm = report.grad_norm;
  learning_rate = report.learning_rate;
}

void Window::give(const std::string& name, double value, LogMode mode) {
  combine_all(given, {{name, {value, 1, mode}}});
  given_spreads[name].add(value);
}

Metrics Window::values(std::span<const LogAs> modes) const {
  Metrics values{{"grad_norm", grad_norm}, {"learning_rate", learning_rate}};
  if (terms.size() > 1)
    for (const auto& [name, term] : terms) values[name] = ratio(term);
  for (const auto& [name, metric] : metrics)
    if (is_there(metric)) values[name] = value_of(metric);
  values["loss"] = sum_of_ratios(terms);
  for (const auto& [name, metric] : given) values[name] = value_of(metric);
  for (const auto& [name, spread] : spreads)
    if (!given_spreads.contains(name)) say(name, spread, modes, values);
  for (const auto& [name, spread] : given_spreads) say(name, spread, modes, values);
  return values;
}

nlohmann::json to_json(const Window& window) {
  return {{"terms", to_json(window.terms)},
          {"metrics", to_json(window.metrics)},
          {"grad_norm", json_number(window.grad_norm)},  // of a step that was left out it may be NaN
          {"learning_rate", json_number(window.learning_rate)},
          {"given", to_json(window.given)},
          {"spreads", to_json(window.spreads)},
          {"given_spreads", to_json(window.given_spreads)}};
}

Window window_from_json(const nlohmann::json& json) {
  return {metrics_from_json(json.at("terms")),
          metrics_from_json(json.at("metrics")),
          number_from_json(json.at("grad_norm")),
          number_from_json(json.at("learning_rate")),
          metrics_from_json(json.value("given", nlohmann::json::object())),
          spreads_from_json(json.value("spreads", nlohmann::json::object())),
          spreads_from_json(json.value("given_spreads", nlohmann::json::object()))};
}

nlohmann::json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

nlohmann::json json_of(const Metrics& values) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : values) {
    const bool count = name == "step" || name == "tokens" || name == "prompts" || name.ends_with("_tokens") ||
                       name.ends_with("_bytes") || name.ends_with("_prompts");
    if (count && std::isfinite(value))
      json[name] = static_cast<std::int64_t>(value);
    else
      json[name] = json_number(value);
  }
  return json;
}

double number_from_json(const nlohmann::json& json) {
  if (json.is_number()) return json.get<double>();
  const double inf = std::numeric_limits<double>::infinity();
  return json == "inf" ? inf : json == "-inf" ? -inf : std::numeric_limits<double>::quiet_NaN();
}

std::uint64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace hone::training
