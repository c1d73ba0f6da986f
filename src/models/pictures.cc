// Pictures in a model of texts.
#include "models/pictures.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "nn/plan.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::models {
namespace {

std::int64_t tokens_of(const PictureSpan& span, const PictureInput& input) {
  return input.joined ? span.tiles.joined_tokens(span.grid) : input.tokens_of(span.grid);
}

using Positions = std::array<std::vector<std::int64_t>, 3>;  // in time, height and width

void add_words(Positions& all, std::int64_t begin, std::int64_t count) {
  for (auto& dimension : all)
    for (std::int64_t i = 0; i < count; ++i) dimension.push_back(begin + i);
}

void add_picture(Positions& all, std::int64_t begin, const PatchGrid& grid, std::int64_t merged) {
  for (std::int64_t frame = 0; frame < grid.frames; ++frame)
    for (std::int64_t row = 0; row < grid.rows / merged; ++row)
      for (std::int64_t column = 0; column < grid.columns / merged; ++column) {
        all[0].push_back(begin + frame);
        all[1].push_back(begin + row);
        all[2].push_back(begin + column);
      }
}

// Of one document; `picture`: the first that may be in it, which goes on to the first behind it.
void add_document(const Doc& doc, const Batch& batch, std::int64_t merged, bool to_the_end, std::size_t& picture,
                  Positions& all) {
  const auto& spans = batch.pictures.spans;
  const std::size_t first = all[0].size();
  std::int64_t token = doc.begin, at = 0;
  for (; picture < spans.size() && spans[picture].row == doc.row && spans[picture].begin < doc.end; ++picture) {
    const PictureSpan& span = spans[picture];
    add_words(all, at, span.begin - token);
    at += span.begin - token;
    add_picture(all, at, span.grid, merged);
    at += std::max(span.grid.rows, span.grid.columns) / merged;
    token = span.end;
  }
  add_words(all, at, doc.end - token);
  at += doc.end - token;
  if (!to_the_end) return;
  const std::int64_t less = doc.end - doc.begin - at;  // than the tokens that there are
  for (auto& dimension : all)
    for (std::size_t i = first; i < dimension.size(); ++i) dimension[i] += less;
}

Tensor floats(const std::vector<std::int64_t>& values) {
  return host::tensor_of(values, {std::ssize(values)}).to(at::kFloat);
}

}  // namespace

void check_pictures(const Batch& batch, const PictureInput& input) {
  std::int64_t patches = 0;
  for (const PictureSpan& span : batch.pictures.spans) {
    patches += span.patches();
    const bool fits = span.end - span.begin == tokens_of(span, input) &&
                      (input.side == 0 || (span.grid.rows == input.side && span.grid.columns == input.side)) &&
                      span.grid.rows % input.merged == 0 && span.grid.columns % input.merged == 0;
    if (!fits)
      throw Error(
          ErrorKind::data,
          fmt::format("a picture of {} by {} patches in the place of {}; the model makes {} of "
                      "one{}",
                      span.grid.rows, span.grid.columns, counted(span.end - span.begin, "token"),
                      tokens_of(span, input), input.side == 0 ? "" : fmt::format(", of {0} by {0}", input.side)));
  }
  const Tensor& values = batch.pictures.patches_PV;
  if (!values.defined() || values.size(0) != patches || values.size(1) != input.values())
    throw Error(ErrorKind::data, fmt::format("pictures: got {} patches of {} values, expected {} of {}",
                                             values.defined() ? values.size(0) : 0,
                                             values.defined() ? values.size(1) : 0, patches, input.values()))
        .hint("preprocessor_config.json and config.json must be of one model");
}

Tensor with_pictures(const Tensor& x_BTD, const Tensor& features_MD, const Batch& batch, const PictureInput& input) {
  std::vector<std::int64_t> places;
  for (const PictureSpan& span : batch.pictures.spans) {
    // Where rows have a token of their own behind them, that is a word.
    const std::int64_t row = input.words == PictureWords::rows ? span.grid.columns / input.merged : 0;
    for (std::int64_t t = span.begin; t < span.end; ++t)
      if (row == 0 || (t - span.begin) % (row + 1) != row) places.push_back(span.row * batch.length() + t);
  }
  HONE_ASSERT(std::ssize(places) == features_MD.size(0));
  const Tensor index = devices::sent(host::tensor_of(places, {std::ssize(places)}), x_BTD.device());
  return x_BTD.flatten(0, 1).index_copy(0, index, features_MD.to(x_BTD.scalar_type())).view(x_BTD.sizes());
}

Tensor in_squares(const Tensor& patches_PD, const Pictures& pictures, std::int64_t side) {
  std::vector<std::int64_t> order;
  std::int64_t begin = 0;
  for (const PictureSpan& picture : pictures.spans) {
    const PatchGrid& grid = picture.grid;
    for (std::int64_t top = 0; top < grid.rows; top += side)
      for (std::int64_t left = 0; left < grid.columns; left += side)
        for (std::int64_t i = 0; i < side * side; ++i)
          order.push_back(begin + (top + i / side) * grid.columns + left + i % side);
    begin += picture.patches();
  }
  const Tensor index = devices::sent(host::tensor_of(order, {std::ssize(order)}), patches_PD.device());
  return patches_PD.index_select(0, index).view({-1, side * side, patches_PD.size(1)});
}

ops::Documents by_pictures(const Pictures& pictures) {
  std::vector<ops::Span> spans;
  std::int64_t begin = 0;
  for (const PictureSpan& picture : pictures.spans) {
    spans.push_back({begin, begin + picture.patches()});
    begin = spans.back().end;
  }
  return spans;
}

void rotate_in_three(const Batch& batch, const PictureInput& input, const nn::Rope& rope,
                     const std::vector<std::int64_t>& axes, const Tensor& like, Pass& pass) {
  nn::Plan& plan = pass.plan();
  Positions all;
  std::size_t picture = 0;
  HONE_ASSERT(plan.docs().size() == batch.docs.size());
  for (std::size_t i = 0; i < batch.docs.size(); ++i) {
    HONE_ASSERT(plan.docs()[i].position == 0 && batch.docs[i].shared == 0);
    add_document(batch.docs[i], batch, input.merged, pass.cache != nullptr, picture, all);
  }
  HONE_ASSERT(std::ssize(all[0]) == plan.tokens() && picture == batch.pictures.spans.size());
  const Tensor positions_3N = at::stack({floats(all[0]), floats(all[1]), floats(all[2])});
  const Tensor of_pairs = positions_3N.index_select(0, host::tensor_of(axes, {std::ssize(axes)})).t();
  ops::RopeTable table = rope.table(of_pairs * rope.frequencies(0), like);
  table.rows_N = devices::sent(at::arange(plan.tokens(), at::kLong), like.device());
  plan.set_rope(rope, std::move(table));
}

void see_within_pictures(const Batch& batch, Pass& pass, bool near_only) {
  nn::Plan& plan = pass.plan();
  std::vector<ops::Span> mutual;
  std::size_t doc = 0;
  for (const PictureSpan& span : batch.pictures.spans) {
    while (batch.docs[doc].row != span.row || batch.docs[doc].end <= span.begin) ++doc;
    const ops::Span& whole = plan.docs()[doc].span;
    const std::int64_t begin = whole.begin + span.begin - batch.docs[doc].begin, end = begin + span.end - span.begin;
    if (!mutual.empty() && mutual.back().end == begin && begin > whole.begin) mutual.back().end = end;
    else mutual.push_back({begin, end});
  }
  plan.see_each_other(std::move(mutual), near_only);
}

Tensor at_pictures(const Tensor& features_MD, Pass& pass) {
  const nn::Plan& plan = pass.plan();
  const Batch& batch = pass.batch;
  std::vector<std::int64_t> places;
  std::size_t doc = 0;
  for (const PictureSpan& span : batch.pictures.spans) {
    while (batch.docs[doc].row != span.row || batch.docs[doc].end <= span.begin) ++doc;
    const std::int64_t first = plan.docs()[doc].span.begin - batch.docs[doc].begin;
    for (std::int64_t t = span.begin; t < span.end; ++t) places.push_back(first + t);
  }
  const Tensor index = devices::sent(host::tensor_of(places, {std::ssize(places)}), features_MD.device());
  return at::zeros({plan.tokens(), features_MD.size(1)}, features_MD.options())
      .index_copy(0, index, features_MD)
      .unsqueeze(0);
}

}  // namespace hone::models
