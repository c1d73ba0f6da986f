// What evaluations keep of texts that are to be found.
#include "objectives/kept_texts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
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

// A number of 63 bits in parts that fp32 holds: which text it is.
constexpr std::int64_t kKind = 0, kText = 1, kTextParts = 3, kPartBits = 21, kScore = 4, kScored = 5;

}  // namespace

Tensor kept_heads(const Batch& batch) {
  Batch here = batch;
  here.ids_BT = host::read(batch.ids_BT.contiguous());
  const Tensor texts = text_ids(here);
  const auto scores = batch.extra.find(kScores);
  const Tensor score_S2 = scores == batch.extra.end() ? Tensor() : host::read(scores->second.contiguous());
  std::vector<float> heads;
  for (std::size_t i = 0; i < batch.docs.size(); ++i) {
    heads.push_back(static_cast<float>(batch.docs[i].role));
    const auto text = static_cast<std::uint64_t>(host::values<std::int64_t>(texts)[i]);
    for (std::int64_t part = kTextParts - 1; part >= 0; --part)
      heads.push_back(static_cast<float>((text >> (part * kPartBits)) & ((1U << kPartBits) - 1)));
    for (std::size_t j = 0; j < 2; ++j)
      heads.push_back(score_S2.defined() ? static_cast<float>(host::values<double>(score_S2)[2 * i + j]) : 0);
  }
  return host::tensor_of(heads, {std::ssize(batch.docs), kKeptHead});
}

std::vector<Kept> heads_of(const Tensor& rows) {
  const Tensor head = host::read(rows.narrow(1, 0, kKeptHead).contiguous());
  const auto values = host::values<float>(head);
  std::vector<Kept> made;
  for (std::size_t i = 0; i < values.size(); i += kKeptHead) {
    Kept one{static_cast<Role>(static_cast<std::int32_t>(values[i + kKind])), 0, values[i + kScore],
             values[i + kScored] != 0};
    for (std::int64_t part = 0; part < kTextParts; ++part)
      one.text =
          (one.text << kPartBits) | static_cast<std::int64_t>(values[i + kText + static_cast<std::size_t>(part)]);
    made.push_back(one);
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

// Of one query: its nearest documents, the nearest first.
void count_query(std::span<const std::int64_t> nearest, const std::set<std::int64_t>& right, Sums& sums) {
  const auto discount = [](std::size_t place) { return 1 / std::log2(static_cast<double>(place) + 2); };
  double gained = 0, best = 0, first = 0;
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    if (!right.contains(nearest[i])) continue;
    gained += discount(i);
    if (first == 0) first = 1 / static_cast<double>(i + 1);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(kNearest, right.size()); ++i) best += discount(i);
  sums["queries"] += 1;
  sums["accuracy@1"] += first == 1;
  sums["mrr@10"] += first;
  sums["ndcg@10"] += gained / best;
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
