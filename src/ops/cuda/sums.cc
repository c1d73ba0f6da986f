// Sums by kernels of ours: over columns, into a table, of losses; and whether values are finite.
#include "ops/column_sum.h"
#include "ops/cuda/table.h"
#include "ops/reference/table.h"
#include "tensor/host.h"

namespace hone::ops::cuda_table {
namespace {

constexpr int kSumThreads = 256, kLossThreads = 512;
constexpr std::int64_t kMostRowBlocks = 4096;  // of sums of columns
constexpr std::int64_t kLookBlocks = 1 << 12;  // of a look at all values
constexpr int kMostFoundParts = 64;            // of a row in which the largest value is looked for
constexpr std::size_t kMostCounts = 4;         // that go up with it, as the kernel has it

at::Tensor columns(const at::Tensor& given) {
  const at::Tensor x = given.contiguous();
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  const std::int64_t per_block = std::max(kRowsPerSum, ceil_div(rows, kMostRowBlocks));
  at::Tensor sums = at::empty({ceil_div(rows, per_block), width}, wide_options(x));
  const int threads = threads_for(width, kSumThreads);
  launch({"sums", "columns"}, x, {.x = ceil_div(width, threads), .y = sums.size(0), .threads = threads}, x, sums, rows,
         width, per_block);
  return sums;
}

// By blocks of columns, where there are not so many rows that their columns want several.
void join(const at::Tensor& given, const Target& to) {
  constexpr std::int64_t kMostRows = 1024;
  const at::Tensor sums = given.contiguous();
  const bool takes = to.out.is_contiguous() && sums.scalar_type() == at::toOpMathType(to.out.scalar_type());
  if (!takes || sums.size(0) > kMostRows) return reference_table::sums().join(sums, to);
  constexpr int kColumns = 32, kShares = 16;
  const Grid grid{.x = ceil_div(sums.size(1), kColumns), .threads = kColumns, .threads_y = kShares, .early = true};
  launch({"sums", "join_rows"}, to.out, grid, sums, to.out, sums.size(0), sums.size(1), to.add);
}

// Sorted by id, so that a block finds all tokens of its id side by side; stable, so in their order.
void add_to_table(const at::Tensor& given_dy, const at::Tensor& ids, std::int64_t skip, const at::Tensor& sum_VD) {
  const at::Tensor dy = given_dy.contiguous();
  if (sum_VD.scalar_type() != at::toOpMathType(dy.scalar_type()) || !sum_VD.is_contiguous())
    return reference_table::sums().add_to_table(given_dy, ids, skip, sum_VD);
  const std::int64_t width = dy.size(-1);
  const auto [sorted, tokens] = at::sort(ids.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const int threads = threads_for(width, kSumThreads);
  launch({"embedding", "add_to_table"}, dy, {.x = ids.numel(), .y = ceil_div(width, threads), .threads = threads}, dy,
         sorted, tokens, sum_VD, ids.numel(), width, skip);
}

void loss(at::Tensor& logits_CV, const LossTargets& targets, bool gradient, const CrossEntropyOptions& options,
          at::Tensor& losses_C, at::Tensor& statistics_C4) {
  const auto wide_type = at::toOpMathType(logits_CV.scalar_type());
  const auto takes = [&](const at::Tensor& x) { return x.is_contiguous() && x.scalar_type() == wide_type; };
  if (!logits_CV.is_contiguous() || targets.weight_C.scalar_type() != wide_type || !takes(losses_C) ||
      (statistics_C4.defined() && !takes(statistics_C4)))
    return reference_table::sums().loss(logits_CV, targets, gradient, options, losses_C, statistics_C4);
  const std::int64_t vocab = logits_CV.size(1);
  const at::Tensor labels = targets.labels_C.contiguous(), weight = targets.weight_C.contiguous();
  const bool wide = wide_rows(vocab, {logits_CV});
  const Grid grid{.x = logits_CV.size(0),
                  .threads = threads_for(vocab / values_at_once(logits_CV, wide), kLossThreads)};
  launch({"loss", "loss"}, logits_CV, grid, logits_CV, labels, weight, losses_C, statistics_C4, vocab,
         options.label_smoothing, options.z_loss, options.by_probability, gradient, wide);
}

// The answer is the one thing here that the host waits for.
bool all_finite(const at::Tensor& given) {
  const at::Tensor x = given.contiguous(), found = at::zeros({1}, x.options().dtype(at::kInt));
  const bool wide = wide_rows(x.numel(), {x});
  const std::int64_t blocks = ceil_div(x.numel() / values_at_once(x, wide), kSumThreads);
  const Grid grid{.x = std::clamp<std::int64_t>(blocks, 1, kLookBlocks), .threads = kSumThreads};
  launch({"sums", "find_not_finite"}, x, grid, x, x.numel(), found, wide);
  return host::number(found) == 0;
}

}  // namespace

at::Tensor likeliest_then(const at::Tensor& given_RV, const NextStep& next) {
  const at::Tensor logits = given_RV.contiguous();
  std::array<void*, kMostCounts> held{};
  const std::size_t counts = std::min(next.held_R.size(), kMostCounts);
  for (std::size_t i = 0; i < counts; ++i) held[i] = parameter(next.held_R[i]);
  const std::int64_t rows = logits.size(0), vocab = logits.size(1);
  at::Tensor made = at::empty({rows}, logits.options().dtype(at::kLong));
  const bool wide = wide_rows(vocab, {logits});
  const std::int64_t packs = vocab / values_at_once(logits, wide);
  const std::int64_t parts = std::clamp<std::int64_t>(packs / (2 * kSumThreads), 1, kMostFoundParts);
  const at::Tensor values = at::empty({rows, parts}, wide_options(logits));
  const at::Tensor places = at::empty({rows, parts}, made.options());
  const Grid look{.x = parts, .y = rows, .threads = threads_for(packs, kSumThreads), .early = true};
  launch({"sums", "likeliest_parts"}, logits, look, logits, values, places, vocab, wide);
  const Grid join{.x = rows, .threads = threads_for(parts, kMostFoundParts), .early = true};
  launch({"sums", "likeliest"}, logits, join, logits, values, places, made, next.ids_R1, held, static_cast<int>(parts));
  for (std::size_t i = counts; i < next.held_R.size(); ++i) at::Tensor(next.held_R[i]).add_(1);
  return made;
}

at::Tensor likeliest(const at::Tensor& logits_RV) { return cuda_table::likeliest_then(logits_RV, {}); }

// Each chunk's gradient is added to all of the head's, 16 bytes a weight with what is read: few chunks, each with more
// than enough for all multiprocessors.
std::int64_t chunk_bytes() { return std::int64_t{1} << 30; }

Backend::Sums sums() {
  return {columns, join, add_to_table, loss, all_finite, likeliest, chunk_bytes, likeliest_then};
}

}  // namespace hone::ops::cuda_table
