#include "ops/cuda/chain.h"

#include <algorithm>
#include <cstring>

#include "hone/error.h"

namespace hone::ops::cuda_table {
namespace {

enum Kind { kProducts, kGated, kDecode, kJoin };

struct StepKernel {
  std::string_view source, name;
  Kind kind;
  std::size_t bytes;  // of its arguments
};
constexpr StepKernel kStepKernels[] = {{"skinny", "products_of_row", kProducts, 188},
                                       {"skinny", "gated_products_of_row", kGated, 108},
                                       {"decode", "decode_64", kDecode, 172},
                                       {"decode", "decode_128", kDecode, 172},
                                       {"decode", "join_parts", kJoin, 60}};
const StepKernel* kernel_of(const Launched& launch) {
  for (const StepKernel& each : kStepKernels)
    if (each.source == launch.source && each.name == launch.name) return &each;
  return nullptr;
}

template <class T>
T argument(const Launched& launch, std::size_t offset) {
  T value{};
  std::memcpy(&value, launch.arguments.data() + offset, sizeof value);
  return value;
}

// Arguments that decide how a step is shared out, by where kernels/chain.cu has them.
struct Products {
  std::int64_t groups, in;
  int split;
  bool has_norm;
};
Products products_in(const Launched& launch, Kind kind) {
  constexpr std::int64_t kOutsOfGroup = 2;
  const auto number = [&](std::size_t offset) { return argument<std::int64_t>(launch, offset); };
  const auto is_there = [&](std::size_t offset) { return argument<const void*>(launch, offset) != nullptr; };
  if (kind == kGated) return {number(48), number(56), 1, is_there(80)};
  std::int64_t groups = 0;
  for (const std::size_t offset : {104, 112, 120, 128}) groups += (number(offset) + kOutsOfGroup - 1) / kOutsOfGroup;
  return {groups, number(136), argument<int>(launch, 148), is_there(160)};
}
constexpr std::size_t kGroupsOfDecode = 96;

constexpr std::int64_t kWarps = 8, kThreads = (kWarps + 1) * 32, kStepPacks = 8, kPackBytes = 16, kValueBytes = 2;
constexpr std::size_t kLeastSteps = 4;  // below, launches are as quick

// For heads of so many values: steps of weights that are on their way, and what its variables take.
struct ChainKernel {
  const char* name;
  std::int64_t steps, own_bytes;
};
constexpr ChainKernel kFor64{"chain_64", 5, 22 << 10}, kFor128{"chain_128", 4, 38 << 10};

std::int64_t rows_bytes_of(const Products& products) {
  const std::int64_t row = products.in * kValueBytes;
  return products.has_norm ? 2 * row : row;
}

}  // namespace

bool can_be_step(const Launched& launch) {
  const StepKernel* kernel = kernel_of(launch);
  if (!kernel || launch.arguments.size() < kernel->bytes) return false;
  // Of one row: its key/value heads, each of which has one cut of the query heads.
  if (kernel->kind == kDecode) return launch.y == argument<int>(launch, kGroupsOfDecode);
  return kernel->kind != kJoin || launch.x == argument<int>(launch, 48);
}

std::optional<Chain> chain_of(const std::vector<Launched>& launches, const ChainLimits& limits) {
  const bool wide = std::any_of(launches.begin(), launches.end(), [](const auto& x) { return x.name == "decode_128"; });
  const ChainKernel& kernel = wide ? kFor128 : kFor64;
  const std::int64_t weights = kernel.steps * kStepPacks * kWarps * 32 * kPackBytes;
  Chain made{{"chain", kernel.name}, {.x = limits.blocks, .threads = static_cast<int>(kThreads)}, 0, {}};
  std::int64_t rows = 0, turn = 0;
  for (const Launched& launch : launches) {
    const StepKernel& of = *kernel_of(launch);
    std::int64_t tasks = launch.x * launch.y;  // that a block takes at a time
    if (of.kind == kProducts || of.kind == kGated) {
      const Products products = products_in(launch, of.kind);
      rows = std::max(rows, rows_bytes_of(products));
      tasks = (products.groups * products.split + kWarps - 1) / kWarps;
    }
    const auto steps_bytes = static_cast<std::int64_t>((made.steps.size() + 1) * sizeof(ChainStep));
    if (weights + rows + steps_bytes + kernel.own_bytes > limits.room) break;
    made.rows_bytes = static_cast<int>(rows);
    made.grid.shared_bytes = weights + rows + steps_bytes;
    ChainStep step{of.kind, static_cast<int>(turn), static_cast<int>(launch.x), static_cast<int>(launch.y)};
    std::copy_n(launch.arguments.begin(), of.bytes, step.arguments.begin());
    made.steps.push_back(step);
    turn = (turn + tasks) % limits.blocks;  // the next step begins where this one ends: blocks have as much to do
  }
  if (made.steps.size() < kLeastSteps) return {};
  return made;
}

}  // namespace hone::ops::cuda_table
