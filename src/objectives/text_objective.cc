// Objectives that make vectors of texts.
//
// Letters: S documents, D numbers of a vector, P pairs.
#include "objectives/text_objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/spans.h"
#include "hone/config_read.h"
#include "hone/world.h"
#include "objectives/means.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

// What prepare() leaves of the whole step in Batch::extra: of each document the loss's gradient, of each pair (or
// triplet) its loss and what is logged, whose names stand behind a mark.
constexpr const char *kSlopesOfTexts = "slopes", *kPairLosses = "losses";
constexpr std::string_view kMeanOf = "mean of ";

Role counted_role(EmbeddingLoss type) { return is_of_others(type) ? Role::rejected : Role::query; }

std::int64_t count_before(const std::vector<TextMember>& members, std::int64_t end, Role role) {
  return std::count_if(members.begin(), members.begin() + end,
                       [&](const TextMember& one) { return one.role == role; });
}

}  // namespace

std::vector<Tensor> of_all_batches(const Group& group, const Model& model, const World& world,
                                   const std::function<Tensor(const Batch& batch, std::size_t i)>& one) {
  const c10::NoGradGuard no_grad;
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < group.size(); ++i) all.push_back(one(group[i].to(model.device()), i));
  std::size_t most = group.size();
  for (const std::string& told : world.gather(std::to_string(group.size())))
    most = std::max<std::size_t>(most, std::stoul(told));
  for (std::size_t i = group.size(); i < most; ++i)
    if (Residency* residency = model.residency()) residency->idle_pass(false);
  return all;
}

Sums TextObjective::sums(const Batch& batch) const {
  return {{counted_of(loss_type()), static_cast<double>(count_texts(counted_role(loss_type()), batch))}};
}

Groups TextObjective::prepare(Group group, StepContext& context) {
  for (Batch& batch : group) add_ids(batch, context);
  const bool cut = context.world.size() > 1 || group.size() > 1;
  if (cut && is_joint()) {
    const spans::Span span("embeddings");
    context.world.at(fmt::format("step {}, embedding all of its texts", context.step + 1));
    add_slopes(group, context);
  }
  return {std::move(group)};
}

Batch TextObjective::prepare_evaluation(Batch batch, StepContext& context) {
  add_ids(batch, context);
  return batch;
}

LossTerms TextObjective::loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const {
  const Tensor vector_SD = vectors(model, output, batch, pass);
  LossTerms result;
  Tensor sum;
  std::map<std::string, Tensor> means;
  if (batch.extra.contains(kSlopesOfTexts)) {
    const Tensor slope_SD = batch.extra.at(kSlopesOfTexts).narrow(1, 0, vector_SD.size(1));
    const Tensor slope = (vector_SD.to(at::kDouble) * slope_SD).sum();
    sum = slope - slope.detach() + batch.extra.at(kPairLosses).sum();  // the value of the one, the slope of the other
    for (const auto& [name, values] : batch.extra)
      if (name.starts_with(kMeanOf)) means[name.substr(kMeanOf.size())] = values;
  } else {
    const TextLosses all = losses(compared(texts_of(batch, vector_SD)), model);
    sum = all.loss.sum(), means = all.means;
  }
  result.terms.push_back({"loss", sum, counted_of(loss_type())});
  for (const auto& [name, values] : means) add_mean(name, values.to(at::kDouble), result);
  return result;
}

// While the batch lies in host memory. Error(data): records that are not of this loss.
void TextObjective::add_ids(Batch& batch, const StepContext& context) const {
  if (!batch.ids_BT.is_cpu()) return;
  batch.extra[kTextIds] = text_ids(batch);
  const auto column = [&](const char* name) {
    const auto found = batch.extra.find(name);
    return found == batch.extra.end() ? Tensor() : found->second;
  };
  const Tensor scores = column(kScores), classes = column(kClasses);
  std::set<std::int32_t> with_others;
  for (const Doc& doc : batch.docs)
    if (doc.role == Role::rejected) with_others.insert(doc.group);
  const bool needs_others = loss_type() == EmbeddingLoss::triplet || learns_teachers(loss_type());
  for (std::size_t i = 0; i < batch.docs.size(); ++i) {
    const Doc& doc = batch.docs[i];
    check_label(doc, classes.defined() && host::values<std::int64_t>(classes)[i] != 0, context);
    std::optional<double> score;
    if (scores.defined() && host::values<double>(scores)[2 * i + 1] != 0) score = host::values<double>(scores)[2 * i];
    check_score(doc, score, context);
    if (needs_others && !with_others.contains(doc.group))
      refuse(doc, "has no negative", "multiple_negatives_ranking learns pairs without one", context);
  }
}

void TextObjective::check_label(const Doc& doc, bool labelled, const StepContext& context) const {
  const bool learnt = learns_labels(loss_type());
  if (labelled && !learnt)
    refuse(doc, "has a label, which is not learnt", "batch_hard_triplet and its relatives learn texts with one",
           context);
  if (!labelled && learnt)
    refuse(doc, "has no label", "it learns records of text and label; others learn pairs without one", context);
}

// A teacher gives each text of a query a score, and the query none; of a pair that is alike or not both have it.
void TextObjective::check_score(const Doc& doc, const std::optional<double>& score, const StepContext& context) const {
  const bool of_pairs = learns_scores(loss_type()), of_teachers = learns_teachers(loss_type());
  if (score && !of_pairs && !of_teachers)
    refuse(doc, "has a score, which is not learnt",
           "cosent, angle and cosine_similarity learn it of a pair, margin_mse and distill_kl_div of a query's texts; "
           "ignore: [score] passes over it", context);
  if (!score && of_pairs) refuse(doc, "has no score", "others learn pairs without one", context);
  if (!score && of_teachers && doc.role != Role::query)
    refuse(doc, "has no scores", "a teacher's are in the field scores, one for each of a query's texts", context);
  if (score && loss_type() == EmbeddingLoss::cosine_similarity && (*score < -1 || *score > 1))
    refuse(doc, fmt::format("has a score of {}, and cosines are from -1 to 1", *score),
           "scale the scores, or learn their order alone, by cosent", context);
}

void TextObjective::refuse(const Doc& doc, const std::string& fact, const char* advice,
                           const StepContext& context) const {
  const std::string loss = config::Values<EmbeddingLoss>::write(loss_type()).text();
  throw Error(ErrorKind::data,
              fmt::format("{}: {}; objective.loss_type is {}", context.record_name(doc.record), fact, loss))
      .hint(advice);
}

// As they will be learnt: of the same dropout.
StepTexts TextObjective::texts_of_step(const Group& group, StepContext& context) const {
  const std::vector<Tensor> made =
      of_all_batches(group, context.model, context.world, [&](const Batch& batch, std::size_t i) {
        Pass pass(batch);
        context.as_learnt(pass, i);
        const Output output = context.model.forward(batch, pass);
        return vectors(context.model, output, batch, pass);
      });
  StepTexts all;
  for (std::size_t i = 0; i < group.size(); ++i) all.add(texts_of(group[i], made[i]));
  return all;
}

void TextObjective::add_slopes(Group& group, StepContext& context) const {
  std::int64_t first = 0;
  StepTexts all = gathered(texts_of_step(group, context), context.world, first);
  if (group.empty()) return;
  all.vector_SD = all.vector_SD.to(at::kDouble).detach().set_requires_grad(true);
  const TextLosses found = losses(compared(all), context.model);
  found.loss.sum().backward();
  const Tensor slope_SD = all.vector_SD.grad();
  const Role counted = counted_role(loss_type());
  std::int64_t pair = count_before(all.members, first, counted);
  for (Batch& batch : group) {
    const std::int64_t documents = std::ssize(batch.docs), pairs = count_texts(counted, batch);
    batch.extra[kSlopesOfTexts] = slope_SD.narrow(0, first, documents).contiguous();
    batch.extra[kPairLosses] = found.loss.detach().narrow(0, pair, pairs).contiguous();
    for (const auto& [name, values] : found.means)
      batch.extra[std::string(kMeanOf) + name] = values.narrow(0, pair, pairs).contiguous();
    first += documents, pair += pairs;
  }
}

}  // namespace hone::objectives
