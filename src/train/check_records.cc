// An objective sees records one by one, as a batch of its own each.
#include "train/check_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "data/labels.h"
#include "hone/config_read.h"
#include "hone/world.h"
#include "nn/text_lists.h"
#include "train/make_objective.h"

namespace hone::training {
namespace {

class NoModels final : public Resources {
 public:
  RoleModel model(const std::string&) const override {
    throw Error(ErrorKind::bug, "a record is looked at before there are models");
  }
};

// Shows records to the objective.
class Shown {
 public:
  Shown(Objective& objective, Model& model, const Dataset& data)
      : objective_(objective), context_{model, alone_, none_} {
    context_.record_name = [&data](std::int64_t record) { return data.record_name(record); };
  }
  void show(const HostRow& docs) { objective_.prepare_evaluation(to_batch(pad({docs}, 0)), context_); }

 private:
  const World alone_;
  const NoModels none_;
  Objective& objective_;
  StepContext context_;
};

// record: of a group's documents, or of one that belongs to none. Until it says true.
void each_record(const Dataset& data, const std::function<bool(const HostRow& docs)>& record) {
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    std::map<std::int64_t, HostRow> records;
    std::int64_t alone = -1;
    for (HostDoc& doc : data.row(row)) {
      const std::int64_t group = doc.group < 0 ? alone-- : doc.group;
      records[group].push_back(std::move(doc));
    }
    for (const auto& [group, docs] : records)
      if (record(docs)) return;
  }
}

// Of a record's texts: what losses that take scores as gains tell apart.
enum class Scores { usual, none_above_zero, large };

Scores kind_of_scores(const HostRow& docs) {
  std::vector<double> all;
  for (const HostDoc& doc : docs)
    if (const auto found = doc.numbers.find("score"); found != doc.numbers.end()) all.push_back(found->second[0]);
  if (all.empty()) return Scores::usual;
  const auto [least, most] = std::ranges::minmax(all);
  if (most > nn::kMostGainScore) return Scores::large;
  return most <= 0 && least < most ? Scores::none_above_zero : Scores::usual;
}

void check_texts(const Dataset& data, Shown& shown) {
  // Has a score, one that no cosine is, scores of a teacher and which, one, two or more texts, a label.
  std::set<std::tuple<bool, bool, bool, Scores, std::size_t, bool>> seen;
  each_record(data, [&](const HostRow& docs) {
    const auto score = docs[0].numbers.find("score");
    const bool scored = score != docs[0].numbers.end(), beyond = scored && std::abs(score->second[0]) > 1;
    const bool taught = docs.back().numbers.contains("score"), labelled = docs[0].per_document.contains("class");
    const std::size_t texts = std::min<std::size_t>(docs.size(), 3);
    if (seen.emplace(scored, beyond, taught, kind_of_scores(docs), texts, labelled).second) shown.show(docs);
    return false;
  });
}

// Of a query's texts; what has no score is worth 1 where it is the positive, and else 0.
bool differ_in_worth(const HostRow& docs) {
  std::set<double> worth;
  for (const HostDoc& doc : docs) {
    const auto score = doc.numbers.find("score");
    const bool scored = score != doc.numbers.end() && score->second[1] != 0;
    worth.insert(scored ? score->second[0] : doc.role == Role::chosen ? 1 : 0);
  }
  return worth.size() > 1;
}

// Of numbers: the first beyond 0 and 1. Who takes it takes the others, too.
void check_numbers(const Dataset& data, Shown& shown) {
  const auto& all = data.report().label_numbers;
  if (std::ranges::none_of(all, [](const auto& one) { return one.second.low < 0 || one.second.high > 1; })) return;
  each_record(data, [&](const HostRow& docs) {
    const auto label = docs[0].numbers.find("label");
    const bool beyond = label != docs[0].numbers.end() &&
                        std::ranges::any_of(label->second, [](double number) { return number < 0 || number > 1; });
    if (beyond) shown.show(docs);
    return beyond;
  });
}

}  // namespace

bool is_of_numbers(const Needs& needs) {
  return needs.records == RecordKind::labelled && needs.problem_type == ProblemType::regression;
}

void check_records(const Recipe& recipe, Model& model, const Dataset& data) {
  const std::unique_ptr<Objective> objective = make_objective(recipe);
  const Needs needs = objective->needs();
  Shown shown(*objective, model, data);
  if (data::are_texts(needs.records)) check_texts(data, shown);
  if (is_of_numbers(needs)) check_numbers(data, shown);
}

void check_negatives(const Recipe& recipe, const Dataset& data) {
  const config::Node options = config::Values<config::Choice<Objective>>::write(recipe.objective);
  const config::Node* mode = options.find("hardness_mode");
  if (!mode || mode->is_null() || mode->text() != "hard_negatives" ||
      make_objective(recipe)->needs().records != RecordKind::embedding)
    return;
  bool found = false;
  each_record(data, [&](const HostRow& docs) {
    return found = std::ranges::any_of(docs, [](const HostDoc& doc) { return doc.role == Role::rejected; });
  });
  if (!found)
    throw Error(ErrorKind::data, "objective.hardness_mode: got hard_negatives, and no record of data.train has a "
                                 "negative: it would change nothing")
        .hint("in_batch_negatives weighs other pairs' documents");
}

void check_classes(const Recipe& recipe, const Dataset& data) {
  if (!make_objective(recipe)->needs().texts_alone) return;
  std::set<std::int64_t> classes;
  bool has_two = false;
  each_record(data, [&](const HostRow& docs) {
    has_two |= !classes.insert(docs[0].per_document.at("class")).second;
    return has_two && classes.size() > 1;
  });
  if (has_two && classes.size() > 1) return;
  throw Error(ErrorKind::data, fmt::format("data.train: {} the same label: there is no triplet",
                                           classes.size() > 1 ? "no two records have" : "every record has"))
      .hint("texts of one label are learnt to lie nearer to each other than to those of others");
}

void check_measured_classes(const Recipe& recipe, const std::string& option, const Dataset& data) {
  if (!make_objective(recipe)->needs().texts_alone || data.rows() == 0) return;
  std::set<std::int64_t> classes;
  bool has_two = false;
  each_record(data, [&](const HostRow& docs) {
    return has_two = !classes.insert(docs[0].per_document.at("class")).second;
  });
  if (has_two) return;
  throw Error(ErrorKind::data,
              option + ": no two records have the same label: no text has another that should be found near it, and "
                       "there is no eval_accuracy@1")
      .hint("a set with several texts of some labels, larger than this one, has");
}

void check_orders(const Recipe& recipe, const Dataset& data) {
  const std::unique_ptr<Objective> objective = make_objective(recipe);
  if (objective->needs().records != RecordKind::ranked || data.rows() == 0) return;
  bool found = false;
  each_record(data, [&](const HostRow& docs) {
    for (const auto& [name, amount] : objective->sums(to_batch(pad({docs}, 0)))) found |= amount > 0;
    return found;
  });
  if (!found)
    throw Error(ErrorKind::data,
                "data.train: the texts of each query are all worth the same: there is no order to learn")
        .hint("scores say what each text is worth to its query; without them the positive is the best");
}

void check_measured_orders(const Recipe& recipe, const std::string& option, const Dataset& data) {
  if (make_objective(recipe)->needs().records != RecordKind::ranked || data.rows() == 0) return;
  bool found = false;
  each_record(data, [&](const HostRow& docs) { return found = differ_in_worth(docs); });
  if (!found)
    throw Error(ErrorKind::data, option + ": the texts of each query are all worth the same: no order of them is "
                                          "better than another, and there is no eval_accuracy@1");
}

}  // namespace hone::training
