// Who attends to whom in one forward pass, and at which positions: made once from the batch, used by every layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/batch.h"
#include "nn/past.h"
#include "nn/rope.h"
#include "ops/attention.h"
#include "ops/attention_between.h"
#include "ops/rope.h"

namespace hone::nn {

// One document of the pass: its tokens on the axis of documents, and where they stand.
struct PlannedDoc {
  ops::Span span;
  std::int64_t row = 0;       // of the batch, and of the cache
  std::int64_t position = 0;  // of its first token: 0, or what the cache holds of the row
};

// Documents that others read whole (Role::source). Their tokens lie on an axis of their own, one after another.
struct Sources {
  std::vector<PlannedDoc> docs = {};
  ops::Documents documents = {};          // their spans
  std::vector<std::int64_t> of_docs = {};  // which one each of the plan's documents reads
  Tensor kept_S = {};                      // positions b * T + t of their tokens
  Tensor of(const Tensor& x_BTD) const;    // [B,T,D] -> [1,S,D]
};

// A batch's column, [docs]: so many of a document's last tokens see the others, and are seen by none, not even by
// themselves. Of models whose layers ask attention().
inline constexpr const char* kUnattended = "unattended";

// Layers see tokens on one flat axis. Where the batch has padding, only the real tokens are on it: padding is never
// computed. Attention sees documents, one after the other on an axis of their own. It is the flat one, unless prefixes
// are shared: then what a group's documents begin with as its first one is on the flat axis once.
//
// Sources are not among these documents: for all but who reads them they are as padding.
//
// Several ranks may compute a batch together (nn/context.h).
//
// Or padding is computed, too: then rows of one size make work of one size, whatever documents are in them, and what
// depends on these lies on the device.
class Plan {
 public:
  // Documents come from batch.docs; if there are none, from segments_BT; if that is undefined, every row is one
  // document. cache: may be null; outlives the plan. REQUIRES with a cache: one document a row at most, as many rows as
  // the cache has, and no shared prefixes.
  Plan(const Batch& batch, Past* cache, bool share_prefixes = false);
  // With padding. `documents`: spans_in_rows() of the batch, which outlives the plan.
  Plan(const Batch& batch, ops::Documents documents);

  const std::vector<PlannedDoc>& docs() const {
    docs_were_asked_ = true;
    return docs_;
  }
  const ops::Documents& documents() const { return documents_; }  // their spans
  // Of tokens on the axis of documents, within these; those that see each other (see_each_other) do.
  Tensor attention(const Tensor& q_MHK, const Tensor& k_MGK, const Tensor& v_MGK,
                   const ops::AttentionOptions& options) const;
  // Stretches of a document, on that axis, whose tokens see those behind them, too, as a picture's: in order, apart.
  // near_only: in layers alone that have a window.
  void see_each_other(std::vector<ops::Span> mutual, bool near_only = false) {
    mutual_ = std::move(mutual);
    mutual_near_only_ = near_only;
    lasting_ = false;
  }
  void do_not_last() { lasting_ = false; }  // layers do otherwise in the next step
  // Whether documents end in tokens that see the others and are seen by none (kUnattended); attention() has done so.
  bool has_unattended() const { return !unattended_.empty(); }
  bool kept_unattended() const { return kept_unattended_; }
  const Sources& sources() const { return sources_; }             // none: of a step of generation, or of other models
  std::int64_t tokens() const { return tokens_; }  // on the flat axis
  // Of a cache's rows: a step of generation. Where tokens stand then lies on the device (Past::positions_R).
  bool is_one_token_each() const;
  // Whether what it gave is good for the next such step, too, if the cache moves on on the device alone. Of a plan with
  // padding: for rows of the same size with other documents, if their tensors come to the same place.
  bool is_lasting() const {
    return lasting_ && (cache_ || (positions_N_.defined() && !docs_were_asked_ && !documents_.spans_were_asked()));
  }

  Tensor to_flat(
      const Tensor& x_BTD) const;  // [B,T,D] -> [1,N,D]: the real tokens; the same tensor if there is no padding
  Tensor from_flat(const Tensor& x_1ND) const;  // and back, 0 on padding

  // Between the flat axis (N) and that of documents (M), the first one of the tensor; what documents share is taken
  // from the first of them. The same tensor where no prefix is shared.
  Tensor to_documents(const Tensor& x_N) const;
  Tensor from_documents(const Tensor& x_M) const;
  // Of the flat axis, where they lie on the device; undefined: not of a plan without padding.
  const Tensor& positions_N() const { return positions_N_; }
  // Of each token of the flat axis, int64 on the host: first(its document) + its place in it.
  Tensor each_flat_token(const std::function<std::int64_t(const PlannedDoc&)>& first) const;

  // Where several ranks compute the batch: the flat axis has this rank's tokens, that of documents all of them, of some
  // heads, and between the two goes the context. Null: the batch is whole.
  const Context* context() const { return context_.get(); }
  std::int64_t row_length() const;  // of the whole batch

  // What the embeddings and layers leave for layers behind them, by name: keys and values that several use, what is
  // added to each. Part of the graph; there until the last layer has run.
  std::map<std::string, Tensor>& left() { return left_; }

  // Rotary tables of this pass, for tokens of heads, made on the first call for `rope`; as `like` lies, in its type.
  const ops::RopeTable& rope(const Rope& rope, const Tensor& like);
  // Another one, with rows for the tokens of the flat axis: of who knows better where they stand.
  void set_rope(const Rope& rope, ops::RopeTable table) {
    tables_[&rope] = std::move(table);
    lasting_ = false;
  }

 private:
  void place(const std::vector<Doc>& docs, at::Device device);
  void place_together();
  Tensor each_token(const std::function<std::int64_t(const PlannedDoc&)>& first) const;  // of the axis of documents
  // Of the tokens whose heads layers have: those of the flat axis, or all (Context::shares_weights).
  Tensor each_token_of_heads(const std::function<std::int64_t(const PlannedDoc&)>& first) const;
  std::vector<Doc> without_sources(const std::vector<Doc>& docs, at::Device device);
  void part_unattended(const Tensor& counts);
  Tensor attention_of_parts(const Tensor& q_MHK, const Tensor& k_MGK, const Tensor& v_MGK,
                            const ops::AttentionOptions& options) const;
  void share(const std::vector<Doc>& docs);
  Past* cache_ = nullptr;
  std::shared_ptr<const Context> context_;
  std::int64_t rows_ = 0, length_ = 0, tokens_ = 0;
  std::vector<PlannedDoc> docs_;
  ops::Documents documents_, mutual_, attended_;  // attended: documents without their last tokens, which none sees
  std::vector<ops::SpanPair> unattended_;         // those tokens of each document, and the others
  Sources sources_;
  bool lasting_ = true, mutual_near_only_ = false;
  mutable bool docs_were_asked_ = false, kept_unattended_ = false;
  Tensor positions_N_;
  Tensor kept_M_;  // positions b * T + t of the documents' tokens; undefined: all
  // Where prefixes are shared: the stretches of the flat axis that documents are made of, and the reverse.
  std::vector<ops::Span> of_flat_, of_documents_;
  std::map<const Rope*, ops::RopeTable> tables_;
  std::map<std::string, Tensor> left_;
};

// Documents as they lie in the batch's rows one after another, padding between them.
std::vector<ops::Span> spans_in_rows(const Batch& batch);

}  // namespace hone::nn
