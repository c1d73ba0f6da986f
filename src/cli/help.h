// What the program says of itself: its commands and their flags, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::cli {

// The flags that every command has, besides its own.
struct CommonFlags {
  bool json = false, quiet = false;
  static constexpr auto fields() {
    using C = CommonFlags;
    return std::tuple{field("json", &C::json,
                            "Print results as JSON on standard output, messages and errors as JSON on standard error, "
                            "an object a line; sizes in bytes, times in seconds."),
                      field("quiet", &C::quiet, "Print results, warnings and errors only.")};
  }
};

using CommandEntry = Registry<Command>::Entry;

std::string overview();
nlohmann::ordered_json overview_json();
std::string help_of(const CommandEntry& command);  // as wide as the terminal
nlohmann::ordered_json help_json(const CommandEntry& command);
std::string commands_page();  // Markdown

}  // namespace hone::cli
