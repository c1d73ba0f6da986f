// Gloo, by LibTorch's process group: tensors of the host, and texts.
#pragma once

#include <memory>

#include "dist/exchange.h"
#include "dist/place.h"

namespace hone::dist {

// All ranks of the place's job, within the time given; from then on they are waited for without limit. Throws
// Error(peer).
std::unique_ptr<HostExchange> join_by_gloo(c10d::Store& store, const Place& place, double timeout_seconds);

}  // namespace hone::dist
