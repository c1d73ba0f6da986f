// A matrix memory in plain ATen, and its gradient by hand: documents are cut into chunks, which are computed all at
// once; only the memories go from chunk to chunk, those of all documents side by side.
//
// Letters: C chunks, H heads, L tokens of a chunk, K size of queries and keys, V size of values, D documents that reach
// a place, the number of a chunk in its document.
#include "ops/mlstm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <cmath>
#include <tuple>

#include "ops/reference/chunks.h"
#include "ops/reference/table.h"

namespace hone::ops::reference_table {
namespace {

// As in ops/cpu/products/mlstm-inl.h: factors by which tokens see others and the memory, and are kept by it.
struct Weighed {
  at::Tensor q, k, v;  // [C,H,L,...]; q is scaled
  at::Tensor level_CHL, top_CHL, sum_CHL;
  at::Tensor highest_CHL, is_own_CHL;  // whose level the top is, where that is one of the chunk's
  at::Tensor seen_CHL1, kept_CHL1;
  at::Tensor decay_CH, m_CH, last_m_CH;  // m: before the chunk, and behind it
  at::Tensor shares_CHLL, weights_CHLL;  // e^(exponent) of who is not later, and that times q k
  at::Tensor smallest_CHL1;
};

double scale_of(const MlstmInput& input) { return 1 / std::sqrt(static_cast<double>(input.q_NHK.size(2))); }

// m from chunk to chunk, which is one number per head. rows: those of the past for the documents; undefined: none.
void follow_m(const ChunkedDocuments& cut, Weighed& x, const MlstmPast& past, const at::Tensor& rows) {
  const at::Tensor total_CH = x.sum_CHL.select(-1, cut.length - 1), highest_CH = x.level_CHL.amax(-1);
  x.m_CH = at::zeros_like(highest_CH), x.last_m_CH = at::empty_like(highest_CH);
  if (rows.defined()) cut.at(x.m_CH, 0).copy_(past.memory.m_RH.index_select(0, rows));
  for (std::int64_t place = 0; place < cut.places(); ++place) {
    if (place > 0) cut.at(x.m_CH, place).copy_(cut.at(x.last_m_CH, place - 1, cut.reached(place)));
    const at::Tensor most = at::maximum(cut.at(x.m_CH, place), cut.at(highest_CH, place));
    cut.at(x.last_m_CH, place).copy_(cut.at(total_CH, place) + most);
  }
  const at::Tensor most_CH = x.last_m_CH - total_CH;
  x.decay_CH = (x.m_CH - most_CH).exp();
  x.kept_CHL1 = (x.level_CHL - most_CH.unsqueeze(-1)).exp().unsqueeze(-1);
}

Weighed weigh(const ChunkedDocuments& cut, const MlstmInput& input, const MlstmPast& past, const at::Tensor& rows) {
  Weighed x;
  x.q = cut.in_chunks(input.q_NHK) * scale_of(input), x.k = cut.in_chunks(input.k_NHK);
  x.v = cut.in_chunks(input.v_NHV);
  x.sum_CHL = at::log_sigmoid(cut.in_chunks(input.forget_NH, /*fill=*/INFINITY)).cumsum(-1);
  x.level_CHL = cut.in_chunks(input.input_NH, /*fill=*/-INFINITY) - x.sum_CHL;
  follow_m(cut, x, past, rows);
  at::Tensor so_far_CHL;
  std::tie(so_far_CHL, x.highest_CHL) = x.level_CHL.cummax(-1);
  x.is_own_CHL = so_far_CHL > x.m_CH.unsqueeze(-1);
  x.top_CHL = at::maximum(so_far_CHL, x.m_CH.unsqueeze(-1));
  x.seen_CHL1 = (x.m_CH.unsqueeze(-1) - x.top_CHL).exp().unsqueeze(-1);
  x.smallest_CHL1 = (-(x.sum_CHL + x.top_CHL)).exp().unsqueeze(-1);
  const at::Tensor later = at::ones({cut.length, cut.length}, x.q.options().dtype(at::kBool)).triu(1);
  x.shares_CHLL = (x.level_CHL.unsqueeze(-2) - x.top_CHL.unsqueeze(-1)).masked_fill(later, -INFINITY).exp();
  x.weights_CHLL = at::matmul(x.q, x.k.mT()) * x.shares_CHLL;
  return x;
}

// Of documents at one place.
struct Held {
  at::Tensor values_DHKV, keys_DHK;
  Held first(std::int64_t count) const { return {values_DHKV.narrow(0, 0, count), keys_DHK.narrow(0, 0, count)}; }
};

// What the first `count` of them hold behind the place; `held`: before it, undefined: nothing.
Held next(const ChunkedDocuments& cut, const Weighed& x, std::int64_t place, std::int64_t count, const Held& held) {
  const at::Tensor k_DHLK = cut.at(x.k, place, count) * cut.at(x.kept_CHL1, place, count);
  Held made{at::matmul(k_DHLK.mT(), cut.at(x.v, place, count)), k_DHLK.sum(-2)};
  if (!held.values_DHKV.defined()) return made;
  const at::Tensor decay_DH1 = cut.at(x.decay_CH, place, count).unsqueeze(-1);
  made.values_DHKV.addcmul_(held.values_DHKV.narrow(0, 0, count), decay_DH1.unsqueeze(-1));
  made.keys_DHK.addcmul_(held.keys_DHK.narrow(0, 0, count), decay_DH1);
  return made;
}

// Those from `first` on end here.
void leave(const Held& held, const at::Tensor& last_m_DH, std::int64_t first, const MlstmPast& past,
           const at::Tensor& rows) {
  const std::int64_t count = held.values_DHKV.size(0) - first;
  if (count == 0) return;
  const auto put = [&](const at::Tensor& to, const at::Tensor& from) {
    to.index_copy_(0, rows.narrow(0, first, count), from.narrow(0, first, count));
  };
  put(past.memory.values_RHKV, held.values_DHKV), put(past.memory.keys_RHK, held.keys_DHK);
  put(past.memory.m_RH, last_m_DH);
}

MlstmMade forward(const MlstmInput& input, const Documents& documents, double eps, const MlstmPast& past) {
  const ChunkedDocuments& cut = cut_of(documents, input.q_NHK);
  if (cut.chunks == 0)
    return {at::zeros_like(input.v_NHV, at::MemoryFormat::Contiguous), at::zeros_like(input.input_NH).t()};
  at::Tensor rows;
  Held held;
  if (!past.rows.empty()) {
    std::vector<std::int64_t> of_documents;
    for (const std::int64_t d : cut.documents) of_documents.push_back(past.rows[d]);
    rows = cut.on_device(of_documents);
    held = {past.memory.values_RHKV.index_select(0, rows), past.memory.keys_RHK.index_select(0, rows)};
  }
  const Weighed x = weigh(cut, input, past, rows);
  const at::Tensor sums = at::matmul(x.weights_CHLL, x.v), divisor = x.weights_CHLL.sum(-1, /*keepdim=*/true);
  const at::Tensor seen = x.q * x.seen_CHL1;
  for (std::int64_t place = 0; place < cut.places(); ++place) {
    if (held.values_DHKV.defined()) {
      cut.at(sums, place).add_(at::matmul(cut.at(seen, place), held.values_DHKV));
      cut.at(divisor, place).add_(at::matmul(cut.at(seen, place), held.keys_DHK.unsqueeze(-1)));
    }
    const std::int64_t go_on = cut.reached(place + 1), count = rows.defined() ? cut.reached(place) : go_on;
    if (count == 0) break;
    held = next(cut, x, place, count, held);
    if (rows.defined()) leave(held, cut.at(x.last_m_CH, place), go_on, past, rows);
    if (go_on > 0) held = held.first(go_on);
  }
  const at::Tensor h = sums / (at::maximum(divisor.abs(), x.smallest_CHL1) + eps);
  return {cut.in_tokens(h, input.v_NHV), cut.in_tokens(divisor.squeeze(-1), input.input_NH).t().contiguous()};
}

// What each token's level gets of the gradients of m of those whose top it is, also of later chunks.
at::Tensor given_by_m(const ChunkedDocuments& cut, const Weighed& x, const at::Tensor& dm_CHL) {
  const at::Tensor none = at::zeros({}, dm_CHL.options());
  const at::Tensor of_memory_CH = at::where(x.is_own_CHL, none, dm_CHL).sum(-1);
  // Through the chunks, from the last: what a chunk passes to the one before it goes to that one's last top.
  const at::Tensor passed_CH = at::zeros_like(of_memory_CH), last_is_own_CH = x.is_own_CHL.select(-1, cut.length - 1);
  for (std::int64_t place = cut.places() - 1; place > 0; --place) {
    const std::int64_t count = cut.reached(place);
    cut.at(passed_CH, place - 1, count).copy_(cut.at(of_memory_CH, place));
    const at::Tensor goes_on =
        at::where(cut.at(last_is_own_CH, place - 1, count), none, cut.at(passed_CH, place - 1, count));
    cut.at(of_memory_CH, place - 1, count).add_(goes_on);
  }
  const at::Tensor own_CHL = at::where(x.is_own_CHL, dm_CHL, none);
  own_CHL.select(-1, cut.length - 1).add_(at::where(last_is_own_CH, passed_CH, none));
  // As a product, whose order is the same each time, where several tokens have one top.
  const at::Tensor tokens = at::arange(cut.length, x.highest_CHL.options());
  const at::Tensor is_top_CHLL = (x.highest_CHL.unsqueeze(-1) == tokens).to(dm_CHL.scalar_type());
  return at::matmul(own_CHL.unsqueeze(-2), is_top_CHLL).squeeze(-2);
}

// From each token to its document's end, which is no further than the last chunk's.
at::Tensor from_here_on(const ChunkedDocuments& cut, const at::Tensor& difference_CHL) {
  const at::Tensor own_CH = difference_CHL.sum(-1), later_CH = at::zeros_like(own_CH);
  for (std::int64_t place = cut.places() - 1; place > 0; --place)
    cut.at(later_CH, place - 1, cut.reached(place)).copy_(cut.at(later_CH, place) + cut.at(own_CH, place));
  return difference_CHL.flip(-1).cumsum(-1).flip(-1) + later_CH.unsqueeze(-1);
}

// Gradients of queries, keys and values, of which the chunk's own weights have made their part; through the memories.
struct ThroughMemories {
  const ChunkedDocuments& cut;
  const Weighed& x;
  const at::Tensor &dy, &ddivisor;
  at::Tensor &dq, &dk, &dv;

  void add() const {
    std::vector<Held> before(1);  // each place's; the first finds nothing
    for (std::int64_t place = 0; place + 1 < cut.places(); ++place)
      before.push_back(next(cut, x, place, cut.reached(place + 1), before.back()));
    const at::Tensor seen = x.q * x.seen_CHL1;
    Held behind;  // the gradient of what the chunk leaves, of those that go on
    for (std::int64_t place = cut.places() - 1; place >= 0; --place) {
      if (place > 0) add_to_queries(place, before[place]);
      if (behind.values_DHKV.defined()) add_to_keys_and_values(place, behind);
      if (place > 0) behind = gradient_before(place, seen, behind);
    }
  }
  void add_to_queries(std::int64_t place, const Held& held) const {
    const at::Tensor read =
        at::matmul(cut.at(dy, place), held.values_DHKV.mT()) + cut.at(ddivisor, place) * held.keys_DHK.unsqueeze(-2);
    cut.at(dq, place).addcmul_(cut.at(x.seen_CHL1, place), read);
  }
  void add_to_keys_and_values(std::int64_t place, const Held& behind) const {
    const std::int64_t count = behind.values_DHKV.size(0);
    const auto here = [&](const at::Tensor& all) { return cut.at(all, place, count); };
    here(dk).addcmul_(here(x.kept_CHL1),
                      at::matmul(here(x.v), behind.values_DHKV.mT()) + behind.keys_DHK.unsqueeze(-2));
    here(dv).addcmul_(here(x.kept_CHL1), at::matmul(here(x.k), behind.values_DHKV));
  }
  Held gradient_before(std::int64_t place, const at::Tensor& seen, const Held& behind) const {
    const at::Tensor seen_DHKL = cut.at(seen, place).mT();
    Held made{at::matmul(seen_DHKL, cut.at(dy, place)), at::matmul(seen_DHKL, cut.at(ddivisor, place)).squeeze(-1)};
    if (!behind.values_DHKV.defined()) return made;
    const std::int64_t count = behind.values_DHKV.size(0);
    const at::Tensor decay_DH1 = cut.at(x.decay_CH, place, count).unsqueeze(-1);
    made.values_DHKV.narrow(0, 0, count).addcmul_(behind.values_DHKV, decay_DH1.unsqueeze(-1));
    made.keys_DHK.narrow(0, 0, count).addcmul_(behind.keys_DHK, decay_DH1);
    return made;
  }
};

MlstmInput backward(const at::Tensor& dh_NHV, const MlstmSaved& saved, const Documents& documents, double eps) {
  const MlstmInput& input = saved.input;
  const ChunkedDocuments& cut = cut_of(documents, dh_NHV);
  const auto zeros = [](const at::Tensor& like) { return at::zeros_like(like, at::MemoryFormat::Contiguous); };
  if (cut.chunks == 0)
    return {zeros(input.q_NHK), zeros(input.k_NHK), zeros(input.v_NHV), zeros(input.input_NH), zeros(input.forget_NH)};
  const Weighed x = weigh(cut, input, {}, {});
  const at::Tensor divisor_CHL1 = cut.in_chunks(saved.made.divisor_HN.t()).unsqueeze(-1), size = divisor_CHL1.abs();
  const at::Tensor dy = cut.in_chunks(dh_NHV) * (at::maximum(size, x.smallest_CHL1) + eps).reciprocal();
  const at::Tensor along = (dy * cut.in_chunks(saved.made.h_NHV)).sum(-1, /*keepdim=*/true);
  const at::Tensor ddivisor = (-along * divisor_CHL1.sign()).masked_fill(size <= x.smallest_CHL1, 0);
  const at::Tensor dproducts = (at::matmul(dy, x.v.mT()) + ddivisor) * x.shares_CHLL;
  at::Tensor dq = at::matmul(dproducts, x.k), dk = at::matmul(dproducts.mT(), x.q),
             dv = at::matmul(x.weights_CHLL.mT(), dy);
  ThroughMemories{cut, x, dy, ddivisor, dq, dk, dv}.add();
  const at::Tensor dm_CHL = (-along * eps).squeeze(-1);
  const at::Tensor dinput = (x.k * dk).sum(-1) + given_by_m(cut, x, dm_CHL);
  const at::Tensor difference = (x.q * dq).sum(-1) - dinput + dm_CHL;
  const at::Tensor dforget = from_here_on(cut, difference) * (-cut.in_chunks(input.forget_NH)).sigmoid();
  return {cut.in_tokens(dq * scale_of(input), input.q_NHK), cut.in_tokens(dk, input.k_NHK),
          cut.in_tokens(dv, input.v_NHV), cut.in_tokens(dinput, input.input_NH),
          cut.in_tokens(dforget, input.forget_NH)};
}

// The memories before all chunks but documents' first ones and some on the way, what tokens have in fp32, and the
// chunks' weights.
std::int64_t backward_room(const MlstmInput& input, const Documents& documents) {
  std::int64_t chunks = 0, memories = 0, longest = 0;
  for (const Span& span : documents.counted_spans()) {
    const std::int64_t own = (span.end - span.begin + kChunk - 1) / kChunk;
    chunks += own, memories += own > 1 ? own + 2 : 0;
    longest = std::max(longest, std::min(kChunk, span.end - span.begin));
  }
  const std::int64_t keys = input.q_NHK.size(2), values = input.v_NHV.size(2);
  const std::int64_t numbers = memories * keys * values + chunks * longest * (6 * keys + 7 * values + 4 * longest);
  return input.q_NHK.size(1) * numbers * static_cast<std::int64_t>(input.input_NH.element_size());
}

}  // namespace

Backend::Mlstm mlstm() { return {forward, backward, backward_room}; }

}  // namespace hone::ops::reference_table
