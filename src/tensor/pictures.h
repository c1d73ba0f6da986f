// Pictures of a batch as tensors.
#pragma once

#include "hone/batch.h"

namespace hone {

Pictures to_pictures(const HostPictures& host);

}  // namespace hone
