// Attention of sequences one after another by cuDNN's fused kernels, which have the tensor cores of GPUs since Hopper
// do what those of flash attention 2 leave undone there.
//
// Letters: N queries, L keys, H query heads, G key/value heads, K head size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "ops/attention.h"
#include "ops/primitives.h"

namespace hone::ops::cuda_table {

// Sequences of queries and of keys, as Documents::Ends has them on the device, and what is made of them once. Copies
// are the same object. Not thread-safe.
class Packed {
 public:
  Packed() = default;
  Packed(at::Tensor q_ends, at::Tensor k_ends, std::int64_t most_queries, std::int64_t most_keys)
      : shared_(std::make_shared<Shared>(
            Shared{std::move(q_ends), std::move(k_ends), most_queries, most_keys, {}})) {}

  const at::Tensor& q_ends() const { return shared_->q_ends; }
  const at::Tensor& k_ends() const { return shared_->k_ends; }
  std::int64_t most_queries() const { return shared_->most_queries; }
  std::int64_t most_keys() const { return shared_->most_keys; }
  // Where sequences begin in a matrix whose rows are so far apart, in values; row 0: how long each is.
  const at::Tensor& of_queries(std::int64_t row) const { return made(shared_->q_ends, row); }
  const at::Tensor& of_keys(std::int64_t row) const { return made(shared_->k_ends, row); }

 private:
  struct Shared {
    at::Tensor q_ends, k_ends;
    std::int64_t most_queries, most_keys;
    std::map<std::pair<const void*, std::int64_t>, at::Tensor> made;
  };
  const at::Tensor& made(const at::Tensor& ends, std::int64_t row) const;
  std::shared_ptr<Shared> shared_;
};

// Nothing: of such tensors cuDNN, as it is there, has no kernel. Of queries that are in no sequence nothing is written.
std::optional<Attended> fused_attention(const at::Tensor& q_NHK, const at::Tensor& k_LGK, const at::Tensor& v_LGK,
                                        const Packed& packed, const AttentionOptions& options);
// Adds in an order that timing decides.
std::optional<AttentionGradients> fused_attention_backward(const at::Tensor& dy_NHK, const AttentionSaved& saved,
                                                           const Packed& packed, const AttentionOptions& options);

}  // namespace hone::ops::cuda_table
