// The head that a run needs for its labels, and which labels these are.
#include "train/give_head.h"

#include <fmt/format.h>

#include <set>

#include "base/strings.h"
#include "hone/hub.h"

namespace hone::training {
namespace {

// Whether its labels are what such records have. One alone of which nothing is said is a score.
bool is_for(const Classifier& classifier, const Needs& needs) {
  if (classifier.of_tokens() != data::are_of_tokens(needs.records) || classifier.answers_questions()) return false;
  const ProblemType problem = needs.problem_type;
  const bool one = classifier.labels().size() == 1;
  const ProblemType usual = one ? ProblemType::regression : ProblemType::single_label_classification;
  if (one && problem == ProblemType::single_label_classification) return false;
  return classifier.problem_type().value_or(usual) == problem;
}

// One label alone is a score, whatever it is called.
bool has_labels(const Model& model, const HeadRequest& head) {
  const Classifier* classifier = model.classifier();
  if (!classifier || classifier->of_tokens() != head.of_tokens) return false;
  if (classifier->answers_questions() != head.answers_questions) return false;
  return classifier->labels() == head.labels || (head.labels.size() == 1 && classifier->labels().size() == 1);
}

bool has_head(const Model& model, const HeadRequest& head) {
  if (head.masked_lm) return model.masked_lm() != nullptr;
  if (head.labels.empty()) return true;
  if (!head.problem_type) return has_labels(model, head);
  const Classifier* classifier = model.classifier();
  return classifier && !classifier->of_tokens() && classifier->labels() == head.labels &&
         classifier->problem_type().value_or(ProblemType::single_label_classification) == *head.problem_type;
}

bool has_weights_of(const Model& model, const Model& made) {
  std::set<std::string> there;
  model.each_weight([&](const std::string& name, const Weight&) { there.insert(name); });
  bool has_all = true;
  made.each_weight([&](const std::string& name, const Weight&) { has_all = has_all && there.contains(name); });
  return has_all;
}

}  // namespace

std::vector<std::string> known_labels(const Needs& needs, const Model& model) {
  if (!are_labelled(needs.records) || needs.records == RecordKind::question) return {};
  if (!needs.labels.empty()) return needs.labels;
  const Classifier* classifier = model.classifier();
  return classifier && is_for(*classifier, needs) ? classifier->labels() : std::vector<std::string>();
}

bool has_other_labels(const Model& model, const HeadRequest& head) {
  return model.classifier() != nullptr && !has_labels(model, head);
}

std::unique_ptr<Model> model_with_head(const Model& model, const HeadRequest& head, const config::Node& config,
                                       const std::string& file, const Recipe& recipe, bool in_memory) {
  if (has_head(model, head)) return nullptr;
  auto made = during("giving the model a head for objective " + recipe.objective.type,
                     [&] { return build_model(config, file, head); });
  const std::string none = head.masked_lm   ? "no head for masked tokens"
                           : head.answers_questions ? "no head that answers questions"
                           : head.of_tokens ? "no classification head of tokens"
                                            : "no classification head";
  // The same weights, of which the configuration does not say what for: an adapter's base stays as it is.
  const bool others = has_other_labels(model, head), keeps = !others && has_weights_of(model, *made);
  const std::string fact = others ? "the model's head is for others than is to be learnt"
                                  : fmt::format("the model has {} for what is to be learnt", none);
  if (!recipe.adapter.type.empty() && !keeps) {
    std::set<std::string> there, fresh;
    if (!others)  // else the head's weights are there, and are not what is to be learnt
      model.each_weight([&](const std::string& name, const Weight&) { there.insert(name); });
    made->each_weight([&](const std::string& name, const Weight&) {
      const bool of_body = !made->base_prefix().empty() && name.starts_with(made->base_prefix());
      if (!of_body && made->may_be_fresh(name) && !there.contains(name)) fresh.insert(name.substr(0, name.find('.')));
    });
    throw Error(
        ErrorKind::config,
        fmt::format("adapter: {}, and an adapter's files have no place for {}", fact, others ? "a new one" : "it"))
        .hint(fmt::format("train a head first, for instance with model.trainable: [{}], and then the adapter, which "
                          "goes on with the head",
                          join({fresh.begin(), fresh.end()}, ", ")));
  }
  if (in_memory)
    throw Error(ErrorKind::config, fmt::format("model: the one in memory has {} for what is to be learnt", none))
        .hint("build_model() takes what a head is for");
  return made;
}

}  // namespace hone::training
