// metrics.csv in the run folder: one row per number, `step,metric,value`, for spreadsheets and data frames.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "base/env.h"
#include "base/log.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/tracker.h"
#include "io/file_identity.h"
#include "io/file_name.h"

namespace hone::trackers {
namespace {

constexpr const char* kHeader = "step,metric,value\n";
constexpr std::uint64_t kMaxRows = std::uint64_t{1} << 34;

// Rows of steps up to `step`; a resumed run writes the later ones again. What follows the last line end was cut off.
std::string kept_rows(const std::string& text, std::int64_t step) {
  std::string kept = kHeader;
  for (const std::string& line : split(text.substr(0, text.rfind('\n') + 1), '\n')) {
    const auto number = parse_int(line.substr(0, line.find(',')));
    if (number && *number <= step && std::count(line.begin(), line.end(), ',') == 2) kept += line + "\n";
  }
  return kept;
}

std::set<std::string> names_of(const std::string& text, std::int64_t step) {
  std::set<std::string> names;
  for (const std::string& row : split(text, '\n'))
    if (const std::vector<std::string> fields = split(row, ','); fields.size() == 3 && parse_int(fields[0]) == step)
      names.insert(fields[1]);
  return names;
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
  Csv(const Config& config, const RunInfo& run) : name_(config.file), step_(run.resumed ? run.start_step : -1) {
    try {
      folder_.emplace(Env::process().open_folder(run.folder));
      take_up(step_);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::config) throw;
      warnings_.warning(error.what());
    }
  }

  void log(std::int64_t step, const Metrics& metrics) override {
    if (!good_size_) return;
    if (step != step_) names_.clear();
    step_ = step;
    std::string rows;
    std::set<std::string> names = names_;
    for (const auto& [name, value] : metrics) {
      if (name == "step" || !names.insert(name).second) continue;
      rows += fmt::format("{},{},{}\n", step, name, value);
    }
    if (rows.empty()) return;
    try {
      write(rows);
      names_ = std::move(names);
    } catch (const Error& error) {
      file_.reset();  // opened anew, and cut to its last whole line, next time
      warnings_.warning(error.what());
    }
  }

 private:
  // What is there, but for rows of later steps.
  void take_up(std::int64_t last) {
    const std::string before = folder_->maybe_read_file(name_, kMaxRows).value_or("");
    if (!before.empty() && !before.starts_with(kHeader))
      throw Error(ErrorKind::config, fmt::format("{}: not written by this tracker, and not replaced; expected {} as "
                                                 "its first line, or another trackers file",
                                                 (folder_->path() / name_).string(), hone::quoted(kHeader)));
    const std::string kept = kept_rows(before, last);
    folder_->replace_file(name_, kept);
    good_size_ = kept.size();
    names_ = names_of(kept, step_);
  }

  // Asked before each write: a file that was removed or replaced can be written, and nobody finds it.
  void meet_changes() {
    const std::uint64_t there = folder_->file_size(name_).value_or(0), good = *good_size_;
    const bool is_ours = identity_ == io::identity_of(*folder_, name_);
    const bool is_failed_write = !file_ && there > good && is_ours;  // cut off below, which needs no room
    const bool is_replaced = identity_ && !is_ours;
    if ((there == good || is_failed_write) && !is_replaced) return;
    file_.reset();
    take_up(std::numeric_limits<std::int64_t>::max());
    identity_.reset();
    if (there < good)
      warnings_.warning(escape_for_terminal((folder_->path() / name_).string()) +
                        ": removed or cut meanwhile; what was in it does not come back");
  }

  void write(const std::string& rows) {
    meet_changes();
    if (!file_) {
      file_.emplace(folder_->append_to(name_));
      identity_ = io::identity_of(*folder_, name_);
    }
    if (file_->size() > *good_size_) file_->truncate(*good_size_);
    file_->write(rows);
    good_size_ = file_->size();
  }

  std::optional<Folder> folder_;
  std::string name_;
  std::optional<OutFile> file_;
  std::optional<std::uint64_t> good_size_;  // end of the last whole line; nothing: there is no file
  std::optional<io::FileIdentity> identity_;  // of the file that was opened last, also after a failed write
  std::int64_t step_;
  // Written of that step: an evaluation's line has numbers of the step's own again, and where a run goes on they are
  // there from before.
  std::set<std::string> names_;
  log::Limiter warnings_;
};

}  // namespace

void register_csv(Registries& hone) {
  hone.trackers.add<Csv>("csv", "metrics.csv in the run folder, one row per number.");
}

}  // namespace hone::trackers
