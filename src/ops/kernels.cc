// Which implementation the ops use.
#include "ops/kernels.h"

#include <cstdlib>
#include <string_view>

#include "hone/error.h"

namespace hone::ops {
namespace {

Level best_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto has = [](bool yes) { return yes; };
  if (has(__builtin_cpu_supports("avx512f")) && has(__builtin_cpu_supports("avx512bw")) &&
      has(__builtin_cpu_supports("avx512vl")) && has(__builtin_cpu_supports("avx512dq")))
    return Level::avx512;
  if (has(__builtin_cpu_supports("avx2")) && has(__builtin_cpu_supports("fma"))) return Level::avx2;
#endif
  return Level::basic;
}

Level wanted_level() {
  const char* text = std::getenv("HONE_KERNELS");
  const std::string_view name = text ? text : "";
  if (name.empty() || name == "auto" || name == "avx512") return Level::avx512;
  if (name == "reference") return Level::reference;
  if (name == "basic") return Level::basic;
  if (name == "avx2") return Level::avx2;
  throw Error(ErrorKind::usage,
              "HONE_KERNELS: got \"" + std::string(name) + "\", expected auto, reference, basic, avx2 or avx512");
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
bool use_kernels() { return current() != Level::reference; }

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
