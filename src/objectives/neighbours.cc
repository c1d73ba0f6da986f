// How well vectors of texts find what belongs together.
//
// Letters: S documents, D numbers of a vector, Q queries, C candidates.
#include "objectives/neighbours.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "objectives/embedding_losses.h"
#include "objectives/kept_texts.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr std::int64_t kQueriesAtOnce = 512;

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

// Of texts with labels, each of which all others are candidates for.
void count_classes(const Tensor& vector_SD, const std::vector<Kept>& all, Sums& sums) {
  const ClassCounts counts(all);
  for (std::int64_t begin = 0; begin < vector_SD.size(0); begin += kQueriesAtOnce) {
    const std::int64_t count = std::min(kQueriesAtOnce, vector_SD.size(0) - begin);
    const Tensor cosine_QC = vector_SD.narrow(0, begin, count).matmul(vector_SD.t());
    const Tensor order = std::get<1>(cosine_QC.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
    const std::int64_t most = std::min(kNearest + 1, order.size(1));
    const Tensor nearest = host::read(order.narrow(1, 0, most).contiguous());
    const auto values = host::values<std::int64_t>(nearest);
    for (std::int64_t i = 0; i < count; ++i)
      counts.count(begin + i, values.subspan(static_cast<std::size_t>(i * most), static_cast<std::size_t>(most)), sums);
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
  count_scores(cosines, scores, sums);
}

class NeighboursEvaluation final : public Evaluation {
 public:
  NeighboursEvaluation(std::optional<nn::Pooling> pooling, Neighbours kind, const Similarity& similarity)
      : pooling_(pooling), kind_(kind), similarity_(similarity) {}
  RecordKind records() const override { return RecordKind::embedding; }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    if (kind_ != Neighbours::by_score) all = {"accuracy@1", "mrr@10", "ndcg@10"};
    if (kind_ == Neighbours::of_queries || kind_ == Neighbours::either) all.emplace_back("triplet_accuracy");
    if (kind_ == Neighbours::by_score || kind_ == Neighbours::either) all.emplace_back(spearman());
    return all;
  }
  Sums measure(const Model&, const Output&, const Batch&, Pass&) const override { return {}; }

  Tensor keep(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::Pooling pooling = pooling_.value_or(nn::usual_pooling(model));
    const Tensor vector_SD = vectors(nn::vectors_of(model, output, batch, pooling, pass));
    const Tensor head = devices::sent(kept_heads(batch), vector_SD.device());
    return at::cat({head, vector_SD.to(at::kFloat)}, 1);
  }

  Sums compare(const Tensor& kept) const override {
    const std::vector<Kept> all = heads_of(kept);
    const Tensor vector_SD = kept.narrow(1, kKeptHead, kept.size(1) - kKeptHead);
    Sums sums;
    if (are_of_classes(all, kind_ == Neighbours::of_classes)) {
      count_classes(vector_SD, all, sums);
      return sums;
    }
    if (are_scored(all, kind_ == Neighbours::by_score) && kind_ != Neighbours::of_queries) {
      compare_scores(vector_SD, all, sums);
      return sums;
    }
    count_queries(vector_SD, all, sums);
    count_others(vector_SD, all, sums);
    return sums;
  }

  Metrics result(const Sums& total) const override { return means_of_kept(total, spearman()); }

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

Neighbours neighbours_of(EmbeddingLoss type) {
  if (learns_labels(type)) return Neighbours::of_classes;
  return learns_scores(type) ? Neighbours::by_score : Neighbours::of_queries;
}

std::shared_ptr<const Evaluation> make_neighbours(std::optional<nn::Pooling> pooling, Neighbours kind,
                                                  const Similarity& similarity) {
  return std::make_shared<NeighboursEvaluation>(pooling, kind, similarity);
}

}  // namespace hone::objectives
