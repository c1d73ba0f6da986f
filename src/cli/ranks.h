// The ranks that this process trains together with.
#pragma once

#include <optional>
#include <string>

#include "hone/world.h"

namespace hone::cli {

// As a launcher's environment says; one process alone without it. The first call waits until all ranks are there.
World join_ranks();
void announce_ranks();  // once the log's level is chosen; dist::Session
// What this rank is to say of an error that ends the program; nothing: another one says it.
std::optional<std::string> own_words(const std::string& error, int code);
// At the program's end, of which this is the exit code; of ranks that have met on devices it is the end.
void leave_ranks(int code);

}  // namespace hone::cli
