// Large products and a large copy, the fastest of several tries.
#include "train/ceilings.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "hub/memory.h"
#include "ops/matmul.h"
#include "tensor/device.h"

namespace hone::training {
namespace {

constexpr std::int64_t kFirstRows = 64;
constexpr double kLongest = 0.1;  // seconds of one product

template <typename Work>
double seconds_of(at::Device device, const Work& work) {
  const Stopwatch watch;
  work();
  devices::synchronize(device);
  return watch.seconds();
}

// Seconds of a row of [rows, inner] times [inner, inner], of ours and of LibTorch's, the better one. Where both are
// slow, as in fp16 on a CPU, of fewer rows; in bf16 without AVX-512 LibTorch takes fifty times as long as we do.
double row_seconds(std::int64_t rows, std::int64_t inner, at::ScalarType type, at::Device device) {
  const at::Tensor a = at::rand({rows, inner}).to(device, type), b = at::rand({inner, inner}).to(device, type);
  const at::Tensor out = at::empty({rows, inner}, a.options());
  const auto time = [&](std::int64_t count, bool library) {
    at::Tensor some = out.narrow(0, 0, count);
    const at::Tensor left = a.narrow(0, 0, count);
    const double seconds = seconds_of(device, [&] {
      library ? static_cast<void>(at::mm_out(some, left, b)) : ops::matmul_into(some, {{left, b}});
    });
    return seconds / static_cast<double>(count);
  };
  const double ours = time(kFirstRows, false), library = time(kFirstRows, true);
  const auto most = static_cast<std::int64_t>(kLongest / std::min(ours, library));
  const std::int64_t count = std::clamp(most, kFirstRows, rows);
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    best = std::min(best, time(count, false));
    if (library <= 3 * ours) best = std::min(best, time(count, true));
  }
  return best;
}

double memory_ceiling(at::Device device) {
  const std::int64_t count = device.is_cuda() ? 512 << 20 : 32 << 20;
  const at::Tensor from = at::ones({count}, device), to = at::zeros({count}, device);
  devices::synchronize(device);
  double best = 1e9;
  for (int i = 0; i < 8; ++i) best = std::min(best, seconds_of(device, [&] { to.copy_(from); }));
  return 2.0 * 4 * static_cast<double>(count) / best;
}

}  // namespace

double product_ceiling(Precision precision, at::Device device) {
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes{{1536, 1536}, {4096, 512}};
  if (device.is_cuda()) sizes = {{8192, 8192}, {16384, 4096}};
  double best = 0;
  for (const auto& [rows, inner] : sizes)
    best = std::max(
        best, 2.0 * static_cast<double>(inner * inner) / row_seconds(rows, inner, hub::type_of(precision), device));
  return best;
}

Ceilings ceilings(Precision precision, at::Device device) {
  return {product_ceiling(precision, device), memory_ceiling(device)};
}

}  // namespace hone::training
