// metrics.csv in the run folder: one row per number, `step,metric,value`, for spreadsheets and data frames.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/env.h"
#include "base/log.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/tracker.h"
#include "io/file_name.h"

namespace hone::trackers {
namespace {

constexpr const char* kHeader = "step,metric,value\n";

// Rows of steps up to `step`; a resumed run writes the later ones again. What follows the last line end was cut off.
std::string kept_rows(const std::string& text, std::int64_t step) {
  std::string kept = kHeader;
  for (const std::string& line : split(text.substr(0, text.rfind('\n') + 1), '\n')) {
    const auto number = parse_int(line.substr(0, line.find(',')));
    if (number && *number <= step && std::count(line.begin(), line.end(), ',') == 2) kept += line + "\n";
  }
  return kept;
}

class Csv final : public Tracker {
 public:
  struct Config {
    std::string file = "metrics.csv";
    static constexpr auto fields() {
      return std::tuple{field("file", &Config::file, "Name of the file in the run folder; ends in .csv.")};
    }
    void validate(Problems& problems) const {
      problems.require(io::is_plain_name(file) && file.ends_with(".csv"), "file",
                       "got " + hone::quoted(file) + ", expected a name that ends in .csv, without a path");
    }
  };
  Csv(const Config& config, const RunInfo& run) {
    try {
      const Folder folder = Env::process().open_folder(run.folder);
      const std::string before = folder.maybe_read_file(config.file).value_or("");
      if (!before.empty() && !before.starts_with(kHeader))
        throw Error(ErrorKind::config, fmt::format("{}: not written by this tracker, and not replaced; expected {} as "
                                                   "its first line, or another trackers file",
                                                   (folder.path() / config.file).string(), hone::quoted(kHeader)));
      folder.replace_file(config.file, kept_rows(before, run.resumed ? run.start_step : -1));
      file_.emplace(folder.append_to(config.file));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::config) throw;
      warnings_.warning(error.what());
    }
  }

  void log(std::int64_t step, const Metrics& metrics) override {
    if (!file_) return;
    std::string rows;
    for (const auto& [name, value] : metrics)
      if (name != "step") rows += fmt::format("{},{},{}\n", step, name, value);
    try {
      file_->write(std::string_view(rows));
    } catch (const Error& error) {
      warnings_.warning(error.what());
    }
  }

 private:
  std::optional<OutFile> file_;
  log::Limiter warnings_;
};

}  // namespace

void register_csv(Registries& hone) {
  hone.trackers.add<Csv>("csv", "metrics.csv in the run folder, one row per number.");
}

}  // namespace hone::trackers
