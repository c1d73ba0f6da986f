// Help texts, reference pages and JSON schemas, all made from the same rows of options.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::config {

// Flags with their help, wrapped to `width` columns.
std::string flags_help(const std::vector<OptionInfo>& rows, std::size_t width);
// Markdown: a table of the options; a section for each kind that a Choice may be.
std::string reference_page(const std::string& title, const std::vector<OptionInfo>& rows);
// JSON Schema (draft 2020-12) of a recipe.
Node json_schema(const std::string& title, const std::vector<OptionInfo>& rows);
// Words in lines of at most `width` columns, each after the first indented.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace hone::config
