// How well vectors of texts' tokens find what belongs together.
//
// Letters: S documents, L tokens of the longest text, D numbers of a vector, Q queries, C candidates.
#include "objectives/late_neighbours.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "objectives/kept_texts.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr std::int64_t kLateQueriesAtOnce = 16;
// A kept row is of a token: its document's head, whether the vector counts, and that. The row of a document's later
// tokens has a mark in place of its role.
constexpr std::int64_t kTokenVector = kKeptHead + 1;
constexpr float kTextGoesOn = -1;

// heads: [documents, kKeptHead], on the host.
Tensor kept_token_rows(const Tensor& heads, const nn::TokenVectors& texts) {
  const Tensor count_S = host::read(texts.counts_SL.sum(1).to(at::kLong).contiguous());
  const auto counts = host::values<std::int64_t>(count_S);
  std::vector<std::int64_t> document, token;
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (std::int64_t j = 0; j < std::max<std::int64_t>(1, counts[i]); ++j)
      document.push_back(static_cast<std::int64_t>(i)), token.push_back(j);
  const auto index = [](const std::vector<std::int64_t>& values) {
    return host::tensor_of(values, {std::ssize(values)});
  };
  const Tensor document_N = index(document), token_N = index(token);
  Tensor head_N = heads.index_select(0, document_N);
  head_N.select(1, 0).masked_fill_(token_N.gt(0), kTextGoesOn);
  const at::Device device = texts.vector_SLD.device();
  const Tensor place_N = devices::sent(document_N * texts.counts_SL.size(1) + token_N, device);
  const auto of = [&](const Tensor& x) { return x.flatten(0, 1).index_select(0, place_N).to(at::kFloat); };
  return at::cat({devices::sent(head_N, device), of(texts.counts_SL).unsqueeze(1), of(texts.vector_SLD)}, 1);
}

struct KeptTokenTexts {
  std::vector<Kept> heads;
  nn::TokenVectors vectors;
};

KeptTokenTexts kept_token_texts(const Tensor& kept) {
  const Tensor mark = host::read(kept.select(1, 0).contiguous());
  const auto marks = host::values<float>(mark);
  std::vector<std::int64_t> first, document, token;
  std::int64_t longest = 1;
  for (std::size_t row = 0; row < marks.size(); ++row) {
    if (marks[row] != kTextGoesOn) first.push_back(static_cast<std::int64_t>(row));
    document.push_back(std::ssize(first) - 1), token.push_back(static_cast<std::int64_t>(row) - first.back());
    longest = std::max(longest, token.back() + 1);
  }
  std::vector<std::int64_t> place;
  for (std::size_t row = 0; row < marks.size(); ++row) place.push_back(document[row] * longest + token[row]);
  const auto index = [&](const std::vector<std::int64_t>& values) {
    return devices::sent(host::tensor_of(values, {std::ssize(values)}), kept.device());
  };
  const std::int64_t documents = std::ssize(first), width = kept.size(1) - kTokenVector;
  const Tensor place_N = index(place);
  return {heads_of(kept.index_select(0, index(first))),
          {at::zeros({documents * longest, width}, kept.options())
               .index_copy(0, place_N, kept.narrow(1, kTokenVector, width))
               .view({documents, longest, width}),
           at::zeros({documents * longest}, kept.options())
               .index_copy(0, place_N, kept.select(1, kKeptHead))
               .view({documents, longest})}};
}

class LateNeighbours final : public Evaluation {
 public:
  LateNeighbours(bool normalize, nn::TokenSimilarity similarity) : normalize_(normalize), similarity_(similarity) {}
  RecordKind records() const override { return RecordKind::embedding; }
  std::vector<std::string> names() const override {
    return {"accuracy@1", "mrr@10", "ndcg@10", "triplet_accuracy"};
  }
  Sums measure(const Model&, const Output&, const Batch&, Pass&) const override { return {}; }

  Tensor keep(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    return kept_token_rows(kept_heads(batch), nn::token_vectors(model, output, batch, normalize_, pass));
  }

  Sums compare(const Tensor& kept) const override {
    if (kept.size(0) == 0) return {};
    const KeptTokenTexts texts = kept_token_texts(kept);
    if (are_scored(texts.heads, false) || are_of_classes(texts.heads, false))
      throw Error(ErrorKind::data, "records have scores or labels; a late-interaction model is measured on queries "
                                   "with their documents")
          .hint("--ignore score passes over them");
    Sums sums;
    count_queries(texts, sums);
    count_others(texts, sums);
    return sums;
  }

  Metrics result(const Sums& total) const override { return means_of_kept(total, kSpearman); }

 private:
  static nn::TokenVectors some(const KeptTokenTexts& texts, const std::vector<std::int64_t>& which) {
    const Tensor index =
        devices::sent(host::tensor_of(which, {std::ssize(which)}), texts.vectors.vector_SLD.device());
    const nn::TokenVectors& all = texts.vectors;
    return nn::trimmed({all.vector_SLD.index_select(0, index), all.counts_SL.index_select(0, index)});
  }

  void count_queries(const KeptTokenTexts& texts, Sums& sums) const {
    const Corpus corpus = corpus_of(texts.heads);
    const nn::TokenVectors documents = some(texts, corpus.documents);
    for (std::size_t begin = 0; begin < corpus.queries.size(); begin += kLateQueriesAtOnce) {
      const std::size_t end = std::min(corpus.queries.size(), begin + kLateQueriesAtOnce);
      const auto from = corpus.queries.begin();
      const std::vector<std::int64_t> queries(from + static_cast<std::ptrdiff_t>(begin),
                                              from + static_cast<std::ptrdiff_t>(end));
      const Tensor found_QC = nn::max_similarity(some(texts, queries), documents, similarity_);
      const Tensor order = std::get<1>(found_QC.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
      const std::int64_t most = std::min(kNearest, order.size(1));
      const Tensor nearest = host::read(order.narrow(1, 0, most).contiguous());
      const auto values = host::values<std::int64_t>(nearest);
      for (std::size_t i = begin; i < end; ++i)
        count_query(values.subspan((i - begin) * static_cast<std::size_t>(most), static_cast<std::size_t>(most)),
                    corpus.right[i], sums);
    }
  }

  // Of each record's others.
  void count_others(const KeptTokenTexts& texts, Sums& sums) const {
    std::vector<std::int64_t> queries, documents, others;
    std::int64_t query = 0, document = 0;
    for (std::int64_t i = 0; i < std::ssize(texts.heads); ++i) {
      const Role role = texts.heads[static_cast<std::size_t>(i)].role;
      if (role == Role::query) query = i;
      if (role == Role::chosen) document = i;
      if (role == Role::rejected) queries.push_back(query), documents.push_back(document), others.push_back(i);
    }
    if (others.empty()) return;
    const nn::TokenVectors asked = some(texts, queries);
    const Tensor near = nn::max_similarity_pairwise(asked, some(texts, documents), similarity_),
                 far = nn::max_similarity_pairwise(asked, some(texts, others), similarity_);
    sums["others"] += static_cast<double>(others.size());
    sums["triplet_accuracy"] += host::own_number(host::read(near.gt(far).sum().to(at::kDouble)));
  }

  bool normalize_;
  nn::TokenSimilarity similarity_;
};

}  // namespace

std::shared_ptr<const Evaluation> make_late_neighbours(bool normalize, nn::TokenSimilarity similarity) {
  return std::make_shared<LateNeighbours>(normalize, similarity);
}

}  // namespace hone::objectives
