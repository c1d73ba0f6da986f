// How well vectors of texts find what belongs together.
//
// Letters: S documents, D numbers of a vector, Q queries, C candidates.
#include "objectives/neighbours.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/log.h"
#include "hone/error.h"
#include "objectives/embedding_step.h"
#include "objectives/rank_correlation.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr const char* kSpearman = "spearman";

constexpr std::int64_t kNearest = 10, kQueriesAtOnce = 512;

// Before a document's vector stand what it is and which text it has: a number of 63 bits in parts that fp32 holds.
constexpr std::int64_t kKind = 0, kText = 1, kTextParts = 3, kPartBits = 21, kScore = 4, kScored = 5, kHeadWidth = 6;

// A kept document.
struct Kept {
  Role role = Role::none;
  std::int64_t text = 0;
  double score = 0;
  bool scored = false;
};

std::vector<Kept> heads_of(const Tensor& kept) {
  const Tensor head = host::read(kept.narrow(1, 0, kHeadWidth).contiguous());
  const auto values = host::values<float>(head);
  std::vector<Kept> made;
  for (std::size_t i = 0; i < values.size(); i += kHeadWidth) {
    Kept one{static_cast<Role>(static_cast<std::int32_t>(values[i + kKind])), 0, values[i + kScore],
             values[i + kScored] != 0};
    for (std::int64_t part = 0; part < kTextParts; ++part)
      one.text =
          (one.text << kPartBits) | static_cast<std::int64_t>(values[i + kText + static_cast<std::size_t>(part)]);
    made.push_back(one);
  }
  return made;
}

// What is asked and what is found: each text once.
struct Corpus {
  std::vector<std::int64_t> queries, documents;  // rows of what was kept
  std::vector<std::set<std::int64_t>> right;     // of each query: numbers in `documents`
};

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

void count_queries(const Tensor& vector_SD, const std::vector<Kept>& all, Sums& sums) {
  const Corpus corpus = corpus_of(all);
  const auto rows = [&](const std::vector<std::int64_t>& numbers) {
    return vector_SD.index_select(0,
                                  devices::sent(host::tensor_of(numbers, {std::ssize(numbers)}), vector_SD.device()));
  };
  const Tensor query_QD = rows(corpus.queries), document_CD = rows(corpus.documents);
  for (std::int64_t begin = 0; begin < query_QD.size(0); begin += kQueriesAtOnce) {
    const std::int64_t count = std::min(kQueriesAtOnce, query_QD.size(0) - begin);
    const Tensor cosine_QC = query_QD.narrow(0, begin, count).matmul(document_CD.t());
    const Tensor order = std::get<1>(cosine_QC.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
    const std::int64_t most = std::min(kNearest, order.size(1));
    const Tensor nearest = host::read(order.narrow(1, 0, most).contiguous());
    const auto values = host::values<std::int64_t>(nearest);
    for (std::int64_t i = 0; i < count; ++i)
      count_query(values.subspan(static_cast<std::size_t>(i * most), static_cast<std::size_t>(most)),
                  corpus.right[static_cast<std::size_t>(begin + i)], sums);
  }
}

// Of each record's others.
void count_others(const Tensor& vector_SD, const std::vector<Kept>& all, Sums& sums) {
  const Tensor cpu_SD = host::read(vector_SD.contiguous());
  std::int64_t query = 0, document = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (all[i].role == Role::query) query = at;
    if (all[i].role == Role::chosen) document = at;
    if (all[i].role != Role::rejected) continue;
    const auto cosine = [&](std::int64_t other) { return host::own_number(cpu_SD[query].dot(cpu_SD[other])); };
    sums["others"] += 1;
    sums["triplet_accuracy"] += cosine(document) > cosine(at);
  }
}

void compare_scores(const Tensor& vector_SD, const std::vector<Kept>& all, Sums& sums) {
  const Tensor cpu_SD = host::read(vector_SD.contiguous());
  std::vector<double> cosines, scores;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
    const auto at = static_cast<std::int64_t>(i);
    cosines.push_back(host::own_number(cpu_SD[at].dot(cpu_SD[at + 1])));
    scores.push_back(all[i].score);
  }
  sums["pairs"] = static_cast<double>(scores.size());
  if (scores.empty()) return;
  if (std::all_of(scores.begin(), scores.end(), [&](double score) { return score == scores.front(); })) {
    log::warning("evaluation: all scores are {}: there is no correlation with them", scores.front());
    return;
  }
  sums["sets"] = 1;
  sums[kSpearman] = rank_correlation(cosines, scores);
}

class NeighboursEvaluation final : public Evaluation {
 public:
  NeighboursEvaluation(std::optional<nn::Pooling> pooling, Neighbours kind, const Similarity& similarity)
      : pooling_(pooling), kind_(kind), similarity_(similarity) {}
  RecordKind records() const override { return RecordKind::embedding; }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    if (kind_ != Neighbours::by_score) all = {"accuracy@1", "mrr@10", "ndcg@10", "triplet_accuracy"};
    if (kind_ != Neighbours::of_queries) all.push_back(spearman());
    return all;
  }
  Sums measure(const Model&, const Output&, const Batch&, Pass&) const override { return {}; }

  Tensor keep(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::Pooling pooling = pooling_.value_or(nn::usual_pooling(model));
    const Tensor vector_SD = vectors(nn::vectors_of(model, output, batch, pooling, pass));
    const Tensor ids = host::read(batch.ids_BT.contiguous());
    Batch here = batch;
    here.ids_BT = ids;
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
    const Tensor head = devices::sent(host::tensor_of(heads, {std::ssize(batch.docs), kHeadWidth}), vector_SD.device());
    return at::cat({head, vector_SD.to(at::kFloat)}, 1);
  }

  Sums compare(const Tensor& kept) const override {
    const std::vector<Kept> all = heads_of(kept);
    const Tensor vector_SD = kept.narrow(1, kHeadWidth, kept.size(1) - kHeadWidth);
    const bool scored = std::all_of(all.begin(), all.end(), [](const Kept& one) { return one.scored; });
    if (kind_ == Neighbours::by_score && !scored)
      throw Error(ErrorKind::data, "evaluation: records without a score, which cosines are compared with");
    Sums sums;
    if (kind_ == Neighbours::by_score || (kind_ == Neighbours::either && scored)) {
      compare_scores(vector_SD, all, sums);
      return sums;
    }
    count_queries(vector_SD, all, sums);
    count_others(vector_SD, all, sums);
    return sums;
  }

  Metrics result(const Sums& total) const override {
    Metrics metrics;
    const auto add = [&](const std::string& name, const char* count) {
      if (total.contains(name) && total.at(count) > 0) metrics[name] = total.at(name) / total.at(count);
    };
    for (const char* name : {"accuracy@1", "mrr@10", "ndcg@10"}) add(name, "queries");
    add("triplet_accuracy", "others");
    if (total.contains(kSpearman)) metrics[spearman()] = total.at(kSpearman) / total.at("sets");
    return metrics;
  }

 private:
  const char* spearman() const { return similarity_.dot ? "spearman_dot" : "spearman_cosine"; }
  // Those whose dot products are what vectors are compared by.
  Tensor vectors(const Tensor& whole_SD) const {
    if (!similarity_.dot) return nn::unit_rows(whole_SD, similarity_.dims);
    const Tensor made_SD = similarity_.normalize ? nn::unit_rows(whole_SD) : whole_SD;
    return similarity_.dims > 0 ? made_SD.narrow(1, 0, similarity_.dims) : made_SD;
  }

  std::optional<nn::Pooling> pooling_;
  Neighbours kind_;
  Similarity similarity_;
};

}  // namespace

std::shared_ptr<const Evaluation> make_neighbours(std::optional<nn::Pooling> pooling, Neighbours kind,
                                                  const Similarity& similarity) {
  return std::make_shared<NeighboursEvaluation>(pooling, kind, similarity);
}

}  // namespace hone::objectives
