// What Python's str methods do with UTF-8: searching, stripping, splitting, slicing. Positions are bytes unless a name
// says characters. Searches are linear in the text, whatever the needle.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/traced.h"

namespace hone::jinja {

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from = 0);
std::size_t rfind_bytes(std::string_view text, std::string_view needle);

std::size_t count_characters(std::string_view text);
std::size_t byte_of_character(std::string_view text, std::size_t character);  // the text's end if there are fewer

enum class Side { both, left, right };
// chars: the set to strip; nothing: white space.
std::string_view strip(std::string_view text, const std::optional<std::string_view>& chars, Side side = Side::both);

using Parts = std::vector<std::string_view>;
Parts split_on(std::string_view text, std::string_view separator, std::int64_t most);  // REQUIRES: a separator
Parts rsplit_on(std::string_view text, std::string_view separator, std::int64_t most);
Parts split_on_space(std::string_view text, std::int64_t most);
Parts rsplit_on_space(std::string_view text, std::int64_t most);
Parts split_lines(std::string_view text, bool keep_ends);

std::size_t count_of(std::string_view text, std::string_view needle);
Traced replaced(const Value& text, const Value& from, const Value& to, std::int64_t most);  // texts

// HTML's & < > ' " as entities.
std::string escaped_html(std::string_view text);
std::string repeated(std::string_view text, std::int64_t times);

bool all_of(std::string_view text, bool (*holds)(char32_t));  // and not empty

}  // namespace hone::jinja
