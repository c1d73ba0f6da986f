// Rows are computed twice over: once for their lengths (the header comes first), once for their values.
#include "cli/files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "io/safetensors_writer.h"
#include "nn/finite.h"
#include "ops/finite.h"
#include "tensor/host.h"

namespace hone::cli {

void write_logits(const CausalLm& model, const Dataset& data, const std::string& path) {
  std::vector<io::TensorSpec> specs;
  for (std::int64_t row = 0; row < data.rows(); ++row)
    specs.push_back({fmt::format("logits.{}", row), "F32", {data.batch({row}, 0).length, model.vocab_size()}});
  std::int64_t row = 0;
  Tensor logits_TV;
  const auto bytes_of = [&](const io::TensorSpec&) {
    logits_TV = model.logits(to_batch(data.batch({row}, 0)).to(model.device())).squeeze(0).to(at::kFloat);
    if (!ops::all_finite(logits_TV))
      throw nn::not_finite(model, fmt::format("{}: logits.{}", path, row));
    row += 1;
    logits_TV = host::read(logits_TV);
    return host::bytes(logits_TV);
  };
  io::replace_safetensors(Env::process(), path, specs, {{io::kHolds, kLogits}}, bytes_of, ErrorKind::checkpoint);
}

}  // namespace hone::cli
