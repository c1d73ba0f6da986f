// Where reading a stream goes on from: what a checkpoint keeps of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/stream_entry.h"
#include "hone/data.h"

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
  std::optional<DataReport> counts = DataReport();  // of the windows before it; nothing: not all of the run's
};

// What a report has of each window, and adds up over them.
inline constexpr std::pair<const char*, std::int64_t DataReport::*> kWindowCounts[] = {
    {"records", &DataReport::records},
    {"empty", &DataReport::empty},
    {"cut", &DataReport::cut},
    {"split", &DataReport::split},
    {"dropped", &DataReport::dropped},
    {"cut_tokens", &DataReport::cut_tokens},
    {"tokens", &DataReport::tokens},
    {"supervised", &DataReport::supervised},
    {"rows", &DataReport::rows},
    {"unsupervised_records", &DataReport::unsupervised_records},
    {"cut_prompts", &DataReport::cut_prompts},
    {"lost_supervised", &DataReport::lost_supervised},
    {"seams", &DataReport::seams},
    {"pieces", &DataReport::pieces},
    {"asked", &DataReport::asked},
    {"without_answer", &DataReport::without_answer},
    {"pictures", &DataReport::pictures},
    {"picture_tokens", &DataReport::picture_tokens},
    {"with_pictures", &DataReport::with_pictures}};

std::string to_json(const StreamPosition& position);
StreamPosition stream_position_from_json(const std::string& text);  // throws Error(data)

}  // namespace hone::data
