// Files of W&B's offline runs: LevelDB's log format around numbered messages, each a Record of wandb_internal.proto.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/env.h"

namespace hone::trackers {

// What such a file begins with.
inline constexpr std::string_view kWandbStart{":W&B\xE1\xBE\0", 7};

// A Record, but for its number in the file.
struct WandbRecord {
  std::uint64_t kind = 0;    // the field of Record that it is
  std::string content;       // of that field
  bool is_answered = false;  // it has a box for an answer: up to 0.28 wandb waits for that of a run's record
};

// As it stands in the file from its byte `at` on. `number`: 1 is the first.
std::string wandb_framed(const WandbRecord& record, std::int64_t number, std::uint64_t at);

struct WandbPlace {
  std::uint64_t begin = 0, end = 0;  // in the file
};
using WandbVisit = std::function<void(const WandbRecord& record, WandbPlace place)>;
// Why the records that can be read end, and where they do.
struct WandbEnd {
  enum class Why {
    whole,   // with the file
    torn,    // in the last record, whose end is missing
    damaged  // before more of the file
  };
  Why why = Why::whole;
  std::uint64_t at = 0;
};
// Those of a file, which is read block by block, up to the first one that is not whole.
WandbEnd each_wandb_record(const InFile& file, const WandbVisit& visit);

}  // namespace hone::trackers
