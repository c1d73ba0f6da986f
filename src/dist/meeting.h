// Where the ranks of a job meet: at MASTER_ADDR and MASTER_PORT, each under a number of its own.
#pragma once

#include <optional>

#include "dist/place.h"
#include "dist/store.h"

namespace hone::dist {

// What follows throws Error(peer) that names the environment's variable, its value and what to do.

// Returns when MASTER_ADDR is known here, as that of a machine that just starts will be; for so many seconds at most.
void await_name(const Place& place, double seconds);
// The store, where this rank is to serve it.
std::optional<Store> maybe_serve(const Place& place);
// Waits so long for who serves it.
Store connect(const Place& place, double seconds);
// That nobody else of the job is this rank. Where there is somebody and others are waited for still, they end, too.
void claim_rank(Store& store, const Place& place);

}  // namespace hone::dist
