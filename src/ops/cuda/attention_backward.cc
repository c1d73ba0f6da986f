#include "ops/cuda/attention_backward.h"

#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kSide = 64, kInPack = 8, kMostOrderedSize = 128, kBlocksThere = 3;
constexpr std::int64_t kRoomUnit = 1024, kBetween = 1 << 28;  // more tokens than two of a document lie apart

// A kernel for own tokens of so many squares of 64 values each, by so many groups of warps.
struct TileKernel {
  TileKernel(std::int64_t size, const char* narrow, const char* wide)
      : kernel{"attention_backward", size <= kSide ? narrow : wide},
        squares(size <= kSide ? 1 : 2),
        groups(size <= kSide ? 3 : 2) {}
  Grid grid(std::int64_t tokens, std::int64_t documents, std::int64_t heads) const {
    const std::int64_t square = kSide * kSide * 2, rows = 2 * (groups + kBlocksThere) * squares * square;
    return {.x = (tokens / (groups * kSide) + documents) * heads,
            .threads = static_cast<int>(groups * kSide * 2),
            .shared_bytes = rows + kBlocksThere * kSide * 2 * static_cast<std::int64_t>(sizeof(float)) + kRoomUnit};
  }
  Kernel kernel;
  std::int64_t squares, groups;
};

bool ordered_takes(const at::Tensor& x_NHK) {
  return (x_NHK.scalar_type() == at::kBFloat16 || x_NHK.scalar_type() == at::kHalf) && x_NHK.size(2) % kInPack == 0 &&
         x_NHK.size(2) <= kMostOrderedSize && x_NHK.size(0) < kBetween && x_NHK.numel() > 0 && x_NHK.stride(2) == 1 &&
         wide_rows(x_NHK.stride(0), {x_NHK}) && wide_rows(x_NHK.stride(1), {x_NHK}) &&
         cores_read_themselves(x_NHK);
}

// What both kernels go by.
struct Backward {
  at::Tensor q, k, v, dy, described;
  at::Tensor ends;
  double scale;
  std::int64_t before, after;

  std::int64_t tokens() const { return q.size(0); }
  std::int64_t shared() const { return q.size(1) / k.size(1); }
  int packs() const { return static_cast<int>(q.size(2) / kInPack); }

  // own, other: two matrices each. each: heads of others for one of the own, or else `among` own for one of the others.
  void launch_for(const TileKernel& tiles, const std::array<at::Tensor, 2>& own, const std::array<at::Tensor, 2>& other,
                  std::int64_t each, std::int64_t among, std::int64_t back, std::int64_t ahead, const at::Tensor& to,
                  const at::Tensor& to_too) const {
    const std::int64_t documents = ends.size(0) - 1, heads = own[0].size(1);
    std::array<std::int64_t, 8> strides{};
    for (std::size_t i = 0; i < 4; ++i) {
      const at::Tensor& x = i < 2 ? own[i] : other[i - 2];
      strides[2 * i] = x.stride(0), strides[2 * i + 1] = x.stride(1);
    }
    const auto number = [](std::int64_t x) { return static_cast<int>(x); };
    launch(tiles.kernel, q, tiles.grid(tokens(), documents, heads), own[0], own[1], other[0], other[1], strides,
           described, ends, number(documents), tokens(), number(heads), number(each), number(among), packs(), scale,
           number(back), number(ahead), to, to_too);
  }
};

// Of each query, by heads: the exponent of 2 of its softmax's sum, and its output times that one's gradient.
at::Tensor described(const at::Tensor& y_NHK, const at::Tensor& dy_NHK, const at::Tensor& lse_HN) {
  constexpr std::int64_t kThreads = 256, kRows = kThreads / kInPack;
  const std::int64_t tokens = y_NHK.size(0), heads = y_NHK.size(1);
  const at::Tensor made = at::empty({heads, tokens, 2}, lse_HN.options());
  launch({"attention_backward", "describe_queries"}, y_NHK,
         {.x = ceil_div(tokens * heads, kRows), .threads = static_cast<int>(kThreads)}, y_NHK, dy_NHK, lse_HN, made,
         tokens, static_cast<int>(heads), static_cast<int>(y_NHK.size(2) / kInPack), lse_HN.stride(1),
         lse_HN.stride(0));
  return made;
}

}  // namespace

std::optional<AttentionGradients> ordered_attention_backward(const at::Tensor& dy_NHK, const AttentionSaved& saved,
                                                             const Packed& packed, const AttentionOptions& options) {
  const at::Tensor dy = dy_NHK.contiguous(), y = saved.result.y_NHK.contiguous();
  for (const at::Tensor& x : {dy, y, saved.q_NHK, saved.k_NGK, saved.v_NGK})
    if (!ordered_takes(x)) return {};
  if (options.soft_cap > 0 || options.dropout > 0 || saved.q_NHK.size(0) != saved.k_NGK.size(0)) return {};
  const Window window(options.mask);
  const Backward call{saved.q_NHK,
                      saved.k_NGK,
                      saved.v_NGK,
                      dy,
                      described(y, dy, saved.result.lse_HN),
                      packed.q_ends(),
                      options.scale,
                      std::min(kBetween, window.before.value_or(kBetween)),
                      std::min(kBetween, window.after.value_or(kBetween))};
  const auto dense = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
  const AttentionGradients made{dense(call.q), dense(call.k), dense(call.v)};
  const std::int64_t size = call.q.size(2);
  const TileKernel of_keys(size, "attention_of_keys_64", "attention_of_keys_128");
  const TileKernel of_queries(size, "attention_of_queries_64", "attention_of_queries_128");
  call.launch_for(of_keys, {call.k, call.v}, {call.q, dy}, call.shared(), 1, call.after, call.before, made.k_NGK,
                  made.v_NGK);
  call.launch_for(of_queries, {call.q, dy}, {call.k, call.v}, 1, call.shared(), call.before, call.after, made.q_NHK,
                  {});
  return made;
}

}  // namespace hone::ops::cuda_table
