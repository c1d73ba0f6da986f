// Norms by kernels of ours.
#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr int kNormThreads = 256, kShortRows = 8;
constexpr std::int64_t kNormRoom = 44 << 10;  // bytes that any GPU gives a block, less what kernels have besides

struct Rows {
  explicit Rows(const at::Tensor& x) : columns(x.size(-1)), count(x.numel() / columns) {}
  std::int64_t columns, count;
};

at::Tensor dense(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }
at::Tensor per_row(const at::Tensor& x) { return at::empty({Rows(x).count}, wide_options(x)); }

// `blocks` that work on their own, as threads of a row of x; several in one of CUDA's where a warp is enough for a row.
Grid grid_of(std::int64_t blocks, const at::Tensor& x, bool wide) {
  Grid made{.threads = threads_for(x.size(-1) / values_at_once(x, wide), kNormThreads)};
  if (made.threads == 32) made.threads_y = kShortRows;
  made.x = ceil_div(blocks, made.threads_y);
  return made;
}
Grid one_block_per_row(const at::Tensor& x, bool wide) { return grid_of(Rows(x).count, x, wide); }

// Rows that kernels keep in registers: each by so many lanes, a power of two, with up to `packs` accesses each. None
// where accesses are not whole or a row is too long. A warp's is best, as it waits for nobody, while a lane has no more
// than `good` accesses: with more registers there are too few warps.
struct KeptRows {
  KeptRows(const at::Tensor& x, bool wide, int good = kMostPacks) {
    const std::int64_t accesses = x.size(-1) / values_at_once(x, true);
    if (!kKeepsRows || !wide || accesses > kMostPacks * kMostLanes) return;
    for (packs = 1; packs < good && packs * kWarp < accesses;) packs *= 2;
    while (packs * kMostLanes < accesses) packs *= 2;
    for (lanes = 1; lanes * packs < accesses;) lanes *= 2;
  }
  explicit operator bool() const { return lanes > 0; }
  bool by_warps() const { return lanes <= kWarp; }
  std::int64_t block_warps() const { return by_warps() ? kBlockWarps : lanes / kWarp; }
  std::int64_t rows_at_once() const { return by_warps() ? kBlockWarps * kWarp / lanes : 1; }  // of a block
  Grid grid(std::int64_t blocks) const {
    return {.x = blocks, .threads = std::max(kWarp, lanes), .threads_y = by_warps() ? kBlockWarps : 1, .early = true};
  }
  // Of the backward pass, by the shape alone: about as many warps as a large GPU has at once, with so many registers.
  std::int64_t blocks_for(std::int64_t rows) const {
    constexpr std::int64_t kMostWarps = 4096, kMostAccesses = 8192;
    const std::int64_t at_once = rows_at_once() * std::max(1, kRowsPacks / packs);
    return std::min(ceil_div(rows, at_once), std::min(kMostWarps, kMostAccesses / packs) / block_warps());
  }
  const char* of(const std::array<const char*, 4>& kernels) const {
    return kernels[packs == 1 ? 0 : packs == 2 ? 1 : packs == 4 ? 2 : 3];
  }
  static constexpr bool kKeepsRows = true;  // false: kernels read every row twice
  static constexpr int kWarp = 32, kMostPacks = 8, kMostLanes = 256, kBlockWarps = 4;
  static constexpr int kRowsPacks = 4;  // accesses of the rows that a team has at once, where they are short
  int packs = 0, lanes = 0;
};

// How the backward pass shares rows among blocks, each of which has its own sums for the weights: enough blocks to fill
// a GPU, and not so many that the sums are more than the rows. By the shape alone, so that every GPU sums alike.
struct Shares {
  Shares(const at::Tensor& x, std::int64_t sums) {
    const Rows rows(x);
    const std::int64_t most = std::clamp<std::int64_t>((1 << 20) / rows.columns, 256, 8192);
    rows_per_block = ceil_div(rows.count, most);
    blocks = ceil_div(rows.count, rows_per_block);
    const auto item = static_cast<std::int64_t>(at::elementSize(at::toOpMathType(x.scalar_type())));
    const std::int64_t room = sums * rows.columns * item;
    room_bytes = room <= kNormRoom ? room : 0;
  }
  Grid grid(const at::Tensor& x, bool wide) const {
    Grid made = grid_of(blocks, x, wide);
    made.shared_bytes = room_bytes * made.threads_y;
    return made;
  }
  at::Tensor sums_of(const at::Tensor& x) const { return at::empty({blocks, x.size(-1)}, wide_options(x)); }
  std::int64_t rows_per_block, blocks, room_bytes;
};

RmsNormed rms_norm(const at::Tensor& given, const at::Tensor& given_residual, const at::Tensor& given_weight,
                   RmsNormForm form) {
  const at::Tensor x = dense(given), residual = dense(given_residual), weight = dense(given_weight);
  RmsNormed made{residual.defined() ? at::empty_like(x) : x, at::empty_like(x), per_row(x)};
  const bool wide = wide_rows(x.size(-1), {x, residual, weight, made.sum, made.normed});
  if (const KeptRows kept(x, wide); kept && Rows(x).count > kFewRows) {
    launch({"rms_norm", kept.of({"rms_norm_kept_1", "rms_norm_kept_2", "rms_norm_kept_4", "rms_norm_kept_8"})}, x,
           kept.grid(ceil_div(Rows(x).count, kept.rows_at_once())), x, residual, weight, made.sum, made.normed,
           made.inv_rms, Rows(x).count, x.size(-1), form.eps, static_cast<int>(form.factor), kept.lanes);
    return made;
  }
  Grid grid = one_block_per_row(x, wide);
  grid.early = true;
  launch({"rms_norm", "rms_norm"}, x, grid, x, residual, weight, made.sum, made.normed, made.inv_rms, Rows(x).count,
         x.size(-1), form.eps, static_cast<int>(form.factor), wide);
  return made;
}

NormGradients rms_norm_backward(const at::Tensor& given_dy, const at::Tensor& given_extra,
                                const at::Tensor& given_weight, const RmsNormed& saved, RmsNormForm form) {
  const at::Tensor dy = dense(given_dy), extra = dense(given_extra), weight = dense(given_weight),
                   sum = dense(saved.sum);
  const Rows rows(sum);
  NormGradients made{at::empty_like(sum), {}, {}};
  const bool wide = wide_rows(rows.columns, {dy, extra, weight, sum, made.x});
  constexpr int kGoodPacks = 4;
  if (const KeptRows kept(sum, wide, kGoodPacks); kept) {
    const std::int64_t blocks = kept.blocks_for(rows.count);
    made.weight_BO = at::empty({blocks, rows.columns}, wide_options(sum));
    launch({"rms_norm", kept.of({"rms_norm_backward_kept_1", "rms_norm_backward_kept_2", "rms_norm_backward_kept_4",
                                 "rms_norm_backward_kept_8"})},
           sum, kept.grid(blocks), dy, extra, weight, sum, dense(saved.inv_rms), made.x, made.weight_BO, rows.count,
           rows.columns, static_cast<int>(form.factor), kept.lanes);
    return made;
  }
  const Shares shares(sum, 1);
  made.weight_BO = shares.sums_of(sum);
  launch({"rms_norm", "rms_norm_backward"}, sum, shares.grid(sum, wide), dy, extra, weight, sum, dense(saved.inv_rms),
         made.x, made.weight_BO, rows.count, rows.columns, shares.rows_per_block, shares.room_bytes > 0,
         static_cast<int>(form.factor), wide);
  return made;
}

LayerNormed layer_norm(const at::Tensor& given, const at::Tensor& given_residual, const at::Tensor& given_weight,
                       const at::Tensor& given_bias, double eps) {
  const at::Tensor x = dense(given), residual = dense(given_residual), weight = dense(given_weight),
                   bias = dense(given_bias);
  LayerNormed made{residual.defined() ? at::empty_like(x) : x, at::empty_like(x), per_row(x), per_row(x)};
  const bool wide = wide_rows(x.size(-1), {x, residual, weight, bias, made.sum, made.normed});
  launch({"layer_norm", "layer_norm"}, x, one_block_per_row(x, wide), x, residual, weight, bias, made.sum, made.normed,
         made.mean, made.inv_std, Rows(x).count, x.size(-1), eps, wide);
  return made;
}

NormGradients layer_norm_backward(const at::Tensor& given_dy, const at::Tensor& given_extra,
                                  const at::Tensor& given_weight, const LayerNormed& saved) {
  const at::Tensor dy = dense(given_dy), extra = dense(given_extra), weight = dense(given_weight),
                   sum = dense(saved.sum);
  const Shares shares(sum, 2);
  NormGradients made{at::empty_like(sum), shares.sums_of(sum), shares.sums_of(sum)};
  const Rows rows(sum);
  const bool wide = wide_rows(rows.columns, {dy, extra, weight, sum, made.x});
  launch({"layer_norm", "layer_norm_backward"}, sum, shares.grid(sum, wide), dy, extra, weight, sum, dense(saved.mean),
         dense(saved.inv_std), made.x, made.weight_BO, made.bias_BO, rows.count, rows.columns, shares.rows_per_block,
         shares.room_bytes > 0, wide);
  return made;
}

}  // namespace

Backend::Norms norms() {
  const Backend::Norms reference = reference_table::norms();
  return {rms_norm,           rms_norm_backward,   layer_norm, layer_norm_backward, reference.head_norm,
          reference.head_norm_backward};
}

}  // namespace hone::ops::cuda_table
