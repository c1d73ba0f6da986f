// state/train.json.
#include "train/state.h"

#include <fmt/format.h>

#include "io/json.h"

namespace hone::training {
namespace {

// 2: callbacks keep more than numbers, which version 1 would lose. What has only numbers is still written as 1.
constexpr int kVersion = 2;

// As many norms as trainer.skip_spikes.window takes are more than other small files have.
constexpr io::JsonLimits kStateJson{std::uint64_t{1} << 30, 100, ErrorKind::checkpoint};

// A count as hone writes it; nlohmann would take 1.5 and true as well.
std::int64_t count_at(const nlohmann::json& json, const char* key, const std::string& where) {
  const nlohmann::json& value = json.at(key);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX))
    return value.get<std::int64_t>();
  throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: got {}, expected a count", where, key, value.dump()));
}

Best best_from_json(const nlohmann::json& json) {
  return {json.at("metric").get<std::string>(), number_from_json(json.at("value")),
          json.at("step").get<std::int64_t>()};
}

nlohmann::ordered_json best_to_json(const Best& best) {
  return {{"metric", best.metric}, {"value", json_number(best.value)}, {"step", best.step}};
}

nlohmann::ordered_json measured_to_json(const std::map<std::string, Measured>& measured) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [prefix, one] : measured) json[prefix] = {{"rows", one.rows}, {"since", one.since}};
  return json;
}

// What "best" has meant; a hone of before did not record it.
void read_ranking(const nlohmann::json& json, const std::string& where, RunState& state) {
  if (const Best best = best_from_json(json.at("best")); best.step >= 0) state.best.push_back(best);
  if (json.contains("next_best"))
    for (const nlohmann::json& next : json.at("next_best")) state.best.push_back(best_from_json(next));
  if (!json.contains("best_by")) return;
  const nlohmann::json& by = json.at("best_by");
  state.best_by = {by.at("metric").get<std::string>(), by.at("rises").get<bool>(), count_at(by, "places", where)};
  state.were_best = json.at("were_best").get<std::vector<std::int64_t>>();
  for (const auto& [prefix, one] : json.at("measured").items())
    state.measured[prefix] = {one.at("rows").get<std::string>(), count_at(one, "since", where)};
}

RunState read_state(const nlohmann::json& json, const std::string& where) {
  RunState state;
  state.step = count_at(json, "step", where);
  state.tokens = count_at(json, "tokens", where);
  state.skipped_steps = count_at(json, "skipped_steps", where);
  // Without a record there was one for each step; the optimizer counted skipped ones too.
  state.updates = json.contains("updates") ? count_at(json, "updates", where) : state.step;
  if (json.contains("spikes")) state.spikes = count_at(json, "spikes", where);
  if (json.contains("not_finite")) state.not_finite = count_at(json, "not_finite", where);
  if (json.contains("loss_scale")) {
    const nlohmann::json& scale = json.at("loss_scale");
    state.loss_scale = {number_from_json(scale.at("factor")), count_at(scale, "updates", where),
                        count_at(scale, "overflows", where)};
  }
  if (json.contains("trained_updates"))
    state.trained_updates = json.at("trained_updates").get<std::map<std::string, std::int64_t>>();
  if (json.contains("own_updates"))
    state.own_updates = json.at("own_updates").get<std::map<std::string, std::int64_t>>();
  if (json.contains("objective"))
    for (const auto& [name, value] : json.at("objective").items()) state.objective[name] = number_from_json(value);
  if (json.contains("norms")) state.norms = json.at("norms").get<std::vector<double>>();
  state.evaluation_due = json.at("evaluation_due").get<bool>();
  state.finished = json.at("finished").get<std::string>();
  if (json.contains("sets_due")) state.sets_due = json.at("sets_due").get<std::vector<std::string>>();
  state.window = window_from_json(json.at("window"));
  if (json.contains("report")) state.report = window_from_json(json.at("report"));
  read_ranking(json, where, state);
  if (json.contains("rows")) state.rows = count_at(json, "rows", where);
  state.changes = json.at("changes");
  state.data_files = json.at("data_files");
  if (json.contains("threads")) state.threads = count_at(json, "threads", where);
  if (json.contains("computed_by"))
    state.computed_by = json.at("computed_by").get<std::map<std::string, std::string>>();
  state.ranks = json.contains("ranks") ? count_at(json, "ranks", where) : 1;
  if (json.contains("data_position") && !json.at("data_position").is_null())
    state.data_position = json.at("data_position").dump();
  state.data_hash = json.at("data_hash").get<std::string>();
  state.tokenizer_hash = json.at("tokenizer_hash").get<std::string>();
  if (json.contains("models")) state.models = json.at("models").get<std::map<std::string, std::string>>();
  if (json.contains("source_dtypes")) {
    const auto types = json.at("source_dtypes").get<SourceTypes>();
    if (!types.empty() && !types.contains("*"))
      throw Error(ErrorKind::checkpoint, fmt::format("{}: source_dtypes: no \"*\"", where));
    state.source_types = types;
  }
  return state;
}

}  // namespace

std::string to_json(const RunState& state) {
  nlohmann::ordered_json next_best = nlohmann::ordered_json::array();
  for (std::size_t i = 1; i < state.best.size(); ++i) next_best.push_back(best_to_json(state.best[i]));
  nlohmann::ordered_json json{
      {"version", only_numbers(state.callbacks) ? 1 : kVersion},
      {"step", state.step},
      {"tokens", state.tokens},
      {"skipped_steps", state.skipped_steps},
      {"updates", state.updates},
      {"spikes", state.spikes},
      {"norms", state.norms},
      {"evaluation_due", state.evaluation_due},
      {"finished", state.finished},
      {"window", to_json(state.window)},
      {"best", best_to_json(state.best.empty() ? Best{} : state.best.front())},
      {"next_best", next_best},
      {"best_by", {{"metric", state.best_by.metric}, {"rises", state.best_by.rises}, {"places", state.best_by.places}}},
      {"were_best", state.were_best},
      {"measured", measured_to_json(state.measured)},
      {"callbacks", to_json(state.callbacks)},
      {"changes", state.changes},
      {"data_files", state.data_files},
      {"threads", state.threads},
      {"ranks", state.ranks},
      {"computed_by", state.computed_by},
      {"data_position",
       state.data_position.empty() ? nlohmann::json() : io::parse_json(state.data_position, "", io::kConfigJson)},
      {"data_hash", state.data_hash},
      {"tokenizer_hash", state.tokenizer_hash},
      {"models", state.models},
      {"source_dtypes", state.source_types.value_or(SourceTypes())}};
  if (state.rows >= 0) json["rows"] = state.rows;
  if (const LossScale& scale = state.loss_scale; !scale.is_unused())
    json["loss_scale"] = {{"factor", scale.factor}, {"updates", scale.updates}, {"overflows", scale.overflows}};
  for (const auto& [name, value] : state.objective) json["objective"][name] = json_number(value);
  if (state.not_finite > 0) json["not_finite"] = state.not_finite;
  if (!state.trained_updates.empty()) json["trained_updates"] = state.trained_updates;
  if (!state.own_updates.empty()) json["own_updates"] = state.own_updates;
  if (!state.sets_due.empty()) json["sets_due"] = state.sets_due;
  if (state.report) json["report"] = to_json(*state.report);
  return json.dump(2) + "\n";
}

RunState state_from_json(const std::string& text, const std::string& where) {
  const nlohmann::ordered_json ordered = io::parse_ordered_json(text, where, kStateJson);
  const nlohmann::json json = ordered;
  try {
    if (const int version = json.at("version").get<int>(); version < 1 || version > kVersion)
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: version {}; this hone reads versions 1 to {}", where, version, kVersion));
    RunState state = read_state(json, where);
    Problems problems;
    if (!json.contains("callbacks") || !json.at("callbacks").is_object())
      throw Error(ErrorKind::checkpoint, where + ": callbacks: missing, expected a section");
    const config::Node callbacks = config::parse_json(ordered.at("callbacks").dump(), where, problems);
    problems.raise(where, ErrorKind::checkpoint);
    state.callbacks = callbacks_from_json(callbacks, where);
    return state;
  } catch (const nlohmann::json::exception& problem) {
    throw Error(ErrorKind::checkpoint, fmt::format("{}: not the state of a run: {}", where, problem.what()));
  }
}

}  // namespace hone::training
