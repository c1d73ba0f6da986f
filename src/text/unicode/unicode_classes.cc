// Tables of code points that single components use, from unicode_probed.inc.
#include <algorithm>
#include <iterator>
#include <vector>

#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

struct GroupRun {
  char32_t first;
  std::uint8_t group;
};
struct NamedRanges {
  std::string_view name;
  std::span<const Range> ranges;
};
#include "text/unicode/unicode_probed.inc"

using Table = std::vector<std::uint8_t>;

void set(Table& table, std::span<const Range> ranges, std::uint8_t bit) {
  for (const Range& r : ranges)
    for (char32_t c = r.first; c <= r.last; ++c) table[c] |= bit;
}

Table make_bert() {
  Table table(kMaxCodePoint + 1);
  set(table, kBertDroppedRanges, kBertDropped);
  set(table, kBertBlankRanges, kBertBlank);
  set(table, kBertMarkRanges, kBertMark);
  return table;
}

Table make_graphemes() {
  Table table(kMaxCodePoint + 1);
  set(table, kJoinsRanges, kJoins);
  set(table, kPrependRanges, kPrepends);
  set(table, kControlRanges, kControls);
  set(table, kPictureRanges, kPicture);
  set(table, kConsonantRanges, kConsonant);
  set(table, kViramaRanges, kVirama);
  set(table, kSpacingRanges, kSpacing);
  return table;
}

}  // namespace

const std::uint8_t* bert_table() {
  static const Table made = make_bert();
  return made.data();
}
const std::uint8_t* grapheme_table() {
  static const Table made = make_graphemes();
  return made.data();
}

int script_group(char32_t c) {
  const auto after = std::upper_bound(std::begin(kScriptGroups), std::end(kScriptGroups), c,
                                      [](char32_t wanted, const GroupRun& run) { return wanted < run.first; });
  return after == std::begin(kScriptGroups) ? 0 : std::prev(after)->group;
}

std::span<const Range> script_ranges(std::string_view name) {
  for (const NamedRanges& script : kScripts)
    if (script.name == name) return script.ranges;
  return {};
}

}  // namespace hone::text
