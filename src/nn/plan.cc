// Documents of a batch on one flat axis, and their rotary tables.
#include "nn/plan.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "nn/batch_docs.h"
#include "nn/context.h"
#include "ops/attention_mutual.h"
#include "ops/take_rows.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {

Plan::Plan(const Batch& batch, Past* cache, bool share_prefixes)
    : cache_(cache), context_(batch.context), rows_(batch.rows()), length_(batch.length()) {
  if (context_) {
    place_together();
    return;
  }
  std::vector<Doc> docs = docs_of(batch);
  if (!share_prefixes)
    for (Doc& doc : docs) doc.shared = 0;
  place(without_sources(docs, batch.ids_BT.device()), batch.ids_BT.device());
  if (const auto counts = batch.extra.find(kUnattended); counts != batch.extra.end() && !counts->second.is_meta())
    part_unattended(counts->second);
}

Plan::Plan(const Batch& batch, ops::Documents documents)
    : rows_(batch.rows()),
      length_(batch.length()),
      tokens_(rows_ * length_),
      documents_(std::move(documents)),
      positions_N_(batch.positions_BT.flatten()) {
  for (std::size_t i = 0; i < batch.docs.size(); ++i)
    docs_.push_back({documents_.counted_spans()[i], batch.docs[i].row, 0});
}

std::vector<ops::Span> spans_in_rows(const Batch& batch) {
  std::vector<ops::Span> spans;
  for (const Doc& doc : batch.docs) {
    const std::int64_t row = doc.row * batch.length();
    spans.push_back({row + doc.begin, row + doc.end});
  }
  return spans;
}

Tensor Sources::of(const Tensor& x_BTD) const { return x_BTD.flatten(0, 1).index_select(0, kept_S).unsqueeze(0); }

// Each of the others reads the source of its group, which lies in its row.
std::vector<Doc> Plan::without_sources(const std::vector<Doc>& docs, at::Device device) {
  std::vector<Doc> others;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> numbers;  // by row and group
  std::vector<ops::Span> spans;
  std::vector<std::int64_t> kept;
  for (const Doc& doc : docs) {
    if (doc.role != Role::source) {
      others.push_back(doc);
      continue;
    }
    const std::int64_t begin = std::ssize(kept), end = begin + doc.end - doc.begin;
    numbers[{doc.row, doc.group}] = std::ssize(spans);
    spans.push_back({begin, end});
    sources_.docs.push_back({spans.back(), doc.row, 0});
    for (std::int64_t t = doc.begin; t < doc.end; ++t) kept.push_back(doc.row * length_ + t);
  }
  if (spans.empty()) return others;
  for (const Doc& doc : others) {
    const auto source = numbers.find({doc.row, doc.group});
    if (source == numbers.end())
      throw Error(ErrorKind::data, fmt::format("row {} has a target without a source of its group", doc.row));
    sources_.of_docs.push_back(source->second);
  }
  sources_.documents = std::move(spans);
  sources_.kept_S = devices::sent(host::tensor_of(kept, {std::ssize(kept)}), device);
  return others;
}

void Plan::place(const std::vector<Doc>& docs, at::Device device) {
  HONE_ASSERT(!cache_ || cache_->rows() == rows_);
  std::int64_t done = 0, real = 0;  // done: where the last document ended
  std::vector<ops::Span> spans;
  for (const Doc& doc : docs) {
    const std::int64_t begin = doc.row * length_ + doc.begin;
    HONE_ASSERT(doc.row >= 0 && doc.row < rows_ && doc.begin >= 0 && doc.begin < doc.end && doc.end <= length_ &&
                begin >= done);
    HONE_ASSERT(!cache_ || docs_.empty() || docs_.back().row < doc.row);
    done = doc.row * length_ + doc.end;
    const std::int64_t count = doc.end - doc.begin;
    docs_.push_back({{real, real + count}, doc.row, cache_ ? cache_->length(doc.row) : 0});
    spans.push_back(docs_.back().span);
    real += count;
  }
  documents_ = std::move(spans);
  share(docs);
  if (real == rows_ * length_) return;
  const Tensor kept = at::empty({real}, at::kLong);
  auto index = host::mutable_values<std::int64_t>(kept).begin();
  for (const Doc& doc : docs)
    for (std::int64_t t = doc.begin; t < doc.end; ++t) *index++ = doc.row * length_ + t;
  kept_M_ = devices::sent(kept, device);
}

// Documents of all ranks' tokens; of this one's are the flat axis and the batch.
void Plan::place_together() {
  HONE_ASSERT(!cache_ && rows_ == 1 && length_ == context_->tokens());
  std::int64_t real = 0;
  std::vector<ops::Span> spans;
  for (const Doc& doc : context_->docs()) {
    spans.push_back({real, real + doc.end - doc.begin});
    docs_.push_back({spans.back(), doc.row, 0});
    real = spans.back().end;
  }
  documents_ = std::move(spans);
  tokens_ = context_->tokens();
}

void Plan::share(const std::vector<Doc>& docs) {
  tokens_ = 0;
  std::int64_t first = 0;  // where the first token of a group's first document is on the flat axis
  for (std::size_t i = 0; i < docs.size(); ++i) {
    const std::int64_t shared = docs[i].shared, own = docs_[i].span.end - docs_[i].span.begin - shared;
    if (i > 0 && (docs[i].group != docs[i - 1].group || docs[i].row != docs[i - 1].row)) first = tokens_;
    if (shared > 0) of_flat_.push_back({first, first + shared});
    of_flat_.push_back({tokens_, tokens_ + own});
    of_documents_.push_back({docs_[i].span.begin + shared, docs_[i].span.end});
    tokens_ += own;
  }
  if (tokens_ == (docs_.empty() ? 0 : docs_.back().span.end)) of_flat_.clear(), of_documents_.clear();
}

bool Plan::is_one_token_each() const {
  return cache_ && tokens_ == rows_ && static_cast<std::int64_t>(docs_.size()) == rows_;
}

Tensor Plan::to_documents(const Tensor& x_N) const {
  HONE_ASSERT(!context_);
  return of_flat_.empty() ? x_N : ops::take_rows(x_N, of_flat_);
}

Tensor Plan::from_documents(const Tensor& x_M) const {
  HONE_ASSERT(!context_);
  return of_flat_.empty() ? x_M : ops::take_rows(x_M, of_documents_);
}

std::int64_t Plan::row_length() const { return context_ ? context_->row_length() : length_; }

Tensor Plan::attention(const Tensor& q_MHK, const Tensor& k_MGK, const Tensor& v_MGK,
                       const ops::AttentionOptions& options) const {
  if (has_unattended()) return attention_of_parts(q_MHK, k_MGK, v_MGK, options);
  const bool sees_before_alone = mutual_near_only_ && options.mask.window == 0;
  if (sees_before_alone || mutual_.counted_spans().empty())
    return ops::attention(q_MHK, k_MGK, v_MGK, documents_, options);
  return ops::attention_mutual(q_MHK, k_MGK, v_MGK, documents_, mutual_, options);
}

void Plan::part_unattended(const Tensor& counts) {
  const Tensor here = host::read(counts.to(at::kLong));
  const auto count = host::values<std::int64_t>(here);
  HONE_ASSERT(count.size() == docs_.size() && !cache_);
  std::vector<ops::Span> attended;
  for (std::size_t i = 0; i < docs_.size(); ++i) {
    const ops::Span& whole = docs_[i].span;
    const std::int64_t end = whole.end - count[i];
    HONE_ASSERT(end > whole.begin);
    attended.push_back({whole.begin, end});
    if (count[i] > 0) unattended_.push_back({{end, whole.end}, attended.back()});
  }
  attended_ = std::move(attended);
  lasting_ = false;
}

// Every token sees those that are seen: a window, whose middle would not be where the query stands, is to be as wide.
Tensor Plan::attention_of_parts(const Tensor& q_MHK, const Tensor& k_MGK, const Tensor& v_MGK,
                                const ops::AttentionOptions& options) const {
  std::int64_t longest = 0;
  for (const ops::SpanPair& pair : unattended_) longest = std::max(longest, pair.queries.end - pair.keys.begin);
  if (options.mask.window > 0 && longest > options.mask.window)
    throw Error(ErrorKind::config, fmt::format("a text with tokens that others do not see has {} tokens, and layers "
                                               "see {} on each side; expected no more",
                                               longest, options.mask.window))
        .hint("queries go on for fewer tokens, or the others see these, too");
  if (options.bias || options.sinks || options.soft_cap > 0)
    throw Error(ErrorKind::config, "tokens that others do not see: not with this model's attention, which has sinks, a "
                                   "cap, or a bias by distance")
        .hint("let the others see them, too");
  ops::AttentionOptions all = options;
  all.mask = ops::Mask::full();
  kept_unattended_ = true;
  return ops::attention(q_MHK, k_MGK, v_MGK, attended_, options) +
         ops::attention_between(q_MHK, k_MGK, v_MGK, unattended_, all);
}

Tensor Plan::to_flat(const Tensor& x_BTD) const {
  const Tensor flat = x_BTD.flatten(0, 1);
  if (context_) return flat.unsqueeze(0);
  return from_documents(kept_M_.defined() ? flat.index_select(0, kept_M_) : flat).unsqueeze(0);
}

Tensor Plan::from_flat(const Tensor& x_1ND) const {
  if (context_) return x_1ND;
  const Tensor documents = to_documents(x_1ND.squeeze(0));
  if (!kept_M_.defined()) return documents.unflatten(0, {rows_, length_});
  return at::zeros({rows_ * length_, documents.size(1)}, documents.options())
      .index_copy(0, kept_M_, documents)
      .unflatten(0, {rows_, length_});
}

namespace {

// Positions of one class of documents that get a table row each: [low, high), starting at row `first` of the table.
struct Stretch {
  std::int64_t low = 0, high = 0, first = 0;
};

std::map<std::int64_t, Stretch> stretches_of(const std::vector<PlannedDoc>& docs, const Rope& rope) {
  std::map<std::int64_t, Stretch> all;
  for (const PlannedDoc& doc : docs) {
    const std::int64_t end = doc.position + doc.span.end - doc.span.begin;
    const auto [at, fresh] = all.try_emplace(rope.length_class(end), Stretch{doc.position, end});
    at->second.low = std::min(at->second.low, doc.position);
    at->second.high = std::max(at->second.high, end);
  }
  std::int64_t first = 0;
  for (auto& [name, stretch] : all) {
    stretch.first = first;
    first += stretch.high - stretch.low;
  }
  return all;
}

}  // namespace

Tensor Plan::each_token(const std::function<std::int64_t(const PlannedDoc&)>& first) const {
  const Tensor numbers = at::empty({docs_.empty() ? 0 : docs_.back().span.end}, at::kLong);
  auto number = host::mutable_values<std::int64_t>(numbers).begin();
  for (const PlannedDoc& doc : docs_)
    for (std::int64_t t = 0, at = first(doc); t < doc.span.end - doc.span.begin; ++t) *number++ = at + t;
  return numbers;
}

Tensor Plan::each_flat_token(const std::function<std::int64_t(const PlannedDoc&)>& first) const {
  const Tensor all_M = each_token(first);
  return context_ ? all_M.narrow(0, context_->begin(), context_->tokens()) : from_documents(all_M);
}

Tensor Plan::each_token_of_heads(const std::function<std::int64_t(const PlannedDoc&)>& first) const {
  return context_ && context_->shares_weights() ? each_token(first) : each_flat_token(first);
}

const ops::RopeTable& Plan::rope(const Rope& rope, const Tensor& like) {
  ops::RopeTable& table = tables_[&rope];
  if (table.cos.defined()) return table;
  const auto end = [](const PlannedDoc& doc) { return doc.position + doc.span.end - doc.span.begin; };
  Tensor rows;
  if (positions_N_.defined()) {
    if (rope.length_class(length_) == 0) {
      table = rope.kept_table(length_, like);
      table.rows_N = positions_N_;
      return table;
    }
    lasting_ = false;  // the frequencies depend on how long the documents are
  }
  if (std::all_of(docs_.begin(), docs_.end(), [&](auto& doc) { return rope.length_class(end(doc)) == 0; })) {
    std::int64_t last = 0;
    for (const PlannedDoc& doc : docs_) last = std::max(last, end(doc));
    table = cache_ ? cache_->rope_table(rope, last, like) : rope.kept_table(last, like);
    rows = is_one_token_each() ? cache_->positions_R(like.device())
                               : each_token_of_heads([](const PlannedDoc& doc) { return doc.position; });
  } else {
    lasting_ = false;
    if (cache_) cache_->note_other_angles();
    const auto stretches = stretches_of(docs_, rope);
    std::vector<Tensor> angles{at::empty({0, rope.head_size() / 2}, at::kFloat)};
    for (const auto& [length_class, s] : stretches) angles.push_back(rope.angles(s.low, s.high, length_class));
    rows = each_token_of_heads([&](const PlannedDoc& doc) {
      const Stretch& stretch = stretches.at(rope.length_class(end(doc)));
      return stretch.first + doc.position - stretch.low;
    });
    Tensor angle = at::cat(angles);
    if (rows.numel() < angle.size(0)) {  // one step of rows that are far apart: only the positions that occur
      angle = angle.index_select(0, rows);
      rows = at::arange(rows.numel(), at::kLong);
    }
    table = rope.table(angle, like);
  }
  table.rows_N = devices::sent(rows, like.device());
  return table;
}

}  // namespace hone::nn
