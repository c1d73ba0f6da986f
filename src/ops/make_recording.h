// A device's recording, if it can remember work.
#pragma once

#include <ATen/ATen.h>

#include <memory>

#include "ops/backend.h"
#include "ops/recording.h"

namespace hone::ops {

// Null: it remembers none.
inline std::unique_ptr<Recording> maybe_make_recording(at::Device device) {
  const Backend& table = backend_of(at::empty({1}, at::TensorOptions(device).dtype(at::kFloat)));
  return table.make_recording ? table.make_recording() : nullptr;
}

}  // namespace hone::ops
