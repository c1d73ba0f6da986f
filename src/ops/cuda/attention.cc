// Attention of bf16 and fp16 by sequences of different lengths and without repeating keys: cuDNN's where it has it,
// else LibTorch's flash attention (Dao, 2023); its gradients by kernels of ours where the same bits are wanted and they
// know the GPU. What none of them knows (fp32, soft caps, dropout by counter, odd head sizes) is the reference's.
//
// Letters: N queries, L keys, H query heads, G key/value heads, K head size.
#include "ops/attention.h"

#include <ATen/Context.h>

#include <bit>
#include <optional>

#include "hone/error.h"
#include "ops/cuda/attention_backward.h"
#include "ops/cuda/fused_attention.h"
#include "ops/cuda/table.h"
#include "ops/reference/table.h"
#include "ops/sequences.h"
#include "tensor/device.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kMostHeadSize = 256;
constexpr int kFirstCapability = 80;
constexpr std::int64_t kLong = 512;  // tokens: for less, as a prompt, cuDNN's plan takes longer than what it saves

bool flash_takes(const at::Tensor& q_NHK, const AttentionOptions& options) {
  const auto type = q_NHK.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && q_NHK.size(2) <= kMostHeadSize && q_NHK.size(2) % 8 == 0 &&
         options.soft_cap == 0 && options.dropout == 0 && capability(q_NHK) >= kFirstCapability;
}

// It reads 16 bytes at once; heads of a wider row are good where they begin at a multiple of that.
at::Tensor readable(const at::Tensor& x) {
  const bool good = wide_rows(x.stride(0), {x}) && wide_rows(x.stride(1), {x}) && x.stride(2) == 1;
  return good ? x : x.contiguous();
}

// Asks for deterministic algorithms, of the whole process, but for one call, in which no other thread of ours computes.
class SameBitsTwice {
 public:
  SameBitsTwice()
      : asked_(at::globalContext().deterministicAlgorithms()),
        warns_(at::globalContext().deterministicAlgorithmsWarnOnly()),
        fills_(at::globalContext().deterministicFillUninitializedMemory()) {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  ~SameBitsTwice() {
    at::globalContext().setDeterministicAlgorithms(asked_, warns_);
    at::globalContext().setDeterministicFillUninitializedMemory(fills_);
  }
  SameBitsTwice(const SameBitsTwice&) = delete;

 private:
  bool asked_, warns_, fills_;
};

// Of sequences one after another, whose lse_HN is as dense as they are.
Attended flash(const at::Tensor& q_NHK, const at::Tensor& k_LGK, const at::Tensor& v_LGK, const Packed& packed,
               const AttentionOptions& options) {
  const Window window(options.mask);
  const auto made = at::_flash_attention_forward(
      readable(q_NHK), readable(k_LGK), readable(v_LGK), packed.q_ends(), packed.k_ends(), packed.most_queries(),
      packed.most_keys(), /*dropout_p=*/0, window.causal,
      /*return_debug_mask=*/false, options.scale, window.before, window.after);
  HONE_ASSERT(std::get<1>(made).dim() == 2);
  return {std::get<0>(made), std::get<1>(made)};
}

// A pass's documents as flash attention wants them: for its first layer made, for all others there.
struct OnDevice {
  OnDevice(const at::Tensor& ends, std::int64_t longest, std::vector<Span> between)
      : packed(ends, ends, longest, longest), between(std::move(between)) {}
  Packed packed;
  std::vector<Span> between;
};
const OnDevice& on_device(const Documents& documents, const at::Tensor& x_NHK) {
  const OnDevice& made = documents.kept([&] {
    if (const Documents::Ends* const there = documents.there()) return OnDevice(there->ends, there->longest, {});
    Sequences sequences = sequences_of(documents.spans(), x_NHK.size(0));
    HONE_ASSERT(sequences.ends.back() == x_NHK.size(0));
    // Empty ones at the end, so that plans for so many are good for fewer.
    const std::size_t count = std::bit_ceil(sequences.ends.size() - 1);
    sequences.ends.resize(count + 1, sequences.ends.back());
    return OnDevice(queued_copy(sequences.ends, at::kInt, x_NHK), sequences.longest, std::move(sequences.between));
  });
  HONE_ASSERT(made.packed.q_ends().device() == x_NHK.device());
  return made;
}

Attended best(const at::Tensor& q_NHK, const at::Tensor& k_LGK, const at::Tensor& v_LGK, const Packed& packed,
              const AttentionOptions& options) {
  if (packed.most_queries() >= kLong)
    if (auto fused = fused_attention(readable(q_NHK), readable(k_LGK), readable(v_LGK), packed, options))
      return *std::move(fused);
  return flash(q_NHK, k_LGK, v_LGK, packed, options);
}

Attended forward(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                 const Documents& documents, const AttentionOptions& options) {
  if (!flash_takes(q_NHK, options))
    return reference_table::attention().forward(q_NHK, k_NGK, v_NGK, documents, options);
  const OnDevice& there = on_device(documents, q_NHK);
  Attended all = best(q_NHK, k_NGK, v_NGK, there.packed, options);
  for (const Span& span : there.between) {
    all.y_NHK.slice(0, span.begin, span.end).zero_();
    all.lse_HN.slice(1, span.begin, span.end).zero_();
  }
  return all;
}

// Adds in an order that timing decides, unless all algorithms are asked to be deterministic.
AttentionGradients flash_backward(const at::Tensor& dy_NHK, const AttentionSaved& saved, const Packed& packed,
                                  const AttentionOptions& options) {
  const Window window(options.mask);
  const at::Tensor no_random = at::empty({2}, dy_NHK.options().dtype(at::kUInt64));
  const auto made = at::_flash_attention_backward(
      dy_NHK.contiguous(), readable(saved.q_NHK), readable(saved.k_NGK), readable(saved.v_NGK), saved.result.y_NHK,
      saved.result.lse_HN.contiguous(), packed.q_ends(), packed.k_ends(), packed.most_queries(), packed.most_keys(),
      /*dropout_p=*/0, window.causal, no_random, no_random, options.scale, window.before, window.after);
  return {std::get<0>(made), std::get<1>(made), std::get<2>(made)};
}

AttentionGradients best_backward(const at::Tensor& dy_NHK, const AttentionSaved& saved, const Packed& packed,
                                 const AttentionOptions& options) {
  if (devices::same_bits_wanted()) {
    const AttentionSaved there{readable(saved.q_NHK), readable(saved.k_NGK), readable(saved.v_NGK), saved.result};
    if (auto ordered = ordered_attention_backward(dy_NHK, there, packed, options)) return *std::move(ordered);
    const SameBitsTwice scope;
    return flash_backward(dy_NHK, saved, packed, options);
  }
  if (packed.most_queries() >= kLong)
    if (auto fused = fused_attention_backward(dy_NHK, saved, packed, options)) return *std::move(fused);
  return flash_backward(dy_NHK, saved, packed, options);
}

AttentionGradients backward(const at::Tensor& dy_NHK, const AttentionSaved& saved, const Documents& documents,
                            const AttentionOptions& options) {
  if (!flash_takes(saved.q_NHK, options))
    return reference_table::attention().backward(dy_NHK, saved, documents, options);
  const OnDevice& there = on_device(documents, dy_NHK);
  AttentionGradients all = best_backward(dy_NHK, saved, there.packed, options);
  for (const Span& span : there.between)
    for (const at::Tensor& x : {all.q_NHK, all.k_NGK, all.v_NGK}) x.slice(0, span.begin, span.end).zero_();
  return all;
}

std::int64_t backward_room(const AttentionSaved& saved, const Documents& documents, const AttentionOptions& options) {
  if (!devices::same_bits_wanted() || !flash_takes(saved.q_NHK, options)) return 0;
  const Sequences sequences = sequences_of(documents.counted_spans(), saved.q_NHK.size(0));
  const std::size_t count = std::bit_ceil(sequences.ends.size() - 1);
  return ordered_attention_room(saved, static_cast<std::int64_t>(count), sequences.longest, options);
}

// The newest queries of one sequence: causal masks are aligned at the last key.
at::Tensor cached(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                  const AttentionOptions& options) {
  if (!flash_takes(q_NHK, options)) return reference::cached_attention(q_NHK, k_GLK, v_GLK, options);
  const auto queries = q_NHK.size(0), keys = k_GLK.size(1);
  const auto ends_of = [&](std::int64_t count) {
    return queued_copy(std::vector<std::int32_t>{0, static_cast<std::int32_t>(count)}, at::kInt, q_NHK);
  };
  const Packed packed(ends_of(queries), ends_of(keys), queries, keys);
  Attended made = flash(q_NHK, k_GLK.transpose(0, 1), v_GLK.transpose(0, 1), packed, options);
  if (options.sinks) add_sinks(made, *options.sinks);
  return made.y_NHK;
}

}  // namespace

Backend::Attention attention() {
  return {forward,        backward,       cached,        decode_attention,
          store_in_cache, store_one_each, backward_room, decode_new_tokens};
}

}  // namespace hone::ops::cuda_table
