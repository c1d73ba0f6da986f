// An encoding in the making: the columns of FullEncoding, and what truncation cut off, until post-processing is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/text.h"

namespace hone::text {

// Blanks at both ends of a token's text, in characters: what offsets may leave out.
struct Blanks {
  std::uint16_t leading = 0, trailing = 0;
};
Blanks count_blanks(std::string_view token);

// Takes them off a token's offsets. keep_first: but for one blank in front that the tokenizer itself put there.
void trim_offsets(Blanks blanks, bool keep_first, bool is_first, std::string_view text,
                  std::pair<std::uint32_t, std::uint32_t>& offset);

class Draft {
 public:
  struct Entry {
    std::int32_t id = 0, type = 0, word = -1;
    std::pair<std::uint32_t, std::uint32_t> offset;
    Blanks blanks;
    bool special = false, attended = true;
  };
  struct Range {
    std::size_t begin = 0, end = 0;
    bool set = false;
  };
  std::vector<Entry> entries;
  Range sequences[2];  // which entries are of which text; as in the library, none set means all of the first
  std::vector<Draft> overflow;

  void set_sequence(int which);
  void set_types(std::int32_t type);
  // Keeps `most` entries; the others are left in `overflow`, each part beginning with `stride` entries of the one
  // before.
  void truncate(std::size_t most, std::size_t stride, bool from_left);
  // Appends: each overflow of one is joined with the other and with its overflows.
  void merge(const Draft& next);
  // Grows to this length, overflows too.
  void pad(std::size_t length, const Entry& padding, bool at_left);
  FullEncoding finish() &&;
};

}  // namespace hone::text
