// Gradients of attention by the kernels that add in one order, beside its meaning in fp64.
#include "cuda/kernel_check.h"
#include "ops/attention.h"
#include "ops/meta/stands_for.h"
#include "tensor/meta_memory.h"

namespace hone::ops::test {
namespace {

struct Heads {
  std::int64_t queries, groups, size;
};

struct Case {
  Case(std::int64_t tokens, std::vector<Span> spans, Heads heads, at::ScalarType type, AttentionOptions options)
      : spans(std::move(spans)), options(options) {
    saved.q_NHK = sample({tokens, heads.queries, heads.size}, type);
    saved.k_NGK = sample({tokens, heads.groups, heads.size}, type, 2);
    saved.v_NGK = sample({tokens, heads.groups, heads.size}, type, 3);
    dy_NHK = sample({tokens, heads.queries, heads.size}, type, 4);
  }
  std::string described() const {
    return test::described(dy_NHK.scalar_type(), dy_NHK.size(0), dy_NHK.size(2)) + " heads " +
           std::to_string(dy_NHK.size(1)) + " of " + std::to_string(saved.k_NGK.size(1)) + " window " +
           std::to_string(options.mask.window) + (options.mask.kind == Mask::Kind::causal ? " causal" : " full");
  }
  // In fp64, of the same values.
  Results meaning() const {
    const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
    AttentionSaved of{wide(saved.q_NHK), wide(saved.k_NGK), wide(saved.v_NGK), {}};
    of.result = reference_backend().attention.forward(of.q_NHK, of.k_NGK, of.v_NGK, spans, options);
    const AttentionGradients made = reference_backend().attention.backward(wide(dy_NHK), of, spans, options);
    return {made.q_NHK, made.k_NGK, made.v_NGK};
  }
  AttentionSaved attended() const {
    AttentionSaved of = saved;
    of.result = reference_backend().attention.forward(of.q_NHK, of.k_NGK, of.v_NGK, spans, options);
    return of;
  }
  Results by(const Backend& table) const {
    const Documents documents = ends ? Documents({}, ends) : Documents(spans);
    const AttentionGradients made = table.attention.backward(dy_NHK, attended(), documents, options);
    return {made.q_NHK, made.k_NGK, made.v_NGK};
  }
  // Keeping slopes of so many squares at most.
  Results by_kept(std::int64_t most_squares) const {
    const UnwrittenIsNotANumber scope;
    const AttentionGradients made =
        emulated_attention_backward(dy_NHK, attended(), spans, options, most_squares * 64 * 64 * 2);
    return {made.q_NHK, made.k_NGK, made.v_NGK};
  }
  std::vector<Span> spans;
  std::optional<Documents::Ends> ends;  // where the device knows itself where they end
  AttentionOptions options;
  AttentionSaved saved;
  Tensor dy_NHK;
};

// Weights and slopes are rounded to the type before they are multiplied, and queries' slopes are made of weights that
// were rounded. times: of what is allowed.
constexpr double kTwiceRounded = 1.25;
void expect_its_meaning(const Case& in, double times = 1, int multiprocessors = 1) {
  const OfCapability scope(90, multiprocessors);
  const std::string what = in.described();
  const Results got = emulated_results([&](const Backend& table) { return in.by(table); }, what);
  const Results expected = in.meaning();
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].scalar_type(), in.dy_NHK.scalar_type());
    expect_same(got[i].to(at::kDouble), expected[i],
                times * (i == 0 ? kTwiceRounded : 1) * kernel_tolerance(in.dy_NHK.scalar_type()),
                what + ", " + "qkv"[i]);
  }
}

constexpr Mask kCausal = Mask::causal(), kFull = Mask::full();

TEST(CudaAttentionBackward, HeadSizesAndHeadsThatShare) {
  for (const std::int64_t size : {64, 128, 8, 40, 96})
    expect_its_meaning({70, {{0, 70}}, {2, 1, size}, at::kBFloat16, {0.3, kCausal}});
  expect_its_meaning({70, {{0, 70}}, {3, 3, 64}, at::kHalf, {0.3, kCausal}});
  expect_its_meaning({30, {{0, 30}}, {6, 2, 16}, at::kHalf, {0.3, kFull}});
}
// On a small GPU a block goes through all heads that share a key; on a large one, through one.
TEST(CudaAttentionBackward, HeadsThatTakeTurnsInABlock) {
  const std::vector<Span> spans = {{0, 3}, {3, 4}, {4, 140}};
  for (const int multiprocessors : {1, 100})
    for (const std::int64_t size : {16, 80})
      expect_its_meaning({140, spans, {4, 1, size}, at::kBFloat16, {0.3, kCausal}}, 1, multiprocessors);
}
TEST(CudaAttentionBackward, DocumentsOfEveryLength) {
  // Some end at the bounds of blocks and tiles; between some lie tokens of none.
  const std::vector<Span> spans = {{0, 64}, {64, 65}, {70, 198}, {198, 200}, {200, 393}, {400, 410}, {410, 475}};
  for (const Mask mask : {kCausal, kFull})
    for (const std::int64_t size : {32, 72}) expect_its_meaning({476, spans, {1, 1, size}, at::kBFloat16, {0.4, mask}});
}
// Documents are counted up to a power of two: some are empty. Of others, too, a device knows how many there may be.
TEST(CudaAttentionBackward, ManyShortDocuments) {
  std::vector<Span> spans;
  std::vector<std::int32_t> ends = {0};
  for (std::int32_t i = 0; i < 11; ++i) {
    spans.push_back({ends.back(), ends.back() + 1 + i * i % 11 * (i % 3)});
    ends.push_back(static_cast<std::int32_t>(spans.back().end));
  }
  for (const Mask mask : {kCausal, kFull, Mask::causal(3)}) {
    Case in(ends.back(), spans, {2, 1, 8}, at::kBFloat16, {0.4, mask});
    expect_its_meaning(in);
    std::vector<std::int32_t> more = ends;
    more.resize(ends.size() + 4, ends.back());
    in.ends = Documents::Ends{at::tensor(more, at::kInt), /*longest=*/300};
    expect_its_meaning(in);
  }
}
// Rows of squares of more than one block of queries, the last of which see no key of the first block's window.
TEST(CudaAttentionBackward, DocumentsOfSeveralBlocks) {
  const std::vector<Span> spans = {{0, 30}, {30, 420}};
  for (const Mask mask : {kCausal, Mask::causal(70), Mask::full(129)})
    expect_its_meaning({420, spans, {1, 1, 16}, at::kBFloat16, {0.4, mask}});
}
// Kept or not, gradients of keys and values are the same, and those of queries as near as rounded weights are. How many
// heads keep theirs at once changes nothing.
TEST(CudaAttentionBackward, HeadsTakeTurnsWhereSlopesHaveNoRoom) {
  const OfCapability scope(90);
  struct Of {
    at::ScalarType type;
    std::int64_t size;
    Mask mask;
    std::int64_t in_head;  // squares: rows of the documents together, times as many as the longest one's may have
  };
  const auto expect_bits = [](const Results& a, const Results& b, std::size_t from, const std::string& what) {
    for (std::size_t i = from; i < a.size(); ++i) EXPECT_TRUE(bits_of(a[i]).equal(bits_of(b[i]))) << what << i;
  };
  for (const Of& of : {Of{at::kBFloat16, 64, kCausal, 4 * 4 / 2}, Of{at::kHalf, 64, Mask::causal(40), 4 * 2},
                       Of{at::kBFloat16, 72, kFull, 4 * 3}, Of{at::kHalf, 128, kCausal, 4 * 4 / 2}}) {
    const Case in(150, {{0, 130}, {130, 150}}, {6, 3, of.size}, of.type, {0.3, of.mask});
    const std::int64_t of_key = 2 * of.in_head, before = emulated_launches();
    const Results all = in.by_kept(3 * of_key);
    EXPECT_EQ(emulated_launches() - before, 1 + 2) << in.described();
    const Results two = in.by_kept(3 * of_key - 1), one = in.by_kept(of_key);
    EXPECT_EQ(emulated_launches() - before, 3 + 1 + 2 * 2 + 1 + 3 * 2) << in.described();
    const Results none = in.by_kept(of_key - 1);
    EXPECT_EQ(emulated_launches() - before, 3 + 5 + 7 + 1 + 2) << in.described();
    expect_bits(two, all, 0, in.described());
    expect_bits(one, all, 0, in.described());
    expect_bits(none, all, 1, in.described());
    EXPECT_FALSE(none[0].equal(all[0])) << in.described();
    expect_same(none[0], all[0], kernel_tolerance(of.type), in.described());
  }
}
// A plan of memory, whose tensors are not there, has it in mind.
TEST(CudaAttentionBackward, SaysWhatItKeeps) {
  const OfCapability scope(90);
  MetaMemory memory;
  const StandsFor device(emulated_backend());
  const auto room = [&](std::int64_t tokens, Heads heads, at::ScalarType type, const AttentionOptions& options) {
    const at::TensorOptions nowhere = at::TensorOptions(at::kMeta).dtype(type);
    const Tensor q = at::empty({tokens, heads.queries, heads.size}, nowhere),
                 k = at::empty({tokens, heads.groups, heads.size}, nowhere);
    const std::vector<Span> halves = {{0, tokens / 2}, {tokens / 2, tokens}};
    const AttentionSaved saved{q, k, k, {}};
    const std::int64_t made = emulated_backend().attention.backward_room(saved, halves, options);
    const std::size_t before = memory.in_use(), gradients = q.nbytes() + 2 * k.nbytes();
    memory.forget_most();
    backend_of(q).attention.backward(q, saved, halves, options);
    EXPECT_EQ(memory.most() - before, gradients + static_cast<std::size_t>(made));
    return made;
  };
  constexpr std::int64_t kSquare = 64 * 64 * 2;
  EXPECT_EQ(room(8192, {24, 8, 128}, at::kBFloat16, {1, kCausal}), 24 * (129 * 65 / 2) * kSquare);
  EXPECT_EQ(room(8192, {24, 8, 128}, at::kBFloat16, {1, Mask::causal(1024)}), 24 * 129 * 17 * kSquare);
  EXPECT_EQ(room(8192, {24, 8, 128}, at::kBFloat16, {1, kFull}), 12 * 129 * 64 * kSquare);  // in turns
  EXPECT_EQ(room(1 << 16, {24, 8, 128}, at::kBFloat16, {1, kFull}), 0);                     // of none
  EXPECT_EQ(room(8192, {24, 8, 128}, at::kFloat, {1, kCausal}), 0);
  EXPECT_EQ(room(8192, {24, 8, 128}, at::kBFloat16, {1, kCausal, /*soft_cap=*/50}), 0);
  const OfCapability other(80);
  EXPECT_EQ(room(8192, {24, 8, 128}, at::kBFloat16, {1, kCausal}), 0);
}
TEST(CudaAttentionBackward, Windows) {
  for (const std::int64_t window : {1, 5, 64, 65, 130})
    for (const Mask::Kind kind : {Mask::Kind::causal, Mask::Kind::full})
      expect_its_meaning({205, {{0, 200}}, {1, 1, 16}, at::kBFloat16, {0.4, {kind, window}}});
}
// All scores are so far below 0 that those of keys which are not there, 0, would give infinite weights. What the output
// lost when it was rounded weighs the more: all keys lie on one side of 0.
TEST(CudaAttentionBackward, KeysThatAreNotThereHaveNoWeight) {
  for (const Mask mask : {kCausal, kFull}) {
    Case in(75, {{0, 75}}, {2, 1, 64}, at::kBFloat16, {4, mask});
    in.saved.q_NHK = in.saved.q_NHK.abs() + 0.5, in.saved.k_NGK = -in.saved.k_NGK.abs();
    ASSERT_LT(at::einsum("nhk,nhk->nh", {in.saved.q_NHK, in.saved.k_NGK}).max().item<double>() * 4, -90);
    expect_its_meaning(in, 4);
  }
}
TEST(CudaAttentionBackward, RowsThatLieAmongOthers) {
  Case in(40, {{0, 40}}, {4, 2, 16}, at::kBFloat16, {0.4, kCausal});
  const Tensor qkv = at::cat({in.saved.q_NHK, in.saved.k_NGK, in.saved.v_NGK}, 1);
  in.saved.q_NHK = qkv.narrow(1, 0, 4), in.saved.k_NGK = qkv.narrow(1, 4, 2), in.saved.v_NGK = qkv.narrow(1, 6, 2);
  expect_its_meaning(in);
  const Tensor by_heads = in.saved.q_NHK.transpose(0, 1).contiguous();
  in.saved.q_NHK = by_heads.transpose(0, 1);
  expect_its_meaning(in);
}

}  // namespace
}  // namespace hone::ops::test
