// The GPU's primitives beside plain ATen's on the same GPU. Skips without one.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <gtest/gtest.h>

#include "ops/backend.h"
#include "ops/likeliest.h"
#include "tensor/device.h"

namespace hone::test {
namespace {

class GpuTable : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    const std::vector<at::Device> all = devices::all();
    const auto found = std::find_if(all.begin(), all.end(), [](at::Device device) { return device.is_cuda(); });
    if (found == all.end()) GTEST_SKIP() << "no GPU, or a build without CUDA";
    device_ = *found;
    at::manual_seed(1);
  }
  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes).to(device_, GetParam()); }
  at::Tensor room(at::IntArrayRef sizes, at::ScalarType type) const {
    return at::empty(sizes, at::TensorOptions(device_).dtype(type));
  }
  const ops::Backend& table() const { return ops::backend_of(random({1})); }
  static void expect_near(const at::Tensor& got, const at::Tensor& expected, const char* what) {
    const at::Tensor a = got.to(at::kDouble), b = expected.to(at::kDouble);
    const double limit = GetParam() == at::kDouble ? 1e-11 : GetParam() == at::kFloat ? 1e-5 : 1.0 / 64;
    EXPECT_TRUE(at::allclose(a, b, limit, limit * std::max(1.0, b.abs().max().item<double>()))) << what;
  }
  at::Device device_ = at::kCPU;
  const ops::Backend& plain_ = ops::reference_backend();
};

TEST_P(GpuTable, IsItsOwn) { EXPECT_EQ(table().name, "cuda"); }

TEST_P(GpuTable, Products) {
  const auto wide = at::toOpMathType(GetParam());
  const at::Tensor a = random({70, 33}), b = random({33, 50}), c = random({70, 21}), d = random({21, 50});
  for (const at::ScalarType type : {GetParam(), wide})
    for (const bool add : {false, true}) {
      at::Tensor got = at::ones({70, 50}, at::TensorOptions(device_).dtype(type)), expected = got.clone();
      table().products.into(got, {{a, b}, {c, d}}, add);
      plain_.products.into(expected, {{a, b}, {c, d}}, add);
      expect_near(got, expected, "product");
    }
}

TEST_P(GpuTable, SumsOfProductsThatAreRoundedOnce) {
  for (const std::int64_t depth : {24, 25}) {  // of few outputs, and of many, where factors are brought side by side
    const at::Tensor a = random({70, depth}), b = random({70, 8}), c = random({70, 16});
    for (const std::int64_t columns : {8, 600}) {
      const ops::Factors other{a, random({depth, columns})};
      const ops::Factors more{random({70, 8 * depth}), random({8 * depth, columns})};
      for (const std::vector<ops::Factors>& factors :
           {std::vector<ops::Factors>{other, {b, random({8, columns})}, {c, random({columns, 16}).t()}},
            {more, other},
            {other, more}}) {
        at::Tensor got = room({70, columns}, GetParam()), expected = got.clone();
        table().products.into(got, factors, false);
        plain_.products.into(expected, factors, false);
        expect_near(got, expected, "sum of products");
      }
    }
  }
}

TEST_P(GpuTable, FewRowsWithTheirNorm) {
  for (const std::int64_t rows : {1, 3, 8}) {
    const at::Tensor x = random({rows, 2048}), residual = random({rows, 2048}), norm = random({2048});
    const auto weight = [&](std::int64_t outs) { return ops::LinearWeight{random({outs, 2048}) / 45, random({outs})}; };
    const std::vector<ops::LinearWeight> weights{weight(4096), weight(1024), weight(40)};
    const ops::LinearWeight up = weight(4096);
    const auto& products = table().products;
    const auto& norms = table().norms;
    for (const at::Tensor& beside : {residual, at::Tensor()}) {
      const ops::RmsNormed apart = norms.rms_norm(x, beside, norm, 1e-6);
      const ops::NormedProducts got = products.norm_skinny({x, beside, norm, 1e-6}, weights),
                                gated = products.norm_skinny_gated({x, beside, norm, 1e-6}, weights[0], up,
                                                                   ops::Activation::silu);
      const std::vector<at::Tensor> expected = products.skinny(apart.normed, weights);
      for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(got.products[i].equal(expected[i])) << i;
      EXPECT_TRUE(gated.products[0].equal(
          products.skinny_gated(apart.normed, weights[0], up, ops::Activation::silu)));
      EXPECT_TRUE(got.sum.equal(apart.sum) && gated.sum.equal(apart.sum));
      expect_near(got.products[0], plain_.products.skinny(apart.normed, weights)[0], "product");
    }
  }
}

TEST_P(GpuTable, NewTokensThatAreTurnedAndStoredOnTheWay) {
  const std::int64_t rows = 3, groups = 2, size = 64;
  const at::Tensor q = random({rows, 8, size}), k = random({rows, groups, size}), v = random({rows, groups, size});
  const at::Tensor k_cache = random({rows, groups, 700, size}), v_cache = random({rows, groups, 700, size});
  const at::Tensor held = at::tensor({0, 129, 640}, at::kLong).to(device_);
  const at::Tensor angles = at::rand({700, size / 2}).to(device_, at::toOpMathType(GetParam())) * 6;
  const ops::NewTokens tokens{q, k, v, {angles.cos(), angles.sin(), held}};
  const ops::CacheRoom got{k_cache.clone(), v_cache.clone()}, expected{k_cache.clone(), v_cache.clone()};
  const at::Tensor y = table().attention.decode_new(tokens, got, held, {0.1});
  const at::Tensor turned = at::empty_like(q), turned_k = at::empty_like(k);
  plain_.elementwise.rotate_into(turned, q, tokens.rope, false);
  plain_.elementwise.rotate_into(turned_k, k, tokens.rope, false);
  plain_.attention.store_one_each(turned_k, v, expected, held);
  expect_near(y, plain_.attention.decode(turned, expected.k_RGCK, expected.v_RGCK, held, {0.1}), "attended");
  expect_near(got.k_RGCK, expected.k_RGCK, "keys");
  EXPECT_TRUE(got.v_RGCK.equal(expected.v_RGCK));
}

TEST_P(GpuTable, LikeliestTokensBeginTheNextStep) {
  const at::Tensor logits = random({3, 9001});
  logits[1][7] = NAN;
  const auto run = [&](const ops::Backend& table) {
    const ops::BackendScope scope(table);
    const ops::NextStep next{at::full({3, 1}, 9, at::kLong).to(device_), {}};
    ops::NextStep counted = next;
    for (int i = 0; i < 6; ++i) counted.held_R.push_back(at::arange(3, at::kLong).to(device_) * i);
    const at::Tensor made = ops::likeliest_then(logits, counted);
    return std::vector<at::Tensor>{made, next.ids_R1, at::stack(counted.held_R)};
  };
  const std::vector<at::Tensor> got = run(table()), expected = run(plain_);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
}

TEST_P(GpuTable, RoutedRows) {
  const std::int64_t tokens = 1000, experts = 8, width = 264;
  const at::Tensor expert = std::get<1>(at::topk(at::randn({tokens, experts}), 2, -1)).to(device_);
  const ops::RoutedSlots got = table().routed.slots(expert, experts), slots = plain_.routed.slots(expert, experts);
  EXPECT_TRUE(got.slot_S.equal(slots.slot_S) && got.place_NK.equal(slots.place_NK));
  EXPECT_TRUE(got.begin_E1.equal(slots.begin_E1));
  const at::Tensor x = random({tokens, width}), y = random({2 * tokens, width});
  const at::Tensor weight = at::rand({tokens, 2}).to(device_, at::toOpMathType(GetParam()));
  EXPECT_TRUE(table().routed.take(x, slots.slot_S).equal(plain_.routed.take(x, slots.slot_S)));
  for (const at::Tensor& shares : {weight, at::Tensor()}) {
    const auto sum = [&](const ops::Backend& by) { return by.routed.add_up(y, slots.place_NK, shares); };
    expect_near(sum(table()), sum(plain_), "sum");
  }
  const ops::RoutedGated saved{random({2 * tokens, width}), random({2 * tokens, width}), weight, slots.slot_S};
  const auto back = [&](const ops::Backend& by) {
    return by.routed.gated_backward(y.clone(), saved, ops::Activation::silu);
  };
  const ops::RoutedGradients made = back(table()), expected = back(plain_);
  expect_near(made.inner_SI, expected.inner_SI, "inner"), expect_near(made.gate_SI, expected.gate_SI, "gate");
  expect_near(made.up_SI, expected.up_SI, "up"), expect_near(made.weight_NK, expected.weight_NK, "weights");
}

TEST_P(GpuTable, GroupedProducts) {
  const std::vector<std::int64_t> begin{0, 300, 300, 301, 640, 1000};
  const ops::RowGroups groups(at::tensor(begin, at::kLong).to(device_));
  const auto weights = [&](std::int64_t in, std::int64_t out, bool turned) {
    std::vector<at::Tensor> made;
    for (int g = 0; g < 5; ++g) made.push_back(turned ? random({in, out}) : random({out, in}).t());
    return made;
  };
  for (const std::int64_t in : {264, 33})
    for (const bool turned : {false, true}) {
      const std::vector<ops::GroupedFactors> factors{{random({1000, in}), weights(in, 152, turned)},
                                                     {random({1000, in}), weights(in, 152, turned)}};
      at::Tensor got = room({1000, 152}, GetParam()), expected = got.clone();
      table().products.grouped(got, factors, groups);
      plain_.products.grouped(expected, factors, groups);
      expect_near(got, expected, "grouped");
      at::Tensor again = at::empty_like(got);
      table().products.grouped(again, factors, groups);
      EXPECT_TRUE(got.equal(again)) << "other bits";
    }
  const at::Tensor a = random({1000, 136}), b = random({1000, 72});
  std::vector<ops::Target> got(5), expected(5);
  for (std::size_t g = 0; g < 5; ++g)
    for (std::vector<ops::Target>* to : {&got, &expected})
      (*to)[g] = {at::ones({136, 72}, at::TensorOptions(device_).dtype(at::toOpMathType(GetParam()))), g % 2 == 0};
  table().products.over_groups(a, b, groups, got);
  plain_.products.over_groups(a, b, groups, expected);
  for (std::size_t g = 0; g < 5; ++g) expect_near(got[g].out, expected[g].out, "over groups");
}

// So large that each multiprocessor of an H200 makes a tile and more.
TEST_P(GpuTable, LargeGroupedProducts) {
  const std::vector<std::int64_t> begin{0, 2000, 2000, 2001, 5000, 9000};
  const ops::RowGroups groups(at::tensor(begin, at::kLong).to(device_));
  for (const std::int64_t out : {648, 640})
    for (const bool turned : {false, true}) {
      const auto factors_of = [&] {
        std::vector<at::Tensor> made;
        for (int g = 0; g < 5; ++g) made.push_back(turned ? random({200, out}) : random({out, 200}).t());
        return ops::GroupedFactors{random({9000, 200}), made};
      };
      std::vector<ops::GroupedFactors> factors{factors_of()};
      for (int count = 1; count <= 2; ++count, factors.push_back(factors_of())) {
        at::Tensor got = room({9000, out}, GetParam()), expected = got.clone(), again = got.clone();
        table().products.grouped(got, factors, groups);
        table().products.grouped(again, factors, groups);
        plain_.products.grouped(expected, factors, groups);
        expect_near(got, expected, "grouped");
        EXPECT_TRUE(got.equal(again)) << "other bits";
      }
    }
  const at::Tensor a = random({9000, 1288}), b = random({9000, 1160});
  std::vector<ops::Target> got(5), again(5), expected(5);
  for (std::size_t g = 0; g < 5; ++g)
    for (std::vector<ops::Target>* to : {&got, &again, &expected}) {
      const at::ScalarType type = g < 3 ? at::toOpMathType(GetParam()) : GetParam();
      (*to)[g] = {at::ones({1288, 1160}, at::TensorOptions(device_).dtype(type)), g % 2 == 0};
    }
  table().products.over_groups(a, b, groups, got);
  table().products.over_groups(a, b, groups, again);
  plain_.products.over_groups(a, b, groups, expected);
  for (std::size_t g = 0; g < 5; ++g) {
    expect_near(got[g].out, expected[g].out, "over groups");
    EXPECT_TRUE(got[g].out.equal(again[g].out)) << "other bits";
  }
}

TEST_P(GpuTable, Float8) {
  if (GetParam() != at::kBFloat16) GTEST_SKIP() << "products in fp8 are of runs in bf16";
  if (table().products.float8_by(random({1})) != ops::Float8By::hardware) GTEST_SKIP() << "no fp8 on this GPU";
  const at::Tensor x = random({70, 64}), w = random({96, 64}), dy = random({70, 96});
  for (const bool by_rows : {false, true}) {
    const ops::Float8Format format{at::kFloat8_e4m3fn, by_rows},
        of_gradient{by_rows ? at::kFloat8_e4m3fn : at::kFloat8_e5m2, by_rows};
    const auto both = [&](const at::Tensor& of, const ops::Float8Format& how, bool turned) {
      const ops::Float8Matrix got = table().products.to_float8(of, how, turned),
                              expected = plain_.products.to_float8(of, how, turned);
      const at::Tensor values = got.values_RK.narrow(1, 0, expected.values_RK.size(1));
      EXPECT_TRUE(values.view(at::kByte).equal(expected.values_RK.view(at::kByte))) << by_rows << turned;
      EXPECT_TRUE(got.inverse_scale_R1.equal(expected.inverse_scale_R1));
      return got;
    };
    const auto expect_product = [&](const std::vector<ops::Float8Factors>& factors, at::ScalarType type, bool add) {
      at::Tensor out = at::ones({factors[0].a_MK.values_RK.size(0), factors[0].b_NK.values_RK.size(0)},
                                at::TensorOptions(device_).dtype(type)), plain = out.clone();
      table().products.float8_into(out, factors, add, !add);
      plain_.products.float8_into(plain, factors, add, !add);
      expect_near(out, plain, "product");
    };
    const ops::Float8Factors forward{both(x, format, false), both(w, format, false)},
        back{both(dy, of_gradient, false), both(w, format, true)},
        gradient{both(dy, of_gradient, true), both(x, format, true)};
    expect_product({forward}, at::kBFloat16, false);
    expect_product({back}, at::kBFloat16, false);
    expect_product({back, back}, at::kBFloat16, false);
    for (const bool add : {false, true}) expect_product({gradient}, at::kFloat, add);
  }
}

TEST_P(GpuTable, Norms) {
  for (const bool with_residual : {false, true}) {
    const ops::RmsNormForm form{1e-6, with_residual ? ops::RmsFactor::one_plus_weight : ops::RmsFactor::weight};
    const at::Tensor x = random({300, 515}), weight = random({515}), residual = with_residual ? random({300, 515}) : x;
    const at::Tensor beside = with_residual ? residual : at::Tensor();
    const ops::RmsNormed got = table().norms.rms_norm(x, beside, weight, form),
                         expected = plain_.norms.rms_norm(x, beside, weight, form);
    expect_near(got.normed, expected.normed, "normed");
    const ops::NormGradients back = table().norms.rms_norm_backward(residual, beside, weight, expected, form),
                             plain = plain_.norms.rms_norm_backward(residual, beside, weight, expected, form);
    expect_near(back.x, plain.x, "dx");
    expect_near(back.weight_BO.sum(0), plain.weight_BO.sum(0), "weights");
  }
}

TEST_P(GpuTable, NormsOfRowsThatStayInRegisters) {
  for (const auto& [rows, columns] : {std::pair{4097, 64}, {1025, 1024}, {1025, 2048}, {300, 4096}, {20, 10240}}) {
    const at::Tensor x = random({rows, columns}), weight = random({columns}), residual = random({rows, columns}),
                     dy = random({rows, columns});
    for (const at::Tensor& beside : {residual, at::Tensor()}) {
      const ops::RmsNormForm form{1e-6, columns == 1024   ? ops::RmsFactor::one_plus_weight
                                        : columns == 4096 ? ops::RmsFactor::wide_weight
                                                          : ops::RmsFactor::weight};
      const ops::RmsNormed got = table().norms.rms_norm(x, beside, weight, form),
                           expected = plain_.norms.rms_norm(x, beside, weight, form);
      expect_near(got.normed, expected.normed, "normed"), expect_near(got.sum, expected.sum, "sum");
      const ops::NormGradients back = table().norms.rms_norm_backward(dy, beside, weight, expected, form),
                               again = table().norms.rms_norm_backward(dy, beside, weight, expected, form),
                               plain = plain_.norms.rms_norm_backward(dy, beside, weight, expected, form);
      expect_near(back.x, plain.x, "dx");
      EXPECT_TRUE(back.x.equal(again.x) && back.weight_BO.equal(again.weight_BO)) << "the same bits twice";
      const at::Tensor sum = at::zeros({columns}, back.weight_BO.options());
      for (const bool add : {false, true}) table().sums.join(back.weight_BO, {sum, add});
      expect_near(sum / 2, plain.weight_BO.sum(0), "weights");
    }
  }
}

TEST_P(GpuTable, Neighbours) {
  const std::int64_t rows = 256, wide = 512, out = 128;
  const at::Tensor a = random({rows, 2 * wide}), b = random({2 * wide, out}) / 16;
  const auto parts = [&](bool beside) {
    std::vector<ops::Factors> made;
    for (std::int64_t i = 0; i < 2; ++i)
      made.push_back({a.narrow(1, i * wide, wide), b.narrow(0, i * wide, wide)});
    if (!beside)
      for (ops::Factors& f : made) f = {f.a_MK.contiguous(), f.b_KN.clone()};
    return made;
  };
  const at::Tensor room = at::zeros({rows, 2 * out}, a.options());
  at::Tensor got = room.narrow(1, out, out), expected = at::empty({rows, out}, a.options());
  table().products.into(got, parts(true), false);
  plain_.products.into(expected, parts(false), false);
  expect_near(got, expected, "sum of products");
  EXPECT_TRUE(room.narrow(1, 0, out).eq(0).all().item<bool>());
  const at::Tensor gate = random({rows, wide}), up = random({rows, wide}), dy = random({rows, wide}), both = a.clone();
  const auto half = [&](std::int64_t i) { return both.narrow(1, i * wide, wide); };
  half(1).copy_(dy);
  constexpr auto kSilu = ops::Activation::silu;
  table().elementwise.gated_backward(half(1), gate, up, kSilu, {.overwrite = true, .gate = half(0)});
  const ops::GatedGradients plain = table().elementwise.gated_backward(dy, gate, up, kSilu, {});
  EXPECT_TRUE(half(0).equal(plain.gate) && half(1).equal(plain.up));
  const at::Tensor before = both.clone(), factor = room.new_ones({}, at::toOpMathType(GetParam()));
  table().elementwise.multiply(both, factor);
  EXPECT_TRUE(both.equal(before));
  table().elementwise.multiply(both, factor * 3);
  expect_near(both, before * 3, "three times");
}

TEST_P(GpuTable, Elementwise) {
  const at::Tensor gate = random({100, 77}), up = random({100, 77}), dy = random({100, 77});
  expect_near(table().elementwise.gated(gate, up, ops::Activation::silu),
              plain_.elementwise.gated(gate, up, ops::Activation::silu), "gated");
  constexpr auto kTanh = ops::Activation::gelu_tanh;
  const ops::GatedGradients got = table().elementwise.gated_backward(dy, gate, up, kTanh, {.inner = true}),
                            expected = plain_.elementwise.gated_backward(dy, gate, up, kTanh, {.inner = true});
  expect_near(got.gate, expected.gate, "gate");
  expect_near(got.up, expected.up, "up"), expect_near(got.inner, expected.inner, "inner");
  const at::Tensor angles = at::rand({9, 8}).to(device_, at::toOpMathType(GetParam())), x = random({40, 3, 16});
  const ops::RopeTable rope{angles.cos(), angles.sin(), at::arange(40, at::kLong).remainder(9).to(device_)};
  const at::Tensor turned = at::empty_like(x), plain = at::empty_like(x);
  table().elementwise.rotate_into(turned, x, rope, false);
  plain_.elementwise.rotate_into(plain, x, rope, false);
  expect_near(turned, plain, "rope");
}

TEST_P(GpuTable, Loss) {
  const auto wide = at::toOpMathType(GetParam());
  const at::Tensor logits = random({64, 5000}), labels = at::randint(5000, {64}, at::kLong).to(device_);
  const at::Tensor weight = at::rand({64}).to(device_, wide);
  at::Tensor got = logits.clone(), expected = logits.clone(), losses = room({64}, wide), plain = room({64}, wide);
  at::Tensor statistics = room({64, 4}, wide), plain_statistics = room({64, 4}, wide);
  table().sums.loss(got, {labels, weight}, true, {.label_smoothing = 0.1, .z_loss = 1e-3}, losses, statistics);
  plain_.sums.loss(expected, {labels, weight}, true, {.label_smoothing = 0.1, .z_loss = 1e-3}, plain, plain_statistics);
  expect_near(got, expected, "gradient");
  expect_near(losses, plain, "losses");
  expect_near(statistics, plain_statistics, "statistics");
}

class SameBits {
 public:
  explicit SameBits(bool wanted) { devices::want_same_bits(wanted); }
  ~SameBits() { devices::want_same_bits(before_); }
  SameBits(const SameBits&) = delete;

 private:
  bool before_ = devices::same_bits_wanted();
};

// Kernels differ by whether sums must always be made in the same order, by head sizes and by masks.
TEST_P(GpuTable, Attention) {
  const std::vector<std::vector<ops::Span>> documents{
      {{0, 70}, {70, 71}, {71, 200}},
      {{0, 700}},
      {{3, 90}, {95, 680}},
      {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 600}},
      {{0, 1300}, {1300, 1364}, {1370, 1400}}};
  for (const bool wanted : {true, false})
    for (const std::int64_t size : {64, 128, 48})
      for (const auto& spans : documents)
        for (const ops::Mask mask : {ops::Mask::causal(), ops::Mask::causal(16), ops::Mask::causal(300),
                                     ops::Mask::full(), ops::Mask::full(9)}) {
          SCOPED_TRACE(testing::Message() << wanted << " size " << size << " documents " << spans.size()
                                          << " window " << mask.window);
          const SameBits scope(wanted);
          ops::AttentionOptions options;
          options.scale = 0.2, options.mask = mask;
          const std::int64_t tokens = spans.back().end + 5;
          const at::Tensor q = random({tokens, 4, size}), dy = random({tokens, 4, size});
          const at::Tensor k = random({tokens, 2, size}), v = random({tokens, 2, size});
          const ops::Attended got = table().attention.forward(q, k, v, spans, options),
                              expected = plain_.attention.forward(q, k, v, spans, options);
          expect_near(got.y_NHK, expected.y_NHK, "y");
          const ops::AttentionGradients back = table().attention.backward(dy, {q, k, v, got}, spans, options),
                                        plain = plain_.attention.backward(dy, {q, k, v, expected}, spans, options);
          expect_near(back.q_NHK, plain.q_NHK, "dq");
          expect_near(back.k_NGK, plain.k_NGK, "dk");
          expect_near(back.v_NGK, plain.v_NGK, "dv");
          const ops::AttentionGradients twice = table().attention.backward(dy, {q, k, v, got}, spans, options);
          if (wanted) {
            EXPECT_TRUE(back.q_NHK.equal(twice.q_NHK)) << "other bits";
            EXPECT_TRUE(back.k_NGK.equal(twice.k_NGK)) << "other bits";
            EXPECT_TRUE(back.v_NGK.equal(twice.v_NGK)) << "other bits";
          }
        }
}

// More slopes than are kept at once, and those of few heads alone.
TEST_P(GpuTable, AttentionOfManyHeads) {
  if (at::elementSize(GetParam()) > 2) GTEST_SKIP() << "by the reference";
  const std::int64_t tokens = 8192, size = 128, groups = 4, shared = 3;
  const at::Tensor q = random({tokens, groups * shared, size}), dy = random({tokens, groups * shared, size});
  const at::Tensor k = random({tokens, groups, size}), v = random({tokens, groups, size});
  const std::vector<ops::Span> spans{{0, tokens}};
  const ops::AttentionOptions options{0.05, ops::Mask::full()};
  const auto gradients = [&](std::int64_t first, std::int64_t count) {
    const auto part = [&](const at::Tensor& x, std::int64_t each) { return x.narrow(1, first * each, count * each); };
    ops::AttentionSaved saved{part(q, shared), part(k, 1), part(v, 1), {}};
    saved.result = table().attention.forward(saved.q_NHK, saved.k_NGK, saved.v_NGK, spans, options);
    return table().attention.backward(part(dy, shared), saved, spans, options);
  };
  const SameBits scope(true);
  const ops::AttentionGradients all = gradients(0, groups);
  for (std::int64_t group = 0; group < groups; ++group) {
    const ops::AttentionGradients one = gradients(group, 1);
    expect_near(all.q_NHK.narrow(1, group * shared, shared), one.q_NHK, "dq");
    expect_near(all.k_NGK.narrow(1, group, 1), one.k_NGK, "dk");
    expect_near(all.v_NGK.narrow(1, group, 1), one.v_NGK, "dv");
  }
}

TEST_P(GpuTable, Decoding) {
  const at::Tensor held = at::tensor({0, 299, 1999}, at::kLong).cuda();
  for (const std::int64_t size : {64, 100, 128})
    for (const std::int64_t heads : {2, 6, 16}) {
      const at::Tensor q = random({3, heads, size}), k = random({3, 2, 2048, size}), v = random({3, 2, 2048, size});
      for (const std::int64_t window : {0, 77})
        for (const double cap : {0.0, 5.0}) {
          const ops::AttentionOptions options{0.1, ops::Mask::causal(window), cap};
          const at::Tensor got = table().attention.decode(q, k, v, held, options);
          expect_near(got, plain_.attention.decode(q, k, v, held, options), "decoded");
          EXPECT_TRUE(got.equal(table().attention.decode(q, k, v, held, options))) << "other bits";
        }
    }
}

TEST_P(GpuTable, StoresInACache) {
  const at::Tensor k = random({5, 2, 24}), v = random({5, 2, 24});
  const std::vector<ops::CacheRun> runs{{0, 3, 1, 4}, {3, 1, 0, 0}, {4, 1, 2, 7}};
  const at::Tensor got = room({2, 3, 2, 8, 24}, GetParam()).zero_(), expected = got.clone();
  table().attention.store(k, v, {got[0], got[1]}, runs);
  plain_.attention.store(k, v, {expected[0], expected[1]}, runs);
  EXPECT_TRUE(got.equal(expected));
  const at::Tensor held = at::tensor({6, 0, 3}, at::kLong).cuda();
  for (const auto& [table, to] : {std::pair(&this->table(), got), std::pair(&plain_, expected)})
    table->attention.store_one_each(k.narrow(0, 1, 3), v.narrow(0, 1, 3), {to[0], to[1]}, held);
  EXPECT_TRUE(got.equal(expected));
}

TEST_P(GpuTable, FewRows) {
  for (const std::int64_t rows : {1, 2, 3, 8, 9})
    for (const std::int64_t in : {33, 4096}) {
      const at::Tensor x = random({rows, in}) / std::sqrt(static_cast<double>(in)), bias = random({301});
      const ops::LinearWeight a{random({1000, in})}, b{random({301, in}), bias}, c{random({1000, in})};
      const auto got = table().products.skinny(x, {a, b}), expected = plain_.products.skinny(x, {a, b});
      for (const std::size_t i : {0, 1}) expect_near(got[i], expected[i], "product");
      EXPECT_TRUE(got[1].equal(table().products.skinny(x, {b})[0])) << "other bits";
      expect_near(table().products.skinny_gated(x, a, c, ops::Activation::silu),
                  plain_.products.skinny_gated(x, a, c, ops::Activation::silu), "gated");
    }
}

// Memory of graphs is given back and asked for again, also after one that could not be made.
TEST_P(GpuTable, RemembersAgain) {
  const at::Tensor x = random({64}).zero_();
  const auto first = table().make_recording();
  const auto add = [&](double more) {
    return [&x, more] { x.copy_((x + more).clone()); };
  };
  const auto expect = [&](double sum) { EXPECT_EQ(x.sum().item<double>(), 64 * sum); };
  add(0)();
  first->record(add(1));
  first->replay(), first->replay();
  expect(2);
  first->record(add(2));
  first->replay();
  expect(4);
  EXPECT_ANY_THROW(first->record([&] { x.cpu(); }));
  const auto beside = first->beside();
  first->record(add(1));
  beside->record(add(3));
  first->replay(), beside->replay(), first->replay();
  expect(9);
  beside->record(add(-9));
  beside->replay();
  expect(0);
}

// What a token goes through, remembered: its launches begin early or are one (ops/cuda/chain.h), with the bits of the
// same op by op. From the token's look-up on, what its rows hold is settled. What is LibTorch's ends a chain: there are
// two of them.
TEST_P(GpuTable, RemembersLayersOfATokenToTheBit) {
  constexpr std::int64_t kHidden = 2048, kHeads = 8, kGroups = 2, kInner = 4096, kLayers = 3;
  const ops::Backend& gpu = table();
  for (const std::int64_t size : {64, 128}) {
    const auto of = [&](std::int64_t outs, std::int64_t in) { return ops::LinearWeight{random({outs, in}) / 45, {}}; };
    const ops::LinearWeight q = of(kHeads * size, kHidden), k = of(kGroups * size, kHidden),
                            v = of(kGroups * size, kHidden), o = of(kHidden, kHeads * size), gate = of(kInner, kHidden),
                            up = of(kInner, kHidden), down = of(kHidden, kInner);
    const at::Tensor norm = random({kHidden}), given = random({1, kHidden}), held = at::full({1}, 5).to(device_);
    const at::Tensor first = at::zeros({1}, at::kLong).to(device_);
    const auto wide = at::toOpMathType(GetParam());
    const at::Tensor angles = at::randn({500, size / 2}).to(device_, wide);
    const ops::RopeTable rope{angles.cos(), angles.sin(), held};
    const at::Tensor k_cache = random({1, kGroups, 500, size}), v_cache = random({1, kGroups, 500, size});
    const at::Tensor k_before = k_cache.clone(), v_before = v_cache.clone(), x = given.clone();
    const auto step_of = [&](bool settled) {
      at::Tensor in = at::embedding(x, first), residual;
      for (std::int64_t i = 0; i < 2 * kLayers; ++i) {
        if (i == kLayers) in = in.neg();
        const auto a = gpu.products.norm_skinny({in, residual, norm, 1e-5}, {q, k, v});
        const ops::NewTokens tokens{a.products[0].view({1, kHeads, size}), a.products[1].view({1, kGroups, size}),
                                    a.products[2].view({1, kGroups, size}), rope};
        const at::Tensor y = gpu.attention.decode_new(tokens, {k_cache, v_cache, settled}, held, {0.1});
        const at::Tensor b = gpu.products.skinny(y.view({1, -1}), {o})[0];
        const auto c = gpu.products.norm_skinny_gated({b, a.sum, norm, 1e-5}, gate, up, ops::Activation::silu);
        residual = c.sum, in = gpu.products.skinny(c.products[0], {down})[0];
      }
      x.copy_(in);
      held.add_(197);
    };
    const auto begin = [&] { x.copy_(given), held.fill_(5), k_cache.copy_(k_before), v_cache.copy_(v_before); };
    const auto step = [&] { step_of(/*settled=*/true); };
    begin();
    for (int i = 0; i < 3; ++i) step_of(/*settled=*/false), devices::synchronize(device_);
    const std::vector<at::Tensor> expected{x.clone(), k_cache.clone(), v_cache.clone()};
    for (const char* chains : {"0", "1"}) {
      ::setenv("HONE_CHAINS", chains, 1);
      const auto recording = gpu.make_recording();
      recording->record(step);
      for (int again = 0; again < 3; ++again) {
        begin();
        recording->replay(), recording->replay(), recording->replay();
        EXPECT_TRUE(x.equal(expected[0])) << size << ", chains: " << chains << ": other bits";
        EXPECT_TRUE(k_cache.equal(expected[1]) && v_cache.equal(expected[2])) << size << ", " << chains << ": entries";
      }
    }
    ::unsetenv("HONE_CHAINS");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuTable, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf),
                         [](const auto& one) { return std::string(c10::toString(one.param)); });

}  // namespace
}  // namespace hone::test
