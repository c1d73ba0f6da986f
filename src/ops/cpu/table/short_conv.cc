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

// As kernels read them.
struct WideWeights {
  explicit WideWeights(const ShortConvWeights& given)
      : weight_TC(widened(given.weight_CT).t().contiguous()), bias_C(widened(given.bias_C)) {}
  template <class W>
  const W* bias() const {
    return bias_C.defined() ? bias_C.const_data_ptr<W>() : nullptr;
  }
  at::Tensor weight_TC, bias_C;

 private:
  static at::Tensor widened(const at::Tensor& x) { return x.defined() ? x.to(at::toOpMathType(x.scalar_type())) : x; }
};

at::Tensor convolved(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents) {
  const std::vector<Span>& spans = documents.spans();
  const std::int64_t channels = x_NC.size(1);
  const at::Tensor y_NC = made_like(x_NC, covers_all(spans, x_NC.size(0)));
  const WideWeights wide(weights);
  cpu::with_type(x_NC.scalar_type(), [&]<class T>(T) {
    const auto kernel = cpu::short_conv_kernels<T>().forward;
    const T* x = x_NC.const_data_ptr<T>();
    T* y = y_NC.mutable_data_ptr<T>();
    share_out(token_blocks(x_NC.size(0)), [&](std::int64_t block) {
      each_stretch(spans, block, [&](const Span& span, std::int64_t begin, std::int64_t end) {
        kernel({.x = x + begin * channels,
                .weight = wide.weight_TC.const_data_ptr<cpu::Wide<T>>(),
                .bias = wide.bias<cpu::Wide<T>>(),
                .silu = weights.silu,
                .tokens = end - begin,
                .channels = channels,
                .taps = wide.weight_TC.size(0),
                .before = begin - span.begin,
                .y = y + begin * channels});
      });
    });
  });
  return y_NC;
}

// A bias's sums lie behind those of the taps.
ShortConvGradients convolved_backward(const at::Tensor& dy_NC, const at::Tensor& x_NC, const ShortConvWeights& weights,
                                      const Documents& documents) {
  const std::vector<Span>& spans = documents.spans();
  const WideWeights wide(weights);
  const bool biased = wide.bias_C.defined();
  const std::int64_t channels = x_NC.size(1), taps = wide.weight_TC.size(0), blocks = token_blocks(x_NC.size(0));
  const at::Tensor sums_BTC = at::zeros({blocks, taps + biased, channels}, wide.weight_TC.options());
  const at::Tensor dx_NC = made_like(x_NC, covers_all(spans, x_NC.size(0)));
  cpu::with_type(x_NC.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernel = cpu::short_conv_kernels<T>().backward;
    const T *x = x_NC.const_data_ptr<T>(), *dy = dy_NC.const_data_ptr<T>();
    T* dx = dx_NC.mutable_data_ptr<T>();
    W* sums = sums_BTC.mutable_data_ptr<W>();
    const auto with_room = [&] {
      return [&, room = std::vector<W>(taps * channels)](std::int64_t block) mutable {
        W* own = sums + block * (taps + biased) * channels;
        each_stretch(spans, block, [&](const Span& span, std::int64_t begin, std::int64_t end) {
          kernel({.dy = dy + begin * channels,
                  .x = x + begin * channels,
                  .weight = wide.weight_TC.const_data_ptr<W>(),
                  .bias = wide.bias<W>(),
                  .silu = weights.silu,
                  .tokens = end - begin,
                  .channels = channels,
                  .taps = taps,
                  .before = begin - span.begin,
                  .after = span.end - end,
                  .dx = dx + begin * channels,
                  .dweight = own,
                  .dbias = biased ? own + taps * channels : nullptr,
                  .room = room.data()});
        });
      };
    };
    share_out_with(blocks, with_room);
  });
  const at::Tensor of_weight = sums_BTC.narrow(1, 0, taps).transpose(1, 2).reshape({blocks, channels * taps});
  return {dx_NC, of_weight.contiguous(), biased ? sums_BTC.select(1, taps).contiguous() : at::Tensor()};
}

}  // namespace

Backend::ShortConv short_conv() { return {convolved, convolved_backward}; }

}  // namespace hone::ops::cpu_table
