// Which implementation the ops use.
#include "ops/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <array>
#include <cstdlib>

#include "hone/error.h"

namespace hone::ops {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"reference", "basic", "avx2", "avx512", "avx512bf16", "amx"};

#if defined(__x86_64__)
// Tiles are there, and the system keeps them for the threads of this process.
bool has_amx() {
#if defined(__linux__)
  constexpr unsigned kTiles = 1u << 24, kBf16 = 1u << 22;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTiles) || !(d & kBf16)) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

Level best_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return has_amx() ? Level::amx : Level::avx512bf16;
  if (avx512) return Level::avx512;
  if (avx2) return Level::avx2;
#endif
  return Level::basic;
}

Level wanted_level() {
  const char* text = std::getenv("HONE_KERNELS");
  const std::string_view wanted = text ? text : "";
  if (wanted.empty() || wanted == "auto") return Level::amx;
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

LevelScope::LevelScope(Level level) : old_(current()) { current() = std::min(level, machine()); }
LevelScope::~LevelScope() { current() = old_; }

PretendLevel::PretendLevel(Level level) : old_(current()) { current() = level; }
PretendLevel::~PretendLevel() { current() = old_; }

bool kernels_take(std::initializer_list<at::Tensor> tensors) {
  if (!use_kernels()) return false;
  const at::ScalarType type = tensors.begin()->scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16) return false;
  for (const at::Tensor& x : tensors)
    if (!x.is_cpu() || x.scalar_type() != type || x.layout() != at::kStrided) return false;
  return true;
}

}  // namespace hone::ops
