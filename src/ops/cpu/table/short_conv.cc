// The CPU's short convolutions: blocks of tokens are a thread's work, documents within them one after another.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <vector>

#include "ops/cpu/short_conv.h"
#include "ops/cpu/table/heads.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"
#include "ops/parallel.h"

namespace hone::ops::cpu_table {
namespace {

// Tokens of a block: so many share one row of sums for the weight's gradient, whatever documents they are of.
constexpr std::int64_t kTokensPerBlock = 256;
std::int64_t token_blocks(std::int64_t tokens) { return (tokens + kTokensPerBlock - 1) / kTokensPerBlock; }

// Calls visit(document, begin, end) for what each document has of a block.
template <class Visit>
void each_stretch(const std::vector<Span>& spans, std::int64_t block, Visit&& visit) {
  const std::int64_t first = block * kTokensPerBlock, last = first + kTokensPerBlock;
  auto span = std::partition_point(spans.begin(), spans.end(), [&](const Span& s) { return s.end <= first; });
  for (; span != spans.end() && span->begin < last; ++span)
    if (span->end > span->begin) visit(*span, std::max(span->begin, first), std::min(span->end, last));
}

at::Tensor turned(const at::Tensor& weight_CT) {
  return weight_CT.to(at::toOpMathType(weight_CT.scalar_type())).t().contiguous();
}

at::Tensor convolved(const at::Tensor& x_NC, const at::Tensor& weight_CT, const Documents& documents) {
  const std::vector<Span>& spans = documents.spans();
  const std::int64_t channels = x_NC.size(1);
  const at::Tensor y_NC = made_like(x_NC, covers_all(spans, x_NC.size(0))), weight_TC = turned(weight_CT);
  cpu::with_type(x_NC.scalar_type(), [&]<class T>(T) {
    const auto kernel = cpu::short_conv_kernels<T>().forward;
    const T* x = x_NC.const_data_ptr<T>();
    T* y = y_NC.mutable_data_ptr<T>();
    share_out(token_blocks(x_NC.size(0)), [&](std::int64_t block) {
      each_stretch(spans, block, [&](const Span& span, std::int64_t begin, std::int64_t end) {
        kernel({.x = x + begin * channels,
                .weight = weight_TC.const_data_ptr<cpu::Wide<T>>(),
                .tokens = end - begin,
                .channels = channels,
                .taps = weight_CT.size(1),
                .before = begin - span.begin,
                .y = y + begin * channels});
      });
    });
  });
  return y_NC;
}

ShortConvGradients convolved_backward(const at::Tensor& dy_NC, const at::Tensor& x_NC, const at::Tensor& weight_CT,
                                      const Documents& documents) {
  const std::vector<Span>& spans = documents.spans();
  const std::int64_t channels = x_NC.size(1), taps = weight_CT.size(1), blocks = token_blocks(x_NC.size(0));
  const at::Tensor weight_TC = turned(weight_CT), sums_BTC = at::zeros({blocks, taps, channels}, weight_TC.options());
  const at::Tensor dx_NC = made_like(x_NC, covers_all(spans, x_NC.size(0)));
  cpu::with_type(x_NC.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernel = cpu::short_conv_kernels<T>().backward;
    const T *x = x_NC.const_data_ptr<T>(), *dy = dy_NC.const_data_ptr<T>();
    T* dx = dx_NC.mutable_data_ptr<T>();
    W* sums = sums_BTC.mutable_data_ptr<W>();
    const auto with_room = [&] {
      return [&, room = std::vector<W>(taps * channels)](std::int64_t block) mutable {
        each_stretch(spans, block, [&](const Span& span, std::int64_t begin, std::int64_t end) {
          kernel({.dy = dy + begin * channels,
                  .x = x + begin * channels,
                  .weight = weight_TC.const_data_ptr<W>(),
                  .tokens = end - begin,
                  .channels = channels,
                  .taps = taps,
                  .before = begin - span.begin,
                  .after = span.end - end,
                  .dx = dx + begin * channels,
                  .dweight = sums + block * taps * channels,
                  .room = room.data()});
        });
      };
    };
    share_out_with(blocks, with_room);
  });
  return {dx_NC, sums_BTC.transpose(1, 2).reshape({blocks, channels * taps})};
}

}  // namespace

Backend::ShortConv short_conv() { return {convolved, convolved_backward}; }

}  // namespace hone::ops::cpu_table
