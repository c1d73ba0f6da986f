// Decoding on a device that can remember a step: any model's, layer by layer, given to the device once and then done
// again for each token.
#pragma once

#include <memory>
#include <string>

#include "nn/decoding/decoder.h"

namespace hone::nn {

// Null: the device remembers nothing, or the model's weights come and go.
std::unique_ptr<Decoder> maybe_make_recorded_decoder(const Model& model, const std::string& adapter);

}  // namespace hone::nn
