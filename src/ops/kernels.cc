// Which implementation the ops use.
#include "ops/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdlib>

#include "hone/error.h"

namespace hone::ops {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"reference", "basic", "avx2", "avx512", "avx512bf16"};

Level best_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512) return __builtin_cpu_supports("avx512bf16") ? Level::avx512bf16 : Level::avx512;
  if (avx2) return Level::avx2;
#endif
  return Level::basic;
}

bool find_amx() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1);  // AMX-BF16
#else
  return false;
#endif
}

Level wanted_level() {
  const char* text = std::getenv("HONE_KERNELS");
  const std::string_view wanted = text ? text : "";
  if (wanted.empty() || wanted == "auto") return Level::avx512bf16;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (wanted == kNames[i]) return static_cast<Level>(i);
  throw Error(ErrorKind::usage,
              fmt::format("HONE_KERNELS: got \"{}\", expected auto, {}", wanted, fmt::join(kNames, ", ")));
}

Level machine() {
  static const Level best = best_level();
  return best;
}

Level& current() {
  static Level chosen = std::min(wanted_level(), machine());
  return chosen;
}

}  // namespace

Level level() { return current(); }
std::string_view name(Level level) { return kNames[static_cast<std::size_t>(level)]; }
bool use_kernels() { return current() != Level::reference; }

bool has_amx() {
  static const bool found = find_amx();
  return found;
}

LevelScope::LevelScope(Level level) : old_(current()) { current() = std::min(level, machine()); }
LevelScope::~LevelScope() { current() = old_; }

bool kernels_take(std::initializer_list<at::Tensor> tensors) {
  if (!use_kernels()) return false;
  const at::ScalarType type = tensors.begin()->scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16) return false;
  for (const at::Tensor& x : tensors)
    if (!x.is_cpu() || x.scalar_type() != type || x.layout() != at::kStrided) return false;
  return true;
}

}  // namespace hone::ops
