// The CPU's matrix memories: one head of one document is a thread's work from its begin to its end.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>

#include "hone/error.h"
#include "ops/cpu/products/mlstm.h"
#include "ops/cpu/table/document_jobs.h"
#include "ops/cpu/table/heads.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"

namespace hone::ops::cpu_table {
namespace {

cpu::MlstmShape shape_of(const Span& span, const MlstmInput& input, double eps) {
  return {span.end - span.begin, input.q_NHK.size(2), input.v_NHV.size(2), eps};
}

// Of one head of a document.
template <class T>
struct InputRows {
  explicit InputRows(const MlstmInput& input)
      : q(input.q_NHK, 0),
        k(input.k_NHK, 0),
        v(input.v_NHV, 0),
        input_gate(input.input_NH.const_data_ptr<cpu::Wide<T>>()),
        forget_gate(input.forget_NH.const_data_ptr<cpu::Wide<T>>()),
        heads(input.q_NHK.size(1)) {}
  cpu::MlstmRows<T> of(std::int64_t head, std::int64_t first) const {
    const std::int64_t gate = first * heads + head;
    return {q.read(head, first), k.read(head, first), v.read(head, first),
            input_gate + gate,   forget_gate + gate,  heads};
  }
  const Heads<T> q, k, v;
  const cpu::Wide<T>*const input_gate, *const forget_gate;
  const std::int64_t heads;
};

// What rows of a cache hold, dense in each row.
template <class T>
struct Memories {
  using W = cpu::Wide<T>;
  explicit Memories(const MlstmPast& past) : rows(past.rows) {
    if (rows.empty()) return;
    const auto& [v, k, m_RH] = past.memory;
    HONE_ASSERT(v.is_contiguous() && k.is_contiguous() && m_RH.is_contiguous());
    heads = v.size(1), key_size = v.size(2), value_size = v.size(3);
    values = v.mutable_data_ptr<W>(), keys = k.mutable_data_ptr<W>(), m = m_RH.mutable_data_ptr<W>();
  }
  cpu::MlstmState<T> of(const DocumentJob& job) const {
    if (rows.empty()) return {};
    const std::int64_t head = rows[job.document] * heads + job.head;
    return {values + head * key_size * value_size, keys + head * key_size, m + head};
  }
  const std::vector<std::int64_t>& rows;
  std::int64_t heads = 0, key_size = 0, value_size = 0;
  W *values = nullptr, *keys = nullptr, *m = nullptr;
};

template <class T>
std::int64_t longest_room(std::int64_t (*room)(const cpu::MlstmShape&), const std::vector<Span>& spans,
                          const MlstmInput& input) {
  std::int64_t bytes = 0;
  for (const Span& span : spans) bytes = std::max(bytes, room(shape_of(span, input, 0)));
  return bytes;
}

MlstmMade forward(const MlstmInput& input, const Documents& documents, double eps, const MlstmPast& past) {
  const std::vector<Span>& spans = documents.spans();
  const std::int64_t tokens = input.q_NHK.size(0), heads = input.q_NHK.size(1);
  MlstmMade made{made_like(input.v_NHV, covers_all(spans, tokens)),
                 at::empty({heads, tokens}, input.input_NH.options())};
  cpu::with_type(input.q_NHK.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::mlstm_forward<T>();
    const InputRows<T> rows(input);
    const Heads<T> h(made.h_NHV, 0);
    const Memories<T> memories(past);
    auto* divisor = made.divisor_HN.mutable_data_ptr<cpu::Wide<T>>();
    const auto work = [&](const DocumentJob& job, void* room) {
      const Span& span = spans[job.document];
      kernels.run(shape_of(span, input, eps), rows.of(job.head, span.begin), memories.of(job),
                  {h.rows(job.head, span.begin), divisor + job.head * tokens + span.begin}, room);
    };
    share_out_jobs(document_jobs(spans, heads), longest_room<T>(kernels.room, spans, input), work);
  });
  return made;
}

MlstmInput backward(const at::Tensor& dh_NHV, const MlstmSaved& saved, const Documents& documents, double eps) {
  const std::vector<Span>& spans = documents.spans();
  const MlstmInput& input = saved.input;
  const std::int64_t tokens = input.q_NHK.size(0), heads = input.q_NHK.size(1);
  const bool covered = covers_all(spans, tokens);
  MlstmInput made{made_like(input.q_NHK, covered), made_like(input.k_NHK, covered), made_like(input.v_NHV, covered),
                  made_like(input.input_NH, covered), made_like(input.forget_NH, covered)};
  cpu::with_type(dh_NHV.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernels = cpu::mlstm_backward<T>();
    const InputRows<T> rows(input);
    const Heads<T> h(saved.made.h_NHV, 0), dh(dh_NHV, 0), dq(made.q_NHK, 0), dk(made.k_NHK, 0), dv(made.v_NHV, 0);
    const W* divisor = saved.made.divisor_HN.const_data_ptr<W>();
    W *input_gate = made.input_NH.mutable_data_ptr<W>(), *forget_gate = made.forget_NH.mutable_data_ptr<W>();
    const auto work = [&](const DocumentJob& job, void* room) {
      const Span& span = spans[job.document];
      const std::int64_t head = job.head, first = span.begin, gate = first * heads + head;
      kernels.run(
          shape_of(span, input, eps), rows.of(head, first),
          {h.read(head, first), dh.read(head, first), divisor + head * tokens + first},
          {dq.rows(head, first), dk.rows(head, first), dv.rows(head, first), input_gate + gate, forget_gate + gate},
          room);
    };
    share_out_jobs(document_jobs(spans, heads), longest_room<T>(kernels.room, spans, input), work);
  });
  return made;
}

std::int64_t backward_room(const MlstmInput& input, const Documents& documents) {
  const std::vector<Span>& spans = documents.counted_spans();
  const std::int64_t workers = std::min<std::int64_t>(team_size(), std::ssize(spans) * input.q_NHK.size(1));
  return cpu::with_type(input.q_NHK.scalar_type(), [&]<class T>(T) {
    return workers * longest_room<T>(cpu::mlstm_backward<T>().room, spans, input);
  });
}

}  // namespace

Backend::Mlstm mlstm() { return {forward, backward, backward_room}; }

}  // namespace hone::ops::cpu_table
