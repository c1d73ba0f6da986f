// Answers from scores.
#include "objectives/answers.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

// The tokens of the highest scores, the highest first.
std::vector<std::int64_t> highest(std::span<const float> scores, std::int64_t count) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto middle = order.begin() + std::min<std::ptrdiff_t>(std::ssize(order), count);
  std::partial_sort(order.begin(), middle, order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] != scores[static_cast<std::size_t>(b)]
               ? scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)]
               : a > b;  // as a sort in rising order, read from its end, has equal ones
  });
  order.erase(middle, order.end());
  return order;
}

template <class T>
void keep_best(std::vector<T>& all, std::int64_t count) {
  std::stable_sort(all.begin(), all.end(), [](const T& a, const T& b) { return a.score > b.score; });
  if (std::ssize(all) > count) all.resize(static_cast<std::size_t>(count));
}

void put_probabilities(std::vector<FoundAnswer>& answers) {
  double sum = 0;
  for (const FoundAnswer& one : answers) sum += std::exp(one.score - answers[0].score);
  for (FoundAnswer& one : answers) one.probability = std::exp(one.score - answers[0].score) / sum;
}

}  // namespace

WindowAnswers answers_in(std::span<const float> starts, std::span<const float> ends, std::int64_t first,
                         std::int64_t count, const AnswerOptions& options) {
  WindowAnswers made{.spans = {}, .null_score = starts[0] + ends[0]};
  const auto is_of_text = [&](std::int64_t token) { return token >= first && token < first + count; };
  const std::vector<std::int64_t> best_ends = highest(ends, options.n_best);
  for (const std::int64_t start : highest(starts, options.n_best))
    for (const std::int64_t end : best_ends) {
      if (!is_of_text(start) || !is_of_text(end) || end < start || end - start >= options.max_answer_length) continue;
      made.spans.push_back({start, end, starts[static_cast<std::size_t>(start)] + ends[static_cast<std::size_t>(end)]});
    }
  keep_best(made.spans, options.n_best);
  return made;
}

AnsweredQuestion answer_of(const std::vector<const QuestionDoc*>& docs, const std::vector<WindowAnswers>& windows,
                           const AnswerOptions& options) {
  AnsweredQuestion made;
  std::vector<FoundAnswer>& best = made.best;
  const std::string& context = docs[0]->asked->context;
  made.null_score = windows[0].null_score;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    made.null_score = std::min<double>(made.null_score, windows[i].null_score);
    for (const AnswerSpan& span : windows[i].spans) {
      const std::uint32_t begin = docs[i]->bytes.at(static_cast<std::size_t>(span.start - docs[i]->first)).first;
      const std::uint32_t end = docs[i]->bytes.at(static_cast<std::size_t>(span.end - docs[i]->first)).second;
      best.push_back({context.substr(begin, end - begin), begin, end, span.score});
    }
  }
  keep_best(best, options.n_best);
  const bool any = !best.empty();
  const FoundAnswer none{.text = "", .score = made.null_score};
  made.null_difference = any ? made.null_score - best[0].score : 0;
  const bool says_nothing = options.null_threshold && (!any || made.null_difference > *options.null_threshold);
  if (options.null_threshold || !any) {
    best.push_back(none);
    std::stable_sort(best.begin(), best.end(),
                     [](const FoundAnswer& a, const FoundAnswer& b) { return a.score > b.score; });
    while (std::ssize(best) > options.n_best && best.size() > 1 && !best.back().text.empty()) best.pop_back();
  }
  put_probabilities(best);
  const auto is_none = [](const FoundAnswer& one) { return one.text.empty(); };
  const auto given = says_nothing ? std::find_if(best.begin(), best.end(), is_none)
                                  : std::find_if_not(best.begin(), best.end(), is_none);
  made.given = given == best.end() ? best[0] : *given;
  return made;
}

DocumentLogits logits_by_document(const Tensor& logits_BT2, const Batch& batch) {
  std::int64_t longest = 0;
  for (const Doc& doc : batch.docs) longest = std::max<std::int64_t>(longest, doc.end - doc.begin);
  const std::int64_t documents = std::ssize(batch.docs);
  std::vector<std::int64_t> rows, there;
  for (const Doc& doc : batch.docs)
    for (std::int64_t t = 0; t < longest; ++t) {
      there.push_back(doc.begin + t < doc.end);
      rows.push_back(doc.row * batch.length() + (there.back() ? doc.begin + t : doc.begin));
    }
  const auto sent = [&](const std::vector<std::int64_t>& values) {
    return devices::sent(host::tensor_of(values, {std::ssize(values)}), logits_BT2.device());
  };
  const Tensor rows_X = sent(rows);
  DocumentLogits made;
  made.there_SL = sent(there).to(at::kBool).view({documents, longest});
  made.logits_SL2 = logits_BT2.flatten(0, 1)
                        .index_select(0, rows_X)
                        .to(at::toOpMathType(logits_BT2.scalar_type()))
                        .view({documents, longest, 2});
  const Tensor places_SL = batch.labels_BT.flatten().index_select(0, rows_X).view({documents, longest});
  made.places_SL = places_SL.masked_fill(made.there_SL.bitwise_not(), -100);
  return made;
}

// Of masks bitwise operations: a plan knows their shapes.
AnswerLoss answer_loss(const DocumentLogits& made) {
  const auto is = [&](AnswerPlace place) { return made.places_SL.eq(static_cast<std::int64_t>(place)); };
  const Tensor log_shares_SL2 =
      made.logits_SL2.masked_fill(made.there_SL.bitwise_not().unsqueeze(-1), -INFINITY).log_softmax(1);
  AnswerLoss loss;
  for (std::int64_t which = 0; which < 2; ++which) {
    const Tensor is_there_SL =
        is(which == 0 ? AnswerPlace::start : AnswerPlace::end).bitwise_or(is(AnswerPlace::start_and_end));
    const Tensor log_shares_SL = log_shares_SL2.select(-1, which);
    const Tensor sum = at::where(is_there_SL, -log_shares_SL, at::zeros({}, log_shares_SL.options())).sum() / 2;
    const Tensor likeliest_S1 = log_shares_SL.detach().argmax(1, /*keepdim=*/true);
    const Tensor right_S = is_there_SL.gather(1, likeliest_S1).squeeze(1);
    loss.sum = which == 0 ? sum : loss.sum + sum;
    loss.right_S = which == 0 ? right_S : loss.right_S.bitwise_and(right_S);
  }
  return loss;
}

}  // namespace hone::objectives
