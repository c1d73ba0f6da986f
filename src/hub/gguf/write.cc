// Weights on their way to the file.
#include "hub/gguf/write.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "hub/cast.h"
#include "hub/gguf/blocks.h"
#include "nn/finite_tensor.h"
#include "ops/finite.h"
#include "tensor/host.h"

namespace hone::gguf {
namespace {

using io::GgufType;
constexpr std::int64_t kValuesOfThread = 1 << 14;  // at least

// Several blocks at a time, as each is computed by itself.
std::vector<std::byte> blocks_of(const at::Tensor& whole, GgufType type) {
  const std::span<const float> values = host::values<float>(whole);
  std::vector<std::byte> made(io::gguf_bytes(type, whole.numel()));
  const std::int64_t size = io::block_values(type), bytes = io::block_bytes(type);
  at::parallel_for(0, whole.numel() / size, kValuesOfThread / size, [&](std::int64_t begin, std::int64_t end) {
    to_blocks(type, values.subspan(begin * size, (end - begin) * size),
              std::span(made).subspan(begin * bytes, (end - begin) * bytes));
  });
  return made;
}

void write_weight(io::GgufWriter& writer, const at::Tensor& whole, GgufType type, const std::string& name) {
  if (type == GgufType::f32) return writer.write(host::bytes(whole));
  if (type == GgufType::bf16) return writer.write(host::bytes(whole.to(at::kBFloat16)));
  if (type == GgufType::f16) return writer.write(host::bytes(hub::cast_weight(whole, at::kHalf, name)));
  if (!ops::all_finite(whole))
    throw Error(ErrorKind::checkpoint, name + ": a value is infinite or not a number, which cannot be quantized");
  writer.write(blocks_of(whole, type));
}

}  // namespace

void write_tensors(io::GgufWriter& writer, const Plan& plan, const FullWeights& weights,
                   const std::function<void()>& before_each) {
  for (const Planned& one : plan.tensors) {
    if (one.weights.empty()) writer.write(std::as_bytes(std::span(one.values)));
    for (const std::string& name : one.weights) {
      if (before_each) before_each();
      at::Tensor whole = weights.read(name);
      nn::check_finite(whole, name, weights.where());
      whole = whole.to(at::kFloat);
      if (one.change) whole = one.change(whole, plan.config);
      write_weight(writer, whole.contiguous(), one.tensor.type, name);
    }
  }
}

}  // namespace hone::gguf
