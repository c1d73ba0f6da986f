// What LoRA's factors begin with.
#include "nn/lora_start.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "hone/random.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

constexpr std::string_view kIterations = "pissa_niter_";

// `draw` fills a span of floats; the tensor is of the wanted type.
template <class Draw>
Tensor drawn(const std::vector<std::int64_t>& shape, at::ScalarType type, const Draw& draw) {
  Tensor made = at::empty(shape, at::TensorOptions().dtype(at::kFloat));
  draw(host::mutable_values<float>(made));
  return made.to(type);
}

struct Singular {
  Tensor u_OR, s_R, v_RI;
};

Singular exact(const Tensor& weight_OI, std::int64_t rank) {
  const auto [u, s, v] = at::linalg_svd(weight_OI, /*full_matrices=*/false);
  return {u.narrow(1, 0, rank), s.narrow(0, 0, rank), v.narrow(0, 0, rank)};
}

// Randomised subspace iteration (Halko et al., 2009, algorithm 5.1 with 4.4).
Singular estimated(const Tensor& weight_OI, std::int64_t rank, std::int64_t iterations, const Random& random) {
  const Tensor start_IR = drawn({weight_OI.size(1), rank}, weight_OI.scalar_type(),
                                [&](std::span<float> into) { random.fill_normal(into, 0); });
  Tensor q_OR = std::get<0>(at::linalg_qr(weight_OI.matmul(start_IR.to(weight_OI.device()))));
  for (std::int64_t i = 0; i < iterations; ++i) {
    const Tensor q_IR = std::get<0>(at::linalg_qr(weight_OI.t().matmul(q_OR)));
    q_OR = std::get<0>(at::linalg_qr(weight_OI.matmul(q_IR)));
  }
  const auto [u, s, v] = at::linalg_svd(q_OR.t().matmul(weight_OI), /*full_matrices=*/false);
  return {q_OR.matmul(u), s, v};
}

struct Factors {
  Tensor a_RI, b_OR;
};

Factors of_pissa(const Tensor& weight_OI, const Lora& adapter, const LoraStart& start, const Random& random) {
  const std::int64_t rank = adapter.options().rank;
  const Singular found =
      start.iterations > 0 ? estimated(weight_OI, rank, start.iterations, random) : exact(weight_OI, rank);
  const Tensor root_R = (found.s_R / adapter.options().scale).sqrt();
  return {(root_R.unsqueeze(1) * found.v_RI).contiguous(), (found.u_OR * root_R).contiguous()};
}

Factors of_olora(const Tensor& weight_OI, const Lora& adapter) {
  const auto [q, r] = at::linalg_qr(weight_OI);
  const std::int64_t rank = adapter.options().rank;
  return {r.narrow(0, 0, rank).contiguous(), q.narrow(1, 0, rank).contiguous()};
}

void fill_from_weight(Lora& adapter, const Weight& weight, const LoraStart& start, const Random& random) {
  const Tensor whole = weight.whole().to(at::toOpMathType(weight.use().scalar_type()));
  const Tensor weight_OI = weight.use_as() == WeightUse::product ? whole : whole.t();
  const bool pissa = start.kind == LoraStart::Kind::pissa;
  const Factors made = pissa ? of_pissa(weight_OI, adapter, start, random) : of_olora(weight_OI, adapter);
  adapter.a().fill(made.a_RI), adapter.b().fill(made.b_OR);
  adapter.set_start(made.a_RI.clone(), made.b_OR.clone());
}

// Every other row of an orthogonal matrix spans what A gives, the rest what B reads.
void fill_orthogonal(Lora& adapter, at::ScalarType type, const Random& random) {
  Weight &a = adapter.a(), &b = adapter.b();
  const std::int64_t rank = adapter.options().rank, inputs = a.shape()[1], outputs = b.shape()[0];
  std::uint64_t at = 0;
  const auto normal = [&](std::int64_t rows, std::int64_t columns) {
    const std::uint64_t start = std::exchange(at, at + static_cast<std::uint64_t>(rows * columns));
    return drawn({rows, columns}, type, [&](std::span<float> into) { random.fill_normal(into, start); });
  };
  const Tensor rows_R2R = std::get<0>(at::linalg_qr(normal(rank, rank))).unflatten(0, {rank / 2, 2});
  a.fill((rows_R2R.select(1, 0).t().matmul(normal(rank / 2, inputs)) / 10).contiguous());
  b.fill((normal(outputs, rank / 2).matmul(rows_R2R.select(1, 1)) / 10).contiguous());
}

// Of a weight that is not there (tensor/meta_memory.h): what takes as much.
void fill_dry(Lora& adapter, const Weight& weight, const LoraStart& start) {
  const auto options = weight.use().options().dtype(at::toOpMathType(weight.use().scalar_type())).requires_grad(false);
  for (Weight* one : {adapter.owns_a() ? &adapter.a() : nullptr, &adapter.b(), adapter.magnitude()})
    if (one) one->fill(at::empty(one->shape(), options));
  if (start.takes_from_weight())
    adapter.set_start(at::empty_like(adapter.a().use()), at::empty_like(adapter.b().use()));
}

}  // namespace

LoraStart lora_start(const std::string& name) {
  if (name == "default" || name == "true") return {};
  if (name == "gaussian") return {LoraStart::Kind::gaussian};
  if (name == "orthogonal") return {LoraStart::Kind::orthogonal};
  if (name == "olora") return {LoraStart::Kind::olora};
  if (name == "pissa") return {LoraStart::Kind::pissa};
  if (name.starts_with(kIterations))
    if (const auto count = parse_int(name.substr(kIterations.size())); count && *count >= 1 && *count <= 100)
      return {LoraStart::Kind::pissa, *count};
  throw Error(
      ErrorKind::config,
      fmt::format("adapter.init: got {}, expected default, gaussian, orthogonal, olora, pissa or pissa_niter_N with N "
                  "from 1 to 100",
                  hone::quoted(name)));
}

void check_start(const LoraStart& start, const Weight& weight, std::int64_t rank, const std::string& module) {
  if (start.kind != LoraStart::Kind::orthogonal) return;
  const bool is_table = weight.use_as() == WeightUse::table;
  if (rank % 2 == 0 && !is_table) return;
  throw Error(ErrorKind::config, fmt::format("adapter.init: orthogonal: {}: got {}, expected {}", module,
                                             is_table ? "a table" : fmt::format("rank {}", rank),
                                             is_table ? "weights of linear layers alone" : "an even one"));
}

void fill_start(Lora& adapter, const Weight& weight, const LoraStart& start, std::uint64_t seed,
                const std::string& name) {
  const at::NoGradGuard no_grad;
  adapter.set_device(weight.device());
  if (weight.use().is_meta()) return fill_dry(adapter, weight, start);
  const at::ScalarType type = at::toOpMathType(weight.use().scalar_type());
  const Random random(seed, "lora/" + name);
  Weight &a = adapter.a(), &b = adapter.b();
  const auto zeros = [&](Weight& one) { one.fill(at::zeros(one.shape(), at::TensorOptions().dtype(type))); };
  const auto normal = [&](Weight& one, float deviation) {
    one.fill(drawn(one.shape(), type, [&](std::span<float> into) { random.fill_normal(into, 0, 0, deviation); }));
  };
  if (start.takes_from_weight()) {
    fill_from_weight(adapter, weight, start, random);
  } else if (start.kind == LoraStart::Kind::orthogonal) {
    fill_orthogonal(adapter, type, random);
  } else if (weight.use_as() == WeightUse::table) {
    zeros(a), normal(b, 1);
  } else {
    zeros(b);
    const float bound = 1 / std::sqrt(static_cast<float>(a.shape()[1]));
    if (adapter.owns_a() && start.kind == LoraStart::Kind::gaussian)
      normal(a, 1 / static_cast<float>(adapter.options().rank));
    else if (adapter.owns_a())
      a.fill(drawn(a.shape(), type, [&](std::span<float> into) { random.fill_uniform(into, 0, -bound, bound); }));
  }
  if (Weight* magnitude = adapter.magnitude()) {
    const Tensor whole = weight.whole().to(type);
    magnitude->fill(adapter.norms_of(whole + adapter.change()));
  }
}

}  // namespace hone::nn
