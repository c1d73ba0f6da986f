// Errors as JSON are read off their text, whose lines say by their beginning what they are (hone/error.h).
#include "cli/output.h"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/signals.h"
#include "base/strings.h"
#include "train/state.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

void make_finite(ordered_json& value) {
  if (value.is_structured())
    for (ordered_json& part : value) make_finite(part);
  else if (value.is_number_float() && !std::isfinite(value.get<double>()))
    value = training::json_number(value.get<double>());
}

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::config: return "config";
    case ErrorKind::data: return "data";
    case ErrorKind::checkpoint: return "checkpoint";
    case ErrorKind::not_finite: return "not_finite";
    case ErrorKind::peer: return "peer";
    case ErrorKind::locked: return "locked";
    case ErrorKind::bug: return "bug";
  }
  return kind == kStopped ? "stopped" : "";
}

}  // namespace

std::string one_line(ordered_json value) {
  make_finite(value);
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void write_json(ordered_json value) { std::cout << one_line(std::move(value)) << '\n'; }

ordered_json error_json(const std::string& text, ErrorKind kind) {
  ordered_json error = {{"kind", name_of(kind)}, {"exit_code", static_cast<int>(kind)}};
  std::vector<std::string> message, problems, context;
  std::string hint;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("  while ")) context.push_back(line.substr(8));
    else if (line.starts_with("  hint: ")) hint = line.substr(8);
    else if (line.starts_with("  ")) problems.push_back(line.substr(2));
    else message.push_back(line);
  }
  error["message"] = join(message, "\n");
  if (!problems.empty()) error["problems"] = problems;
  if (!context.empty()) error["context"] = context;
  if (!hint.empty()) error["hint"] = hint;
  return {{"error", error}};
}

}  // namespace hone::cli
