// How much each text of a pair loses, and how long a batch becomes.
#include "text/parts/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/parts/vocabulary.h"

namespace hone::text {
namespace {

constexpr std::int64_t kMostPadding = 1 << 24;  // a longer one is a damaged file

bool is_left(const Json& config, const std::string& where, std::optional<std::string> fallback) {
  const std::string side = get_string(config, "direction", where, std::move(fallback));
  if (side != "Left" && side != "Right")
    fail_at(where + ".direction", fmt::format("got {}, expected Left or Right", hone::quoted(side)));
  return side == "Left";
}

// Lengths that two texts may have: the longer one gives first.
std::pair<std::size_t, std::size_t> share(std::size_t a, std::size_t b, std::size_t most) {
  std::size_t small = std::min(a, b), large = small > most ? small : std::max(small, most - small);
  if (small + large > most) {
    small = most / 2;
    large = small + most % 2;
  }
  return a > b ? std::pair(large, small) : std::pair(small, large);
}

}  // namespace

void Truncation::apply(std::vector<Draft>& parts, std::size_t added) const {
  if (added > max_length)
    throw Error(ErrorKind::config, fmt::format("truncation of tokenizer.json: max_length {} is less than the {} tokens "
                                               "that the tokenizer adds",
                                               max_length, added));
  const std::size_t most = max_length - added;
  std::size_t total = 0;
  for (const Draft& part : parts) total += part.entries.size();
  if (most == 0) {
    for (Draft& part : parts) part.truncate(0, stride, from_left);
    return;
  }
  if (total <= most) return;
  if (which == Which::longest && parts.size() == 2) {
    const auto [first, second] = share(parts[0].entries.size(), parts[1].entries.size(), most);
    parts[0].truncate(first, stride, from_left);
    parts[1].truncate(second, stride, from_left);
    return;
  }
  if (which == Which::second && parts.size() < 2)
    throw Error(ErrorKind::data,
                "text to tokenize: truncation of tokenizer.json is only_second, but there is one text");
  Draft& target = parts[which == Which::second];
  if (total - most >= target.entries.size() && which != Which::longest)
    throw Error(
        ErrorKind::data,
        fmt::format("text to tokenize: {} tokens are too many, and the text that truncation may cut has only {}", total,
                    target.entries.size()));
  target.truncate(target.entries.size() - (total - most), stride, from_left);
}

std::int64_t shorten(std::vector<Draft>& parts, std::size_t most, std::size_t added, bool from_left) {
  if (most <= added)
    throw Error(ErrorKind::config, fmt::format("{} leave no room for a text: the tokenizer itself adds {}",
                                               counted(static_cast<std::int64_t>(most), "token"), added));
  const std::size_t room = most - added;
  std::vector<std::size_t> lengths;
  for (const Draft& part : parts) lengths.push_back(part.entries.size());
  std::size_t total = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  if (total <= room) return 0;
  if (parts.size() == 1)
    lengths[0] = room;
  else
    std::tie(lengths[0], lengths[1]) = share(lengths[0], lengths[1], room);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto& entries = parts[i].entries;
    const auto gone = static_cast<std::ptrdiff_t>(entries.size() - lengths[i]);
    entries.erase(from_left ? entries.begin() : entries.end() - gone,
                  from_left ? entries.begin() + gone : entries.end());
  }
  return static_cast<std::int64_t>(total - room);
}

void Padding::apply(std::vector<Draft>& batch) const {
  std::size_t longest = length.value_or(0);
  for (const Draft& draft : batch)
    if (!length) longest = std::max(longest, draft.entries.size());
  if (multiple > 0 && longest % multiple > 0) longest += multiple - longest % multiple;
  for (Draft& draft : batch) draft.pad(longest, entry, at_left);
}

std::optional<Truncation> read_truncation(const Json& config, const std::string& where) {
  if (config.is_null()) return std::nullopt;
  Truncation t;
  t.from_left = is_left(config, where, "Right");
  t.max_length = static_cast<std::size_t>(get_int(config, "max_length", where, 0, INT64_MAX));
  t.stride = static_cast<std::size_t>(get_int(config, "stride", where, 0, INT64_MAX));
  const std::string strategy = get_string(config, "strategy", where);
  if (strategy == "OnlyFirst")
    t.which = Truncation::Which::first;
  else if (strategy == "OnlySecond")
    t.which = Truncation::Which::second;
  else if (strategy != "LongestFirst")
    fail_at(where + ".strategy",
            fmt::format("got {}, expected LongestFirst, OnlyFirst or OnlySecond", hone::quoted(strategy)));
  return t;
}

std::optional<Padding> read_padding(const Json& config, const std::string& where) {
  if (config.is_null()) return std::nullopt;
  Padding p;
  const Json& strategy = member(config, "strategy");
  if (strategy.is_object())
    p.length = static_cast<std::size_t>(get_int(strategy, "Fixed", where + ".strategy", 0, kMostPadding));
  else if (strategy != "BatchLongest")
    fail_at(where + ".strategy", fmt::format("got {}, expected BatchLongest or {{\"Fixed\": n}}", strategy.dump()));
  p.at_left = is_left(config, where, std::nullopt);
  if (!member(config, "pad_to_multiple_of").is_null())
    p.multiple = static_cast<std::size_t>(get_int(config, "pad_to_multiple_of", where, 0, kMostPadding));
  p.entry = {.id = static_cast<std::int32_t>(get_int(config, "pad_id", where, 0, kMaxId - 1)),
             .type = static_cast<std::int32_t>(get_int(config, "pad_type_id", where, 0, INT32_MAX)),
             .offset = {},
             .blanks = {},
             .special = true,
             .attended = false};
  get_string(config, "pad_token", where);
  return p;
}

}  // namespace hone::text
