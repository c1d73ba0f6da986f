// Which implementation the ops use.
#include "ops/kernels.h"

#include <ATen/Context.h>
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
#include <optional>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::ops {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"reference", "basic", "avx2", "avx512", "avx512bf16", "amx"};
constexpr std::array<std::string_view, 2> kProductNames = {"ours", "libtorch"};

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

std::string vendor() {
  std::string made;
#if defined(__x86_64__)
  unsigned most = 0, parts[3] = {};
  if (!__get_cpuid(0, &most, &parts[0], &parts[2], &parts[1])) return made;  // in the order of ebx, edx, ecx
  made.assign(reinterpret_cast<const char*>(parts), sizeof parts);
#endif
  return made;
}

const Cpu& machine() {
  static const Cpu cpu{vendor(), best_level(), at::hasMKL()};
  return cpu;
}

std::optional<Level> level_named(std::string_view word) {
  if (word.empty() || word == "auto") return Level::amx;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (word == kNames[i]) return static_cast<Level>(i);
  return {};
}

std::optional<Fp32Products> products_named(std::string_view word) {
  for (std::size_t i = 0; i < kProductNames.size(); ++i)
    if (word == fmt::format("fp32={}", kProductNames[i])) return static_cast<Fp32Products>(i);
  return {};
}

Fp32Products best_fp32_products(const Cpu& cpu, Level level) {
  const bool mkl_is_faster = cpu.mkl && cpu.vendor == "GenuineIntel" && level >= Level::avx512;
  return mkl_is_faster || level == Level::reference ? Fp32Products::libtorch : Fp32Products::ours;
}

KernelChoice& current() {
  static KernelChoice chosen = [] {
    const char* wanted = std::getenv("HONE_KERNELS");
    return choose_kernels(machine(), wanted ? wanted : "");
  }();
  return chosen;
}

std::string text_of(const KernelChoice& chosen) {
  return fmt::format("{},fp32={}", name(chosen.level), name(chosen.fp32));
}

}  // namespace

KernelChoice choose_kernels(const Cpu& cpu, std::string_view wanted) {
  std::optional<Level> level;
  std::optional<Fp32Products> fp32;
  for (const std::string& word : split(wanted, ',')) {
    const auto named = level_named(word);
    const auto products = products_named(word);
    if ((named && level) || (products && fp32) || (!named && !products))
      throw Error(ErrorKind::usage,
                  fmt::format("HONE_KERNELS: got {}, expected auto, {}, and after a comma, or alone, fp32={}",
                              quoted(wanted), fmt::join(kNames, ", "), fmt::join(kProductNames, " or fp32=")));
    if (named) level = named;
    if (products) fp32 = products;
  }
  const Level lowered = std::min(level.value_or(Level::amx), cpu.best);
  if (lowered == Level::reference && fp32 == Fp32Products::ours)
    throw Error(ErrorKind::usage,
                fmt::format("HONE_KERNELS: reference has no products of ours; got {}, expected fp32=libtorch or none",
                            quoted(wanted)));
  return {lowered, fp32.value_or(best_fp32_products(cpu, lowered))};
}

Level level() { return current().level; }
Fp32Products fp32_products() { return current().fp32; }
std::string_view name(Level level) { return kNames[static_cast<std::size_t>(level)]; }
std::string_view name(Fp32Products products) { return kProductNames[static_cast<std::size_t>(products)]; }

std::string chosen_kernels() { return text_of(current()); }
bool has_kernels(const std::string& chosen) {
  try {
    return text_of(choose_kernels(machine(), chosen)) == chosen;
  } catch (const Error&) {
    return false;
  }
}

bool use_kernels() { return level() != Level::reference; }

bool library_multiplies(at::ScalarType type) {
  return type == at::kDouble || (type == at::kFloat && fp32_products() == Fp32Products::libtorch);
}

Fp32ProductsScope::Fp32ProductsScope(Fp32Products products) : old_(current().fp32) { current().fp32 = products; }
Fp32ProductsScope::~Fp32ProductsScope() { current().fp32 = old_; }

LevelScope::LevelScope(Level level) : old_(current().level) { current().level = std::min(level, machine().best); }
LevelScope::~LevelScope() { current().level = old_; }

PretendLevel::PretendLevel(Level level) : old_(current().level) { current().level = level; }
PretendLevel::~PretendLevel() { current().level = old_; }

bool kernels_take(std::initializer_list<at::Tensor> tensors) {
  if (!use_kernels()) return false;
  const at::ScalarType type = tensors.begin()->scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16) return false;
  for (const at::Tensor& x : tensors)
    if (!x.is_cpu() || x.scalar_type() != type || x.layout() != at::kStrided) return false;
  return true;
}

}  // namespace hone::ops
