// Splitting, numbers, nearest names, human sizes.
#include "base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace hone {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  if (from.empty()) return text;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string repeat(std::string_view text, std::size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  while (times-- > 0) all += text;
  return all;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before(width), last(width), row(width);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 200;  // of names people type; keeps hostile ones from costing time
  if (name.empty() || name.size() > kLongest) return "";
  const std::string wanted = to_lower(name);
  // A third of the letters may be wrong; "lr" and "wd" have no typing mistakes, only other names.
  std::size_t best = std::max<std::size_t>(1, name.size() / 3) + 1;
  std::string found;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongest || candidate.empty()) continue;
    const std::size_t distance = edit_distance(wanted, to_lower(candidate));
    if (distance < best && distance < std::max(candidate.size(), name.size())) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string list_names(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i > 0 ? ", " : "") + hone::quoted(names[i]);
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

std::string human_size(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::array kUnits{"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string four_digits(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.4f}", value); }

std::string human_count(double count) {
  if (std::abs(count) < 1000) return fmt::format("{:.{}f}", count, count == std::floor(count) || count >= 100 ? 0 : 1);
  constexpr std::array kUnits{"k", "M", "G", "T"};
  double value = count / 1000;
  std::size_t unit = 0;
  for (; std::abs(value) >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f}{}", value, std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 0.9995) return fmt::format("{:.0f}ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f}s", seconds);
  if (seconds > 3.15e9) return "over 100 years";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d {:02}h", whole / 86400, whole / 3600 % 24);
}

template <class T>
static std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_int(std::string_view text) { return parse_whole<std::int64_t>(text); }
std::optional<std::uint64_t> parse_uint(std::string_view text) { return parse_whole<std::uint64_t>(text); }

std::optional<double> parse_double(std::string_view text) {
  const std::optional<double> value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = parse_double(text.substr(0, digits));
  std::string unit = to_lower(trim(text.substr(digits)));
  if (!number || *number < 0) return std::nullopt;
  constexpr std::array<std::pair<std::string_view, double>, 14> kUnits{{{"", 1},
                                                                        {"b", 1},
                                                                        {"k", 1e3},
                                                                        {"kb", 1e3},
                                                                        {"m", 1e6},
                                                                        {"mb", 1e6},
                                                                        {"g", 1e9},
                                                                        {"gb", 1e9},
                                                                        {"t", 1e12},
                                                                        {"tb", 1e12},
                                                                        {"kib", 1024.0},
                                                                        {"mib", 1048576.0},
                                                                        {"gib", 1073741824.0},
                                                                        {"tib", 1099511627776.0}}};
  for (const auto& [name, factor] : kUnits) {
    const double size = *number * factor;
    if (name == unit && size < 9.2e18) return static_cast<std::uint64_t>(std::llround(size));
  }
  return std::nullopt;
}

}  // namespace hone
