// The tables of the devices that have a file src/ops/<device>/backend.cc; written by CMake.
#pragma once

#include <string_view>

namespace hone::ops {

struct Backend;
const Backend* device_backend(std::string_view device);  // "cuda"; null: it has none

}  // namespace hone::ops
