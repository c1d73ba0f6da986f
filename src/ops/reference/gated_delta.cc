// A memory that is corrected, in plain ATen: documents are cut into chunks, whose triangles are solved all at once;
// only the memories go from chunk to chunk, those of all documents side by side. Its gradient is autograd's, of the
// same again.
//
// Letters: C chunks, H heads of values, L tokens of a chunk, K size of queries and keys, V size of values, D documents
// that reach a place, the number of a chunk in its document.
#include "ops/gated_delta.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "ops/reference/chunks.h"
#include "ops/reference/table.h"
#include "ops/unit_heads.h"

namespace hone::ops::reference_table {
namespace {

// What chunks make before they know what the memory holds.
struct ChunkParts {
  at::Tensor written_CHLV, forgotten_CHLK;  // what is written, less the product of the second with the memory
  at::Tensor read_CHLK, weights_CHLL;       // queries of the memory; by which tokens read what is written
  at::Tensor kept_CHLK, decay_CH11;         // keys by which the memory takes it in, and keeps what it has
};

ChunkParts parts_of(const ChunkedDocuments& cut, const DeltaInput& input) {
  const std::int64_t group = input.v_NHV.size(1) / input.q_NGK.size(1);
  const auto units = [&](const at::Tensor& x_NGK) {
    return to_units(cut.in_chunks(x_NGK)).repeat_interleave(group, 1);
  };
  const at::Tensor q = units(input.q_NGK) / std::sqrt(static_cast<double>(input.q_NGK.size(2)));
  const at::Tensor k = units(input.k_NGK), sum_CHL = cut.in_chunks(input.decay_NH).cumsum(-1);
  const at::Tensor step = cut.in_chunks(input.step_NH).unsqueeze(-1), seen = sum_CHL.exp().unsqueeze(-1);
  const at::Tensor later = at::ones({cut.length, cut.length}, q.options().dtype(at::kBool)).triu(1);
  const at::Tensor shares = (sum_CHL.unsqueeze(-1) - sum_CHL.unsqueeze(-2)).masked_fill(later, -INFINITY).exp();
  const at::Tensor before = step * at::matmul(k, k.mT()) * shares;  // what stands on its diagonal does not count
  const at::Tensor wanted = at::cat({step * cut.in_chunks(input.v_NHV), step * seen * k}, -1);
  const at::Tensor solved =
      at::linalg_solve_triangular(before, wanted, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  const at::Tensor total = sum_CHL.narrow(-1, cut.length - 1, 1);
  return {solved.narrow(-1, 0, input.v_NHV.size(2)),
          solved.narrow(-1, input.v_NHV.size(2), k.size(-1)),
          q * seen,
          at::matmul(q, k.mT()) * shares,
          k * (total - sum_CHL).exp().unsqueeze(-1),
          total.exp().unsqueeze(-1)};
}

// left(place, memory_DHKV): what all documents hold that reach the place; wanted for those that end there. `memory`:
// what they begin with; undefined: zeros.
template <class Left>
at::Tensor read_all(const ChunkedDocuments& cut, const DeltaInput& input, at::Tensor memory, Left&& left) {
  const ChunkParts x = parts_of(cut, input);
  std::vector<at::Tensor> made;
  for (std::int64_t place = 0; place < cut.places(); ++place) {
    at::Tensor written = cut.at(x.written_CHLV, place);
    if (memory.defined()) written = written - at::matmul(cut.at(x.forgotten_CHLK, place), memory);
    at::Tensor y = at::matmul(cut.at(x.weights_CHLL, place), written);
    if (memory.defined()) y = y + at::matmul(cut.at(x.read_CHLK, place), memory);
    made.push_back(y);
    const at::Tensor taken = at::matmul(cut.at(x.kept_CHLK, place).mT(), written);
    memory = memory.defined() ? taken + memory * cut.at(x.decay_CH11, place) : taken;
    left(place, memory);
    memory = memory.narrow(0, 0, cut.reached(place + 1));
  }
  return cut.in_tokens(at::cat(made), input.v_NHV);
}

at::Tensor delta_forward(const DeltaInput& input, const Documents& documents, const DeltaPast& past) {
  const ChunkedDocuments& cut = cut_of(documents, input.v_NHV);
  if (cut.chunks == 0) return at::zeros_like(input.v_NHV, at::MemoryFormat::Contiguous);
  if (past.rows.empty()) return read_all(cut, input, {}, [](std::int64_t, const at::Tensor&) {});
  std::vector<std::int64_t> of_documents;
  for (const std::int64_t document : cut.documents) of_documents.push_back(past.rows[document]);
  const at::Tensor rows = cut.on_device(of_documents);
  return read_all(cut, input, past.memory_RHKV.index_select(0, rows), [&](std::int64_t place, const at::Tensor& held) {
    const std::int64_t first = cut.reached(place + 1), count = held.size(0) - first;
    if (count > 0) past.memory_RHKV.index_copy_(0, rows.narrow(0, first, count), held.narrow(0, first, count));
  });
}

DeltaInput delta_backward(const at::Tensor& dy_NHV, const DeltaInput& input, const Documents& documents) {
  const ChunkedDocuments& cut = cut_of(documents, dy_NHV);
  const auto zeros = [](const at::Tensor& like) { return at::zeros_like(like, at::MemoryFormat::Contiguous); };
  if (cut.chunks == 0)
    return {zeros(input.q_NGK), zeros(input.k_NGK), zeros(input.v_NHV), zeros(input.decay_NH), zeros(input.step_NH)};
  const at::AutoGradMode grad(true);
  const auto own = [](const at::Tensor& x) { return x.detach().requires_grad_(); };
  const DeltaInput x{own(input.q_NGK), own(input.k_NGK), own(input.v_NHV), own(input.decay_NH), own(input.step_NH)};
  const at::Tensor y = read_all(cut, x, {}, [](std::int64_t, const at::Tensor&) {});
  const auto made = torch::autograd::grad({y}, {x.q_NGK, x.k_NGK, x.v_NHV, x.decay_NH, x.step_NH}, {dy_NHV});
  return {made[0], made[1], made[2], made[3], made[4]};
}

// What autograd keeps of chunks, and of the memories between them.
std::int64_t delta_backward_room(const DeltaInput& input, const Documents& documents) {
  std::int64_t chunks = 0, longest = 0;
  for (const Span& span : documents.counted_spans()) {
    chunks += (span.end - span.begin + kChunk - 1) / kChunk;
    longest = std::max(longest, std::min(kChunk, span.end - span.begin));
  }
  const std::int64_t keys = input.q_NGK.size(2), values = input.v_NHV.size(2);
  const std::int64_t numbers = chunks * (3 * keys * values + longest * (12 * keys + 8 * values + 8 * longest));
  return input.v_NHV.size(1) * numbers * static_cast<std::int64_t>(input.decay_NH.element_size());
}

}  // namespace

Backend::GatedDelta gated_delta() { return {delta_forward, delta_backward, delta_backward_room}; }

}  // namespace hone::ops::reference_table
