#include "ops/cuda/attention_backward.h"

#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kSide = 64, kSquare = kSide * kSide, kInPack = 8, kMostOrderedSize = 128;
constexpr std::int64_t kGroups = 2, kOwnLines = kGroups * kSide;
constexpr std::int64_t kSlopeRows = 2 * kGroups, kSlopeLines = kSlopeRows * kSide;  // kernels/attention_slopes.cu
constexpr std::int64_t kRoomUnit = 1024, kBetween = 1 << 28;  // more tokens than two of a document lie apart

constexpr int kThreads = static_cast<int>((kGroups + 1) * kSide * 2);

// A kernel for heads of so many squares of 64 values, which has so many of the own two matrices in the room and so many
// blocks of others: as kernels/attention_backward.cu names them.
struct TileKernel {
  const char* name;
  std::int64_t squares, own, blocks;
};
Grid grid_of(const TileKernel& kernel, std::int64_t tiles) {
  const std::int64_t rows = kernel.squares * kSquare * 2, described = kSide * 2 * 4, gate = 8;
  return {.x = tiles,
          .threads = kThreads,
          .shared_bytes = (kernel.own * kGroups + kernel.blocks * 2) * rows + kernel.blocks * described +
                          (kernel.blocks * 2 + kGroups) * gate + kRoomUnit};
}
constexpr TileKernel kOfKeys[] = {{"attention_of_keys_64", 1, 0, 6}, {"attention_of_keys_128", 2, 2, 4}};
// The same by what was kept, and with so many blocks of keys and slopes.
struct SlopesKernel {
  const char* name;
  std::int64_t squares, blocks;
};
Grid grid_of(const SlopesKernel& kernel, std::int64_t tiles) {
  const std::int64_t square = kSquare * 2, gate = 8;
  return {.x = tiles,
          .threads = kThreads,
          .shared_bytes = kernel.blocks * ((kernel.squares + kSlopeRows) * square + 2 * gate) + kRoomUnit};
}
constexpr SlopesKernel kOfSlopes[] = {{"attention_of_slopes_64", 1, 5}, {"attention_of_slopes_128", 2, 4}};
constexpr TileKernel kOfQueries[] = {{"attention_of_queries_64", 1, 0, 6}, {"attention_of_queries_128", 2, 1, 4}};

bool knows(const at::Tensor& x_NHK) {
  return (x_NHK.scalar_type() == at::kBFloat16 || x_NHK.scalar_type() == at::kHalf) && x_NHK.size(2) % kInPack == 0 &&
         x_NHK.size(2) <= kMostOrderedSize && x_NHK.size(0) < kBetween && x_NHK.numel() > 0 &&
         cores_read_themselves(x_NHK);
}
bool lies_well(const at::Tensor& x_NHK) {
  return x_NHK.stride(2) == 1 && wide_rows(x_NHK.stride(0), {x_NHK}) && wide_rows(x_NHK.stride(1), {x_NHK});
}
bool knows_all(const AttentionSaved& saved, const AttentionOptions& options) {
  return knows(saved.q_NHK) && knows(saved.k_NGK) && knows(saved.v_NGK) && options.soft_cap == 0 &&
         options.dropout == 0 && saved.q_NHK.size(0) == saved.k_NGK.size(0);
}

// So many keys before and behind its own place a query sees.
struct Reach {
  explicit Reach(const Mask& mask) {
    const Window window(mask);
    before = std::min(kBetween, window.before.value_or(kBetween));
    after = std::min(kBetween, window.after.value_or(kBetween));
  }
  std::int64_t before, after;
};

// Where slopes of squares of 64 queries and 64 keys are kept, as kernels/squares.h has it.
struct Kept {
  // Rows that are not whole are filled up in each document.
  static Kept room(std::int64_t tokens, std::int64_t documents, std::int64_t longest, const Reach& reach) {
    const std::int64_t band = ceil_div(reach.before, kSide) + 1 + ceil_div(reach.after, kSide);
    const std::int64_t most = std::max<std::int64_t>(1, ceil_div(longest, kSide));
    const std::int64_t rows = (tokens + (kSide - 1) * documents) / kSide;
    Kept kept{.in_row = std::min(most, band), .triangle = reach.after == 0 && most <= band};
    kept.in_head = kept.triangle ? rows * (kept.in_row + 1) / 2 : rows * kept.in_row;
    return kept;
  }
  std::int64_t head_bytes() const { return in_head * kSquare * 2; }
  // Of heads of keys that so many share; 0: not even one has room.
  std::int64_t heads_at_once(std::int64_t heads, std::int64_t shared, std::int64_t most_bytes) const {
    const std::int64_t most = std::min(heads, most_bytes / (shared * head_bytes()));
    return most == 0 ? 0 : ceil_div(heads, ceil_div(heads, most));
  }
  at::Tensor squares{};
  std::int64_t in_head = 0, in_row = 0;
  bool triangle = false;
};

// What all kernels go by.
struct Backward {
  at::Tensor q, k, v, dy, described;
  at::Tensor ends;
  double scale;
  Reach sees;
  AttentionGradients to;

  void make(std::int64_t longest, std::int64_t most_kept_bytes) const {
    Kept kept = Kept::room(tokens(), documents(), longest, sees);
    const std::int64_t heads = k.size(1), at_once = kept.heads_at_once(heads, shared(), most_kept_bytes);
    if (at_once == 0) {
      of_keys({});
      of_queries();
      return;
    }
    kept.squares = at::empty({at_once * shared(), kept.in_head, kSquare}, q.options());
    for (std::int64_t first = 0; first < heads; first += at_once) {
      const Backward part = of_heads(first, std::min(at_once, heads - first));
      part.of_keys(kept);
      part.of_queries(kept);
    }
  }

 private:
  std::int64_t tokens() const { return q.size(0); }
  std::int64_t documents() const { return ends.size(0) - 1; }
  std::int64_t shared() const { return q.size(1) / k.size(1); }
  int packs() const { return static_cast<int>(q.size(2) / kInPack); }
  std::size_t wide() const { return q.size(2) > kSide ? 1 : 0; }

  // Of so many heads of keys from one on alone, and of the queries' that share them.
  Backward of_heads(std::int64_t first, std::int64_t count) const {
    Backward part = *this;
    for (at::Tensor* x : {&part.k, &part.v, &part.to.k_NGK, &part.to.v_NGK}) *x = x->narrow(1, first, count);
    for (at::Tensor* x : {&part.q, &part.dy, &part.to.q_NHK}) *x = x->narrow(1, first * shared(), count * shared());
    part.described = described.narrow(0, first * shared(), count * shared());
    return part;
  }

  // Own heads that share another one are gone through by one block where there are enough of them: it begins once.
  std::int64_t times_of(std::int64_t tiles, std::int64_t among) const {
    constexpr std::int64_t kEnough = 3;  // blocks of each multiprocessor, of which the first ones have most to do
    return tiles / among >= kEnough * multiprocessors(q) ? among : 1;
  }
  std::int64_t tiles_of(std::int64_t lines, std::int64_t heads) const {
    return (tokens() / lines + documents()) * heads;
  }

  // own, other: two matrices each. each: heads of others for one of the own, or else `among` own for one of the others.
  void launch_for(const TileKernel& kernel, const std::array<at::Tensor, 2>& own,
                  const std::array<at::Tensor, 2>& other, std::int64_t each, std::int64_t among, std::int64_t back,
                  std::int64_t ahead, const Kept& kept, const at::Tensor& to_0, const at::Tensor& to_1) const {
    const std::int64_t heads = own[0].size(1), tiles = tiles_of(kOwnLines, heads), times = times_of(tiles, among);
    std::array<std::int64_t, 8> strides{};
    for (std::size_t i = 0; i < 4; ++i) {
      const at::Tensor& x = i < 2 ? own[i] : other[i - 2];
      strides[2 * i] = x.stride(0), strides[2 * i + 1] = x.stride(1);
    }
    launch({"attention_backward", kernel.name}, q, grid_of(kernel, tiles / times), own[0], own[1], other[0], other[1],
           strides, described, ends, number(documents()), tokens(), number(heads), number(each), number(among),
           number(times), packs(), scale, number(back), number(ahead), kept.squares, number(kept.in_head),
           number(kept.in_row), kept.triangle, to_0, to_1, to_0.stride(0));
  }
  void of_keys(const Kept& kept) const {
    launch_for(kOfKeys[wide()], {k, v}, {q, dy}, shared(), 1, sees.after, sees.before, kept, to.k_NGK, to.v_NGK);
  }
  void of_queries() const {
    launch_for(kOfQueries[wide()], {q, dy}, {k, v}, 1, shared(), sees.before, sees.after, {}, to.q_NHK, {});
  }
  void of_queries(const Kept& kept) const {
    const SlopesKernel& kernel = kOfSlopes[wide()];
    const std::int64_t tiles = tiles_of(kSlopeLines, q.size(1)), times = times_of(tiles, shared());
    launch({"attention_slopes", kernel.name}, q, grid_of(kernel, tiles / times), k, k.stride(0), k.stride(1),
           kept.squares, number(kept.in_head), number(kept.in_row), kept.triangle, ends, number(documents()),
           number(q.size(1)), number(shared()), number(times), packs(), scale, number(sees.before), number(sees.after),
           to.q_NHK, to.q_NHK.stride(0));
  }

  static int number(std::int64_t x) { return static_cast<int>(x); }
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
                                                             const Packed& packed, const AttentionOptions& options,
                                                             std::int64_t most_kept_bytes) {
  const at::Tensor dy = dy_NHK.contiguous(), y = saved.result.y_NHK.contiguous();
  if (!knows_all(saved, options)) return {};
  for (const at::Tensor& x : {dy, y, saved.q_NHK, saved.k_NGK, saved.v_NGK})
    if (!lies_well(x)) return {};
  const auto dense = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
  const Backward call{saved.q_NHK,
                      saved.k_NGK,
                      saved.v_NGK,
                      dy,
                      described(y, dy, saved.result.lse_HN),
                      packed.q_ends(),
                      options.scale,
                      Reach(options.mask),
                      {dense(saved.q_NHK), dense(saved.k_NGK), dense(saved.v_NGK)}};
  call.make(packed.most_keys(), most_kept_bytes);
  return call.to;
}

std::int64_t ordered_attention_room(const AttentionSaved& saved, std::int64_t documents, std::int64_t longest,
                                    const AttentionOptions& options) {
  if (!knows_all(saved, options)) return 0;
  const std::int64_t heads = saved.k_NGK.size(1), shared = saved.q_NHK.size(1) / heads;
  const Kept kept = Kept::room(saved.q_NHK.size(0), documents, longest, Reach(options.mask));
  return kept.heads_at_once(heads, shared, kMostKeptBytes) * shared * kept.head_bytes();
}

}  // namespace hone::ops::cuda_table
