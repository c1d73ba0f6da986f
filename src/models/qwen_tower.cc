// The vision towers of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5.
#include "models/qwen_tower.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/patch_places.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::models {
namespace {

constexpr double kEps = 1e-6;

nn::Linear::Options biased(double std) { return {.bias = true, .std = std}; }

// Where a batch's patches stand, and in which order blocks see them.
struct Places : PatchPlaces {
  std::vector<std::int64_t> tokens;  // in the order of windows; empty: as they come
  std::vector<ops::Span> windows;
};

// Windows of a picture's tokens, from its corner on; those at its other sides may be smaller.
void add_windows(const PatchGrid& grid, const QwenVisionShape& s, std::int64_t first, Places& places) {
  const std::int64_t rows = grid.rows / s.merge, columns = grid.columns / s.merge, unit = s.merge * s.merge;
  for (std::int64_t frame = 0; frame < grid.frames; ++frame)
    for (std::int64_t top = 0; top < rows; top += s.window)
      for (std::int64_t left = 0; left < columns; left += s.window) {
        const std::int64_t begin = std::ssize(places.tokens) * unit;
        for (std::int64_t row = top; row < std::min(rows, top + s.window); ++row)
          for (std::int64_t column = left; column < std::min(columns, left + s.window); ++column)
            places.tokens.push_back(first + (frame * rows + row) * columns + column);
        places.windows.push_back({begin, std::ssize(places.tokens) * unit});
      }
}

Places places_of(const Pictures& pictures, const QwenVisionShape& s) {
  Places places{patch_places(pictures, s.merge), {}, {}};
  std::int64_t token = 0;
  for (const PictureSpan& picture : pictures.spans) {
    if (s.windows) add_windows(picture.grid, s, token, places);
    token += picture.grid.patches() / (s.merge * s.merge);
  }
  return places;
}

Tensor numbers(const std::vector<std::int64_t>& values) { return host::tensor_of(values, {std::ssize(values)}); }

// Where places of a picture lie on a side of learned positions: the one before, and how far behind it.
std::pair<Tensor, Tensor> on_side(const std::vector<std::int64_t>& at, const std::vector<std::int64_t>& all,
                                  std::int64_t side) {
  const Tensor place = numbers(at).to(at::kFloat) * (side - 1) / (numbers(all) - 1).clamp_min(1);
  const Tensor before = place.floor();
  return {before.to(at::kLong), place - before};
}

// Each patch's, between the four nearest of the table: its corners are the picture's.
Tensor learned_positions(const Tensor& table, const Places& places, std::int64_t side) {
  const auto [row, below] = on_side(places.rows, places.all_rows, side);
  const auto [column, right] = on_side(places.columns, places.all_columns, side);
  Tensor sum;
  for (const int down : {0, 1})
    for (const int across : {0, 1}) {
      const Tensor index = (row + down).clamp_max(side - 1) * side + (column + across).clamp_max(side - 1);
      const Tensor share = (down ? below : 1 - below) * (across ? right : 1 - right);
      const Tensor part = table.index_select(0, devices::sent(index, table.device())) *
                          devices::sent(share.unsqueeze(1), table.device());
      sum = sum.defined() ? sum + part : part;
    }
  return sum;
}

// The patches of these tokens.
Tensor patches_of(const std::vector<std::int64_t>& tokens, std::int64_t unit) {
  return (numbers(tokens).unsqueeze(1) * unit + at::arange(unit, at::kLong)).flatten();
}

std::vector<std::int64_t> inverse_of(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return back;
}

}  // namespace

QwenBlock::Attention::Attention(const QwenVisionShape& shape)
    : s(shape),
      qkv(child<nn::Linear>("qkv", s.hidden, 3 * s.hidden, biased(s.std))),
      proj(child<nn::Linear>("proj", s.hidden, s.hidden, biased(s.std))) {}

Tensor QwenBlock::Attention::operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const {
  const Tensor all_PHK = nn::linears(x_1PD, {&qkv}, pass)[0].view({-1, 3 * s.heads, s.head_size()});
  const auto parts = all_PHK.split_with_sizes({s.heads, s.heads, s.heads}, 1);
  const Tensor seen_PHK = attend_in_tower(parts[0], parts[1], parts[2], view, /*dropout=*/0, pass);
  return proj(seen_PHK.flatten(1).unsqueeze(0), pass);
}

const nn::Norm& QwenBlock::norm(const char* name, const QwenVisionShape& s) {
  if (s.windows) return child<nn::RmsNorm>(name, s.hidden, ops::RmsNormForm{kEps});
  return child<nn::LayerNorm>(name, s.hidden, kEps);
}

QwenBlock::QwenBlock(const QwenVisionShape& s, std::int64_t)
    : norm1(norm("norm1", s)), norm2(norm("norm2", s)), attn(child<Attention>("attn", s)) {
  if (s.windows)
    gated_ = &child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{.hidden = s.hidden,
                                                               .inner = s.inner,
                                                               .activation = nn::read_activation(s.activation),
                                                               .bias = true,
                                                               .std = s.std});
  else
    plain_ = &child<TowerMlp>("mlp", TowerMlp::Options{s.hidden, s.inner, s.activation, s.std, s.std, s.fc1, s.fc2});
}

void QwenBlock::add_to(nn::Residual& x, const TowerView& view, const Pass& pass) const {
  x += attn(norm1(x), view, pass);
  x += gated_ ? (*gated_)(norm2(x), pass) : (*plain_)(norm2(x), pass);
}

const nn::Norm& QwenMerger::norm(const char* name, std::int64_t width) {
  if (s.windows) return child<nn::RmsNorm>(name, width, ops::RmsNormForm{kEps});
  return child<nn::LayerNorm>(name, width, kEps);
}

QwenMerger::QwenMerger(const QwenVisionShape& shape, bool joined)
    : s(shape),
      joined_(joined),
      norm_(norm(s.learned ? "norm" : "ln_q", joined ? s.hidden * s.merge * s.merge : s.hidden)),
      first(child<nn::Linear>(s.learned ? s.fc1 : "mlp.0", s.hidden * s.merge * s.merge,
                              s.hidden * s.merge * s.merge, biased(s.std))),
      second(child<nn::Linear>(s.learned ? s.fc2 : "mlp.2", s.hidden * s.merge * s.merge, s.out, biased(s.std))) {}

Tensor QwenMerger::operator()(const Tensor& x_1PD, const Pass& pass) const {
  const std::vector<std::int64_t> together{1, -1, s.hidden * s.merge * s.merge};
  const Tensor joined_1MD = joined_ ? norm_(x_1PD.view(together)) : norm_(x_1PD).view(together);
  return second(nn::activate(first(joined_1MD, pass), ops::Activation::gelu), pass).squeeze(0);
}

QwenTower::QwenTower(const QwenVisionShape& shape)
    : s(shape),
      patch_embed(child<PatchProduct>("patch_embed.proj",
                                      std::vector<std::int64_t>{s.hidden, 3, s.frames, s.patch, s.patch},
                                      /*with_bias=*/s.learned, s.std)),
      pos_embed(s.learned ? &child<PositionTable>("pos_embed", s.side * s.side, s.hidden, s.std) : nullptr),
      blocks(child<nn::Stack<QwenBlock>>("blocks", s.depth, s)),
      merger(child<QwenMerger>("merger", s, /*joined=*/false)) {
  for (std::size_t i = 0; i < s.deep_blocks.size(); ++i)
    deep_mergers_.push_back(&child<QwenMerger>(fmt::format("deepstack_merger_list.{}", i), s, /*joined=*/true));
}

std::vector<Tensor> QwenTower::operator()(const Pictures& pictures, const Pass& pass) const {
  const Places places = places_of(pictures, s);
  const std::int64_t unit = s.merge * s.merge;
  Tensor patches_PV = pictures.patches_PV, turns = axial_angles(places, s.head_size(), s.theta);
  if (s.windows) {
    const Tensor order = patches_of(places.tokens, unit);
    turns = turns.index_select(0, order);
    patches_PV = patches_PV.index_select(0, devices::sent(order, patches_PV.device()));
  }
  Tensor x_1PD = patch_embed(patches_PV).unsqueeze(0);
  if (pos_embed) x_1PD = x_1PD + learned_positions(pos_embed->weight.use(), places, s.side).to(x_1PD.scalar_type());
  const TowerView whole{.documents = places.pictures, .rope = rope_in_tower(turns, x_1PD)},
      parts{.documents = places.windows, .rope = whole.rope};
  std::vector<Tensor> made(1 + deep_mergers_.size());
  for (std::size_t i = 0; i < blocks.blocks().size(); ++i) {
    const QwenBlock* block = blocks.blocks()[i];
    const TowerView& view = s.sees_all[i] ? whole : parts;
    x_1PD = through_block(x_1PD, pass, [block, view, &pass](nn::Residual& x) { block->add_to(x, view, pass); });
    for (std::size_t deep = 0; deep < deep_mergers_.size(); ++deep)
      if (s.deep_blocks[deep] == static_cast<std::int64_t>(i)) made[1 + deep] = (*deep_mergers_[deep])(x_1PD, pass);
  }
  made[0] = merger(x_1PD, pass);
  if (s.windows) made[0] = made[0].index_select(0, devices::sent(numbers(inverse_of(places.tokens)), made[0].device()));
  return made;
}

}  // namespace hone::models
