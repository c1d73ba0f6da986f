// How well sparse vectors of texts find what belongs together.
//
// Letters: S documents, V vocabulary.
#include "objectives/sparse_neighbours.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "nn/text_embedding.h"
#include "objectives/kept_texts.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

// A kept row has its document's head, how many weights it has, the size of the vocabulary, then tokens and weights in
// turn. A document that has more goes on in the next row.
constexpr std::int64_t kCount = kKeptHead, kVocab = kKeptHead + 1, kFirst = kKeptHead + 2, kPerRow = 128;
constexpr std::int64_t kWidth = kFirst + 2 * kPerRow;

struct Entry {
  std::int64_t token = 0;
  float weight = 0;
};
using Sparse = std::vector<Entry>;

std::vector<Sparse> sparse_of(const Tensor& rows_SV) {
  const Tensor here = host::read(rows_SV.to(at::kFloat).contiguous());
  const auto values = host::values<float>(here);
  const auto width = static_cast<std::size_t>(here.size(1));
  std::vector<Sparse> all(static_cast<std::size_t>(here.size(0)));
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < width; ++j)
      if (const float weight = values[i * width + j]; weight != 0)
        all[i].push_back({static_cast<std::int64_t>(j), weight});
  return all;
}

// Documents of a set, as they were kept.
struct Texts {
  std::vector<Kept> heads;
  std::vector<Sparse> vectors;
  std::int64_t vocab = 0;
};

// The row that a document goes on in has the mark that it does so in place of its role.
constexpr float kGoesOn = -1;

Tensor rows_of(const Tensor& heads, const std::vector<Sparse>& vectors, std::int64_t vocab) {
  const auto head = host::values<float>(heads);
  std::vector<float> values;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    const Sparse& one = vectors[i];
    for (std::size_t begin = 0; begin == 0 || begin < one.size(); begin += kPerRow, ++rows) {
      const std::size_t at = values.size(), count = std::min<std::size_t>(kPerRow, one.size() - begin);
      values.resize(at + kWidth, 0);
      std::copy_n(head.begin() + static_cast<std::ptrdiff_t>(i) * kKeptHead, kKeptHead,
                  values.begin() + static_cast<std::ptrdiff_t>(at));
      if (begin > 0) values[at] = kGoesOn;
      values[at + kCount] = static_cast<float>(count), values[at + kVocab] = static_cast<float>(vocab);
      for (std::size_t j = 0; j < count; ++j) {
        values[at + kFirst + 2 * j] = static_cast<float>(one[begin + j].token);
        values[at + kFirst + 2 * j + 1] = one[begin + j].weight;
      }
    }
  }
  return host::tensor_of(values, {rows, kWidth});
}

Texts texts_in(const Tensor& kept) {
  const Tensor here = host::read(kept.contiguous());
  const auto values = host::values<float>(here);
  std::vector<std::int64_t> first;
  Texts texts;
  for (std::int64_t row = 0; row < here.size(0); ++row) {
    const std::size_t at = static_cast<std::size_t>(row * kWidth);
    if (values[at] != kGoesOn) first.push_back(row), texts.vectors.emplace_back();
    texts.vocab = static_cast<std::int64_t>(values[at + kVocab]);
    for (std::size_t j = 0; j < static_cast<std::size_t>(values[at + kCount]); ++j)
      texts.vectors.back().push_back(
          {static_cast<std::int64_t>(values[at + kFirst + 2 * j]), values[at + kFirst + 2 * j + 1]});
  }
  texts.heads = heads_of(here.index_select(0, host::tensor_of(first, {std::ssize(first)})));
  return texts;
}

// Of two whose tokens go up.
double dot(const Sparse& a, const Sparse& b) {
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].token < b[j].token) {
      ++i;
    } else if (a[i].token > b[j].token) {
      ++j;
    } else {
      sum += static_cast<double>(a[i++].weight) * b[j++].weight;
    }
  }
  return sum;
}

// Of each token the documents that have it.
class Postings {
 public:
  Postings(const Texts& texts, const std::vector<std::int64_t>& documents)
      : of_token_(static_cast<std::size_t>(texts.vocab)), documents_(documents.size()) {
    for (std::size_t i = 0; i < documents.size(); ++i)
      for (const Entry& one : texts.vectors[static_cast<std::size_t>(documents[i])])
        of_token_[static_cast<std::size_t>(one.token)].push_back({static_cast<std::int64_t>(i), one.weight});
  }
  // Numbers of so many documents whose products with it are the largest, the largest first; of equal ones the first.
  std::vector<std::int64_t> nearest(const Sparse& query, std::int64_t count) const {
    std::vector<double> score(documents_, 0);
    for (const Entry& one : query)
      for (const Entry& found : of_token_[static_cast<std::size_t>(one.token)])
        score[static_cast<std::size_t>(found.token)] += static_cast<double>(one.weight) * found.weight;
    std::vector<std::int64_t> order(documents_);
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](std::int64_t i) { return score[static_cast<std::size_t>(i)]; };
    const std::size_t most = std::min<std::size_t>(static_cast<std::size_t>(count), documents_);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end(),
                      [&](auto a, auto b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
    order.resize(most);
    return order;
  }

 private:
  std::vector<Sparse> of_token_;  // Entry::token: a document's number
  std::size_t documents_;
};

// Products that a query makes with a document: over tokens, the share of queries that have it times that of documents.
double products(const Texts& texts, const Corpus& corpus) {
  const auto shares = [&](const std::vector<std::int64_t>& which) {
    std::vector<double> share(static_cast<std::size_t>(texts.vocab), 0);
    for (const std::int64_t i : which)
      for (const Entry& one : texts.vectors[static_cast<std::size_t>(i)])
        share[static_cast<std::size_t>(one.token)] += 1 / static_cast<double>(which.size());
    return share;
  };
  const std::vector<double> queries = shares(corpus.queries), documents = shares(corpus.documents);
  return std::inner_product(queries.begin(), queries.end(), documents.begin(), 0.0);
}

void count_active(const Texts& texts, const std::vector<std::int64_t>& which, const std::string& of, Sums& sums) {
  double active = 0;
  for (const std::int64_t i : which) active += static_cast<double>(texts.vectors[static_cast<std::size_t>(i)].size());
  active /= static_cast<double>(which.size());
  sums[of + "active_dims"] += active;
  sums[of + "sparsity_ratio"] += 1 - active / static_cast<double>(texts.vocab);
}

void count_queries(const Texts& texts, Sums& sums) {
  const Corpus corpus = corpus_of(texts.heads);
  const Postings postings(texts, corpus.documents);
  std::vector<std::vector<std::int64_t>> found(corpus.queries.size());
  at::parallel_for(0, std::ssize(found), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      found[i] = postings.nearest(texts.vectors[static_cast<std::size_t>(corpus.queries[i])], kNearest);
  });
  for (std::size_t i = 0; i < found.size(); ++i) count_query(found[i], corpus.right[i], sums);
  if (corpus.queries.empty()) return;
  sums["sparse_sets"] = 1;
  count_active(texts, corpus.queries, "query_", sums);
  count_active(texts, corpus.documents, "corpus_", sums);
  sums["avg_flops"] = products(texts, corpus);
}

// Of texts with labels, each of which all others are candidates for.
void count_classes(const Texts& texts, Sums& sums) {
  std::vector<std::int64_t> all(texts.vectors.size());
  std::iota(all.begin(), all.end(), 0);
  const Postings postings(texts, all);
  const ClassCounts counts(texts.heads);
  for (const std::int64_t i : all)
    counts.count(i, postings.nearest(texts.vectors[static_cast<std::size_t>(i)], kNearest + 1), sums);
  if (all.empty()) return;
  sums["sparse_sets"] = 1;
  count_active(texts, all, "", sums);
}

// Of each record's others.
void count_others(const Texts& texts, Sums& sums) {
  std::size_t query = 0, document = 0;
  for (std::size_t i = 0; i < texts.heads.size(); ++i) {
    if (texts.heads[i].role == Role::query) query = i;
    if (texts.heads[i].role == Role::chosen) document = i;
    if (texts.heads[i].role != Role::rejected) continue;
    const Sparse& asked = texts.vectors[query];
    sums["others"] += 1;
    sums["triplet_accuracy"] += dot(asked, texts.vectors[document]) > dot(asked, texts.vectors[i]);
  }
}

void compare_scores(const Texts& texts, Sums& sums) {
  std::vector<double> likeness, scores;
  std::vector<std::int64_t> all(texts.vectors.size());
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = 0; i + 1 < texts.vectors.size(); i += 2) {
    likeness.push_back(dot(texts.vectors[i], texts.vectors[i + 1]));
    scores.push_back(texts.heads[i].score);
  }
  count_scores(likeness, scores, sums);
  if (all.empty()) return;
  sums["sparse_sets"] = 1;
  count_active(texts, all, "", sums);
}

class SparseNeighbours final : public Evaluation {
 public:
  SparseNeighbours(const nn::SpladeForm& form, Neighbours kind, const SparseSimilarity& similarity)
      : form_(form), kind_(kind), similarity_(similarity) {}
  RecordKind records() const override { return RecordKind::embedding; }
  void check(const Model& model) const override { require_masked_lm(model, "a sparse encoder"); }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    const auto add = [&](std::initializer_list<const char*> more) { all.insert(all.end(), more.begin(), more.end()); };
    if (kind_ != Neighbours::by_score)
      add({"accuracy@1", "mrr@10", "ndcg@10", "triplet_accuracy", "query_active_dims", "query_sparsity_ratio",
           "corpus_active_dims", "corpus_sparsity_ratio", "avg_flops"});
    if (kind_ != Neighbours::of_queries) add({spearman(), "active_dims", "sparsity_ratio"});
    return all;
  }
  bool greater_is_better(const std::string& name) const override {
    return !name.ends_with("active_dims") && !name.ends_with("avg_flops");
  }
  Sums measure(const Model&, const Output&, const Batch&, Pass&) const override { return {}; }

  Tensor keep(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    Tensor vector_SV = nn::splade(model, output, batch, form_, pass);
    if (similarity_.max_active_dims > 0) vector_SV = nn::largest(vector_SV, similarity_.max_active_dims);
    if (!similarity_.dot) vector_SV = nn::unit_rows(vector_SV);
    return rows_of(kept_heads(batch), sparse_of(vector_SV), vector_SV.size(1));
  }

  Sums compare(const Tensor& kept) const override {
    const Texts texts = texts_in(kept);
    Sums sums;
    if (are_of_classes(texts.heads, kind_ == Neighbours::of_classes)) {
      count_classes(texts, sums);
      return sums;
    }
    if (are_scored(texts.heads, kind_ == Neighbours::by_score) && kind_ != Neighbours::of_queries) {
      compare_scores(texts, sums);
      return sums;
    }
    count_queries(texts, sums);
    count_others(texts, sums);
    return sums;
  }

  Metrics result(const Sums& total) const override {
    Metrics metrics = means_of_kept(total, spearman());
    const auto sets = total.find("sparse_sets");
    if (sets == total.end()) return metrics;
    for (const auto& [name, value] : total)
      if (name.ends_with("active_dims") || name.ends_with("sparsity_ratio") || name == "avg_flops")
        metrics[name] = value / sets->second;
    return metrics;
  }

 private:
  const char* spearman() const { return similarity_.dot ? "spearman_dot" : "spearman_cosine"; }

  nn::SpladeForm form_;
  Neighbours kind_;
  SparseSimilarity similarity_;
};

}  // namespace

std::shared_ptr<const Evaluation> make_sparse_neighbours(const nn::SpladeForm& form, Neighbours kind,
                                                         const SparseSimilarity& similarity) {
  return std::make_shared<SparseNeighbours>(form, kind, similarity);
}

}  // namespace hone::objectives
