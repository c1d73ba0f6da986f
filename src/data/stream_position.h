// Where reading a stream goes on from: what a checkpoint keeps of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/stream_entry.h"

namespace hone::data {

struct EntryPosition {
  StreamMark at;          // before the window
  StreamMark from;  // where to begin reading so that `at` can be checked: the window before, or the pass's beginning
  StreamMark pass_start;  // of the pass that `at` is in
  std::int64_t tokens = 0;  // in rows, until `at`
  StreamMark read;          // behind the window
};

// A window, and how many of its rows have been given.
struct StreamPosition {
  std::int64_t window = -1, row = 0;  // -1: nothing has been read
  std::vector<EntryPosition> entries = {};
};

std::string to_json(const StreamPosition& position);
StreamPosition stream_position_from_json(const std::string& text);  // throws Error(data)

}  // namespace hone::data
