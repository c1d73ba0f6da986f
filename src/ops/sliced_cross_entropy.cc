// A head's loss by slices of the vocabulary: ranks tell each other of a token the largest logit, a sum of exponentials
// and the label's logit.
//
// Letters: M tokens of all ranks, S supervised ones, C of a chunk, D hidden, v words of this rank.
#include "ops/sliced_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/head_losses.h"
#include "ops/kept_sum.h"
#include "ops/matmul.h"
#include "ops/soft_cap.h"

namespace hone::ops {
namespace {

constexpr std::int64_t kFewestTokens = 512, kChunkBytes = 32 << 20;  // of logits

// The same on each rank.
std::int64_t chunk_of(const HeadSlice& slice) {
  const std::int64_t most = (slice.vocab + slice.ranks - 1) / slice.ranks;
  const auto item = static_cast<std::int64_t>(slice.head_vD.element_size());
  return std::max(kFewestTokens, kChunkBytes / (most * item));
}

// What ranks know of a chunk's tokens together.
struct Known {
  at::Tensor lse_C, label_C, mean_C, right_C;  // mean_C: of the logits, where that is asked for
};

// Where a label is one of this rank's words.
struct OwnLabels {
  at::Tensor has_C, place_C;  // place_C: 0 where it is not

  OwnLabels(const at::Tensor& labels_C, const HeadSlice& slice) {
    const at::Tensor place_of = labels_C - slice.first;
    has_C = place_of.ge(0).bitwise_and(place_of.lt(slice.head_vD.size(0)));
    place_C = place_of.masked_fill(has_C.bitwise_not(), 0);
  }
};

Known known_of(const at::Tensor& logits_Cv, const OwnLabels& own, const HeadSlice& slice, bool with_mean) {
  const at::Tensor most_C = slice.largest(logits_Cv.amax(1));
  const at::Tensor label_C =
      logits_Cv.gather(1, own.place_C.unsqueeze(1)).squeeze(1).masked_fill(own.has_C.bitwise_not(), 0);
  std::vector<at::Tensor> parts{(logits_Cv - most_C.unsqueeze(1)).exp().sum(1), label_C};
  if (with_mean) parts.push_back(logits_Cv.sum(1));
  const at::Tensor all = slice.total(at::stack(parts));
  Known known{all[0].log() + most_C, all[1], {}, all[1].ge(most_C).to(logits_Cv.scalar_type())};
  if (with_mean) known.mean_C = all[2] / static_cast<double>(slice.vocab);
  return known;
}

at::Tensor losses_of(const Known& known, const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  at::Tensor loss_C = (1 - smoothing) * (known.lse_C - known.label_C) + options.z_loss * known.lse_C.square();
  if (smoothing != 0) loss_C = loss_C + smoothing * (known.lse_C - known.mean_C);
  return loss_C;
}

// Of weight * loss by this rank's logits, as they were capped.
at::Tensor gradient_of(const at::Tensor& logits_Cv, const Known& known, const OwnLabels& own,
                       const at::Tensor& weight_C, const HeadSlice& slice, const CrossEntropyOptions& options) {
  const at::Tensor factor_C = 1 + 2 * options.z_loss * known.lse_C;
  at::Tensor made_Cv = (logits_Cv - known.lse_C.unsqueeze(1)).exp_().mul_((factor_C * weight_C).unsqueeze(1));
  if (const double smoothing = options.label_smoothing; smoothing != 0)
    made_Cv.sub_((weight_C * (smoothing / static_cast<double>(slice.vocab))).unsqueeze(1));
  const at::Tensor at_label_C = (weight_C * (options.label_smoothing - 1)).masked_fill(own.has_C.bitwise_not(), 0);
  return made_Cv.scatter_add_(1, own.place_C.unsqueeze(1), at_label_C.unsqueeze(1));
}

// Where this rank's part of gradients goes; undefined: not wanted.
struct Wanted {
  at::Tensor dhidden_SD, dhead_vD, dbias_v;
  bool any() const { return dhidden_SD.defined() || dhead_vD.defined() || dbias_v.defined(); }
};

struct Losses {
  at::Tensor weighted_S, right_S, lse_S;
};

Losses losses_by_chunks(const at::Tensor& hidden_SD, const HeadSlice& slice, const Supervised& s,
                        const CrossEntropyOptions& options, const Wanted& wanted) {
  const sections::Timed section(sections::Section::loss);
  const at::Tensor head_vD = slice.head_vD.contiguous();
  const std::int64_t count = hidden_SD.size(0), step = chunk_of(slice);
  const at::Tensor made_3S = at::empty({3, count}, s.weight_S.options());
  if (wanted.dhead_vD.defined() && count == 0) wanted.dhead_vD.zero_();
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t size = std::min(step, count - begin);
    const auto chunk = [&](const at::Tensor& all) { return all.narrow(0, begin, size); };
    const at::Tensor hidden_CD = chunk(hidden_SD), weight_C = chunk(s.weight_S);
    at::Tensor made_Cv = at::empty({size, head_vD.size(0)}, head_vD.options());
    matmul_into(made_Cv, {{hidden_CD, head_vD.t()}});
    if (slice.bias_v.defined()) made_Cv.add_(slice.bias_v);
    at::Tensor logits_Cv = made_Cv.to(s.weight_S.scalar_type()), slope_Cv;
    if (options.soft_cap > 0) {
      if (wanted.any()) slope_Cv = at::empty_like(logits_Cv);
      soft_cap_in_place(logits_Cv, options.soft_cap, slope_Cv);
    }
    const OwnLabels own(chunk(s.labels_S), slice);
    const Known known = known_of(logits_Cv, own, slice, options.label_smoothing != 0);
    const at::Tensor factor_C =
        options.by_probability ? weight_C * (known.label_C - known.lse_C).exp() : weight_C;
    const at::Tensor to_3C = made_3S.narrow(1, begin, size);
    to_3C[0].copy_(losses_of(known, options) * factor_C);
    to_3C[1].copy_(known.right_C), to_3C[2].copy_(known.lse_C);
    if (!wanted.any()) continue;
    at::Tensor wide_Cv = gradient_of(logits_Cv, known, own, factor_C, slice, options);
    if (slope_Cv.defined()) wide_Cv.mul_(slope_Cv);
    if (wanted.dbias_v.defined()) wanted.dbias_v.add_(wide_Cv.sum(0));
    const at::Tensor gradient_Cv = wide_Cv.to(head_vD.scalar_type());
    if (at::Tensor to = wanted.dhidden_SD; to.defined()) {
      to = chunk(to);
      matmul_into(to, {{gradient_Cv, head_vD}});
    }
    if (at::Tensor to = wanted.dhead_vD; to.defined()) matmul_into(to, {{gradient_Cv.t(), hidden_CD}}, begin > 0);
  }
  return {made_3S[0], made_3S[1], made_3S[2]};
}

class SlicedCrossEntropy : public torch::autograd::Function<SlicedCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& hidden_SD,
                            const at::Tensor& head_vD, const std::optional<at::Tensor>& bias_v, const HeadSlice& slice,
                            const Supervised& s, const CrossEntropyOptions& options, bool with_gradients,
                            Losses* losses) {
    const auto wide = s.weight_S.scalar_type();
    Wanted wanted;
    bool lent = false;
    if (with_gradients && hidden_SD.requires_grad()) wanted.dhidden_SD = at::empty_like(hidden_SD);
    if (with_gradients && head_vD.requires_grad()) {
      lent = options.head_sum && options.head_sum->state == GradientSum::State::empty;
      if (lent) options.head_sum->state = GradientSum::State::lent;
      wanted.dhead_vD = lent ? options.head_sum->sum : at::empty(head_vD.sizes(), head_vD.options().dtype(wide));
    }
    if (with_gradients && bias_v && bias_v->requires_grad()) wanted.dbias_v = at::zeros_like(*bias_v, wide);
    *losses = losses_by_chunks(hidden_SD, slice, s, options, wanted);
    ctx->saved_data["dhidden"] = wanted.dhidden_SD;
    ctx->saved_data["dhead"] = wanted.dhead_vD;
    ctx->saved_data["dbias"] = wanted.dbias_v;
    ctx->saved_data["lent"] = lent;
    ctx->saved_data["type"] = static_cast<std::int64_t>(head_vD.scalar_type());
    ctx->saved_data["sum"] = to_number(options.head_sum);
    return own_of(losses->weighted_S, s, slice).sum();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::NoGradGuard no_grad;
    const at::Tensor by = grads[0];
    const auto type = static_cast<at::ScalarType>(ctx->saved_data["type"].toInt());
    const auto scaled = [&](const at::Tensor& x) {
      return x.defined() ? (x.to(by.scalar_type()) * by).to(type) : x;
    };
    auto* sum = to_sum(ctx->saved_data["sum"].toInt());
    at::Tensor dhead = saved(ctx, "dhead");
    const bool lent = ctx->saved_data["lent"].toBool(), summed = lent || (sum && sum->takes() && dhead.defined());
    if (summed) {
      dhead.mul_(by);
      if (!lent) sum->full() ? sum->sum.add_(dhead) : sum->sum.copy_(dhead);
      sum->fill();
    }
    return {scaled(saved(ctx, "dhidden")), summed ? at::Tensor() : scaled(dhead), scaled(saved(ctx, "dbias")),
            at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }

  // Of what the supervised tokens have, that of this rank's ones; 0 of others'.
  static at::Tensor own_of(const at::Tensor& x_S, const Supervised& s, const HeadSlice& slice) {
    const at::Tensor others_S = s.index_S.lt(slice.begin).bitwise_or(s.index_S.ge(slice.end));
    return x_S.masked_fill(others_S, 0);
  }

 private:
  static at::Tensor saved(torch::autograd::AutogradContext* ctx, const char* name) {
    const c10::IValue& value = ctx->saved_data[name];  // not there: none
    return value.isTensor() ? value.toTensor() : at::Tensor();
  }
};

}  // namespace

at::Tensor sliced_cross_entropy(const at::Tensor& hidden_MD, const HeadSlice& slice, const at::Tensor& labels_M,
                                const at::Tensor& weight_M, const CrossEntropyOptions& options, LossSums* sums) {
  HONE_ASSERT(!options.teacher && options.by_entropy_of == 0 && !options.bias);
  const auto wide = at::toOpMathType(slice.head_vD.scalar_type());
  const Supervised s = supervised(labels_M, weight_M, slice.vocab, wide);
  const bool all = s.index_S.numel() == hidden_MD.size(0);
  Losses losses;
  const at::Tensor loss = SlicedCrossEntropy::apply(
      all ? hidden_MD : hidden_MD.index_select(0, s.index_S), slice.head_vD,
      slice.bias_v.defined() ? std::optional(slice.bias_v) : std::nullopt, slice, s, options,
      at::GradMode::is_enabled(), &losses);
  if (!sums) return loss;
  const at::Tensor weight_S = SlicedCrossEntropy::own_of(s.weight_S, s, slice);
  *sums = {weight_S.sum(), (losses.right_S * weight_S).sum(),
           options.z_loss * (losses.lse_S.square() * weight_S).sum()};
  return loss;
}

}  // namespace hone::ops
