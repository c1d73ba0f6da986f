// Which short way a model has where it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nn/decoding/decoder.h"

namespace hone::nn {

// For `rows` rows at most. Null: there is only the long way.
std::unique_ptr<Decoder> maybe_make_decoder(const Model& model, std::int64_t rows,
                                            const std::string& adapter = kDefaultAdapter);

}  // namespace hone::nn
