// The CPU's state spaces: a few heads of a group of one document are a thread's work, from the document's begin to its
// end.
//
// Letters: N tokens, G groups, H heads, K size of the state, V size of a head's x, S shares of a group's heads.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>

#include "hone/error.h"
#include "ops/cpu/products/ssd.h"
#include "ops/cpu/table/document_jobs.h"
#include "ops/cpu/table/heads.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"

namespace hone::ops::cpu_table {
namespace {

// Of a group (often there is but one), so that there is work for all threads; what they share, B's and C's products, is
// then little beside their own. A constant: sums over shares do not depend on threads.
constexpr std::int64_t kSharedHeads = 8;

// How heads are cut: jobs of a document are numbered by groups, and in a group by shares.
struct HeadShares {
  explicit HeadShares(const SsdInput& input)
      : heads(input.x_NHV.size(1)),
        groups(input.c_NGK.size(1)),
        group(heads / groups),
        shares((group + kSharedHeads - 1) / kSharedHeads) {}
  std::int64_t jobs() const { return groups * shares; }
  std::int64_t group_of(std::int64_t job) const { return job / shares; }
  std::int64_t share_of(std::int64_t job) const { return job % shares; }
  std::int64_t first(std::int64_t job) const { return group_of(job) * group + share_of(job) * kSharedHeads; }
  std::int64_t count(std::int64_t job) const { return std::min(kSharedHeads, group - share_of(job) * kSharedHeads); }
  const std::int64_t heads, groups, group, shares;
};

cpu::SsdShape ssd_shape(const Span& span, const SsdInput& input, std::int64_t heads) {
  return {span.end - span.begin, input.c_NGK.size(2), input.x_NHV.size(2), heads};
}

template <class T>
struct SsdInputRows {
  using W = cpu::Wide<T>;
  explicit SsdInputRows(const SsdInput& input)
      : cut(input),
        c(input.c_NGK, 0),
        b(input.b_NGK, 0),
        x(input.x_NHV, 0),
        decay(input.decay_NH.const_data_ptr<W>()),
        step(input.step_NH.const_data_ptr<W>()),
        skip(input.skip_H.const_data_ptr<W>()) {}
  std::int64_t gate(std::int64_t job, std::int64_t first) const { return first * cut.heads + cut.first(job); }
  cpu::SsdRows<T> of(std::int64_t job, std::int64_t first) const {
    const std::int64_t group = cut.group_of(job), at = gate(job, first);
    return {c.read(group, first),
            b.read(group, first),
            x.read(cut.first(job), first),
            x.head,
            decay + at,
            step + at,
            cut.heads,
            skip + cut.first(job)};
  }
  const HeadShares cut;
  const Heads<T> c, b, x;
  const W *const decay, *const step, *const skip;
};

template <class T>
std::int64_t longest_ssd_room(std::int64_t (*room)(const cpu::SsdShape&), const std::vector<Span>& spans,
                              const SsdInput& input) {
  const std::int64_t heads = std::min(kSharedHeads, HeadShares(input).group);
  std::int64_t bytes = 0;
  for (const Span& span : spans) bytes = std::max(bytes, room(ssd_shape(span, input, heads)));
  return bytes;
}

at::Tensor ssd_forward(const SsdInput& input, const Documents& documents, const SsdPast& past) {
  const std::vector<Span>& spans = documents.spans();
  const at::Tensor y_NHV = made_like(input.x_NHV, covers_all(spans, input.x_NHV.size(0)));
  HONE_ASSERT(past.rows.empty() || past.state_RHKV.is_contiguous());
  cpu::with_type(input.x_NHV.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernels = cpu::ssd_forward<T>();
    const SsdInputRows<T> rows(input);
    const Heads<T> y(y_NHV, 0);
    W* const states = past.rows.empty() ? nullptr : past.state_RHKV.mutable_data_ptr<W>();
    const std::int64_t of_row = states ? past.state_RHKV.stride(0) : 0, of_head = states ? of_row / rows.cut.heads : 0;
    const auto work = [&](const DocumentJob& job, void* room) {
      const Span& span = spans[job.document];
      const std::int64_t head = rows.cut.first(job.head);
      kernels.run(ssd_shape(span, input, rows.cut.count(job.head)), rows.of(job.head, span.begin),
                  states ? states + past.rows[job.document] * of_row + head * of_head : nullptr,
                  y.rows(head, span.begin), y.head, room);
    };
    share_out_jobs(document_jobs(spans, rows.cut.jobs()), longest_ssd_room<T>(kernels.room, spans, input), work);
  });
  return y_NHV;
}

// What all shares of a group have for its B or C.
at::Tensor over_shares(const at::Tensor& made_SNGK, const at::Tensor& like) {
  return (made_SNGK.size(0) == 1 ? made_SNGK[0] : made_SNGK.sum(0)).to(like.scalar_type());
}

SsdInput ssd_backward(const at::Tensor& dy_NHV, const SsdInput& input, const Documents& documents) {
  const std::vector<Span>& spans = documents.spans();
  const bool covered = covers_all(spans, input.x_NHV.size(0));
  const HeadShares cut(input);
  const auto of_shares = [&](const at::Tensor& x_NGK) {
    const std::vector<std::int64_t> sizes{cut.shares, x_NGK.size(0), x_NGK.size(1), x_NGK.size(2)};
    return covered ? at::empty(sizes, input.step_NH.options()) : at::zeros(sizes, input.step_NH.options());
  };
  const at::Tensor dc_SNGK = of_shares(input.c_NGK), db_SNGK = of_shares(input.b_NGK);
  const at::Tensor dx_NHV = made_like(input.x_NHV, covered), ddecay_NH = made_like(input.decay_NH, covered),
                   dstep_NH = made_like(input.step_NH, covered), dskip_NH = made_like(input.step_NH, covered);
  cpu::with_type(input.x_NHV.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernels = cpu::ssd_backward<T>();
    const SsdInputRows<T> rows(input);
    const Heads<T> dy(dy_NHV, 0), dx(dx_NHV, 0);
    W *decay = ddecay_NH.mutable_data_ptr<W>(), *step = dstep_NH.mutable_data_ptr<W>(),
      *skip = dskip_NH.mutable_data_ptr<W>();
    const auto work = [&](const DocumentJob& job, void* room) {
      const Span& span = spans[job.document];
      const std::int64_t first = span.begin, head = cut.first(job.head), gate = rows.gate(job.head, first);
      const auto part = [&](const at::Tensor& x_SNGK) {
        return Heads<W>(x_SNGK.select(0, cut.share_of(job.head)), 0).rows(cut.group_of(job.head), first);
      };
      kernels.run(ssd_shape(span, input, cut.count(job.head)), rows.of(job.head, first), dy.read(head, first), dy.head,
                  {part(dc_SNGK), part(db_SNGK), dx.rows(head, first), dx.head, decay + gate, step + gate, skip + gate},
                  room);
    };
    share_out_jobs(document_jobs(spans, cut.jobs()), longest_ssd_room<T>(kernels.room, spans, input), work);
  });
  return {over_shares(dc_SNGK, input.c_NGK),
          over_shares(db_SNGK, input.b_NGK),
          dx_NHV,
          ddecay_NH,
          dstep_NH,
          dskip_NH.sum(0)};
}

// The rooms of the threads, and what shares have for B and C.
std::int64_t ssd_backward_room(const SsdInput& input, const Documents& documents) {
  const std::vector<Span>& spans = documents.counted_spans();
  const HeadShares cut(input);
  const std::int64_t workers = std::min<std::int64_t>(team_size(), std::ssize(spans) * cut.jobs());
  const std::int64_t parts = 2 * cut.shares * input.c_NGK.numel() + input.step_NH.numel();
  return cpu::with_type(input.x_NHV.scalar_type(), [&]<class T>(T) {
    return workers * longest_ssd_room<T>(cpu::ssd_backward<T>().room, spans, input) +
           parts * static_cast<std::int64_t>(sizeof(cpu::Wide<T>));
  });
}

}  // namespace

Backend::Ssd ssd() { return {ssd_forward, ssd_backward, ssd_backward_room}; }

}  // namespace hone::ops::cpu_table
