// What evaluations keep of texts that are to be found.
#include "objectives/kept_texts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "base/log.h"
#include "hone/error.h"
#include "hone/tracker.h"
#include "objectives/embedding_step.h"
#include "objectives/rank_correlation.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

// A number of 63 bits in parts that fp32 holds: which text it is, and which label it has.
constexpr std::int64_t kKind = 0, kText = 1, kTextParts = 3, kPartBits = 21, kScore = 4, kScored = 5, kLabel = 6;

void put_parts(std::int64_t number, std::vector<float>& into) {
  const auto bits = static_cast<std::uint64_t>(number);
  for (std::int64_t part = kTextParts - 1; part >= 0; --part)
    into.push_back(static_cast<float>((bits >> (part * kPartBits)) & ((1U << kPartBits) - 1)));
}
std::int64_t from_parts(std::span<const float> parts) {
  std::int64_t number = 0;
  for (const float part : parts) number = (number << kPartBits) | static_cast<std::int64_t>(part);
  return number;
}

// Of a query that has so many right ones: its nearest, the nearest first.
void count_found(std::span<const std::int64_t> nearest, const std::function<bool(std::int64_t)>& is_right,
                 std::int64_t right, Sums& sums) {
  const auto discount = [](std::int64_t place) { return 1 / std::log2(static_cast<double>(place) + 2); };
  double gained = 0, best = 0, first = 0;
  for (std::int64_t i = 0; i < std::ssize(nearest); ++i) {
    if (!is_right(nearest[static_cast<std::size_t>(i)])) continue;
    gained += discount(i);
    if (first == 0) first = 1 / static_cast<double>(i + 1);
  }
  for (std::int64_t i = 0; i < std::min(kNearest, right); ++i) best += discount(i);
  sums["queries"] += 1;
  sums["accuracy@1"] += first == 1;
  sums["mrr@10"] += first;
  sums["ndcg@10"] += gained / best;
}

}  // namespace

Tensor kept_heads(const Batch& batch) {
  Batch here = batch;
  here.ids_BT = host::read(batch.ids_BT.contiguous());
  const Tensor texts = text_ids(here);
  const auto scores = batch.extra.find(kScores);
  const Tensor score_S2 = scores == batch.extra.end() ? Tensor() : host::read(scores->second.contiguous());
  const auto classes = batch.extra.find(kClasses);
  const Tensor class_S = classes == batch.extra.end() ? Tensor() : host::read(classes->second.contiguous());
  std::vector<float> heads;
  for (std::size_t i = 0; i < batch.docs.size(); ++i) {
    heads.push_back(static_cast<float>(batch.docs[i].role));
    put_parts(host::values<std::int64_t>(texts)[i], heads);
    for (std::size_t j = 0; j < 2; ++j)
      heads.push_back(score_S2.defined() ? static_cast<float>(host::values<double>(score_S2)[2 * i + j]) : 0);
    put_parts(class_S.defined() ? host::values<std::int64_t>(class_S)[i] : 0, heads);
  }
  return host::tensor_of(heads, {std::ssize(batch.docs), kKeptHead});
}

std::vector<Kept> heads_of(const Tensor& rows) {
  const Tensor head = host::read(rows.narrow(1, 0, kKeptHead).contiguous());
  const auto values = host::values<float>(head);
  std::vector<Kept> made;
  for (std::size_t i = 0; i < values.size(); i += kKeptHead) {
    made.push_back({static_cast<Role>(static_cast<std::int32_t>(values[i + kKind])),
                    from_parts(values.subspan(i + kText, kTextParts)), values[i + kScore], values[i + kScored] != 0,
                    from_parts(values.subspan(i + kLabel, kTextParts))});
  }
  return made;
}

Corpus corpus_of(const std::vector<Kept>& all) {
  Corpus corpus;
  std::map<std::int64_t, std::int64_t> query_of, document_of;  // text -> number
  std::int64_t query = -1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool asks = all[i].role == Role::query;
    const auto [numbers, rows] = asks ? std::tie(query_of, corpus.queries) : std::tie(document_of, corpus.documents);
    const auto [found, is_new] = numbers.try_emplace(all[i].text, std::ssize(rows));
    if (is_new) rows.push_back(static_cast<std::int64_t>(i));
    if (asks) query = found->second, corpus.right.resize(corpus.queries.size());
    if (all[i].role == Role::chosen) corpus.right[static_cast<std::size_t>(query)].insert(found->second);
  }
  return corpus;
}

void count_query(std::span<const std::int64_t> nearest, const std::set<std::int64_t>& right, Sums& sums) {
  count_found(nearest, [&](std::int64_t one) { return right.contains(one); }, std::ssize(right), sums);
}

ClassCounts::ClassCounts(const std::vector<Kept>& all) : all_(all) {
  for (const Kept& one : all) ++size_of_[one.label];
  if (std::ranges::none_of(size_of_, [](const auto& one) { return one.second > 1; }))
    log::warning("evaluation: no two texts have the same label: there is no accuracy@1");
}

void ClassCounts::count(std::int64_t text, std::span<const std::int64_t> nearest, Sums& sums) const {
  const std::int64_t label = all_[static_cast<std::size_t>(text)].label, others = size_of_.at(label) - 1;
  if (others == 0) return;
  std::vector<std::int64_t> found;
  for (const std::int64_t one : nearest)
    if (one != text && std::ssize(found) < kNearest) found.push_back(one);
  const auto is_right = [&](std::int64_t one) { return all_[static_cast<std::size_t>(one)].label == label; };
  count_found(found, is_right, others, sums);
}

bool are_of_classes(const std::vector<Kept>& all, bool of_classes) {
  if (all.empty()) return of_classes;
  const auto labelled = std::count_if(all.begin(), all.end(), [](const Kept& one) { return one.label != 0; });
  if (labelled == std::ssize(all) && labelled > 0) return true;
  if (labelled == 0 && !of_classes) return false;
  throw Error(ErrorKind::data, labelled == 0 ? "evaluation: records without a label, of which texts are nearest"
                                             : "evaluation: some records have a label, and some have none");
}

void count_scores(const std::vector<double>& likeness, const std::vector<double>& scores, Sums& sums) {
  sums["pairs"] = static_cast<double>(scores.size());
  if (scores.empty()) return;
  if (std::all_of(scores.begin(), scores.end(), [&](double score) { return score == scores.front(); })) {
    log::warning("evaluation: all scores are {}: there is no correlation with them", scores.front());
    return;
  }
  sums["sets"] = 1;
  sums[kSpearman] = rank_correlation(likeness, scores);
}

bool are_scored(const std::vector<Kept>& all, bool by_score) {
  const bool scored = std::all_of(all.begin(), all.end(), [](const Kept& one) { return one.scored; });
  if (by_score && !scored)
    throw Error(ErrorKind::data, "evaluation: records without a score, which cosines are compared with");
  return scored;
}

Metrics means_of_kept(const Sums& total, const char* spearman) {
  Metrics metrics;
  const auto add = [&](const std::string& name, const char* count) {
    if (total.contains(name) && total.at(count) > 0) metrics[name] = total.at(name) / total.at(count);
  };
  for (const char* name : {"accuracy@1", "mrr@10", "ndcg@10"}) add(name, "queries");
  add("triplet_accuracy", "others");
  if (total.contains(kSpearman)) metrics[spearman] = total.at(kSpearman) / total.at("sets");
  return metrics;
}

}  // namespace hone::objectives
