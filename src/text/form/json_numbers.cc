// Ranges by their digits: 37 to 152 is 3[7-9], [4-9]\d, 1[0-4]\d and 15[0-2].
#include "text/form/json_numbers.h"

#include <fmt/format.h>

#include <vector>

#include "base/strings.h"

namespace hone::text {
namespace {

using Ways = std::vector<std::string>;

std::string either(const Ways& ways) { return ways.empty() ? "" : "(" + join(ways, "|") + ")"; }

std::string digits(std::size_t count) { return count == 0 ? "" : fmt::format("[0-9]{{{}}}", count); }

bool all(std::string_view text, char digit) { return text.find_first_not_of(digit) == std::string_view::npos; }

// Of texts of as many digits.
std::string same_length(std::string_view low, std::string_view high) {
  if (low.empty()) return "";
  if (all(low, '0') && all(high, '9')) return digits(low.size());
  if (low[0] == high[0]) return low[0] + same_length(low.substr(1), high.substr(1));
  const std::size_t rest = low.size() - 1;
  const std::string zeros(rest, '0'), nines(rest, '9');
  char first = low[0], last = high[0];
  Ways ways;
  if (!all(low.substr(1), '0')) ways.push_back(first++ + same_length(low.substr(1), nines));
  const bool cut = !all(high.substr(1), '9');
  if (cut) --last;
  if (first <= last) ways.push_back(fmt::format("[{}-{}]", first, last) + digits(rest));
  if (cut) ways.push_back(high[0] + same_length(zeros, high.substr(1)));
  return either(ways);
}

// From `low`, 0 or above, to `high`, or without end.
std::string counts(std::uint64_t low, std::optional<std::uint64_t> high) {
  if (high && *high < low) return "";
  Ways ways;
  if (low == 0) ways.push_back("0"), low = 1;
  if (high && *high < low) return either(ways);
  const std::string first = std::to_string(low), last = high ? std::to_string(*high) : "";
  const std::size_t most = high ? last.size() : first.size();
  for (std::size_t size = first.size(); size <= most; ++size)
    ways.push_back(same_length(size == first.size() ? first : "1" + std::string(size - 1, '0'),
                               high && size == last.size() ? last : std::string(size, '9')));
  if (!high) ways.push_back(fmt::format("[1-9][0-9]{{{},}}", first.size()));
  return either(ways);
}

std::uint64_t negated(std::int64_t value) { return std::uint64_t{0} - static_cast<std::uint64_t>(value); }

// Of sizes from low to high: with or without a fraction.
std::string sizes(std::uint64_t low, bool low_exclusive, std::optional<std::uint64_t> high, bool high_exclusive) {
  Ways ways;
  const bool none = high && (*high < low || (*high == low && (low_exclusive || high_exclusive)));
  if (none) return "";
  if (!high || low < *high) {
    if (low_exclusive) ways.push_back(fmt::format(R"({}\.[0-9]*[1-9][0-9]*)", low));
    const std::uint64_t whole = low + (low_exclusive ? 1 : 0);
    const std::string inside = counts(whole, high ? std::optional(*high - 1) : std::nullopt);
    if (!inside.empty() && (!high || whole < *high)) ways.push_back(inside + R"((\.[0-9]+)?)");
  }
  if (high && !high_exclusive) ways.push_back(fmt::format(R"({}(\.0+)?)", *high));
  return either(ways);
}

}  // namespace

std::string integers_within(const NumberBounds& bounds) {
  if (!bounds.any()) return "-?(0|[1-9][0-9]*)";
  Ways ways;
  if (!bounds.low || *bounds.low < 0) {
    const std::uint64_t least = bounds.high && *bounds.high < 0 ? negated(*bounds.high) : 1;
    const std::string below = counts(least, bounds.low ? std::optional(negated(*bounds.low)) : std::nullopt);
    if (!below.empty()) ways.push_back("-" + below);
  }
  if (!bounds.high || *bounds.high >= 0) {
    const auto least = static_cast<std::uint64_t>(std::max<std::int64_t>(bounds.low.value_or(0), 0));
    const std::string above =
        counts(least, bounds.high ? std::optional(static_cast<std::uint64_t>(*bounds.high)) : std::nullopt);
    if (!above.empty()) ways.push_back(above);
  }
  return either(ways);
}

std::string numbers_within(const NumberBounds& bounds) {
  if (!bounds.any()) return R"(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?)";
  Ways ways;
  if (!bounds.low || *bounds.low < 0) {
    const bool to_zero = !bounds.high || *bounds.high >= 0;
    const std::string below = sizes(to_zero ? 0 : negated(*bounds.high), to_zero || bounds.high_exclusive,
                                    bounds.low ? std::optional(negated(*bounds.low)) : std::nullopt,
                                    bounds.low_exclusive);
    if (!below.empty()) ways.push_back("-" + below);
  }
  if (!bounds.high || *bounds.high >= 0) {
    const bool from_zero = !bounds.low || *bounds.low < 0;
    const std::string above =
        sizes(from_zero ? 0 : static_cast<std::uint64_t>(*bounds.low), !from_zero && bounds.low_exclusive,
              bounds.high ? std::optional(static_cast<std::uint64_t>(*bounds.high)) : std::nullopt,
              bounds.high_exclusive);
    if (!above.empty()) ways.push_back(above);
  }
  return either(ways);
}

}  // namespace hone::text
