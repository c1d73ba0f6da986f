// What is printed with --json: results on standard output, errors on standard error, one object a line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "hone/error.h"

namespace hone::cli {

// Numbers stay numbers; what JSON cannot hold becomes "nan", "inf" and "-inf" as in metrics.jsonl, and bytes that are
// not UTF-8 (a file's name may have them) become U+FFFD.
std::string one_line(nlohmann::ordered_json value);
void write_json(nlohmann::ordered_json value);  // to standard output, with its line end

// {"error": {"kind", "exit_code", "message", "problems", "context", "hint"}}; what an error has none of is left out.
nlohmann::ordered_json error_json(const std::string& text, ErrorKind kind);

}  // namespace hone::cli
