// Help texts, reference pages and JSON schemas, all made from the same rows of options.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/config.h"

namespace hone::config {

// Flags with their help, wrapped to `width` columns.
std::string flags_help(const std::vector<OptionInfo>& rows, std::size_t width);
// Markdown: a table of the options; a section for each kind that a Choice may be. on_resume: of options that do not say
// what a change of them means, in a column of its own; nothing: no such column.
std::string reference_page(const std::string& title, const std::vector<OptionInfo>& rows,
                           std::optional<OnResume> on_resume = {});
// JSON Schema (draft 2020-12) of a recipe; `x-on-resume` is an option's on_resume, where nothing says so the one given.
Node json_schema(const std::string& title, const std::vector<OptionInfo>& rows, OnResume on_resume);
std::string_view name_of(OnResume rule);
// Words in lines of at most `width` columns, each after the first indented.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace hone::config
