// A state space in plain ATen: documents are cut into chunks, whose tokens read each other all at once; only the states
// go from chunk to chunk, those of all documents side by side. Its gradient is autograd's, of the same again.
//
// Letters: C chunks, G groups, P heads of a group, L tokens of a chunk, K size of the state, V size of a head's x, D
// documents that reach a place, the number of a chunk in its document.
#include "ops/ssd.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "ops/reference/chunks.h"
#include "ops/reference/table.h"

namespace hone::ops::reference_table {
namespace {

// A group's heads lie side by side, so that its B and C make one product with all of them.
struct SsdParts {
  at::Tensor made_CGPLV;                // what tokens of a chunk give each other, and their own
  at::Tensor c_CGLK, seen_CGLP1;        // what reads the state
  at::Tensor taken_CGKPV, decay_CG1P1;  // what it takes in, and how much it keeps
};

SsdParts ssd_parts(const ChunkedDocuments& cut, const SsdInput& input) {
  const std::int64_t groups = input.c_NGK.size(1), group = input.x_NHV.size(1) / groups;
  const auto by_group = [&](const at::Tensor& x_CHL) { return x_CHL.unflatten(1, {groups, group}); };
  const at::Tensor c = cut.in_chunks(input.c_NGK), b = cut.in_chunks(input.b_NGK);
  const at::Tensor x_CGPLV = by_group(cut.in_chunks(input.x_NHV));
  const at::Tensor sum_CGPL = by_group(cut.in_chunks(input.decay_NH).cumsum(-1));
  const at::Tensor written = x_CGPLV * by_group(cut.in_chunks(input.step_NH)).unsqueeze(-1);
  const at::Tensor later = at::ones({cut.length, cut.length}, c.options().dtype(at::kBool)).triu(1);
  const at::Tensor shares = (sum_CGPL.unsqueeze(-1) - sum_CGPL.unsqueeze(-2)).masked_fill(later, -INFINITY).exp();
  const at::Tensor made = at::matmul(at::matmul(c, b.mT()).unsqueeze(2) * shares, written);
  const at::Tensor skip_GP11 = input.skip_H.view({groups, group, 1, 1});
  const at::Tensor total_CGP1 = sum_CGPL.narrow(-1, cut.length - 1, 1);
  const at::Tensor kept = written * (total_CGP1 - sum_CGPL).exp().unsqueeze(-1);
  const at::Tensor taken = at::matmul(b.mT(), kept.transpose(2, 3).flatten(3));
  return {made + skip_GP11 * x_CGPLV, c, sum_CGPL.exp().transpose(2, 3).unsqueeze(-1), taken.unflatten(3, {group, -1}),
          total_CGP1.exp().unsqueeze(2)};
}

// left(place, state_DGKPV): what all documents hold that reach the place; wanted for those that end there. `state`:
// what they begin with; undefined: zeros.
template <class Left>
at::Tensor ssd_read_all(const ChunkedDocuments& cut, const SsdInput& input, at::Tensor state, Left&& left) {
  const SsdParts x = ssd_parts(cut, input);
  std::vector<at::Tensor> made;
  for (std::int64_t place = 0; place < cut.places(); ++place) {
    at::Tensor y = cut.at(x.made_CGPLV, place);
    if (state.defined()) {
      const at::Tensor read_DGLPV =
          at::matmul(cut.at(x.c_CGLK, place), state.flatten(3)).unflatten(3, state.sizes().slice(3));
      y = y + (read_DGLPV * cut.at(x.seen_CGLP1, place)).transpose(2, 3);
    }
    made.push_back(y);
    const at::Tensor taken = cut.at(x.taken_CGKPV, place);
    state = state.defined() ? taken + state * cut.at(x.decay_CG1P1, place) : taken;
    left(place, state);
    state = state.narrow(0, 0, cut.reached(place + 1));
  }
  return cut.in_tokens(at::cat(made).flatten(1, 2), input.x_NHV);
}

at::Tensor ssd_forward(const SsdInput& input, const Documents& documents, const SsdPast& past) {
  const ChunkedDocuments& cut = cut_of(documents, input.x_NHV);
  if (cut.chunks == 0) return at::zeros_like(input.x_NHV, at::MemoryFormat::Contiguous);
  if (past.rows.empty()) return ssd_read_all(cut, input, {}, [](std::int64_t, const at::Tensor&) {});
  std::vector<std::int64_t> of_documents;
  for (const std::int64_t document : cut.documents) of_documents.push_back(past.rows[document]);
  const at::Tensor rows = cut.on_device(of_documents);
  const std::int64_t groups = input.c_NGK.size(1);
  const at::Tensor state_DGKPV = past.state_RHKV.index_select(0, rows).unflatten(1, {groups, -1}).transpose(2, 3);
  return ssd_read_all(cut, input, state_DGKPV, [&](std::int64_t place, const at::Tensor& held) {
    const std::int64_t first = cut.reached(place + 1), count = held.size(0) - first;
    if (count > 0)
      past.state_RHKV.index_copy_(0, rows.narrow(0, first, count),
                                  held.narrow(0, first, count).transpose(2, 3).flatten(1, 2));
  });
}

SsdInput ssd_backward(const at::Tensor& dy_NHV, const SsdInput& input, const Documents& documents) {
  const ChunkedDocuments& cut = cut_of(documents, dy_NHV);
  const auto zeros = [](const at::Tensor& like) { return at::zeros_like(like, at::MemoryFormat::Contiguous); };
  if (cut.chunks == 0)
    return {zeros(input.c_NGK),    zeros(input.b_NGK),   zeros(input.x_NHV),
            zeros(input.decay_NH), zeros(input.step_NH), zeros(input.skip_H)};
  const at::AutoGradMode grad(true);
  const auto own = [](const at::Tensor& x) { return x.detach().requires_grad_(); };
  const SsdInput x{own(input.c_NGK),    own(input.b_NGK),   own(input.x_NHV),
                   own(input.decay_NH), own(input.step_NH), own(input.skip_H)};
  const at::Tensor y = ssd_read_all(cut, x, {}, [](std::int64_t, const at::Tensor&) {});
  const auto made = torch::autograd::grad({y}, {x.c_NGK, x.b_NGK, x.x_NHV, x.decay_NH, x.step_NH, x.skip_H}, {dy_NHV});
  return {made[0], made[1], made[2], made[3], made[4], made[5]};
}

// What autograd keeps of chunks, and of the states between them.
std::int64_t ssd_backward_room(const SsdInput& input, const Documents& documents) {
  std::int64_t chunks = 0, longest = 0;
  for (const Span& span : documents.counted_spans()) {
    chunks += (span.end - span.begin + kChunk - 1) / kChunk;
    longest = std::max(longest, std::min(kChunk, span.end - span.begin));
  }
  const std::int64_t groups = input.c_NGK.size(1), heads = input.x_NHV.size(1), keys = input.c_NGK.size(2),
                     values = input.x_NHV.size(2);
  const std::int64_t of_head = 3 * keys * values + longest * (8 * values + 6 * longest),
                     of_group = longest * (4 * keys + 2 * longest);
  return chunks * (heads * of_head + groups * of_group) * static_cast<std::int64_t>(input.decay_NH.element_size());
}

}  // namespace

Backend::Ssd ssd() { return {ssd_forward, ssd_backward, ssd_backward_room}; }

}  // namespace hone::ops::reference_table
