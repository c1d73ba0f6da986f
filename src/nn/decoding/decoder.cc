// Whether a model has a short way.
#include "nn/decoding/decoder.h"

namespace hone::nn {

std::unique_ptr<Decoder> maybe_make_decoder(const Model& model, std::int64_t rows) {
  if (model.has_adapters()) return nullptr;  // it knows the weights alone
  const auto* has = dynamic_cast<const HasDecoder*>(&model);
  return has ? has->make_decoder(rows) : nullptr;
}

}  // namespace hone::nn
