// A batch that several ranks compute together: each has a stretch of its flat tokens, and, where tokens see each other,
// all tokens of some heads (Jacobs et al., 2023, arXiv:2309.14509, "Ulysses").
//
// Letters: N tokens of this rank, M of all ranks, H heads, h those of this rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hone/batch.h"
#include "nn/peers.h"

namespace hone::nn {

// Made once for a batch, and kept by what the batch becomes (Batch::context) and by graphs: by std::make_shared alone.
// Immutable.
class Context : public std::enable_shared_from_this<Context> {
 public:
  // `whole`: on the host. Its real tokens, row by row, are shared out evenly, whatever documents they are of.
  Context(const Batch& whole, std::shared_ptr<const Peers> peers);

  std::int64_t begin() const { return ends_[rank()]; }  // of this rank's tokens among all
  std::int64_t tokens() const { return ends_[rank() + 1] - begin(); }
  std::int64_t all_tokens() const { return ends_.back(); }
  const std::vector<Doc>& docs() const { return docs_; }    // of the whole batch
  std::int64_t row_length() const { return row_length_; }  // likewise
  std::int64_t labels_before() const { return labels_before_; }  // of tokens that ranks before this one have
  // Of this rank's tokens: their numbers among all, and their places b * T + t in the whole batch.
  const std::shared_ptr<const std::vector<std::int64_t>>& numbers() const { return numbers_; }
  const std::shared_ptr<const std::vector<std::int64_t>>& places() const { return places_; }

  // [N,H,...] -> [M,h,...] of each tensor, by one exchange for all that are of one type. Where there are fewer heads
  // than ranks, several ranks have the same one. And back, of heads that the ranks have one time each.
  std::vector<Tensor> to_heads(const std::vector<Tensor>& x_NH) const;
  Tensor to_tokens(const Tensor& y_Mh) const;
  // This rank's of as many heads: the first one, and what lies along a dimension of heads.
  std::int64_t first_head(std::int64_t heads) const;
  Tensor own_heads(const Tensor& x, std::int64_t dimension = 0) const;
  // The sum over ranks, in their order. Without a graph.
  Tensor total(const Tensor& x) const;

 private:
  std::size_t rank() const { return static_cast<std::size_t>(peers_->rank()); }
  std::int64_t ranks() const { return peers_->size(); }
  std::int64_t most_tokens() const;  // of a rank
  // What to_heads() does; and its adjoint, of tensors that had so many heads.
  std::vector<Tensor> spread(const std::vector<Tensor>& x_NH) const;
  std::vector<Tensor> collect(const std::vector<Tensor>& y_Mh, const std::vector<std::int64_t>& heads) const;
  Tensor in_order(const Tensor& got_RNW) const;

  std::shared_ptr<const Peers> peers_;
  std::vector<Doc> docs_;
  std::vector<std::int64_t> ends_;  // where each rank's tokens begin, and the last one's end
  std::int64_t row_length_ = 0, labels_before_ = 0;
  std::shared_ptr<const std::vector<std::int64_t>> numbers_, places_;
};

// This rank's tokens of a batch on the host, as a batch of one row.
Batch own_tokens(const Batch& whole, const std::shared_ptr<const Peers>& peers);

// Whether so many ranks can share out so many heads, or have the same ones.
bool can_share_heads(std::int64_t heads, std::int64_t ranks);

}  // namespace hone::nn
