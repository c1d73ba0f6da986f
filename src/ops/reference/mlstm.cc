// A matrix memory in plain ATen, and its gradient by hand: documents are cut into chunks, which are computed all at
// once; only the memories go from chunk to chunk, those of all documents side by side.
//
// Letters: C chunks, H heads, L tokens of a chunk, K size of queries and keys, V size of values, R rows of a cache.
#include "ops/mlstm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ops/reference/table.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops::reference_table {
namespace {

constexpr std::int64_t kChunk = 64;

// Documents in chunks, one behind another; the last one of each may be short.
struct Cut {
  Cut(const std::vector<Span>& spans, at::Device on) : device(on) {
    for (const Span& span : spans) length = std::max(length, std::min(kChunk, span.end - span.begin));
    std::vector<std::int64_t> tokens;
    for (std::size_t d = 0; d < spans.size(); ++d) {
      const std::int64_t begin = spans[d].begin, end = spans[d].end;
      for (std::int64_t first = begin, place = 0; first < end; first += length, ++place) {
        if (place == std::ssize(chunks_at)) chunks_at.emplace_back();
        if (place == 0) documents.push_back(static_cast<std::int64_t>(d));
        if (first + length >= end) last_chunk.push_back(count);
        chunks_at[place].push_back(count++);
        for (std::int64_t t = 0; t < length; ++t) tokens.push_back(first + t < end ? first + t : -1);
      }
    }
    const at::Tensor all_CL = on_device(tokens).view({count, length});
    none_CL = all_CL < 0;
    token_CL = all_CL.clamp_min(0);
    is_any_short = std::ranges::find(tokens, -1) != tokens.end();
  }
  at::Tensor on_device(const std::vector<std::int64_t>& numbers) const {
    return devices::sent(host::tensor_of(numbers, {std::ssize(numbers)}), device);
  }
  // [N,H,...] -> [C,H,L,...], in fp32 at least, with `fill` where there is no token.
  at::Tensor chunks(const at::Tensor& x, double fill = 0) const {
    at::Tensor y = widened(x).index_select(0, token_CL.flatten()).unflatten(0, {count, length}).transpose(1, 2);
    if (!is_any_short) return y;
    at::Tensor none = none_CL.unsqueeze(1);
    if (y.dim() == 4) none = none.unsqueeze(-1);
    return y.masked_fill(none, fill);
  }
  // And back; tokens of no document are 0.
  at::Tensor tokens_of(const at::Tensor& x, const at::Tensor& like) const {
    const at::Tensor rows = x.transpose(1, 2).flatten(0, 1).to(like.scalar_type());
    const at::Tensor y = at::zeros_like(like, at::MemoryFormat::Contiguous);
    if (!is_any_short) return y.index_copy_(0, token_CL.flatten(), rows);
    const at::Tensor kept = none_CL.flatten().logical_not().nonzero().squeeze(-1);
    return y.index_copy_(0, token_CL.flatten().index_select(0, kept), rows.index_select(0, kept));
  }

  at::Device device;
  std::int64_t count = 0, length = 1;
  at::Tensor token_CL, none_CL;
  bool is_any_short = false;
  std::vector<std::vector<std::int64_t>> chunks_at;  // by their place in their documents, in the documents' order
  std::vector<std::int64_t> documents, last_chunk;   // those that have tokens, and where each ends
};

// As in ops/cpu/products/mlstm-inl.h: factors by which tokens see others and the memory, and are kept by it.
struct Weighed {
  at::Tensor q, k, v;  // [C,H,L,...]; q is scaled
  at::Tensor level_CHL, top_CHL, sum_CHL;
  at::Tensor highest_CHL, is_own_CHL;  // whose level the top is, where that is one of the chunk's
  at::Tensor seen_CHL1, kept_CHL1;
  at::Tensor decay_CH, m_CH;             // m: before the chunk
  at::Tensor values_CHKV, keys_CHK;      // the memory before the chunk
  at::Tensor shares_CHLL, weights_CHLL;  // e^(exponent) of who is not later, and that times q k
  at::Tensor smallest_CHL1;
};

double scale_of(const MlstmInput& input) { return 1 / std::sqrt(static_cast<double>(input.q_NHK.size(2))); }

// The memory that each chunk finds, and what is left at last.
MlstmMemory remember(const Cut& cut, Weighed& x, const MlstmPast& past) {
  const at::Tensor total_CH = x.sum_CHL.select(-1, cut.length - 1), highest_CH = x.level_CHL.amax(-1);
  const at::Tensor own_CHLK = x.k * (x.level_CHL - highest_CH.unsqueeze(-1)).exp().unsqueeze(-1);
  const at::Tensor added_CHKV = at::matmul(own_CHLK.mT(), x.v), added_CHK = own_CHLK.sum(-2);
  x.m_CH = at::zeros_like(highest_CH), x.decay_CH = at::empty_like(highest_CH);
  x.values_CHKV = at::zeros_like(added_CHKV), x.keys_CHK = at::zeros_like(added_CHK);
  const at::Tensor most_CH = at::empty_like(highest_CH);
  MlstmMemory left{at::empty_like(x.values_CHKV), at::empty_like(x.keys_CHK), at::empty_like(x.m_CH)};
  for (std::size_t place = 0; place < cut.chunks_at.size(); ++place) {
    const at::Tensor own = cut.on_device(cut.chunks_at[place]);
    if (place > 0) {
      const at::Tensor before = own - 1;
      x.m_CH.index_copy_(0, own, left.m_RH.index_select(0, before));
      x.values_CHKV.index_copy_(0, own, left.values_RHKV.index_select(0, before));
      x.keys_CHK.index_copy_(0, own, left.keys_RHK.index_select(0, before));
    } else if (!past.rows.empty()) {
      std::vector<std::int64_t> of_documents;
      for (const std::int64_t document : cut.documents) of_documents.push_back(past.rows[document]);
      const at::Tensor rows = cut.on_device(of_documents);
      x.m_CH.index_copy_(0, own, past.memory.m_RH.index_select(0, rows));
      x.values_CHKV.index_copy_(0, own, past.memory.values_RHKV.index_select(0, rows));
      x.keys_CHK.index_copy_(0, own, past.memory.keys_RHK.index_select(0, rows));
    }
    const auto of = [&](const at::Tensor& all) { return all.index_select(0, own); };
    const at::Tensor m = of(x.m_CH), highest = of(highest_CH), most = at::maximum(m, highest);
    const at::Tensor decay = (m - most).exp(), taken = (highest - most).exp();
    const auto next = [&](const at::Tensor& held, const at::Tensor& added) {
      const auto wide = [&](at::Tensor factor) {
        while (factor.dim() < held.dim()) factor = factor.unsqueeze(-1);
        return factor;
      };
      return of(held) * wide(decay) + of(added) * wide(taken);
    };
    left.values_RHKV.index_copy_(0, own, next(x.values_CHKV, added_CHKV));
    left.keys_RHK.index_copy_(0, own, next(x.keys_CHK, added_CHK));
    left.m_RH.index_copy_(0, own, of(total_CH) + most);
    x.decay_CH.index_copy_(0, own, decay), most_CH.index_copy_(0, own, most);
  }
  x.kept_CHL1 = (x.level_CHL - most_CH.unsqueeze(-1)).exp().unsqueeze(-1);
  return left;
}

Weighed weigh(const Cut& cut, const MlstmInput& input, const MlstmPast& past, MlstmMemory& left) {
  Weighed x{.q = cut.chunks(input.q_NHK) * scale_of(input), .k = cut.chunks(input.k_NHK), .v = cut.chunks(input.v_NHV)};
  x.sum_CHL = at::log_sigmoid(cut.chunks(input.forget_NH, /*fill=*/INFINITY)).cumsum(-1);
  x.level_CHL = cut.chunks(input.input_NH, /*fill=*/-INFINITY) - x.sum_CHL;
  left = remember(cut, x, past);
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

void leave(const Cut& cut, const MlstmMemory& left, const MlstmPast& past) {
  if (past.rows.empty()) return;
  std::vector<std::int64_t> rows;
  for (const std::int64_t document : cut.documents) rows.push_back(past.rows[document]);
  const at::Tensor to = cut.on_device(rows), from = cut.on_device(cut.last_chunk);
  past.memory.values_RHKV.index_copy_(0, to, left.values_RHKV.index_select(0, from));
  past.memory.keys_RHK.index_copy_(0, to, left.keys_RHK.index_select(0, from));
  past.memory.m_RH.index_copy_(0, to, left.m_RH.index_select(0, from));
}

MlstmMade forward(const MlstmInput& input, const Documents& documents, double eps, const MlstmPast& past) {
  const Cut cut(documents.spans(), input.q_NHK.device());
  if (cut.count == 0)
    return {at::zeros_like(input.v_NHV, at::MemoryFormat::Contiguous), at::zeros_like(input.input_NH).t()};
  MlstmMemory left;
  const Weighed x = weigh(cut, input, past, left);
  const at::Tensor seen = x.q * x.seen_CHL1;
  const at::Tensor sums = at::matmul(x.weights_CHLL, x.v) + at::matmul(seen, x.values_CHKV);
  const at::Tensor divisor_CHL1 = x.weights_CHLL.sum(-1, /*keepdim=*/true) + at::matmul(seen, x.keys_CHK.unsqueeze(-1));
  const at::Tensor h = sums / (at::maximum(divisor_CHL1.abs(), x.smallest_CHL1) + eps);
  leave(cut, left, past);
  return {cut.tokens_of(h, input.v_NHV), cut.tokens_of(divisor_CHL1.squeeze(-1), input.input_NH).t().contiguous()};
}

// The gradients of the memory behind each chunk, of what later chunks of its document make of it.
MlstmMemory gradients_behind(const Cut& cut, const Weighed& x, const at::Tensor& of_values, const at::Tensor& of_keys) {
  MlstmMemory behind{at::zeros_like(of_values), at::zeros_like(of_keys), {}};
  for (std::size_t place = cut.chunks_at.size() - 1; place > 0; --place) {
    const at::Tensor own = cut.on_device(cut.chunks_at[place]), before = own - 1;
    const auto of = [&](const at::Tensor& all) { return all.index_select(0, own); };
    const at::Tensor decay = of(x.decay_CH).unsqueeze(-1);
    behind.values_RHKV.index_copy_(0, before, of(behind.values_RHKV) * decay.unsqueeze(-1) + of(of_values));
    behind.keys_RHK.index_copy_(0, before, of(behind.keys_RHK) * decay + of(of_keys));
  }
  return behind;
}

// What each token's level gets of the gradients of m of those whose top it is, also of later chunks.
at::Tensor given_by_m(const Cut& cut, const Weighed& x, const at::Tensor& dm_CHL) {
  const at::Tensor none = at::zeros({}, dm_CHL.options());
  const at::Tensor given_CHL =
      at::zeros_like(dm_CHL).scatter_add_(-1, x.highest_CHL, at::where(x.is_own_CHL, dm_CHL, none));
  const at::Tensor of_memory_CH = at::where(x.is_own_CHL, none, dm_CHL).sum(-1);
  const at::Tensor last_CH1 = x.highest_CHL.narrow(-1, cut.length - 1, 1),
                   is_own_CH = x.is_own_CHL.select(-1, cut.length - 1);
  for (std::size_t place = cut.chunks_at.size() - 1; place > 0; --place) {
    const at::Tensor own = cut.on_device(cut.chunks_at[place]), before = own - 1;
    const at::Tensor passed = of_memory_CH.index_select(0, own), takes = is_own_CH.index_select(0, before);
    const auto add = [&](const at::Tensor& to, const at::Tensor& more) {
      to.index_copy_(0, before, to.index_select(0, before) + more);
    };
    add(of_memory_CH, at::where(takes, none, passed));
    const at::Tensor wide = at::zeros_like(given_CHL.index_select(0, before));
    add(given_CHL, wide.scatter_(-1, last_CH1.index_select(0, before), at::where(takes, passed, none).unsqueeze(-1)));
  }
  return given_CHL;
}

MlstmInput backward(const at::Tensor& dh_NHV, const MlstmSaved& saved, const Documents& documents, double eps) {
  const MlstmInput& input = saved.input;
  const Cut cut(documents.spans(), dh_NHV.device());
  const auto zeros = [](const at::Tensor& like) { return at::zeros_like(like, at::MemoryFormat::Contiguous); };
  if (cut.count == 0)
    return {zeros(input.q_NHK), zeros(input.k_NHK), zeros(input.v_NHV), zeros(input.input_NH), zeros(input.forget_NH)};
  MlstmMemory left;
  const Weighed x = weigh(cut, input, {}, left);
  const at::Tensor divisor_CHL1 = cut.chunks(saved.made.divisor_HN.t()).unsqueeze(-1), size = divisor_CHL1.abs();
  const at::Tensor factor = (at::maximum(size, x.smallest_CHL1) + eps).reciprocal();
  const at::Tensor dh = cut.chunks(dh_NHV), dy = dh * factor;
  const at::Tensor along = (dy * cut.chunks(saved.made.h_NHV)).sum(-1, /*keepdim=*/true);
  const at::Tensor ddivisor = (-along * divisor_CHL1.sign()).masked_fill(size <= x.smallest_CHL1, 0);
  const at::Tensor dproducts = (at::matmul(dy, x.v.mT()) + ddivisor) * x.shares_CHLL;
  const at::Tensor seen = x.q * x.seen_CHL1;
  const MlstmMemory behind =
      gradients_behind(cut, x, at::matmul(seen.mT(), dy), at::matmul(seen.mT(), ddivisor).squeeze(-1));
  const at::Tensor dq = at::matmul(dproducts, x.k) +
                        x.seen_CHL1 * (at::matmul(dy, x.values_CHKV.mT()) + ddivisor * x.keys_CHK.unsqueeze(-2));
  const at::Tensor dk = at::matmul(dproducts.mT(), x.q) +
                        x.kept_CHL1 * (at::matmul(x.v, behind.values_RHKV.mT()) + behind.keys_RHK.unsqueeze(-2));
  const at::Tensor dv = at::matmul(x.weights_CHLL.mT(), dy) + x.kept_CHL1 * at::matmul(x.k, behind.values_RHKV);
  const at::Tensor dm_CHL = (-along * eps).squeeze(-1), given_CHL = given_by_m(cut, x, dm_CHL);
  const at::Tensor dinput = (x.k * dk).sum(-1) + given_CHL, difference = (x.q * dq).sum(-1) - dinput + dm_CHL;
  // From each token to its document's end: within the chunk, and behind it.
  const at::Tensor own_CH = difference.sum(-1), later_CH = at::zeros_like(own_CH);
  for (std::size_t place = cut.chunks_at.size() - 1; place > 0; --place) {
    const at::Tensor own = cut.on_device(cut.chunks_at[place]);
    later_CH.index_copy_(0, own - 1, later_CH.index_select(0, own) + own_CH.index_select(0, own));
  }
  const at::Tensor from_here = difference.flip(-1).cumsum(-1).flip(-1) + later_CH.unsqueeze(-1);
  const at::Tensor dforget = from_here * (-cut.chunks(input.forget_NH)).sigmoid();
  return {cut.tokens_of(dq * scale_of(input), input.q_NHK), cut.tokens_of(dk, input.k_NHK),
          cut.tokens_of(dv, input.v_NHV), cut.tokens_of(dinput, input.input_NH),
          cut.tokens_of(dforget, input.forget_NH)};
}

// The memories before all chunks and their gradients, what each adds, and the chunks' weights.
std::int64_t backward_room(const MlstmInput& input, const Documents& documents) {
  std::int64_t chunks = 0, longest = 0;
  for (const Span& span : documents.counted_spans()) {
    chunks += (span.end - span.begin + kChunk - 1) / kChunk;
    longest = std::max(longest, std::min(kChunk, span.end - span.begin));
  }
  const std::int64_t heads = input.q_NHK.size(1), memory = input.q_NHK.size(2) * input.v_NHV.size(2);
  return chunks * heads * (5 * memory + 4 * longest * longest) *
         static_cast<std::int64_t>(input.input_NH.element_size());
}

}  // namespace

Backend::Mlstm mlstm() { return {forward, backward, backward_room}; }

}  // namespace hone::ops::reference_table
