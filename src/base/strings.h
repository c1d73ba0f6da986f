// Small text helpers: splitting, strict numbers, nearest names, safe printing, human sizes and times, UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone {

std::vector<std::string> split(std::string_view text, char separator);  // "a,,b" gives three; "" gives one, empty
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);  // without ASCII white space at both ends
std::string to_lower(std::string_view text);   // ASCII only
std::string replace_all(std::string text, std::string_view from, std::string_view to);
std::string repeat(std::string_view text, std::size_t times);

// Optimal string alignment distance: insert, delete, replace, or swap two neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b);
// The nearest of `known` to `name` if it is near enough to be a typing mistake, else "".
std::string nearest(std::string_view name, const std::vector<std::string>& known);
// Names for a message: at most `most`, quoted, then "and 12 more".
std::string list_names(const std::vector<std::string>& names, std::size_t most = 10);

// Text from a file or user made safe to print: control, bidi and invalid bytes as \n, \x1b, \u202e; at most `most`
// bytes.
std::string escape_for_terminal(std::string_view text, std::size_t most = 400);
std::string quoted(std::string_view text);      // "escape_for_terminal" in double quotes
std::string safe_lines(std::string_view text);  // the same for a message of any length; ends of lines stay

std::string human_size(std::uint64_t bytes);                     // "1.4 GB", "512 B": decimal units
std::string four_digits(double value);                           // "0.1235", "inf", "nan" whatever its sign
std::string human_count(double count);                           // "1.23M", "45.6k", "7"
std::string human_duration(double seconds);                      // "1h 02m", "3m 07s", "12.3s", "45ms"
std::string counted(std::int64_t count, std::string_view what);  // "1 row", "7 rows"; what: in the singular

// The whole of the text must be the number (no blanks, no sign but '-'); nothing: it is not, or does not fit.
std::optional<std::int64_t> parse_int(std::string_view text);
std::optional<std::uint64_t> parse_uint(std::string_view text);
std::optional<double> parse_double(std::string_view text);       // finite only; "1e-3", ".5", "-2."
std::optional<std::uint64_t> parse_size(std::string_view text);  // "5GB", "200MB", "4GiB", "1000"

bool is_utf8(std::string_view text);                               // well-formed: no surrogates, overlongs, > U+10FFFF
std::optional<std::size_t> first_bad_utf8(std::string_view text);  // its byte position
std::string with_replaced_utf8(std::string_view text);             // each bad sequence becomes U+FFFD
std::size_t display_width(std::string_view text);                  // code points, near enough for a progress line

}  // namespace hone
