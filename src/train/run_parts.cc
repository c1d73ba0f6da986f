// The parts of a run as plain values, and back.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hone/registry.h"
#include "hone/trainer.h"

namespace hone {
namespace {

constexpr std::array<std::pair<StopReason, const char*>, 5> kReasons{
    {{StopReason::steps, "steps"},
     {StopReason::callback, "callback"},
     {StopReason::signal, "signal"},
     {StopReason::already_finished, "already_finished"},
     {StopReason::end_of_data, "end_of_data"}}};

template <class T>
config::Node node_of(const T& value) {
  return config::Values<T>::write(value);
}

// The keys of a dictionary, each asked for once; what nobody asks for is refused.
class Keys {
 public:
  Keys(const config::Node& dict, std::string subject) : dict_(dict), subject_(std::move(subject)) {
    registries();  // fills the catalogues that Choice reads from
    if (!dict.is_map()) throw Error(ErrorKind::config, subject_ + ": got a plain value, expected a section");
  }
  const config::Node* find(const char* key) {
    known_.emplace_back(key);
    const config::Node* found = dict_.find(key);
    return found && !found->is_null() ? found : nullptr;
  }
  template <class T>
  bool read(const char* key, T& value) {
    const config::Node* found = find(key);
    if (found) config::Values<T>::read(*found, value, {problems_, key});
    return found != nullptr;
  }
  template <class T>
  void require(const char* key, T& value) {
    if (!read(key, value)) problems_.add(key, "missing");
  }
  void finish() {
    config::detail::report_unknown(dict_, known_, {problems_, ""});
    problems_.raise(subject_);
  }

 private:
  const config::Node& dict_;
  std::string subject_;
  std::vector<std::string> known_;
  Problems problems_;
};

config::Node described(const TrainingData& data) {
  config::Node node = config::Node::map();
  node.at_or_add("fingerprint") = node_of(data.fingerprint());
  if (const Dataset* rows = data.as_dataset()) {
    node.at_or_add("rows") = node_of(rows->rows());
    node.at_or_add("epoch_rows") = node_of(rows->epoch_rows());
  }
  return node;
}

std::string fingerprint_in(const config::Node& node) {
  const config::Node* found = node.find("fingerprint");
  return found && found->kind() == config::Node::Kind::scalar ? found->text() : "";
}

// JSON has no other way to write some.
double number_in(const config::Node& node, const std::string& key, Problems& problems) {
  for (const auto& [name, value] : {std::pair("nan", std::nan("")), std::pair("inf", HUGE_VAL), {"-inf", -HUGE_VAL}})
    if (node.kind() == config::Node::Kind::scalar && node.text() == name) return value;
  double value = 0;
  config::Values<double>::read(node, value, {problems, key});
  return value;
}

}  // namespace

config::Node RunData::to_dict() const {
  config::Node dict = config::Node::map();
  dict.at_or_add("max_training_steps") = node_of(max_training_steps);
  if (max_evaluation_steps) dict.at_or_add("max_evaluation_steps") = node_of(*max_evaluation_steps);
  if (train) dict.at_or_add("train") = described(*train);
  config::Node& sets = dict.at_or_add("evals") = config::Node::map();
  for (const EvalSet& set : evals) sets.at_or_add(set.name) = set.data ? described(*set.data) : config::Node::map();
  return dict;
}

RunData RunData::from_dict(const config::Node& dict) {
  Keys keys(dict, "the data");
  RunData part;
  keys.require("max_training_steps", part.max_training_steps);
  if (std::int64_t most = 0; keys.read("max_evaluation_steps", most)) part.max_evaluation_steps = most;
  if (const config::Node* train = keys.find("train")) part.train_fingerprint = fingerprint_in(*train);
  if (const config::Node* sets = keys.find("evals"))
    for (const auto& [name, set] : sets->entries()) part.evals.push_back({name, nullptr});
  keys.finish();
  return part;
}

config::Node RunModel::to_dict() const {
  config::Node dict = config::Node::map();
  dict.at_or_add("optimizer") = node_of(optimizer);
  if (!scheduler.type.empty()) dict.at_or_add("scheduler") = node_of(scheduler);
  if (!config.is_null()) dict.at_or_add("config") = config;
  return dict;
}

RunModel RunModel::from_dict(const config::Node& dict) {
  Keys keys(dict, "model of a run");
  RunModel part;
  keys.require("optimizer", part.optimizer);
  keys.read("scheduler", part.scheduler);
  if (const config::Node* config = keys.find("config")) part.config = *config;
  keys.finish();
  return part;
}

config::Node RunFunctions::to_dict() const {
  config::Node dict = config::Node::map();
  std::vector<config::Node> measures;
  for (const auto& one : evaluations)
    for (const std::string& name : one->names()) measures.push_back(node_of(name));
  dict.at_or_add("evaluations") = config::Node::list(std::move(measures));
  dict.at_or_add("ranks") = node_of(static_cast<std::int64_t>(world.size()));
  dict.at_or_add("checkpoints") = node_of(checkpoints);
  return dict;
}

RunFunctions RunFunctions::from_dict(const config::Node& dict) {
  Keys keys(dict, "the functions");
  RunFunctions part;
  keys.read("checkpoints", part.checkpoints);
  keys.find("evaluations");  // those of the run, which keeps them
  keys.find("ranks");
  keys.finish();
  return part;
}

config::Node Summary::to_dict() const {
  config::Node dict = config::Node::map();
  const auto add = [&](const char* key, const auto& value) { dict.at_or_add(key) = node_of(value); };
  add("folder", folder), add("checkpoint", checkpoint), add("step", step), add("steps", steps), add("tokens", tokens);
  for (const auto& [value, name] : kReasons)
    if (value == reason) add("reason", std::string(name));
  add("stopped_by", stopped_by), add("seconds", seconds), add("prepare_seconds", prepare_seconds);
  add("warnings", warnings), add("failed_saves", failed_saves), add("skipped_steps", skipped_steps);
  config::Node& values = dict.at_or_add("metrics") = config::Node::map();
  for (const auto& [name, value] : metrics) values.at_or_add(name) = node_of(value);
  if (resumed_from) add("resumed_from", *resumed_from);
  return dict;
}

Summary Summary::from_dict(const config::Node& dict) {
  Keys keys(dict, "summary");
  Summary made;
  std::string reason;
  keys.require("folder", made.folder), keys.read("checkpoint", made.checkpoint);
  keys.require("step", made.step), keys.read("steps", made.steps), keys.read("tokens", made.tokens);
  keys.require("reason", reason), keys.read("stopped_by", made.stopped_by), keys.read("seconds", made.seconds);
  keys.read("prepare_seconds", made.prepare_seconds), keys.read("warnings", made.warnings);
  keys.read("failed_saves", made.failed_saves), keys.read("skipped_steps", made.skipped_steps);
  if (std::int64_t step = 0; keys.read("resumed_from", step)) made.resumed_from = step;
  Problems problems;
  if (const config::Node* values = keys.find("metrics"))
    for (const auto& [name, value] : values->entries()) made.metrics[name] = number_in(value, name, problems);
  keys.finish();
  problems.raise("summary");
  const auto* found = std::find_if(kReasons.begin(), kReasons.end(),
                                   [&](const auto& one) { return reason == one.second; });
  if (found == kReasons.end())
    throw Error(ErrorKind::config, fmt::format("summary: reason: got \"{}\", which is none", reason));
  made.reason = found->first;
  return made;
}

}  // namespace hone
