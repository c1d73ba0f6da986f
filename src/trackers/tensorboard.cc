// Event files for TensorBoard in a folder of the run, one for each of its processes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/host.h"
#include "base/log.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/tracker.h"
#include "io/file_name.h"
#include "trackers/event_file.h"
#include "trackers/record_file.h"
#include "trackers/tags.h"

namespace hone::trackers {
namespace {

constexpr std::uint64_t kMaxEventFile = std::uint64_t{1} << 34;
constexpr std::int64_t kLastSecond = 9'999'999'999;  // of ten digits
constexpr const char* kConfigTag = "config";

// TensorBoard reads texts as Markdown, in which indented lines are shown as they are.
std::string as_code(const std::string& text) {
  std::string code;
  for (const std::string& line : split(text, '\n')) code += line.empty() ? "\n" : "    " + line + "\n";
  return code;
}

// What files of earlier processes show of the run.
struct Shown {
  std::set<std::string> tags;                  // of the step at which the run goes on
  std::map<std::int64_t, std::string> config;  // by its step
};

void look_at(const Event& event, std::int64_t step, Shown& shown) {
  if (event.is_start) {
    if (event.place.step <= step) shown.tags.clear();
    shown.config.erase(shown.config.lower_bound(event.place.step), shown.config.end());
  }
  for (const Event::Value& value : event.values) {
    if (value.number && event.place.step == step) shown.tags.insert(value.tag);
    if (!value.number && value.tag == kConfigTag) shown.config[event.place.step] = value.text;
  }
}

class TensorBoard final : public Tracker {
 public:
  struct Config {
    std::string folder = "tensorboard";
    static constexpr auto fields() {
      return std::tuple{field("folder", &Config::folder, "Name of the folder for event files, in the run folder.")};
    }
    void validate(Problems& problems) const {
      constexpr std::array kOfTheRun{"cache", "checkpoints", "profile", "latest", "best"};
      const bool taken = std::find(kOfTheRun.begin(), kOfTheRun.end(), folder) != kOfTheRun.end();
      problems.require(io::is_plain_name(folder) && !folder.starts_with(".") && !taken, "folder",
                       "got " + hone::quoted(folder) + ", expected a name, not of the run's own, without a path");
    }
  };

  TensorBoard(const Config& config, const RunInfo& run) : name_(config.folder), run_(run), step_(run.start_step) {
    warned([&] { write(""); });  // the run is seen from its beginning
  }

  void log(std::int64_t step, const Metrics& metrics) override {
    warned([&] {
      take_folder();
      if (step != step_) tags_.clear();
      step_ = step;
      const EventPlace place{wall_seconds(), step};
      std::string records;
      std::vector<std::string> tags;  // one point of each at a step
      for (const auto& [name, value] : metrics) {
        if (name == "step" || tags_.contains(tag_of(name))) continue;
        tags.push_back(tag_of(name));
        records += scalar_record(place, tags.back(), value);
      }
      write(records);
      tags_.insert(tags.begin(), tags.end());
    });
  }

 private:
  template <class Work>
  void warned(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      warnings_.warning(error.what());
    }
  }

  void write(const std::string& records) {
    take_folder();
    file_->append(file_->open() == 0 ? head_ + records : records);
  }

  // Once: what there is of the run, and the file behind it.
  void take_folder() {
    if (file_) return;
    const Folder run = Env::process().open_folder(run_.folder);
    const Folder folder = opened_or_made(run, {name_});
    std::vector<std::string> earlier = folder.list();
    std::erase_if(earlier, [](const std::string& name) { return !name.starts_with(kEventFile); });
    const Shown shown = shown_by(folder, earlier);
    // The first file has the mark, too: TensorBoard takes the first one that it sees for no restart.
    head_ = version_record(wall_seconds()) + start_record({wall_seconds(), run_.resumed ? run_.start_step + 1 : 0});
    const std::string config = as_code(run_.config_yaml);
    if (shown.config.empty() || shown.config.rbegin()->second != config)
      head_ += text_record({wall_seconds(), run_.start_step}, kConfigTag, config);
    tags_ = shown.tags;
    file_.emplace(run, std::vector{name_}, name_behind(earlier));
  }

  Shown shown_by(const Folder& folder, const std::vector<std::string>& files) {
    Shown shown;
    if (!run_.resumed) return shown;
    for (const std::string& name : files)
      warned([&] {
        const std::string content = folder.read_file(name, kMaxEventFile);
        each_event(content, [&](const Event& event) { look_at(event, run_.start_step, shown); });
      });
    shown.config.erase(shown.config.upper_bound(run_.start_step), shown.config.end());
    return shown;
  }

  // Later in the order of names than all of them, also after the clock was set back.
  static std::string name_behind(const std::vector<std::string>& files) {
    auto seconds = static_cast<std::int64_t>(wall_seconds());
    for (const std::string& name : files) {
      const std::string behind = name.substr(kEventFile.size());
      const auto its = parse_int(behind.substr(0, behind.find('.')));
      if (its && *its < kLastSecond) seconds = std::max(seconds, *its + 1);
    }
    return fmt::format("{}{:010}.{}.{}.0", kEventFile, seconds, host_name(), ::getpid());
  }

  std::string name_;  // of the folder
  RunInfo run_;
  std::optional<RecordFile> file_;
  std::string head_;  // its first records
  std::int64_t step_;
  std::set<std::string> tags_;  // of that step, there already
  log::Limiter warnings_;
};

}  // namespace

void register_tensorboard(Registries& hone) {
  hone.trackers.add<TensorBoard>("tensorboard", "Event files for TensorBoard, in a folder of the run.");
}

}  // namespace hone::trackers
