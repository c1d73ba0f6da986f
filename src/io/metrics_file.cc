// A torn line is never left before a whole one.
#include "io/metrics_file.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace hone::io {
namespace {

// JSON has no NaN and no infinity; what they were is kept as text.
nlohmann::json without_nonfinite(nlohmann::json value) {
  if (value.is_structured())
    for (auto& inner : value) inner = without_nonfinite(std::move(inner));
  if (!value.is_number_float()) return value;
  const double number = value.get<double>();
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return value;
}

// The step of a whole line; nothing: torn, or not an object with a step.
std::optional<std::int64_t> step_of(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  return step != object.end() && step->is_number_integer() ? std::optional(step->get<std::int64_t>()) : std::nullopt;
}

}  // namespace

MetricsFile::MetricsFile(const Folder& folder, const std::string& name) : folder_(folder), name_(name) {}

// Asked before each write: a file that was removed or replaced can be written, and nobody finds it.
void MetricsFile::open() {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  if (!good_size_) keep_up_to(kAll);  // a process before us may have been killed
  const std::uint64_t there = folder_.file_size(name_).value_or(0), good = *good_size_;
  const bool is_ours = identity_ == identity_of(folder_, name_);
  const bool is_failed_write = !file_ && there > good && is_ours;  // whose rest append() cuts off
  const bool is_replaced = identity_ && !is_ours;
  if ((there != good && !is_failed_write) || is_replaced) keep_up_to(kAll);
  if (there < good)
    warnings_.warning(escape_for_terminal((folder_.path() / name_).string()) +
                      ": removed or cut meanwhile; what was in it does not come back");
  if (file_) return;
  file_.emplace(folder_.append_to(name_));
  identity_ = identity_of(folder_, name_);
}

std::int64_t MetricsFile::keep_up_to(std::int64_t step, std::int64_t most) {
  file_.reset();
  identity_.reset();
  std::int64_t lines = 0;
  const std::optional<std::string> old = folder_.maybe_read_file(name_, std::uint64_t{1} << 34);
  std::string kept;
  good_size_ = 0;
  if (!old) return 0;
  for (std::size_t at = 0; at < old->size();) {
    const std::size_t end = old->find('\n', at);
    if (end == std::string::npos) break;  // torn by a kill: never a whole line
    const std::string_view line = std::string_view(*old).substr(at, end - at);
    const auto number = step_of(line);
    if (number && (*number < step || (*number == step && lines < most))) kept.append(line).append("\n"), ++lines;
    at = end + 1;
  }
  if (kept != *old) folder_.replace_file(name_, kept);
  good_size_ = kept.size();
  return lines;
}

void MetricsFile::append(const nlohmann::json& object) noexcept {
  try {
    const std::string line =
        without_nonfinite(object).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    open();
    if (file_->size() != *good_size_) file_->truncate(*good_size_);  // takes away what a failed write left
    file_->write(line);
    good_size_ = file_->size();
  } catch (const std::exception& error) {
    ++failures_;
    file_.reset();  // opened anew, and cut to its last whole line, next time
    warnings_.warning(fmt::format("{} is not written: {}", name_, error.what()));
  }
}

}  // namespace hone::io
