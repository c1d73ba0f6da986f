// Reads the files of offline runs, and cuts them.
#include "trackers/wandb_earlier.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/strings.h"

namespace hone::trackers {
namespace {

constexpr std::uint64_t kMaxWandbFile = std::uint64_t{1} << 34;
constexpr std::size_t kTimeOfOfflineRun = 16;  // characters: "20250203_040506-"

struct OfflineFile {
  Folder folder;
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t kept = 0;      // the end of its last whole record that is not made again
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

void look_through(const std::string& content, std::int64_t step, OfflineFile& file) {
  std::uint64_t summary = 0;  // where the last one begins; each line of the history has one before it
  bool is_behind = false;
  each_wandb_record(content, [&](const WandbRecord& record, WandbPlace place) {
    file.is_hones = file.is_hones || is_hones_header(record);
    if (record.kind == kWandbRun) file.run = read_wandb_run(record.content);
    if (record.kind == kWandbSummary) summary = place.begin;
    if (record.kind == kWandbHistory) {
      const WandbValues line = read_wandb_values(record.content);
      file.next_line = number_in(line, "_step") + 1;
      if (!is_behind && number_in(line, kGlobalStep) > step) {
        is_behind = true;
        file.kept = summary;
      }
      if (!is_behind) keep_line(line, step, file.found);
    }
    if (!is_behind) file.kept = place.end;
  });
}

std::optional<OfflineFile> file_in(const Folder& folder, const std::string& name, std::int64_t step) {
  const std::size_t before_id = kOfflineRun.size() + kTimeOfOfflineRun;
  if (!name.starts_with(kOfflineRun) || name.size() <= before_id || !folder.is_folder(name)) return std::nullopt;
  OfflineFile file{folder.open_folder(name), wandb_file_name(name.substr(before_id))};
  const auto content = file.folder.maybe_read_file(file.name, kMaxWandbFile);
  if (!content) return std::nullopt;
  file.size = content->size();
  look_through(*content, step, file);
  return file;
}

// Only what wandb has not begun to upload, as it marks beside the file.
void cut(OfflineFile& file) {
  if (file.folder.exists(file.name + ".synced") || file.folder.exists(file.name + ".syncstate")) return;
  if (file.kept < file.size) file.folder.append_to(file.name).truncate(file.kept);
  file.next_line = file.found.next_line;
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
  for (const std::string& name : folder.list()) {
    auto file = file_in(folder, name, step);
    if (!file || !file->is_hones || file->run.project != run.project || file->run.entity != run.entity) continue;
    if (run.id.empty()) earlier.id = file->run.id;
    files.push_back(std::move(*file));
  }
  for (OfflineFile& file : files) {
    if (file.run.id != earlier.id) continue;
    cut(file);
    add(file, earlier);
  }
  return earlier;
}

}  // namespace hone::trackers
