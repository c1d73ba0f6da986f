// Gradients of attention by the kernels that add in one order, beside its meaning in fp64.
#include "cuda/kernel_check.h"
#include "ops/attention.h"

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
  Results by(const Backend& table) const {
    AttentionSaved of = saved;
    of.result = reference_backend().attention.forward(of.q_NHK, of.k_NGK, of.v_NGK, spans, options);
    const AttentionGradients made = table.attention.backward(dy_NHK, of, spans, options);
    return {made.q_NHK, made.k_NGK, made.v_NGK};
  }
  std::vector<Span> spans;
  AttentionOptions options;
  AttentionSaved saved;
  Tensor dy_NHK;
};

// Weights and slopes are rounded to the type before they are multiplied. times: of what is allowed.
void expect_its_meaning(const Case& in, double times = 1, int multiprocessors = 1) {
  const OfCapability scope(90, multiprocessors);
  const std::string what = in.described();
  const Results got = emulated_results([&](const Backend& table) { return in.by(table); }, what);
  const Results expected = in.meaning();
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].scalar_type(), in.dy_NHK.scalar_type());
    expect_same(got[i].to(at::kDouble), expected[i], times * kernel_tolerance(in.dy_NHK.scalar_type()),
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
  for (const int multiprocessors : {1, 100})
    for (const std::int64_t size : {16, 80})
      expect_its_meaning({140, {{0, 3}, {3, 140}}, {4, 1, size}, at::kBFloat16, {0.3, kCausal}}, 1, multiprocessors);
}
TEST(CudaAttentionBackward, DocumentsOfEveryLength) {
  // Some end at the bounds of blocks and tiles; between some lie tokens of none.
  const std::vector<Span> spans = {{0, 64}, {64, 65}, {70, 198}, {198, 200}, {200, 393}, {400, 410}, {410, 475}};
  for (const Mask mask : {kCausal, kFull})
    for (const std::int64_t size : {32, 72}) expect_its_meaning({476, spans, {1, 1, size}, at::kBFloat16, {0.4, mask}});
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
