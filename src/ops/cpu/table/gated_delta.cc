// The CPU's memories that are corrected: one head of queries and keys of one document, with its heads of values, is a
// thread's work from its begin to its end.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>

#include "hone/error.h"
#include "ops/cpu/products/gated_delta.h"
#include "ops/cpu/table/document_jobs.h"
#include "ops/cpu/table/heads.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"

namespace hone::ops::cpu_table {
namespace {

cpu::DeltaShape delta_shape(const Span& span, const DeltaInput& input) {
  return {span.end - span.begin, input.q_NGK.size(2), input.v_NHV.size(2), input.v_NHV.size(1) / input.q_NGK.size(1)};
}

// Of one head of queries and keys of a document.
template <class T>
struct DeltaInputRows {
  explicit DeltaInputRows(const DeltaInput& input)
      : q(input.q_NGK, 0),
        k(input.k_NGK, 0),
        v(input.v_NHV, 0),
        decay(input.decay_NH.const_data_ptr<cpu::Wide<T>>()),
        step(input.step_NH.const_data_ptr<cpu::Wide<T>>()),
        heads(input.v_NHV.size(1)),
        group(heads / input.q_NGK.size(1)) {}
  std::int64_t gate(std::int64_t head, std::int64_t first) const { return first * heads + head * group; }
  cpu::DeltaRows<T> of(std::int64_t head, std::int64_t first) const {
    return {q.read(head, first),
            k.read(head, first),
            v.read(head * group, first),
            v.head,
            decay + gate(head, first),
            step + gate(head, first),
            heads};
  }
  const Heads<T> q, k, v;
  const cpu::Wide<T>*const decay, *const step;
  const std::int64_t heads, group;
};

template <class T>
std::int64_t longest_delta_room(std::int64_t (*room)(const cpu::DeltaShape&), const std::vector<Span>& spans,
                                const DeltaInput& input) {
  std::int64_t bytes = 0;
  for (const Span& span : spans) bytes = std::max(bytes, room(delta_shape(span, input)));
  return bytes;
}

at::Tensor delta_forward(const DeltaInput& input, const Documents& documents, const DeltaPast& past) {
  const std::vector<Span>& spans = documents.spans();
  const at::Tensor y_NHV = made_like(input.v_NHV, covers_all(spans, input.v_NHV.size(0)));
  HONE_ASSERT(past.rows.empty() || past.memory_RHKV.is_contiguous());
  cpu::with_type(input.v_NHV.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernels = cpu::delta_forward<T>();
    const DeltaInputRows<T> rows(input);
    const Heads<T> y(y_NHV, 0);
    W* const memories = past.rows.empty() ? nullptr : past.memory_RHKV.mutable_data_ptr<W>();
    const std::int64_t of_row = memories ? past.memory_RHKV.stride(0) : 0, of_head = memories ? of_row / rows.heads : 0;
    const auto work = [&](const DocumentJob& job, void* room) {
      const Span& span = spans[job.document];
      W* memory = memories ? memories + past.rows[job.document] * of_row + job.head * rows.group * of_head : nullptr;
      kernels.run(delta_shape(span, input), rows.of(job.head, span.begin), memory,
                  y.rows(job.head * rows.group, span.begin), y.head, room);
    };
    share_out_jobs(document_jobs(spans, input.q_NGK.size(1)), longest_delta_room<T>(kernels.room, spans, input), work);
  });
  return y_NHV;
}

DeltaInput delta_backward(const at::Tensor& dy_NHV, const DeltaInput& input, const Documents& documents) {
  const std::vector<Span>& spans = documents.spans();
  const bool covered = covers_all(spans, input.v_NHV.size(0));
  DeltaInput made{made_like(input.q_NGK, covered), made_like(input.k_NGK, covered), made_like(input.v_NHV, covered),
                  made_like(input.decay_NH, covered), made_like(input.step_NH, covered)};
  cpu::with_type(input.v_NHV.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernels = cpu::delta_backward<T>();
    const DeltaInputRows<T> rows(input);
    const Heads<T> dy(dy_NHV, 0), dq(made.q_NGK, 0), dk(made.k_NGK, 0), dv(made.v_NHV, 0);
    W *decay = made.decay_NH.mutable_data_ptr<W>(), *step = made.step_NH.mutable_data_ptr<W>();
    const auto work = [&](const DocumentJob& job, void* room) {
      const Span& span = spans[job.document];
      const std::int64_t head = job.head, first = span.begin, gate = rows.gate(head, first);
      kernels.run(delta_shape(span, input), rows.of(head, first), dy.read(head * rows.group, first), dy.head,
                  {dq.rows(head, first), dk.rows(head, first), dv.rows(head * rows.group, first), dv.head, decay + gate,
                   step + gate},
                  room);
    };
    share_out_jobs(document_jobs(spans, input.q_NGK.size(1)), longest_delta_room<T>(kernels.room, spans, input), work);
  });
  return made;
}

std::int64_t delta_backward_room(const DeltaInput& input, const Documents& documents) {
  const std::vector<Span>& spans = documents.counted_spans();
  const std::int64_t workers = std::min<std::int64_t>(team_size(), std::ssize(spans) * input.q_NGK.size(1));
  return cpu::with_type(input.v_NHV.scalar_type(), [&]<class T>(T) {
    return workers * longest_delta_room<T>(cpu::delta_backward<T>().room, spans, input);
  });
}

}  // namespace

Backend::GatedDelta gated_delta() { return {delta_forward, delta_backward, delta_backward_room}; }

}  // namespace hone::ops::cpu_table
