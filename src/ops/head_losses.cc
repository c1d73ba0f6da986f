// The logits of a language-model head chunk by chunk, with losses and gradients.
#include "ops/head_losses.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/divergence.h"
#include "ops/entropy.h"
#include "ops/matmul.h"
#include "ops/soft_cap.h"
#include "ops/stored_divergence.h"

namespace hone::ops {
namespace {

// Of a chunk at least; of large vocabularies that is more than a cache holds, as each chunk adds to all of the head's
// gradient.
constexpr std::int64_t kChunkTokens = 512;
// Of a head that is kept rearranged beside itself for several chunks, twice. Larger ones are rearranged as they are
// multiplied: for so many tokens that takes little time, and less memory.
constexpr std::int64_t kKeptBytes = 64 << 20;
bool is_kept(const at::Tensor& head_VD) {
  return head_VD.numel() * static_cast<std::int64_t>(head_VD.element_size()) <= kKeptBytes;
}

// A right factor of several products, or of each on its own.
class HeadFactor {
 public:
  HeadFactor(const at::Tensor& b_KN, bool keep) : b_KN_(b_KN), kept_(b_KN), keep_(keep) {}
  void multiply_into(at::Tensor& out_MN, const at::Tensor& a_MK) {
    keep_ ? kept_.multiply_into(out_MN, a_MK) : matmul_into(out_MN, {{a_MK, b_KN_}});
  }

 private:
  at::Tensor b_KN_;
  RightFactor kept_;
  bool keep_;
};

// The teacher's logits chunk by chunk, or what it has said beforehand.
class TeacherChunks {
 public:
  TeacherChunks(const Teacher& teacher, std::int64_t step, bool several) : teacher_(teacher) {
    if (teacher.said) return;
    hidden_SE_ = teacher.hidden_NE.contiguous();
    room_ = at::empty({step, teacher.head_VE.size(0)}, teacher.head_VE.options());
    to_logits_.emplace(teacher.head_VE.t(), several && is_kept(teacher.head_VE));
  }
  void loss(at::Tensor& logits_CV, std::int64_t begin, const LossTargets& targets, bool gradient, at::Tensor& losses_C,
            at::Tensor& statistics_C4) {
    if (teacher_.said) {
      const Said said = teacher_.said->of(begin, logits_CV.size(0));
      return stored_loss(logits_CV, said, targets, gradient, teacher_, losses_C, statistics_C4);
    }
    at::Tensor made_CV = room_.narrow(0, 0, logits_CV.size(0));
    to_logits_->multiply_into(made_CV, hidden_SE_.narrow(0, begin, logits_CV.size(0)));
    if (teacher_.soft_cap > 0) soft_cap_in_place(made_CV, teacher_.soft_cap);
    taught_loss(logits_CV, made_CV, targets, gradient, teacher_, losses_C, statistics_C4);
  }

 private:
  const Teacher& teacher_;
  at::Tensor hidden_SE_, room_;
  std::optional<HeadFactor> to_logits_;
};

// As few chunks as there may be, of the same size.
std::int64_t chunk_of(std::int64_t tokens, std::int64_t most) {
  const std::int64_t chunks = std::max<std::int64_t>(1, (tokens + most - 1) / most);
  return std::max<std::int64_t>(1, (tokens + chunks - 1) / chunks);
}

// A token's weight, by how uncertain the model is there.
at::Tensor by_entropy(const at::Tensor& weight_C, const at::Tensor& logits_CV, const CrossEntropyOptions& options) {
  const at::Tensor entropy_C = entropy_of_likeliest(logits_CV, options.by_entropy_of);
  return (weight_C * entropy_C.pow(options.entropy_power)).masked_fill(weight_C == 0, 0);
}

void check_labels(const at::Tensor& labels_S, std::int64_t vocab) {
  if (labels_S.numel() == 0) return;
  const auto [low, high] = at::aminmax(labels_S);
  for (const std::int64_t label : {low.item<std::int64_t>(), high.item<std::int64_t>()})
    if (label < 0 || label >= vocab)
      throw Error(ErrorKind::data,
                  fmt::format("label {}: outside the model's vocabulary; expected -100 or 0 to {}", label, vocab - 1));
}

}  // namespace

Supervised supervised(const at::Tensor& labels_N, const at::Tensor& weight_N, std::int64_t vocab, at::ScalarType type) {
  const at::Tensor labels = labels_N.flatten();
  // On the meta device nobody knows them: all but one, as a text's last token has none.
  const at::Tensor index = labels.is_meta() ? labels.narrow(0, 0, std::max<std::int64_t>(0, labels.numel() - 1))
                                            : at::nonzero(labels != kIgnoreIndex).squeeze(1);
  Supervised made{index, labels.index_select(0, index), {}};
  if (!labels.is_meta()) check_labels(made.labels_S, vocab);
  made.weight_S = weight_N.defined() ? weight_N.flatten().index_select(0, index).to(type)
                                     : at::ones({index.numel()}, labels.options().dtype(type));
  return made;
}

Supervised all_of(const at::Tensor& labels_N, const at::Tensor& weight_N, std::int64_t vocab, at::ScalarType type) {
  const at::Tensor labels = labels_N.flatten(), none = labels == kIgnoreIndex;
  const at::Tensor weight =
      weight_N.defined() ? weight_N.flatten().to(type) : at::ones({labels.numel()}, labels.options().dtype(type));
  Supervised made{{}, labels.masked_fill(none, 0), weight.masked_fill(none, 0)};
  if (labels.is_cpu()) check_labels(made.labels_S, vocab);
  return made;
}

HeadLosses head_losses(const at::Tensor& given_SD, const at::Tensor& given_VD, const LossTargets& targets,
                       const CrossEntropyOptions& options, HeadGradients& wanted, at::Tensor statistics_S4) {
  const sections::Timed section(sections::Section::loss);
  const at::Tensor hidden_SD = given_SD.contiguous(), head_VD = given_VD.contiguous();
  const auto wide = at::toOpMathType(head_VD.scalar_type());
  const std::int64_t count = hidden_SD.size(0), vocab = head_VD.size(0);
  const auto item = static_cast<std::int64_t>(head_VD.element_size());
  const std::int64_t bytes = backend_of(head_VD).sums.chunk_bytes();
  const std::int64_t step = chunk_of(count, std::max(kChunkTokens, bytes / (vocab * item)));
  const bool keep = count > step && is_kept(head_VD);
  HeadLosses made{at::empty({count}, head_VD.options().dtype(wide).requires_grad(false)), {}};
  if (wanted.hidden) made.dhidden_SD = at::empty_like(hidden_SD);
  if (wanted.dhead_VD.defined() && count == 0 && !wanted.add) wanted.dhead_VD.zero_();
  at::Tensor room = at::empty({std::min(step, count), vocab}, head_VD.options()), slopes;
  if (options.soft_cap > 0 && wanted.any()) slopes = at::empty_like(room);
  HeadFactor to_logits(head_VD.t(), keep), to_hidden(head_VD, keep);
  CrossEntropyOptions for_table = options;
  for_table.by_entropy_of = 0;  // it is in the weights
  std::optional<TeacherChunks> taught;
  if (options.teacher && count > 0) taught.emplace(*options.teacher, std::min(step, count), count > step);
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const at::Tensor hidden_CD = hidden_SD.narrow(0, begin, std::min(step, count - begin));
    at::Tensor logits_CV = room.narrow(0, 0, hidden_CD.size(0));
    to_logits.multiply_into(logits_CV, hidden_CD);
    if (options.bias) logits_CV.add_(options.bias->bias_V);
    const at::Tensor slope_CV = slopes.defined() ? slopes.narrow(0, 0, hidden_CD.size(0)) : slopes;
    if (options.soft_cap > 0) soft_cap_in_place(logits_CV, options.soft_cap, slope_CV);
    const auto chunk = [&](const at::Tensor& all) { return all.narrow(0, begin, hidden_CD.size(0)); };
    at::Tensor losses_C = chunk(made.losses_S), statistics_C4;
    if (statistics_S4.defined()) statistics_C4 = chunk(statistics_S4);
    LossTargets those{chunk(targets.labels_C), chunk(targets.weight_C)};
    if (options.by_entropy_of > 0) those.weight_C = by_entropy(those.weight_C, logits_CV, options);
    at::Tensor of_entropy_CV;
    if (targets.entropy_C.defined() && wanted.any())
      of_entropy_CV = entropy_gradient(logits_CV, chunk(targets.entropy_C));
    taught ? taught->loss(logits_CV, begin, those, wanted.any(), losses_C, statistics_C4)
           : backend_of(head_VD).sums.loss(logits_CV, those, wanted.any(), for_table, losses_C, statistics_C4);
    if (of_entropy_CV.defined()) logits_CV.add_(of_entropy_CV);
    if (slope_CV.defined()) logits_CV.mul_(slope_CV);  // gradients of what was capped
    if (wanted.dbias_V.defined()) {
      const Backend::Sums& sums = backend_of(head_VD).sums;
      sums.join(sums.columns(logits_CV), {wanted.dbias_V, /*add=*/true});
    }
    if (wanted.hidden) {
      at::Tensor to = chunk(made.dhidden_SD);
      to_hidden.multiply_into(to, logits_CV);
    }
    if (wanted.dhead_VD.defined()) matmul_into(wanted.dhead_VD, {{logits_CV.t(), hidden_CD}}, wanted.add || begin > 0);
  }
  return made;
}

}  // namespace hone::ops
