// Offline runs of Weights & Biases in the run folder, one for each of its processes; `wandb sync` uploads them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
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
#include "trackers/record_file.h"
#include "trackers/tags.h"
#include "trackers/wandb_earlier.h"
#include "trackers/wandb_records.h"

namespace hone::trackers {
namespace {

constexpr const char* kWandbFolder = "wandb";
constexpr std::size_t kMaxWandbName = 128, kMaxWandbTag = 64;

std::string new_wandb_id() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device device;
  std::uniform_int_distribution<std::size_t> any(0, kLetters.size() - 1);
  std::string id;
  while (id.size() < 8) id += kLetters[any(device)];
  return id;
}

// "20250203_040506", in UTC: names are in the order of their times in every time zone.
std::string time_of_name(std::int64_t start) {
  std::string time = iso_utc(static_cast<double>(start));
  std::erase_if(time, [](char c) { return c == '-' || c == ':' || c == 'Z'; });
  return replace_all(time, "T", "_");
}

// Also of "." and "runs/a/..".
std::string name_of_folder(const std::string& folder) {
  return (std::filesystem::absolute(folder) / "").lexically_normal().parent_path().filename().string();
}

WandbValues sections_of(const std::string& recipe_yaml) {
  Problems problems;
  const config::Node recipe = config::parse_yaml(recipe_yaml, "recipe", problems);
  WandbValues sections;
  for (const auto& [name, section] : recipe.entries()) sections[name] = config::to_json(section, /*indent=*/-1);
  return sections;
}

bool is_wandb_name(const std::string& name, const char* refused) {
  return io::is_plain_name(name) && name.size() <= kMaxWandbName && name.find_first_of(refused) == name.npos &&
         trim(name) == name;
}

class Wandb final : public Tracker {
 public:
  struct Config {
    std::string project = "hone";
    std::optional<std::string> entity, name, group, notes, id;
    std::vector<std::string> tags;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("project", &C::project, "Project of W&B that the run is in."),
          field("entity", &C::entity, "User or team that the project belongs to; default: whoever uploads the run."),
          field("name", &C::name, "What W&B shows the run as; default: the name of the run folder."),
          field("group", &C::group, "Runs with the same word here are shown together."),
          field("tags", &C::tags, "Labels to find the run by."),
          field("notes", &C::notes, "A text that W&B shows with the run."),
          field("id", &C::id,
                "The run's id within its project; default: eight random letters and digits, which a run "
                "keeps when it is resumed.")};
    }
    void validate(Problems& problems) const {
      problems.require(is_wandb_name(project, "/\\#?%:"), "project",
                       "got " + hone::quoted(project) + ", expected up to 128 characters, none of /\\#?%:");
      problems.require(!id || is_wandb_name(*id, ":;,#?/'\\%"), "id",
                       "got " + hone::quoted(id.value_or("")) + ", expected up to 128 characters, none of :;,#?/'\\%");
      for (const std::string& tag : tags)
        problems.require(!tag.empty() && tag.size() <= kMaxWandbTag, "tags",
                         "got " + hone::quoted(tag) + ", expected 1 to 64 bytes each");
    }
  };

  Wandb(const Config& config, const RunInfo& run) : info_(run), step_(run.start_step) {
    run_.id = config.id.value_or("");
    run_.entity = config.entity.value_or("");
    run_.project = config.project;
    run_.group = config.group.value_or("");
    run_.name = config.name.value_or(name_of_folder(run.folder));
    run_.notes = config.notes.value_or("");
    run_.host = host_name();
    run_.tags = config.tags;
    run_.config = sections_of(run.config_yaml);
    warned([&] { write({}); });  // the run is there from its beginning
  }

  void log(std::int64_t step, const Metrics& metrics) override {
    warned([&] {
      take_up();
      if (step != step_) tags_.clear();
      step_ = step;
      WandbValues values;  // one of each name at a step
      for (const auto& [name, value] : metrics)
        if (name != "step" && !tags_.contains(tag_of(name))) values[tag_of(name)] = json_number(value);
      if (values.empty()) return;
      values[kGlobalStep] = fmt::format("{}", step);
      values["_step"] = fmt::format("{}", line_);
      values["_runtime"] = json_number(runtime());
      values["_timestamp"] = json_number(wall_seconds());
      write({wandb_summary(values), wandb_history(values, line_)});
      ++line_;
      for (const auto& [tag, json] : values) {
        last_[tag] = json;
        tags_.insert(tag);
      }
    });
  }

  void finish() override {
    warned([&] { write({wandb_exit(runtime())}); });
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

  double runtime() const { return runtime_before_ + watch_.seconds(); }

  void write(const std::vector<WandbRecord>& records) {
    take_up();
    const std::uint64_t end = file_->open();
    if (end == 0 && !file_->folder().is_folder("files"))
      file_->folder().make_folder("files");  // wandb writes into it before it uploads
    std::string bytes(end == 0 ? kWandbStart : "");
    std::int64_t number = end == 0 ? 0 : number_;
    const auto add = [&](const WandbRecord& one) { bytes += wandb_framed(one, ++number, end + bytes.size()); };
    if (end == 0) std::ranges::for_each(head(), add);
    std::ranges::for_each(records, add);
    file_->append(bytes);
    number_ = number;
  }

  // The first records of a file.
  std::vector<WandbRecord> head() const {
    std::vector<WandbRecord> head{wandb_header(), wandb_run(run_), wandb_step_metric(), wandb_other_metrics()};
    if (!last_.empty()) head.push_back(wandb_summary(last_));  // an upload begins with an empty one
    return head;
  }

  // Once: what there is of the run, and where this process goes on.
  void take_up() {
    if (file_) return;
    const Folder run_folder = Env::process().open_folder(info_.folder);
    const Folder all = opened_or_made(run_folder, {kWandbFolder});
    const WandbEarlier earlier = take_up_earlier(all, run_, info_.resumed ? info_.start_step : -1);
    run_.id = earlier.id.empty() ? new_wandb_id() : earlier.id;
    // wandb uploads files of one run in the order of their starts, also after the clock was set back.
    run_.start = std::max(static_cast<std::int64_t>(wall_seconds()), earlier.last_start + 1);
    std::string name = free_name(all);
    last_ = earlier.last;
    line_ = earlier.next_line;
    runtime_before_ = earlier.runtime_s;
    tags_ = earlier.tags;
    file_.emplace(run_folder, std::vector<std::string>{kWandbFolder, name}, wandb_file_name(run_.id));
    for (const std::string& warning : earlier.warnings) log::warning("{}", warning);
  }

  // Behind those of earlier processes within the minute, also of one whose file nobody can read.
  std::string free_name(const Folder& all) {
    std::string last, name;
    for (const std::string& there : all.list())
      if (there.starts_with(kOfflineRun)) last = std::max(last, there);
    const auto named = [&] { return name = fmt::format("{}{}-{}", kOfflineRun, time_of_name(run_.start), run_.id); };
    for (const std::int64_t latest = run_.start + 60; named() <= last && run_.start < latest;) ++run_.start;
    while (all.exists(named())) ++run_.start;
    return name;
  }

  RunInfo info_;
  WandbRun run_;
  std::optional<RecordFile> file_;
  std::int64_t number_ = 0;    // of its last record
  WandbValues last_;           // the last value of each number
  std::int64_t line_ = 0;      // W&B's `_step`: the next line of the history
  double runtime_before_ = 0;  // of earlier processes, in seconds
  Stopwatch watch_;
  std::int64_t step_;
  std::set<std::string> tags_;  // of that step, there already
  log::Limiter warnings_;
};

}  // namespace

void register_wandb(Registries& hone) {
  hone.trackers.add<Wandb>("wandb", "Offline runs of Weights & Biases in the run folder, for `wandb sync`.");
}

}  // namespace hone::trackers
