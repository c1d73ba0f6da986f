// Reads the files of offline runs, and cuts them.
#include "trackers/wandb_earlier.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/strings.h"

namespace hone::trackers {
namespace {

constexpr std::size_t kTimeOfOfflineRun = 16;  // characters: "20250203_040506-"

struct OfflineFile {
  Folder folder;
  std::string name;
  WandbEnd end = {};
  bool is_behind = false;      // its last lines are made again
  std::uint64_t kept = 0;      // the end of its last whole record that is not
  std::int64_t next_line = 0;  // behind all of its lines; found.next_line: behind those that are kept
  bool is_hones = false;
  WandbRun run = {};
  WandbEarlier found = {};
};

std::int64_t number_in(const WandbValues& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : parse_int(found->second).value_or(0);
}

void keep_line(const WandbValues& line, std::int64_t step, WandbEarlier& found) {
  for (const auto& [name, json] : line) {
    found.last[name] = json;
    if (number_in(line, kGlobalStep) == step) found.tags.insert(name);
  }
  found.next_line = number_in(line, "_step") + 1;
  if (const auto runtime = line.find("_runtime"); runtime != line.end())
    found.runtime_s = parse_double(runtime->second).value_or(0);
}

void look_through(std::int64_t step, OfflineFile& file) {
  std::uint64_t summary = 0;  // where the last one begins; each line of the history has one before it
  const auto look = [&](const WandbRecord& record, WandbPlace place) {
    file.is_hones = file.is_hones || is_hones_header(record);
    if (record.kind == kWandbRun) file.run = read_wandb_run(record.content);
    if (record.kind == kWandbSummary) summary = place.begin;
    if (record.kind == kWandbHistory) {
      const WandbValues line = read_wandb_values(record.content);
      file.next_line = number_in(line, "_step") + 1;
      if (!file.is_behind && number_in(line, kGlobalStep) > step) {
        file.is_behind = true;
        file.kept = summary;
      }
      if (!file.is_behind) keep_line(line, step, file.found);
    }
    if (!file.is_behind) file.kept = place.end;
  };
  file.end = each_wandb_record(InFile(file.folder, file.name), look);
}

std::optional<OfflineFile> file_in(const Folder& folder, const std::string& name, std::int64_t step) {
  const std::size_t before_id = kOfflineRun.size() + kTimeOfOfflineRun;
  if (!name.starts_with(kOfflineRun) || name.size() <= before_id || !folder.is_folder(name)) return std::nullopt;
  OfflineFile file{folder.open_folder(name), wandb_file_name(name.substr(before_id))};
  if (!file.folder.file_size(file.name)) return std::nullopt;
  look_through(step, file);
  return file;
}

// Only what wandb has not begun to upload, as it marks beside the file. Lines behind damage may be of steps before the
// checkpoint, which are not made again.
void cut(OfflineFile& file) {
  if (file.folder.exists(file.name + ".synced") || file.folder.exists(file.name + ".syncstate")) return;
  if (!file.is_behind && file.end.why != WandbEnd::Why::torn) return;
  file.folder.append_to(file.name).truncate(file.kept);
  file.next_line = file.found.next_line;
  file.end = {WandbEnd::Why::whole, file.kept};
}

void warn_of_damage(const OfflineFile& file, WandbEarlier& earlier) {
  if (file.end.why == WandbEnd::Why::damaged)
    earlier.warnings.push_back(fmt::format(
        "{}: damaged at byte {}, where wandb stops reading; the file stays as it is, the run goes on in a new one",
        escape_for_terminal((file.folder.path() / file.name).string()), file.end.at));
}

// Work with one file, which is passed over where it cannot be done.
template <class Work>
void or_passed_over(WandbEarlier& earlier, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    rethrow_shortage(error);
    earlier.warnings.push_back(std::string(error.what()) + "; the file stays as it is, the run goes on in a new one");
  }
}

void add(const OfflineFile& file, WandbEarlier& earlier) {
  earlier.last_start = std::max(earlier.last_start, file.run.start);
  earlier.next_line = std::max(earlier.next_line, file.next_line);
  earlier.runtime_s = std::max(earlier.runtime_s, file.found.runtime_s);
  for (const auto& [name, json] : file.found.last) earlier.last[name] = json;
  earlier.tags.insert(file.found.tags.begin(), file.found.tags.end());
}

}  // namespace

std::string wandb_file_name(const std::string& id) { return "run-" + id + ".wandb"; }

WandbEarlier take_up_earlier(const Folder& folder, const WandbRun& run, std::int64_t step) {
  std::vector<OfflineFile> files;
  WandbEarlier earlier;
  earlier.id = run.id;
  for (const std::string& name : folder.list())
    or_passed_over(earlier, [&] {
      auto file = file_in(folder, name, step);
      if (!file) return;
      if (file->run.id.empty()) return warn_of_damage(*file, earlier);  // nobody knows whose it was
      if (!file->is_hones || file->run.project != run.project || file->run.entity != run.entity) return;
      if (run.id.empty()) earlier.id = file->run.id;
      files.push_back(std::move(*file));
    });
  for (OfflineFile& file : files) {
    if (file.run.id != earlier.id) continue;
    or_passed_over(earlier, [&] { cut(file); });
    warn_of_damage(file, earlier);
    add(file, earlier);
  }
  return earlier;
}

}  // namespace hone::trackers
