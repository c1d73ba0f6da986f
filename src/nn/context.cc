// What ranks that compute a batch together give each other.
//
// Letters: N tokens of this rank, M of all ranks, R ranks, H heads, h those of this rank, W all that a rank gets of a
// token.
#include "nn/context.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "hone/error.h"
#include "nn/batch_docs.h"
#include "ops/with_adjoint.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

constexpr std::int64_t kNoLabel = -100;

// That each of so many ranks has.
std::int64_t heads_of_rank(std::int64_t heads, std::int64_t ranks) { return heads % ranks == 0 ? heads / ranks : 1; }

std::int64_t head_size(const Tensor& x_NH) {
  const auto sizes = x_NH.sizes().slice(2);
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Several tensors of one type beside each other in a buffer: where each is, and how wide.
struct Columns {
  std::vector<std::size_t> which;
  std::vector<std::int64_t> first, width;
  std::int64_t all = 0;

  void add(std::size_t one, std::int64_t wide) {
    which.push_back(one), first.push_back(all), width.push_back(wide);
    all += wide;
  }
};

// heads: that each tensor has, of which every rank is to have a part.
std::vector<Columns> columns_of(const std::vector<Tensor>& given, const std::vector<std::int64_t>& heads,
                                std::int64_t ranks) {
  std::map<at::ScalarType, Columns> by_type;
  for (std::size_t i = 0; i < given.size(); ++i)
    by_type[given[i].scalar_type()].add(i, heads_of_rank(heads[i], ranks) * head_size(given[i]));
  std::vector<Columns> all;
  for (auto& [type, columns] : by_type) all.push_back(std::move(columns));
  return all;
}

std::vector<std::int64_t> heads_of(const std::vector<Tensor>& given) {
  std::vector<std::int64_t> heads;
  for (const Tensor& x_NH : given) heads.push_back(x_NH.size(1));
  return heads;
}

std::vector<std::int64_t> with_heads(const Tensor& like, std::int64_t tokens, std::int64_t heads) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[0] = tokens, sizes[1] = heads;
  return sizes;
}

// What each rank is to have of x's heads, into [R,N,w].
void copy_by_rank(const Tensor& x_NH, const Tensor& to_RNw) {
  const std::int64_t ranks = to_RNw.size(0), tokens = x_NH.size(0), heads = x_NH.size(1), width = to_RNw.size(2);
  if (heads % ranks == 0)
    to_RNw.copy_(x_NH.reshape({tokens, ranks, width}).transpose(0, 1));
  else
    to_RNw.unflatten(0, {heads, -1}).copy_(x_NH.reshape({tokens, heads, width}).transpose(0, 1).unsqueeze(1));
}

// Of what each rank gives, in the order of ranks.
Tensor sum_of_ranks(const Tensor& got_R) {
  Tensor sum = got_R.select(0, 0).to(at::toOpMathType(got_R.scalar_type()), /*non_blocking=*/false, /*copy=*/true);
  for (std::int64_t r = 1; r < got_R.size(0); ++r) sum.add_(got_R.select(0, r));
  return sum.to(got_R.scalar_type());
}

// And back: several ranks' gradients of one head add up.
Tensor from_ranks(const Tensor& got_RNw, std::int64_t heads) {
  if (heads % got_RNw.size(0) == 0) return got_RNw.transpose(0, 1);
  const Tensor by_head_rHNw = got_RNw.unflatten(0, {heads, -1}).transpose(0, 1);
  return sum_of_ranks(by_head_rHNw).transpose(0, 1);
}

}  // namespace

bool can_share_heads(std::int64_t heads, std::int64_t ranks) { return heads % ranks == 0 || ranks % heads == 0; }

Context::Context(const Batch& whole, std::shared_ptr<const Peers> peers, Sharing sharing)
    : peers_(std::move(peers)), sharing_(sharing), docs_(docs_of(whole)), row_length_(whole.length()) {
  std::vector<std::int64_t> all;  // places
  for (const Doc& doc : docs_) {
    HONE_ASSERT(doc.role != Role::source);
    for (std::int64_t t = doc.begin; t < doc.end; ++t) all.push_back(doc.row * row_length_ + t);
  }
  for (std::int64_t r = 0; r <= ranks(); ++r) ends_.push_back(std::ssize(all) * r / ranks());
  const auto own = all.begin() + begin(), behind = own + tokens();
  const Tensor held = host::read(whole.labels_BT.flatten());
  const auto labels = host::values<std::int64_t>(held);
  labels_before_ = std::count_if(all.begin(), own, [&](auto at) { return labels[static_cast<std::size_t>(at)] >= 0; });
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(tokens()));
  std::iota(numbers.begin(), numbers.end(), begin());
  numbers_ = std::make_shared<const std::vector<std::int64_t>>(std::move(numbers));
  places_ = std::make_shared<const std::vector<std::int64_t>>(own, behind);
}

std::int64_t Context::most_tokens() const { return (all_tokens() + ranks() - 1) / ranks(); }

std::int64_t Context::first_head(std::int64_t heads) const {
  HONE_ASSERT(can_share_heads(heads, ranks()));
  return peers_->rank() * heads / ranks();
}

Tensor Context::own_heads(const Tensor& x, std::int64_t dimension) const {
  const std::int64_t heads = x.size(dimension);
  return x.narrow(dimension, first_head(heads), heads_of_rank(heads, ranks()));
}

// What each rank has sent for this one, without what fills parts up: [M,W].
Tensor Context::in_order(const Tensor& got_RNW) const {
  if (all_tokens() == ranks() * most_tokens()) return got_RNW.flatten(0, 1);
  std::vector<Tensor> parts;
  for (std::int64_t r = 0; r < ranks(); ++r)
    parts.push_back(got_RNW.select(0, r).narrow(0, 0, ends_[r + 1] - ends_[r]));
  return at::cat(parts);
}

std::vector<Tensor> Context::spread(const std::vector<Tensor>& given) const {
  const std::vector<std::int64_t> heads = heads_of(given);
  std::vector<Tensor> made(given.size());
  for (const Columns& columns : columns_of(given, heads, ranks())) {
    const Tensor parts = at::empty({ranks(), most_tokens(), columns.all}, given[columns.which[0]].options());
    const Tensor own = parts.narrow(1, 0, tokens());
    for (std::size_t c = 0; c < columns.which.size(); ++c)
      copy_by_rank(given[columns.which[c]], own.narrow(2, columns.first[c], columns.width[c]));
    const Tensor all_MW = in_order(peers_->exchange(parts));
    for (std::size_t c = 0; c < columns.which.size(); ++c) {
      const std::size_t i = columns.which[c];
      made[i] = all_MW.narrow(1, columns.first[c], columns.width[c])
                    .view(with_heads(given[i], all_tokens(), heads_of_rank(heads[i], ranks())));
    }
  }
  return made;
}

std::vector<Tensor> Context::collect(const std::vector<Tensor>& given, const std::vector<std::int64_t>& heads) const {
  std::vector<Tensor> made(given.size());
  for (const Columns& columns : columns_of(given, heads, ranks())) {
    const Tensor parts = at::empty({ranks(), most_tokens(), columns.all}, given[columns.which[0]].options());
    for (std::int64_t r = 0; r < ranks(); ++r) {
      const std::int64_t begin = ends_[r], count = ends_[r + 1] - begin;
      for (std::size_t c = 0; c < columns.which.size(); ++c)
        parts.select(0, r).narrow(0, 0, count).narrow(1, columns.first[c], columns.width[c])
            .copy_(given[columns.which[c]].narrow(0, begin, count).reshape({count, columns.width[c]}));
    }
    const Tensor got = peers_->exchange(parts).narrow(1, 0, tokens());
    for (std::size_t c = 0; c < columns.which.size(); ++c) {
      const std::size_t i = columns.which[c];
      made[i] = from_ranks(got.narrow(2, columns.first[c], columns.width[c]), heads[i])
                    .reshape(with_heads(given[i], tokens(), heads[i]));
    }
  }
  return made;
}

std::vector<Tensor> Context::to_heads(const std::vector<Tensor>& x_NH) const {
  const auto self = shared_from_this();
  const std::vector<std::int64_t> heads = heads_of(x_NH);
  for (const std::int64_t one : heads) HONE_ASSERT(can_share_heads(one, ranks()));
  return ops::with_adjoint(
      x_NH, [self](const auto& given) { return self->spread(given); },
      [self, heads](const auto& gradients) { return self->collect(gradients, heads); });
}

Tensor Context::to_tokens(const Tensor& y_Mh) const {
  const auto self = shared_from_this();
  const std::vector<std::int64_t> heads{y_Mh.size(1) * ranks()};
  return ops::with_adjoint(
      {y_Mh}, [self, heads](const auto& given) { return self->collect(given, heads); },
      [self](const auto& gradients) { return self->spread(gradients); })[0];
}

Tensor Context::gather_values(const Tensor& x_N) const {
  const Tensor own = x_N.detach();
  if (tokens() == most_tokens()) return in_order(peers_->gather(own.contiguous()));
  std::vector<std::int64_t> sizes = own.sizes().vec();
  sizes[0] = most_tokens();
  const Tensor filled = at::zeros(sizes, own.options());
  filled.narrow(0, 0, tokens()).copy_(own);
  return in_order(peers_->gather(filled));
}

Tensor Context::summed(const Tensor& y_M) const {
  std::vector<std::int64_t> sizes = y_M.sizes().vec();
  sizes[0] = most_tokens();
  sizes.insert(sizes.begin(), ranks());
  Tensor parts = y_M.detach();
  if (all_tokens() == ranks() * most_tokens()) {
    parts = parts.contiguous().view(sizes);
  } else {
    parts = at::zeros(sizes, parts.options());
    for (std::int64_t r = 0; r < ranks(); ++r) {
      const std::int64_t begin = ends_[r], count = ends_[r + 1] - begin;
      parts.select(0, r).narrow(0, 0, count).copy_(y_M.narrow(0, begin, count));
    }
  }
  return sum_of_ranks(peers_->exchange(parts).narrow(1, 0, tokens()));
}

Tensor Context::gather(const Tensor& x_N) const {
  const auto self = shared_from_this();
  return ops::with_adjoint(
      {x_N}, [self](const auto& given) { return std::vector{self->gather_values(given[0])}; },
      [self](const auto& gradients) { return std::vector{self->summed(gradients[0])}; })[0];
}

Tensor Context::sum_to_tokens(const Tensor& y_M) const {
  const auto self = shared_from_this();
  return ops::with_adjoint(
      {y_M}, [self](const auto& given) { return std::vector{self->summed(given[0])}; },
      [self](const auto& gradients) { return std::vector{self->gather_values(gradients[0])}; })[0];
}

Tensor Context::gather_columns(const Tensor& y_Mw) const {
  const auto self = shared_from_this();
  const auto all_columns = [self](const Tensor& own_Mw) {
    return self->peers_->gather(own_Mw.detach().contiguous()).transpose(0, 1).flatten(1).contiguous();
  };
  const auto own_columns = [self](const Tensor& all_MW) {
    const Tensor parts_RMw = all_MW.unflatten(1, {self->ranks(), -1}).transpose(0, 1).contiguous();
    return sum_of_ranks(self->peers_->exchange(parts_RMw));
  };
  return ops::with_adjoint(
      {y_Mw}, [=](const auto& given) { return std::vector{all_columns(given[0])}; },
      [=](const auto& gradients) { return std::vector{own_columns(gradients[0])}; })[0];
}

Tensor Context::largest(const Tensor& x) const {
  const c10::NoGradGuard no_grad;
  return peers_->gather(x.detach().contiguous()).amax(0);
}

Tensor Context::total(const Tensor& x) const {
  const c10::NoGradGuard no_grad;
  return sum_of_ranks(peers_->gather(x.detach().contiguous()));
}

namespace {

// The parts of documents among tokens [begin, end) of all, in one row.
std::vector<Doc> parts_within(const std::vector<Doc>& docs, std::int64_t begin, std::int64_t end) {
  std::vector<Doc> parts;
  std::int64_t first = 0;  // where the document begins
  for (const Doc& doc : docs) {
    const std::int64_t behind = first + doc.end - doc.begin;
    Doc part = doc;
    part.row = 0, part.shared = 0;
    part.begin = static_cast<std::int32_t>(std::clamp(first, begin, end) - begin);
    part.end = static_cast<std::int32_t>(std::clamp(behind, begin, end) - begin);
    if (part.end > part.begin) parts.push_back(part);
    first = behind;
  }
  return parts;
}

// The given places that are this rank's, as places of its row.
Tensor places_within(const Tensor& given, const std::vector<std::int64_t>& own) {
  const Tensor held = host::read(given);
  std::vector<std::int64_t> kept;
  for (const std::int64_t place : host::values<std::int64_t>(held))
    if (const auto found = std::lower_bound(own.begin(), own.end(), place); found != own.end() && *found == place)
      kept.push_back(found - own.begin());
  return host::tensor_of(kept, {std::ssize(kept)});
}

}  // namespace

Batch own_tokens(const Batch& whole, const std::shared_ptr<const Peers>& peers, Sharing sharing) {
  const auto context = std::make_shared<const Context>(whole, peers, sharing);
  const std::vector<std::int64_t>& places = *context->places();
  const Tensor index_N = host::tensor_of(places, {context->tokens()});
  const auto own = [&](const Tensor& x_BT) {
    return x_BT.defined() ? x_BT.flatten().index_select(0, index_N).unsqueeze(0) : x_BT;
  };
  Batch made;
  made.ids_BT = own(whole.ids_BT), made.labels_BT = own(whole.labels_BT), made.weight_BT = own(whole.weight_BT);
  made.segments_BT = own(whole.segments_BT), made.positions_BT = own(whole.positions_BT);
  const auto is_of_tokens = [&](const Tensor& values) {  // some numbers of each
    return values.dim() == 3 && values.sizes().slice(0, 2) == whole.ids_BT.sizes();
  };
  for (const auto& [name, values] : whole.extra) {
    if (name.ends_with("_places"))
      made.extra[name] = places_within(values, places);
    else if (values.sizes() == whole.ids_BT.sizes())
      made.extra[name] = own(values);
    else if (is_of_tokens(values))
      made.extra[name] = values.flatten(0, 1).index_select(0, index_N).unsqueeze(0);
    else
      throw Error(ErrorKind::bug, fmt::format("{}: is not of tokens, which ranks share (Batch::context)", name));
  }
  made.docs = parts_within(context->docs(), context->begin(), context->begin() + context->tokens());
  made.tokens = context->tokens();
  made.supervised = static_cast<std::int64_t>(host::number(at::count_nonzero(made.labels_BT != kNoLabel)));
  made.context = context;
  return made;
}

}  // namespace hone::nn
