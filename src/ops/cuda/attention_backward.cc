#include "ops/cuda/attention_backward.h"

#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kSide = 64, kInPack = 8, kMostOrderedSize = 128, kGroups = 2, kOwnLines = kGroups * kSide;
constexpr std::int64_t kRoomUnit = 1024, kBetween = 1 << 28;  // more tokens than two of a document lie apart

// A kernel for heads of so many squares of 64 values, which has so many of the own two matrices in the room and so many
// blocks of others: as kernels/attention_backward.cu names them.
struct TileKernel {
  const char* name;
  std::int64_t squares, own, blocks;
};
Grid grid_of(const TileKernel& kernel, std::int64_t tiles) {
  const std::int64_t rows = kernel.squares * kSide * kSide * 2, described = kSide * 2 * 4, gate = 8;
  return {.x = tiles,
          .threads = static_cast<int>((kGroups + 1) * kSide * 2),
          .shared_bytes = (kernel.own * kGroups + kernel.blocks * 2) * rows + kernel.blocks * described +
                          (kernel.blocks * 2 + kGroups) * gate + kRoomUnit};
}
constexpr TileKernel kOfKeys[] = {{"attention_of_keys_64", 1, 0, 6}, {"attention_of_keys_128", 2, 2, 4}};
constexpr TileKernel kOfQueries[] = {{"attention_of_queries_64", 1, 0, 6}, {"attention_of_queries_128", 2, 1, 4}};

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

  // Own heads that share another one are gone through by one block where there are enough of them: it begins once.
  std::int64_t times_of(std::int64_t tiles, std::int64_t among) const {
    constexpr std::int64_t kEnough = 3;  // blocks of each multiprocessor, of which the first ones have most to do
    return tiles / among >= kEnough * multiprocessors(q) ? among : 1;
  }

  // own, other: two matrices each. each: heads of others for one of the own, or else `among` own for one of the others.
  void launch_for(const TileKernel& kernel, const std::array<at::Tensor, 2>& own,
                  const std::array<at::Tensor, 2>& other, std::int64_t each, std::int64_t among, std::int64_t back,
                  std::int64_t ahead, const at::Tensor& to, const at::Tensor& to_too) const {
    const std::int64_t documents = ends.size(0) - 1, heads = own[0].size(1);
    std::array<std::int64_t, 8> strides{};
    for (std::size_t i = 0; i < 4; ++i) {
      const at::Tensor& x = i < 2 ? own[i] : other[i - 2];
      strides[2 * i] = x.stride(0), strides[2 * i + 1] = x.stride(1);
    }
    const std::int64_t tiles_there = tokens() / kOwnLines + documents, times = times_of(tiles_there * heads, among);
    const auto number = [](std::int64_t x) { return static_cast<int>(x); };
    launch({"attention_backward", kernel.name}, q, grid_of(kernel, tiles_there * heads / times), own[0], own[1],
           other[0], other[1], strides, described, ends, number(documents), tokens(), number(heads), number(each),
           number(among), number(times), packs(), scale, number(back), number(ahead), to, to_too);
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
  const std::size_t wide = call.q.size(2) > kSide ? 1 : 0;
  call.launch_for(kOfKeys[wide], {call.k, call.v}, {call.q, dy}, call.shared(), 1, call.after, call.before, made.k_NGK,
                  made.v_NGK);
  call.launch_for(kOfQueries[wide], {call.q, dy}, {call.k, call.v}, 1, call.shared(), call.before, call.after,
                  made.q_NHK, {});
  return made;
}

}  // namespace hone::ops::cuda_table
