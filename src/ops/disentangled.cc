// Attention by content and distance: its meaning, and its gradient without a matrix of scores that outlives its use.
//
// Documents of alike lengths are computed together, as [H,B,L,...]. What a query says of all distances is one product,
// [L,M] of M = 2 L - 1 distances; the scores of its keys are a view of that: a row further down begins one distance
// later.
//
// Letters: N tokens, H heads, K head size, P buckets of distances, B documents of a batch, L tokens of its longest one,
// M distances, U = H * B.
#include "ops/disentangled.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "base/sections.h"
#include "hone/error.h"
#include "hone/random.h"
#include "ops/alike_documents.h"
#include "ops/by_document.h"
#include "ops/dropout.h"
#include "ops/kept_documents.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops {
namespace {

// The bucket of distance d, of a document of so many tokens at most.
std::int64_t bucket_of(const std::vector<std::int64_t>& buckets, std::int64_t distance) {
  return buckets[static_cast<std::size_t>(std::ssize(buckets) / 2 + distance)];
}

}  // namespace

namespace reference {

at::Tensor disentangled_attention(const at::Tensor& q_NHK, const at::Tensor& k_NHK, const at::Tensor& v_NHK,
                                  const DistanceScores& distances, const Documents& documents,
                                  const AttentionOptions& options) {
  const auto wide = at::toOpMathType(q_NHK.scalar_type());
  return by_document(q_NHK, documents.spans(), [&](std::size_t, const Span& span) {
    const std::int64_t length = span.end - span.begin;
    const auto heads = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end).transpose(0, 1); };
    const at::Tensor q = heads(q_NHK), k = heads(k_NHK);  // [H,L,K]
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < length; ++i)
      for (std::int64_t j = 0; j < length; ++j) ids.push_back(bucket_of(distances.buckets, i - j));
    const at::Tensor ids_LL = devices::sent(host::tensor_of(ids, {length, length}), q.device());
    const at::Tensor ids_HLL = ids_LL.expand({q.size(0), length, length});
    at::Tensor scores = at::matmul(q, k.mT()).to(wide);
    if (distances.keys_PHK.defined())
      scores = scores + at::matmul(q, distances.keys_PHK.permute({1, 2, 0})).to(wide).gather(-1, ids_HLL);
    if (distances.queries_PHK.defined())
      scores = scores + at::matmul(k, distances.queries_PHK.permute({1, 2, 0})).to(wide).gather(-1, ids_HLL.mT()).mT();
    return at::matmul((scores * options.scale).softmax(-1).to(q.scalar_type()), heads(v_NHK)).transpose(0, 1);
  });
}

}  // namespace reference

namespace {

// Of the distances L - 1, ..., -(L - 1), in which a query's keys follow each other.
struct DistanceRows {
  DistanceRows(const std::vector<std::int64_t>& buckets, std::int64_t length, at::Device device) : length(length) {
    std::vector<std::int64_t> falling, rising;
    for (std::int64_t d = -(length - 1); d < length; ++d) rising.push_back(bucket_of(buckets, d));
    falling.assign(rising.rbegin(), rising.rend());
    const auto sent = [&](const std::vector<std::int64_t>& values) {
      return devices::sent(host::tensor_of(values, {std::ssize(values)}), device);
    };
    falling_M = sent(falling), rising_M = sent(rising);
  }
  std::int64_t length;
  at::Tensor falling_M, rising_M;

  // [U,L,M] of queries -> [U,L,L]; a view.
  at::Tensor of_queries(const at::Tensor& all_ULM) const { return view(all_ULM, all_ULM.size(2) - 1, 1); }
  // [U,L,M] of keys, in rising order of distances -> [U,L,L] whose rows are queries; a view.
  at::Tensor of_keys(const at::Tensor& all_ULM) const { return view(all_ULM, 1, all_ULM.size(2) - 1); }

 private:
  at::Tensor view(const at::Tensor& all_ULM, std::int64_t by_query, std::int64_t by_key) const {
    return all_ULM.as_strided({all_ULM.size(0), length, length}, {all_ULM.stride(0), by_query, by_key},
                              all_ULM.storage_offset() + length - 1);
  }
};

// How the documents of a pass are computed, by all layers alike.
struct Batches {
  std::vector<Places> places;
  std::vector<DistanceRows> rows;
};
const Batches& batches_of(const Documents& documents, const at::Tensor& q_NHK,
                          const std::vector<std::int64_t>& buckets) {
  return documents.kept([&] {
    Batches made;
    for (const AlikeDocuments& some : alike(documents.spans(), q_NHK.size(1))) {
      made.places.emplace_back(some, q_NHK.device());
      made.rows.emplace_back(buckets, some.longest, q_NHK.device());
    }
    return made;
  });
}

// What a batch's scores are made of.
class Scores {
 public:
  Scores(const at::Tensor& q_NHK, const at::Tensor& k_NHK, const DistanceScores& distances, const Places& places,
         const DistanceRows& rows, const AttentionOptions& options)
      : places_(places),
        rows_(rows),
        options_(options),
        q_HBLK_(places_.gathered(q_NHK)),
        k_HBLK_(places_.gathered(k_NHK)) {
    const auto expanded = [&](const at::Tensor& table_PHK, const at::Tensor& of_M) {
      return table_PHK.defined() ? table_PHK.index_select(0, of_M).transpose(0, 1).contiguous() : at::Tensor();
    };
    keys_HMK_ = expanded(distances.keys_PHK, rows_.falling_M);
    queries_HMK_ = expanded(distances.queries_PHK, rows_.rising_M);
  }
  // softmax over keys, [U,L,L], in fp32 at least.
  at::Tensor shares() const {
    const auto wide = at::toOpMathType(q_HBLK_.scalar_type());
    at::Tensor scores_ULL = at::bmm(q_HBLK_.flatten(0, 1), k_HBLK_.flatten(0, 1).mT()).to(wide);
    if (keys_HMK_.defined()) scores_ULL.add_(rows_.of_queries(all_distances(q_HBLK_, keys_HMK_)));
    if (queries_HMK_.defined()) scores_ULL.add_(rows_.of_keys(all_distances(k_HBLK_, queries_HMK_)));
    scores_ULL.mul_(options_.scale);
    if (places_.hidden_BL.defined())
      scores_ULL.view({-1, places_.documents, places_.length, places_.length})
          .masked_fill_(places_.hidden_BL.unsqueeze(0).unsqueeze(2), -INFINITY);
    return scores_ULL.softmax(-1);
  }

  // Which are dropped is a function of the seed and of the batch's first token.
  at::Tensor dropped(const at::Tensor& x_ULL) const {
    if (options_.dropout == 0) return x_ULL;
    const Random random(options_.seed, "distances");
    return seeded_dropout(x_ULL, options_.dropout, random.bits(static_cast<std::uint64_t>(places_.first)));
  }

  struct Gradients {
    at::Tensor q_NHK, k_NHK, v_NHK, keys_PHK, queries_PHK;  // the tables' in fp32 at least; undefined: there is none
  };
  // Adds those of this batch. dy, v: [H,B,L,K].
  void backward(const at::Tensor& dy_HBLK, const at::Tensor& v_HBLK, Gradients& to) const {
    const auto type = q_HBLK_.scalar_type();
    const at::Tensor shares_ULL = shares(), dy_ULK = dy_HBLK.flatten(0, 1);
    places_.scatter(at::bmm(dropped(shares_ULL).to(type).mT(), dy_ULK).view_as(q_HBLK_), to.v_NHK);
    const at::Tensor given_ULL = dropped(at::bmm(dy_ULK, v_HBLK.flatten(0, 1).mT()).to(shares_ULL.scalar_type()));
    at::Tensor scores_ULL = at::_softmax_backward_data(given_ULL, shares_ULL, -1, shares_ULL.scalar_type());
    scores_ULL = scores_ULL.mul_(options_.scale).to(type);
    at::Tensor dq_HBLK = at::bmm(scores_ULL, k_HBLK_.flatten(0, 1)).view_as(q_HBLK_);
    at::Tensor dk_HBLK = at::bmm(scores_ULL.mT(), q_HBLK_.flatten(0, 1)).view_as(q_HBLK_);
    if (keys_HMK_.defined()) {
      const at::Tensor all_ULM = zeros_of_distances(scores_ULL);
      rows_.of_queries(all_ULM).copy_(scores_ULL);
      add_of_distances(all_ULM, q_HBLK_, keys_HMK_, rows_.falling_M, dq_HBLK, to.keys_PHK);
    }
    if (queries_HMK_.defined()) {
      const at::Tensor all_ULM = zeros_of_distances(scores_ULL);
      rows_.of_keys(all_ULM).copy_(scores_ULL);
      add_of_distances(all_ULM, k_HBLK_, queries_HMK_, rows_.rising_M, dk_HBLK, to.queries_PHK);
    }
    places_.scatter(dq_HBLK, to.q_NHK), places_.scatter(dk_HBLK, to.k_NHK);
  }

 private:
  // [U,L,M]
  static at::Tensor all_distances(const at::Tensor& x_HBLK, const at::Tensor& table_HMK) {
    return at::bmm(x_HBLK.flatten(1, 2), table_HMK.mT()).view({-1, x_HBLK.size(2), table_HMK.size(1)});
  }
  static at::Tensor zeros_of_distances(const at::Tensor& scores_ULL) {
    return at::zeros({scores_ULL.size(0), scores_ULL.size(1), 2 * scores_ULL.size(1) - 1}, scores_ULL.options());
  }
  static void add_of_distances(const at::Tensor& all_ULM, const at::Tensor& x_HBLK, const at::Tensor& table_HMK,
                               const at::Tensor& buckets_M, at::Tensor& dx_HBLK, at::Tensor& dtable_PHK) {
    const at::Tensor all_HXM = all_ULM.view({x_HBLK.size(0), -1, all_ULM.size(2)});
    dx_HBLK.add_(at::bmm(all_HXM, table_HMK).view_as(dx_HBLK));
    const at::Tensor of_rows_HMK = at::bmm(all_HXM.mT(), x_HBLK.flatten(1, 2)).to(dtable_PHK.scalar_type());
    add_rows(of_rows_HMK.transpose(0, 1), buckets_M, dtable_PHK);
  }
  // Rows of one bucket are summed: in their order on the host, elsewhere by a product, which makes the same bits each
  // time.
  static void add_rows(const at::Tensor& rows_MHK, const at::Tensor& buckets_M, at::Tensor& to_PHK) {
    if (to_PHK.is_cpu()) return void(to_PHK.index_add_(0, buckets_M, rows_MHK));
    const at::Tensor all_P1 = at::arange(to_PHK.size(0), buckets_M.options()).unsqueeze(1);
    const at::Tensor is_PM = all_P1.eq(buckets_M.unsqueeze(0)).to(to_PHK.scalar_type());
    to_PHK.add_(at::matmul(is_PM, rows_MHK.flatten(1)).view_as(to_PHK));
  }

  const Places& places_;
  const DistanceRows& rows_;
  const AttentionOptions& options_;
  const at::Tensor q_HBLK_, k_HBLK_;
  at::Tensor keys_HMK_, queries_HMK_;
};

// Products of the size of all scores: q k and p v, and two for each kind of distance, of which there are twice as many.
void add_work(const at::Tensor& q_NHK, const std::vector<Span>& spans, double products, double of_distances) {
  if (!sections::running()) return;
  double pairs = 0;
  for (const Span& span : spans) pairs += static_cast<double>((span.end - span.begin) * (span.end - span.begin));
  sections::add_flop(2 * (products + 2 * of_distances) * pairs * static_cast<double>(q_NHK.size(1) * q_NHK.size(2)));
}

struct KeptBuckets : torch::CustomClassHolder {
  explicit KeptBuckets(const std::vector<std::int64_t>& buckets) : buckets(buckets) {}
  std::vector<std::int64_t> buckets;
};

using MaybeTensor = std::optional<at::Tensor>;

class DisentangledFunction : public torch::autograd::Function<DisentangledFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q_NHK, const at::Tensor& k_NHK,
                            const at::Tensor& v_NHK, const MaybeTensor& keys_PHK, const MaybeTensor& queries_PHK,
                            const std::vector<std::int64_t>& buckets, const Documents& documents,
                            const AttentionOptions& options) {
    const sections::Timed section(sections::Section::attention);
    const double kinds = keys_PHK.has_value() + queries_PHK.has_value();
    add_work(q_NHK, documents.counted_spans(), 2, kinds);
    const DistanceScores distances{keys_PHK.value_or(at::Tensor()), queries_PHK.value_or(at::Tensor()), buckets};
    at::Tensor y_NHK = at::zeros_like(v_NHK, at::MemoryFormat::Contiguous);
    const Batches& batches = batches_of(documents, q_NHK, buckets);
    for (std::size_t i = 0; i < batches.places.size(); ++i) {
      const Places& places = batches.places[i];
      const Scores scores(q_NHK, k_NHK, distances, places, batches.rows[i], options);
      const at::Tensor v_HBLK = places.gathered(v_NHK);
      const at::Tensor shares_ULL = scores.dropped(scores.shares()).to(v_NHK.scalar_type());
      places.scatter(at::bmm(shares_ULL, v_HBLK.flatten(0, 1)).view_as(v_HBLK), y_NHK);
    }
    ctx->save_for_backward({q_NHK, k_NHK, v_NHK, distances.keys_PHK, distances.queries_PHK});
    ctx->saved_data["documents"] = to_value(documents);
    ctx->saved_data["buckets"] = c10::IValue::make_capsule(c10::make_intrusive<KeptBuckets>(buckets));
    ctx->saved_data["scale"] = options.scale;
    ctx->saved_data["dropout"] = options.dropout;
    ctx->saved_data["seed"] = static_cast<std::int64_t>(options.seed);
    return y_NHK;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const sections::Timed section(sections::Section::attention);
    AttentionOptions options{.scale = ctx->saved_data["scale"].toDouble(), .mask = Mask::full()};
    options.dropout = ctx->saved_data["dropout"].toDouble();
    options.seed = static_cast<std::uint64_t>(ctx->saved_data["seed"].toInt());
    const Documents documents = to_documents(ctx->saved_data["documents"]);
    const auto kept = ctx->get_saved_variables();
    const at::Tensor &q_NHK = kept[0], &k_NHK = kept[1], &v_NHK = kept[2];
    const DistanceScores distances{kept[3], kept[4],
                                   static_cast<const KeptBuckets&>(*ctx->saved_data["buckets"].toCapsule()).buckets};
    add_work(q_NHK, documents.counted_spans(), 4, 2 * (kept[3].defined() + kept[4].defined()));
    const auto zeros = [](const at::Tensor& x) { return at::zeros_like(x, at::MemoryFormat::Contiguous); };
    const auto sums = [](const at::Tensor& x) {
      return x.defined() ? at::zeros(x.sizes(), x.options().dtype(at::toOpMathType(x.scalar_type()))) : at::Tensor();
    };
    Scores::Gradients to{zeros(q_NHK), zeros(k_NHK), zeros(v_NHK), sums(kept[3]), sums(kept[4])};
    const Batches& batches = batches_of(documents, q_NHK, distances.buckets);
    for (std::size_t i = 0; i < batches.places.size(); ++i) {
      const Places& places = batches.places[i];
      const Scores scores(q_NHK, k_NHK, distances, places, batches.rows[i], options);
      scores.backward(places.gathered_gradient(grads[0]), places.gathered(v_NHK), to);
    }
    const auto narrow = [](const at::Tensor& sum, const at::Tensor& like) {
      return sum.defined() ? sum.to(like.scalar_type()) : sum;
    };
    return {to.q_NHK, to.k_NHK, to.v_NHK, narrow(to.keys_PHK, kept[3]), narrow(to.queries_PHK, kept[4]), {}, {}, {}};
  }
};

}  // namespace

at::Tensor disentangled_attention(const at::Tensor& q_NHK, const at::Tensor& k_NHK, const at::Tensor& v_NHK,
                                  const DistanceScores& distances, const Documents& documents,
                                  const AttentionOptions& options) {
  HONE_ASSERT(options.mask.kind == Mask::Kind::full && options.mask.window == 0);
  HONE_ASSERT(options.soft_cap == 0 && options.sinks == nullptr);
  const auto maybe = [](const at::Tensor& table) { return table.defined() ? MaybeTensor(table) : std::nullopt; };
  return DisentangledFunction::apply(q_NHK, k_NHK, v_NHK, maybe(distances.keys_PHK), maybe(distances.queries_PHK),
                                     distances.buckets, documents, options);
}

}  // namespace hone::ops
