// The evaluation loop.
#include "train/evaluate.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/plugin.h"
#include "base/progress.h"
#include "base/strings.h"
#include "hone/random.h"
#include "hone/registry.h"
#include "tensor/host.h"
#include "train/check_written.h"
#include "train/kept.h"
#include "train/make_objective.h"
#include "train/metrics.h"

namespace hone::training {

std::string prefix_of(std::size_t sets, const std::string& name) { return sets == 1 ? "eval_" : "eval_" + name + "_"; }

std::string unknown_evaluation(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!registries().evals.find(name))
      return fmt::format("no evaluation {}; there are {}", hone::quoted(name), join(registries().evals.names(), ", "));
  return "";
}

Evaluations make_evaluations(const std::vector<std::string>& names) {
  const auto& known = registries().evals;
  if (const std::string text = unknown_evaluation(names); !text.empty()) throw Error(ErrorKind::config, text);
  Evaluations made;
  for (const std::string& name : names) made.push_back(known.make(name, *known.options(name)));
  return made;
}

namespace {

// What an objective's loss says of data that it does not learn from: each term by the amount that divides it, their
// sum, and the metrics.
class ObjectiveLoss final : public Evaluation {
 public:
  ObjectiveLoss(const Objective& objective, std::vector<std::string> names)
      : objective_(objective), names_(std::move(names)), tells_loss_(objective.needs().evaluation_answers == 0) {
    if (tells_loss_) names_.insert(names_.begin(), "loss");
  }
  RecordKind records() const override { return objective_.needs().records; }
  void check(const Model& model) const override { objective_.check(model); }
  std::vector<std::string> names() const override { return names_; }
  bool greater_is_better(const std::string& name) const override {
    return Evaluation::greater_is_better(name) && !name.ends_with("kl") && !name.ends_with("clipped_ratio");
  }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    Sums all;
    const LossTerms made = objective_.loss(model, output, batch, pass);
    Sums amounts = objective_.sums(batch);
    amounts.merge(amounts_of(batch));
    for (const LossTerm& term : made.terms) {
      all[kTerm + term.name] += host::number(term.sum);
      all[kAmount + term.name] += amounts.at(term.per);
    }
    for (const auto& [name, metric] : made.metrics)
      all[kSum + name] += metric.sum, all[kWeight + name] += metric.weight;
    for (const MeasuredMean& mean : made.means) {
      if (mean.mode != LogMode::mean) continue;  // sums have no extremes
      all[kSum + mean.name] += host::number(mean.sum);
      all[kWeight + mean.name] += host::number(mean.weight);
    }
    return all;
  }

  Metrics result(const Sums& total) const override {
    require_some(total);
    Metrics made{{"loss", 0}};
    const auto ratio = [&](const std::string& sum, const std::string& weight, const std::string& name) {
      const double by = total.at(weight + name);
      return by == 0 ? 0 : total.at(sum + name) / by;
    };
    for (const auto& [key, sum] : total) {
      if (key.starts_with(kTerm)) {
        const std::string name = key.substr(kTerm.size());
        const double mean = ratio(kTerm, kAmount, name);
        made["loss"] += mean;
        if (std::find(names_.begin(), names_.end(), name) != names_.end() && name != "loss") made[name] = mean;
      } else if (key.starts_with(kSum)) {
        const std::string name = key.substr(kSum.size());
        if (total.at(kWeight + name) != 0) made[name] = ratio(kSum, kWeight, name);
      }
    }
    if (!tells_loss_) made.erase("loss");
    objective_.derive(made);
    return made;
  }

 private:
  // A loss of nothing would be the best there is.
  void require_some(const Sums& total) const {
    const auto is_none = [](const auto& entry) { return !entry.first.starts_with(kAmount) || entry.second == 0; };
    if (tells_loss_ && std::all_of(total.begin(), total.end(), is_none))
      throw Error(ErrorKind::data, "evaluation: there is nothing to learn in the set")
          .hint("it is too small, or its records have nothing that the objective learns");
  }

  // What sums are called among those of all batches.
  inline static const std::string kTerm = "term:", kAmount = "amount:", kSum = "sum:", kWeight = "weight:";
  const Objective& objective_;
  std::vector<std::string> names_;
  const bool tells_loss_;  // not of a model's own answers: it goes by how these differ, not by how good they are
};

}  // namespace

Evaluations make_evaluations(const Objective& objective) {
  Evaluations made = make_evaluations(objective.evaluations());
  for (auto& one : objective.further_evaluations()) made.push_back(std::move(one));
  if (const auto own = objective.measures()) made.push_back(std::make_unique<ObjectiveLoss>(objective, *own));
  return made;
}

Evaluations make_evaluations(const Objective& objective, const Recipe& recipe) {
  Evaluations made = make_evaluations(objective);
  for (auto& one : make_metrics(recipe)) made.push_back(std::move(one));
  return made;
}

bool is_measured_on(const Evaluation& evaluation, const Needs& needs) {
  const bool language = evaluation.records() == RecordKind::language;
  return (evaluation.records() == needs.records || (language && needs.records == RecordKind::seq2seq)) &&
         (language || evaluation.problem_type() == needs.problem_type);
}

EvaluateOptions evaluate_options(const Recipe& recipe, const Inputs& inputs) {
  const TrainerSection& trainer = recipe.trainer;
  EvaluateOptions options{trainer.eval_batch_size.value_or(trainer.batch_size),
                          pad_id_of(*inputs.tokenizer, inputs.model->vocab_size()), make_collator(recipe, inputs)};
  options.seed = trainer.eval_seed;
  options.max_batches = trainer.max_eval_batches;
  options.tokenizer = inputs.tokenizer;
  options.generation = written_by(recipe, inputs.source.string(), *inputs.model, *inputs.tokenizer);
  for (const auto& [name, times] : trainer.eval_sets)
    if (times.max_batches) options.batches_of[name] = *times.max_batches;
  return options;
}

HostBatch evaluation_host_batch(const Dataset& data, std::int64_t begin, const EvaluateOptions& options) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(options.batch_size, data.rows() - begin)));
  std::iota(rows.begin(), rows.end(), begin);
  const Random random(options.seed, fmt::format("evaluate/{}", begin));
  return collate(data.take(rows), options.collator.get(), options.pad_id, random);
}

Batch evaluation_batch(const Dataset& data, std::int64_t begin, const EvaluateOptions& options) {
  return to_batch(evaluation_host_batch(data, begin, options));
}

namespace {

// Which one it is, by what it gives. That a number is not finite is the model's doing, whoever finds it.
template <class Work>
decltype(auto) asking(const Evaluation& evaluation, const char* what, const Work& work) {
  const auto who = [&] { return fmt::format("evaluation of {}, {}", join(evaluation.names(), ", "), what); };
  try {
    return work();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::not_finite) throw;
    rethrow_from(who());
  } catch (...) {
    rethrow_from(who());
  }
}

// What a rank says of its batch: sums of evaluation i by "i name", or that it wants no more.
constexpr const char *kEnough = "enough", *kKeeps = "keeps";

Sums measured(const Model& model, const Evaluations& evaluations, Batch& given, const Dataset& data,
              const EvaluateOptions& options, Kept& kept) {
  if (options.complete) options.complete(&given);
  const Batch batch = (options.own ? options.own(given) : given).to(model.device());
  Pass pass(batch);
  const Output output = model.forward(batch, pass);
  std::map<std::string, std::vector<Generated>> written;
  const EvaluationSet set{data, options.tokenizer, options.generation, written};
  Sums told;
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    for (const auto& [name, sum] :
         asking(*evaluations[i], "measure",
                [&] { return evaluations[i]->measure_in(set, model, output, batch, pass); }))
      told[fmt::format("{} {}", i, name)] = sum;
    kept.keep(i, asking(*evaluations[i], "keep", [&] { return evaluations[i]->keep(model, output, batch, pass); }));
  }
  if (kept.any()) told[kKeeps] = 1;
  return told;
}

void add_told(std::vector<Sums>& totals, const Sums& told) {
  for (const auto& [name, sum] : told) {
    const std::size_t space = name.find(' ');
    if (space != std::string::npos) totals.at(std::stoul(name.substr(0, space)))[name.substr(space + 1)] += sum;
  }
}

}  // namespace

namespace {

Metrics result_of(const Evaluations& evaluations, const std::vector<Sums>& totals) {
  Metrics all;
  for (std::size_t i = 0; i < totals.size(); ++i)
    all.merge(asking(*evaluations[i], "result", [&] { return evaluations[i]->result(totals[i]); }));
  return all;
}

// Of a part of a set. Where there is nothing in it that is measured, nothing.
Metrics part_result(const Evaluations& evaluations, const std::vector<Sums>& totals) {
  try {
    return result_of(evaluations, totals);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return {};
  }
}

}  // namespace

// Sums are added in the order of the batches, so that they do not depend on the number of ranks.
std::optional<Metrics> evaluate(const Model& model, const Evaluations& evaluations, const Dataset& data,
                                const EvaluateOptions& options) {
  const c10::NoGradGuard no_grad;
  for (const auto& evaluation : evaluations) evaluation->check(model);
  if (data.rows() == 0) throw Error(ErrorKind::data, "evaluation: no row to evaluate on");
  for (const auto& evaluation : evaluations) evaluation->check_data(data.report());
  std::vector<Sums> totals(evaluations.size());
  Kept kept(evaluations.size());
  const int together = options.together;
  const std::int64_t round = options.batch_size * (options.world.size() / together);
  const std::int64_t rows =
      options.max_batches ? std::min(data.rows(), options.batch_size * *options.max_batches) : data.rows();
  std::int64_t tokens = 0;
  for (std::int64_t begin = 0; begin < rows; begin += round) {
    const std::int64_t own = begin + options.batch_size * (options.world.rank() / together);
    Sums told;
    bool enough = options.before && !options.before(begin, tokens);
    if (together > 1) enough = options.world.any(enough);  // who computes together goes on or stops together
    if (enough) told[kEnough] = 1;
    if (!enough && own < rows) {
      Batch batch = evaluation_batch(data, own, options);
      tokens = batch.tokens;
      told = measured(model, evaluations, batch, data, options, kept);
    } else {
      if (options.complete) options.complete(nullptr);
      if (model.residency()) model.residency()->idle_pass(false);
    }
    const std::vector<Sums> all = options.world.gather(told);
    const auto any = [&](const char* what) {
      return std::any_of(all.begin(), all.end(), [&](const Sums& one) { return one.contains(what); });
    };
    if (any(kEnough)) return std::nullopt;
    if (any(kKeeps)) kept.tell(options.world);
    for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(together)) {
      const std::span<const Sums> group = std::span(all).subspan(i, static_cast<std::size_t>(together));
      for (const Sums& one : group) add_told(totals, one);
      const std::int64_t first = begin + static_cast<std::int64_t>(i) / together * options.batch_size;
      if (!options.each || first >= rows) continue;
      const std::int64_t done = std::min(rows, first + options.batch_size);
      std::vector<Sums> own_totals(evaluations.size());
      for (const Sums& one : group) add_told(own_totals, one);
      options.each({"", first / options.batch_size + 1, done, part_result(evaluations, own_totals),
                    part_result(evaluations, totals)});
    }
  }
  if (options.before) options.before(rows, tokens);
  for (std::size_t i = 0; i < evaluations.size(); ++i)
    add(totals[i], asking(*evaluations[i], "compare", [&] { return kept.compared(i, *evaluations[i], data); }));
  return result_of(evaluations, totals);
}

std::optional<Metrics> evaluate_sets(const Model& model, const Evaluations& evaluations,
                                     const std::vector<EvalSet>& sets, const EvaluateOptions& options,
                                     const std::vector<std::string>& only) {
  Metrics all;
  for (const EvalSet& set : sets) {
    if (!only.empty() && std::find(only.begin(), only.end(), set.name) == only.end()) continue;
    EvaluateOptions own = options;
    if (const auto given = options.batches_of.find(set.name); given != options.batches_of.end())
      own.max_batches = given->second;
    const auto prefixed = [&](const Metrics& metrics) {
      Metrics made;
      for (const auto& [name, value] : metrics) made[prefix_of(sets.size(), set.name) + name] = value;
      return made;
    };
    if (options.each)
      own.each = [&](const EvaluationStep& step) {
        options.each({set.name, step.step, step.rows, prefixed(step.metrics), prefixed(step.mean)});
      };
    const auto found =
        during("evaluating on " + set.name, [&] { return evaluate(model, evaluations, *set.data, own); });
    if (!found) return std::nullopt;
    all.merge(prefixed(*found));
  }
  return all;
}

std::vector<std::string> metric_names(const Evaluations& evaluations, const std::vector<std::string>& sets) {
  std::vector<std::string> all;
  for (const std::string& set : sets)
    for (const auto& evaluation : evaluations)
      for (const std::string& name : evaluation->names()) all.push_back(prefix_of(sets.size(), set) + name);
  return all;
}

std::vector<std::string> greater_is_better(const Evaluations& evaluations, const std::vector<EvalSet>& sets) {
  std::vector<std::string> all;
  for (const EvalSet& set : sets)
    for (const auto& evaluation : evaluations)
      for (const std::string& name : evaluation->names())
        if (evaluation->greater_is_better(name)) all.push_back(prefix_of(sets.size(), set.name) + name);
  return all;
}

std::string main_metric(const Evaluations& evaluations, const std::vector<EvalSet>& sets) {
  if (sets.empty()) return "";
  const std::vector<std::string> names = metric_names(evaluations, {sets[0].name});
  if (names.empty()) return "";
  const std::string prefix = prefix_of(sets.size(), sets[0].name);
  const bool loss = std::find(names.begin(), names.end(), "eval_loss") != names.end();
  return prefix + (loss ? "loss" : names[0].substr(5));
}

}  // namespace hone::training
