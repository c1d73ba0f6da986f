// The order of a run's checkpoints.
#include "train/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/strings.h"

namespace hone::training {
namespace {

// What an evaluation sees of a set: other rows give numbers that cannot be compared.
std::string rows_of(const EvalSet& set, const EvaluateOptions& options, bool draws) {
  const auto own = options.batches_of.find(set.name);
  const std::optional<std::int64_t> batches =
      own == options.batches_of.end() ? options.max_batches : std::optional(own->second);
  const std::int64_t all = set.data->rows();
  const std::int64_t seen = batches ? std::min(all, *batches * options.batch_size) : all;
  return fmt::format("{} {}{}", set.data->fingerprint(), seen, draws ? fmt::format(" {}", options.seed) : "");
}

// Notes what is measured now. Whether the numbers of this prefix were of other rows so far.
bool note_rows(RunState& state, const Measures& now) {
  const bool recorded = !state.measured.empty();  // else by a hone that kept no record: as if nothing had changed
  const std::int64_t lines = std::ssize(state.log_history);
  bool other = false;
  for (const auto& [prefix, rows] : now.rows) {
    const auto [place, is_new] = state.measured.try_emplace(prefix, Measured{rows, recorded ? lines : 0});
    if (is_new || place->second.rows == rows) continue;
    place->second = {rows, lines};
    other |= prefix == now.prefix;
  }
  return other;
}

// The metric by step, as evaluations on the same rows have found it: another set beside it gives it another name.
std::map<std::int64_t, double> values_on_record(const RunState& state, const Measures& now) {
  std::map<std::int64_t, double> values;
  const auto own = state.measured.find(now.prefix);
  if (own == state.measured.end()) return values;
  const std::string what = now.best_by.metric.substr(now.prefix.size());
  for (const auto& [prefix, measured] : state.measured) {
    if (measured.rows != own->second.rows) continue;
    for (std::size_t i = static_cast<std::size_t>(measured.since); i < state.log_history.size(); ++i) {
      const nlohmann::json& line = state.log_history[i];
      if (const auto value = line.find(prefix + what); value != line.end() && line.contains("step"))
        values[line["step"].get<std::int64_t>()] = number_from_json(*value);
    }
  }
  return values;
}

std::vector<Best> ranked(const RunState& state, const Measures& now, const std::set<std::int64_t>& there) {
  std::vector<Best> best;
  for (const auto& [step, value] : values_on_record(state, now))
    if (there.contains(step) && !std::isnan(value))
      rank({{now.best_by.metric, value, step}, now.best_by.rises}, now.best_by.places, best);
  return best;
}

bool has(const std::vector<Best>& best, std::int64_t step) {
  return std::any_of(best.begin(), best.end(), [&](const Best& one) { return one.step == step; });
}

std::string steps_of(const std::vector<Best>& best) {
  std::vector<std::string> steps;
  for (const Best& one : best) steps.push_back(std::to_string(one.step));
  return (best.size() == 1 ? "step " : "steps ") + join(steps, ", ");
}

std::string first_of(const std::vector<Best>& best) {
  return best.empty() ? "no checkpoint that is here has been measured by it"
                      : fmt::format("step {}, {:.4g}", best.front().step, best.front().value);
}

// What a review has found to be another thing than before, the first that holds.
enum class Reason { other_rows, other_meaning, other_number, other_checkpoints };

std::string told(Reason reason, const BestBy& now, const std::vector<Best>& best) {
  switch (reason) {
    case Reason::other_rows:
      return fmt::format("{} is measured on other rows than so far; best by these: {}", now.metric, first_of(best));
    case Reason::other_meaning:
      return fmt::format("best is by {} now: {}", now.metric, first_of(best));
    case Reason::other_number:
      return fmt::format("trainer.save.keep_best is {} now: best by {}: {}", now.places, now.metric, steps_of(best));
    case Reason::other_checkpoints:
      break;
  }
  return fmt::format("best by {} of the checkpoints that are here: {}", now.metric, first_of(best));
}

// Of those that are best no longer; `stay`: however old they are.
std::string told(const std::vector<Best>& lost, bool stay) {
  if (lost.empty()) return "";
  if (!stay) return fmt::format("; no longer: {}", steps_of(lost));
  return fmt::format("; {}, best by {} until now ({:.4g}), {}", steps_of(lost), lost.front().metric, lost.front().value,
                     lost.size() == 1 ? "stays" : "stay");
}

bool same(const std::vector<Best>& a, const std::vector<Best>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Best& one, const Best& other) {
    return one.metric == other.metric && one.step == other.step && one.value == other.value;
  });
}

// Those that are among the best by what counts now as well stay even when they no longer are, unless it is the same
// number under another name.
template <class IsGone>
void keep_as_they_were(const std::vector<Best>& before, IsGone&& is_gone, RunState& state) {
  for (const Best& one : before) {
    const bool known = std::find(state.were_best.begin(), state.were_best.end(), one.step) != state.were_best.end();
    const bool renamed = std::any_of(state.best.begin(), state.best.end(),
                                     [&](const Best& now) { return now.step == one.step && now.value == one.value; });
    if (!known && !renamed && !is_gone(one)) state.were_best.push_back(one.step);
  }
}

}  // namespace

bool is_better(const Worth& worth, const std::vector<Best>& best) {
  std::vector<Best> with = best;
  rank(worth, 1, with);
  return with.front().step == worth.found.step;
}

void tell_unsaved_best(const RunState& state, const Measures& measures, std::int64_t since) {
  const BestBy& by = measures.best_by;
  std::vector<Best> all = state.best;
  for (const auto& [step, value] : values_on_record(state, measures))
    if (!std::isnan(value)) rank({{by.metric, value, step}, by.rises}, std::ssize(all) + 1, all);
  if (all.empty() || all.front().step <= since || has(state.best, all.front().step)) return;
  const std::string saved = state.best.empty() ? "" : "; of those that were: " + first_of(state.best);
  log::warning("step {} was the best, by {} {:.4g}, and was not saved{}; trainer.save.after_evaluation saves what is "
               "evaluated",
               all.front().step, by.metric, all.front().value, saved);
}

void rank(const Worth& worth, std::int64_t places, std::vector<Best>& best) {
  std::erase_if(best, [&](const Best& one) { return one.metric != worth.found.metric; });
  const auto worse = [&](const Best& one) {
    return worth.rises ? one.value < worth.found.value : one.value > worth.found.value;
  };
  if (!has(best, worth.found.step)) best.insert(std::find_if(best.begin(), best.end(), worse), worth.found);
  if (std::ssize(best) > places) best.resize(static_cast<std::size_t>(places));
}

Measures measures_of(const Recipe& recipe, const Inputs& inputs, const Evaluations& evaluations) {
  const std::vector<EvalSet>& sets = inputs.evals;
  Measures now;
  if (sets.empty()) return now;
  std::string metric = recipe.trainer.save.best_by;
  if (metric.empty()) metric = main_metric(evaluations, sets);
  const std::vector<std::string> rising = greater_is_better(evaluations, sets);
  now.best_by = {metric, std::find(rising.begin(), rising.end(), metric) != rising.end(),
                 recipe.trainer.save.keep_best};
  const EvaluateOptions options = evaluate_options(recipe, inputs);
  const bool draws = inputs.collator || recipe.data.collator.type != "pad";
  for (const EvalSet& set : sets) {
    const std::string prefix = prefix_of(sets.size(), set.name);
    now.rows[prefix] = rows_of(set, options, draws);
    if (metric.starts_with(prefix) && prefix.size() > now.prefix.size()) now.prefix = prefix;
  }
  return now;
}

bool is_on_record(const RunState& state, const Measures& measures) {
  for (auto line = state.log_history.rbegin(); line != state.log_history.rend(); ++line) {
    if (line->value("step", std::int64_t{-1}) != state.step) return false;
    for (const auto& [name, value] : line->items())
      for (const auto& [prefix, rows] : measures.rows)
        if (name.starts_with(prefix)) return true;
  }
  return false;
}

void review_best(RunState& state, const Measures& now, const std::set<std::int64_t>& there, const std::string& folder) {
  const bool other_rows = note_rows(state, now);
  const std::vector<Best> before = state.best;
  const BestBy before_by = std::exchange(state.best_by, now.best_by);
  const auto is_gone = [&](const Best& one) { return !there.contains(one.step); };
  std::erase_if(state.were_best, [&](std::int64_t step) { return !there.contains(step); });
  if (now.best_by.metric.empty()) {  // nothing is measured any more: what is best stays that
    std::erase_if(state.best, is_gone);
    state.best_by = before_by;
    return;
  }
  if (!other_rows && before_by == now.best_by && std::none_of(before.begin(), before.end(), is_gone)) return;
  state.best = ranked(state, now, there);
  std::vector<Best> lost = before;
  std::erase_if(lost, [&](const Best& one) { return is_gone(one) || has(state.best, one.step); });
  const bool other_metric = !before.empty() && before.front().metric != now.best_by.metric;
  const bool other_way = !before_by.metric.empty() && before_by.rises != now.best_by.rises;
  const bool other_number = before_by.places != 0 && before_by.places != now.best_by.places;
  const Reason reason = other_rows                            ? Reason::other_rows
                        : other_metric || other_way           ? Reason::other_meaning
                        : other_number && !state.best.empty() ? Reason::other_number
                                                              : Reason::other_checkpoints;
  const bool stay = reason == Reason::other_rows || reason == Reason::other_meaning;
  if (stay) keep_as_they_were(before, is_gone, state);
  if (same(before, state.best)) return;
  const bool nothing = stay && state.best.empty();
  log::write(other_rows || nothing ? log::Level::warning : log::Level::info,
             fmt::format("{}: {}{}", folder, told(reason, now.best_by, state.best), told(lost, stay)));
}

}  // namespace hone::training
