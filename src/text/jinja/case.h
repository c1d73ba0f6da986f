// Case mappings and character predicates of Python's str, over well-formed UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace hone::jinja {

std::string upper(std::string_view text);
std::string lower(std::string_view text);  // a sigma that ends a word becomes its final form
std::string capitalize(std::string_view text);
std::string title(std::string_view text);
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_alnum(char32_t c);
bool is_printable(char32_t c);

// str.islower(), .isupper() and .istitle(): of a whole text.
bool all_lower(std::string_view text);
bool all_upper(std::string_view text);
bool all_title(std::string_view text);

}  // namespace hone::jinja
