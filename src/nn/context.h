// A batch that several ranks compute together: each has a stretch of its flat tokens, and, where tokens see each other,
// all tokens of some heads (Jacobs et al., 2023, arXiv:2309.14509, "Ulysses").
//
// Or each has a slice of the weights (parallel.tensor): what is made with these is of all tokens (Shoeybi et al., 2019,
// arXiv:1909.08053; Korthikanti et al., 2022, arXiv:2205.05198, "sequence parallelism").
//
// Letters: N tokens of this rank, M of all ranks, R ranks, H heads, h those of this rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hone/batch.h"
#include "nn/peers.h"

namespace hone::nn {

// What else than tokens the ranks of a batch share out.
enum class Sharing { tokens, weights };

// Made once for a batch, and kept by what the batch becomes (Batch::context) and by graphs: by std::make_shared alone.
// Immutable.
class Context : public std::enable_shared_from_this<Context> {
 public:
  // `whole`: on the host. Its real tokens, row by row, are shared out evenly, whatever documents they are of.
  Context(const Batch& whole, std::shared_ptr<const Peers> peers, Sharing sharing = Sharing::tokens);

  std::int64_t begin() const { return ends_[rank()]; }  // of this rank's tokens among all
  std::int64_t tokens() const { return ends_[rank() + 1] - begin(); }
  std::int64_t all_tokens() const { return ends_.back(); }
  const std::vector<Doc>& docs() const { return docs_; }    // of the whole batch
  std::int64_t row_length() const { return row_length_; }  // likewise
  std::int64_t labels_before() const { return labels_before_; }  // of tokens that ranks before this one have
  // Of this rank's tokens: their numbers among all, and their places b * T + t in the whole batch.
  const std::shared_ptr<const std::vector<std::int64_t>>& numbers() const { return numbers_; }
  const std::shared_ptr<const std::vector<std::int64_t>>& places() const { return places_; }

  // Whether each rank has a slice of the weights: then its heads are computed with it, and are nowhere else.
  bool shares_weights() const { return sharing_ == Sharing::weights; }
  // [N,...] -> [M,...]: all ranks' tokens. Its gradient is the sum of all ranks' ones.
  Tensor gather(const Tensor& x_N) const;
  Tensor gather_values(const Tensor& x_N) const;  // the same without a graph, of any type
  // [M,...] -> [N,...]: of what each rank has of a sum, this rank's tokens of the sum, in rank order.
  Tensor sum_to_tokens(const Tensor& y_M) const;
  // [M,w] -> [M,R w]: the columns of all ranks.
  Tensor gather_columns(const Tensor& y_Mw) const;

  // [N,H,...] -> [M,h,...] of each tensor, by one exchange for all that are of one type. Where there are fewer heads
  // than ranks, several ranks have the same one. And back, of heads that the ranks have one time each.
  std::vector<Tensor> to_heads(const std::vector<Tensor>& x_NH) const;
  Tensor to_tokens(const Tensor& y_Mh) const;
  // This rank's of as many heads: the first one, and what lies along a dimension of heads.
  std::int64_t first_head(std::int64_t heads) const;
  Tensor own_heads(const Tensor& x, std::int64_t dimension = 0) const;
  // The sum over ranks, in their order. Without a graph.
  Tensor total(const Tensor& x) const;
  // The largest of all ranks', element by element. Without a graph.
  Tensor largest(const Tensor& x) const;
  std::int64_t ranks() const { return peers_->size(); }

 private:
  std::size_t rank() const { return static_cast<std::size_t>(peers_->rank()); }
  std::int64_t most_tokens() const;  // of a rank
  // What to_heads() does; and its adjoint, of tensors that had so many heads.
  std::vector<Tensor> spread(const std::vector<Tensor>& x_NH) const;
  std::vector<Tensor> collect(const std::vector<Tensor>& y_Mh, const std::vector<std::int64_t>& heads) const;
  Tensor in_order(const Tensor& got_RNW) const;
  Tensor summed(const Tensor& y_M) const;  // what sum_to_tokens() does

  std::shared_ptr<const Peers> peers_;
  Sharing sharing_;
  std::vector<Doc> docs_;
  std::vector<std::int64_t> ends_;  // where each rank's tokens begin, and the last one's end
  std::int64_t row_length_ = 0, labels_before_ = 0;
  std::shared_ptr<const std::vector<std::int64_t>> numbers_, places_;
};

// This rank's tokens of a batch on the host, as a batch of one row.
Batch own_tokens(const Batch& whole, const std::shared_ptr<const Peers>& peers, Sharing sharing = Sharing::tokens);

// Whether so many ranks can share out so many heads, or have the same ones.
bool can_share_heads(std::int64_t heads, std::int64_t ranks);

}  // namespace hone::nn
