// The CPU's state spaces of channels: some channels of one document, or of a few behind one another, are a thread's
// work.
//
// Letters: N tokens, C channels, K states of a channel, S shares of the channels, P parts of the documents.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>

#include "hone/error.h"
#include "ops/cpu/selective_scan.h"
#include "ops/cpu/table/document_jobs.h"
#include "ops/cpu/table/heads.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"

namespace hone::ops::cpu_table {
namespace {

// Channels of a job: few enough that there is work for all threads, in at most so many shares, each of which has
// gradients of its own for b and c. By constants alone: sums over shares do not depend on threads.
constexpr std::int64_t kLeastChannels = 64, kMostShares = 32;
// Parts of the documents, whose gradients of rates are added up behind.
constexpr std::int64_t kParts = 8;

struct ChannelShares {
  explicit ChannelShares(std::int64_t all)
      : channels(all),
        size((all + kMostShares * kLeastChannels - 1) / (kMostShares * kLeastChannels) * kLeastChannels) {}
  std::int64_t count() const { return (channels + size - 1) / size; }
  std::int64_t first(std::int64_t share) const { return share * size; }
  std::int64_t in(std::int64_t share) const { return std::min(size, channels - first(share)); }
  const std::int64_t channels, size;
};

// As kernels read it.
struct WideScan {
  explicit WideScan(const ScanInput& given)
      : in(given), b_NK(widened(given.b_NK)), c_NK(widened(given.c_NK)), rate_KC(given.rate_CK.t().contiguous()) {}
  template <class T>
  cpu::ScanArgs<T> of(const Span& span, const ChannelShares& cut, std::int64_t share) const {
    using W = cpu::Wide<T>;
    const std::int64_t states = b_NK.size(1), first = cut.first(share), at = span.begin * cut.channels + first;
    return {.x = in.x_NC.const_data_ptr<T>() + at,
            .step = in.step_NC.const_data_ptr<W>() + at,
            .b = b_NK.const_data_ptr<W>() + span.begin * states,
            .c = c_NK.const_data_ptr<W>() + span.begin * states,
            .rate = rate_KC.const_data_ptr<W>() + first,
            .skip = in.skip_C.const_data_ptr<W>() + first,
            .tokens = span.end - span.begin,
            .channels = cut.in(share),
            .all_channels = cut.channels,
            .states = states};
  }
  static at::Tensor widened(const at::Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())).contiguous(); }
  const ScanInput& in;
  const at::Tensor b_NK, c_NK, rate_KC;
};

at::Tensor scan_forward(const ScanInput& input, const Documents& documents, const ScanPast& past) {
  const std::vector<Span>& spans = documents.spans();
  const at::Tensor y_NC = made_like(input.x_NC, covers_all(spans, input.x_NC.size(0)));
  HONE_ASSERT(past.rows.empty() || past.state_RKC.is_contiguous());
  const ChannelShares cut(input.x_NC.size(1));
  const WideScan wide(input);
  cpu::with_type(input.x_NC.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernels = cpu::scan_kernels<T>();
    T* y = y_NC.mutable_data_ptr<T>();
    W* const states = past.rows.empty() ? nullptr : past.state_RKC.mutable_data_ptr<W>();
    const std::int64_t of_row = states ? past.state_RKC.stride(0) : 0;
    const auto work = [&](const DocumentJob& job, void* room) {
      const Span& span = spans[job.document];
      const std::int64_t first = cut.first(job.head);
      kernels.forward(wide.of<T>(span, cut, job.head),
                      states ? states + past.rows[job.document] * of_row + first : nullptr,
                      y + span.begin * cut.channels + first, room);
    };
    share_out_jobs(document_jobs(spans, cut.count()), kernels.room(wide.of<T>({}, cut, 0)), work);
  });
  return y_NC;
}

// Documents by where they begin, for `kParts` jobs of each share of the channels.
std::vector<std::vector<Span>> parts_of(const std::vector<Span>& spans, std::int64_t tokens) {
  std::vector<std::vector<Span>> parts;
  std::int64_t last = -1;
  for (const Span& span : spans) {
    if (span.end <= span.begin) continue;
    if (const std::int64_t part = span.begin * kParts / tokens; part != last) parts.emplace_back(), last = part;
    parts.back().push_back(span);
  }
  return parts;
}

template <class T>
std::int64_t longest_scan_room(const WideScan& wide, const ChannelShares& cut, const std::vector<Span>& spans) {
  Span longest;
  for (const Span& span : spans)
    if (span.end - span.begin > longest.end - longest.begin) longest = span;
  return cpu::scan_kernels<T>().backward_room(wide.of<T>({0, longest.end - longest.begin}, cut, 0));
}

ScanInput scan_backward(const at::Tensor& dy_NC, const ScanInput& input, const Documents& documents) {
  const std::vector<Span>& spans = documents.spans();
  const auto parts = parts_of(spans, input.x_NC.size(0));
  const std::int64_t tokens = input.x_NC.size(0), states = input.b_NK.size(1);
  const bool covered = covers_all(spans, tokens);
  const ChannelShares cut(input.x_NC.size(1));
  const WideScan wide(input);
  const at::Tensor dx_NC = made_like(input.x_NC, covered), dstep_NC = made_like(input.step_NC, covered);
  const auto of_shares = [&] {
    const std::vector<std::int64_t> sizes{cut.count(), tokens, states};
    return covered ? at::empty(sizes, input.step_NC.options()) : at::zeros(sizes, input.step_NC.options());
  };
  const at::Tensor db_SNK = of_shares(), dc_SNK = of_shares();
  const at::Tensor of_rates_PKC = at::zeros({std::ssize(parts), states + 1, cut.channels}, input.step_NC.options());
  cpu::with_type(input.x_NC.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernel = cpu::scan_kernels<T>().backward;
    const T* dy = dy_NC.const_data_ptr<T>();
    T* dx = dx_NC.mutable_data_ptr<T>();
    W *dstep = dstep_NC.mutable_data_ptr<W>(), *db = db_SNK.mutable_data_ptr<W>(), *dc = dc_SNK.mutable_data_ptr<W>(),
      *rates = of_rates_PKC.mutable_data_ptr<W>();
    const std::int64_t bytes = longest_scan_room<T>(wide, cut, spans), jobs = std::ssize(parts) * cut.count();
    share_out_with(jobs, [&] {
      return [&, room = std::make_shared<WorkRoom>(bytes)](std::int64_t job) {
        const std::int64_t part = job / cut.count(), share = job % cut.count(), first = cut.first(share);
        W* rate = rates + part * of_rates_PKC.stride(0) + first;
        for (const Span& span : parts[part]) {
          const std::int64_t at = span.begin * cut.channels + first, of_states = (share * tokens + span.begin) * states;
          kernel(wide.of<T>(span, cut, share), dy + at,
                 {dx + at, dstep + at, db + of_states, dc + of_states, rate, rate + states * cut.channels}, room->at());
        }
      };
    });
  });
  const at::Tensor of_rates_KC = of_rates_PKC.sum(0);
  return {dx_NC,
          dstep_NC,
          of_rates_KC.narrow(0, 0, states).t().contiguous(),
          db_SNK.sum(0).to(input.b_NK.scalar_type()),
          dc_SNK.sum(0).to(input.c_NK.scalar_type()),
          of_rates_KC.select(0, states).contiguous()};
}

// The rooms of the threads, what shares and parts have, and b and c as kernels read them.
std::int64_t scan_backward_room(const ScanInput& input, const Documents& documents) {
  const std::vector<Span>& spans = documents.counted_spans();
  const ChannelShares cut(input.x_NC.size(1));
  const std::int64_t tokens = input.x_NC.size(0), states = input.b_NK.size(1);
  const std::int64_t parts = std::ssize(parts_of(spans, tokens));
  const std::int64_t workers = std::min<std::int64_t>(team_size(), parts * cut.count());
  const std::int64_t numbers =
      2 * (cut.count() + 1) * tokens * states + (parts + 2) * (states + 1) * cut.channels;
  std::int64_t longest = 0;
  for (const Span& span : spans) longest = std::max(longest, span.end - span.begin);
  return cpu::with_type(input.x_NC.scalar_type(), [&]<class T>(T) {
    const cpu::ScanArgs<T> sizes{
        .tokens = longest, .channels = cut.in(0), .all_channels = cut.channels, .states = states};
    return workers * cpu::scan_kernels<T>().backward_room(sizes) +
           numbers * static_cast<std::int64_t>(sizeof(cpu::Wide<T>));
  });
}

}  // namespace

Backend::SelectiveScan selective_scan() { return {scan_forward, scan_backward, scan_backward_room}; }

}  // namespace hone::ops::cpu_table
