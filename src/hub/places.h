// Where tensors lie, by their names.
#pragma once

#include <map>
#include <string>

#include "hone/safetensors.h"

namespace hone::hub {

using Places = std::map<std::string, SafetensorsSet::Place>;

}  // namespace hone::hub
