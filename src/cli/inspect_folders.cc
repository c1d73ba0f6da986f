// Reports on models, checkpoints, runs and the difference between two recipes or configurations.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/inspect.h"
#include "hone/hub.h"
#include "hone/safetensors.h"
#include "hub/adapter_config.h"
#include "io/checkpoints.h"
#include "io/json.h"
#include "io/lines.h"
#include "io/runs_within.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string checked(bool full) { return full ? "every byte" : "names and sizes; --full reads every byte"; }

// null: nothing is wrong as far as it was looked at, which was not at every byte.
ordered_json whole(const std::vector<std::string>& problems, bool full) {
  return full || !problems.empty() ? ordered_json(problems.empty()) : ordered_json();
}

ordered_json checkpoint_row(const io::Checkpoint& checkpoint, bool full) {
  ordered_json row = {
      {"name", checkpoint.name}, {"step", checkpoint.step}, {"whole", whole(checkpoint.problems, full)}};
  if (!checkpoint.finite) row["finite"] = false;
  if (!checkpoint.problems.empty()) row["problems"] = checkpoint.problems;
  return row;
}

// The last whole line of metrics.jsonl, or null; and whether one that was cut off follows it.
std::pair<ordered_json, bool> last_metrics(const fs::path& file) {
  if (!fs::exists(file)) return {nullptr, false};
  io::LineReader reader(file);
  std::string_view line;
  std::string last, before;
  while (reader.next(line)) before = std::exchange(last, std::string(line));
  ordered_json whole = ordered_json::parse(last, nullptr, false);
  const bool torn = !last.empty() && !whole.is_object();
  if (torn) whole = ordered_json::parse(before, nullptr, false);
  return {whole.is_object() ? whole : ordered_json(), torn};
}

// A leaf of a configuration: a number, true or false where it reads as one; null: not there.
ordered_json value_of(const std::string& text) {
  if (text.empty()) return nullptr;
  ordered_json value = ordered_json::parse(text, nullptr, false);
  return value.is_discarded() || value.is_structured() ? ordered_json(text) : value;
}

}  // namespace

// Of the file alone: the base need not be there.
ordered_json inspect_adapter(const std::string& where) {
  const fs::path folder = find_adapter_folder(where);
  const hub::AdapterConfig config = hub::read_adapter_config(folder);
  const LoraConfig& lora = config.lora;
  const Safetensors file(folder / hub::kAdapterModel);
  std::int64_t parameters = 0;
  ordered_json tensors = ordered_json::array();
  for (const TensorInfo& info : file.tensors()) {
    std::int64_t count = 1;
    for (const std::int64_t size : info.shape) count *= size;
    parameters += count;
    tensors.push_back({{"name", info.name}, {"shape", info.shape}, {"dtype", info.dtype}});
  }
  ordered_json report = {{"folder", folder.string()}, {"base", config.base},     {"rank", lora.rank},
                         {"alpha", *lora.alpha},      {"dropout", lora.dropout}, {"rslora", lora.rslora},
                         {"dora", lora.dora},         {"parameters", parameters}};
  if (!lora.rank_pattern.empty()) report["rank_pattern"] = lora.rank_pattern;
  if (!lora.alpha_pattern.empty()) report["alpha_pattern"] = lora.alpha_pattern;
  if (!lora.modules_to_save.empty()) report["modules_to_save"] = lora.modules_to_save;
  for (const std::string& token : lora.trainable_token_indices)
    report["trainable_token_indices"].push_back(parse_int(token).value());
  report["tensors"] = tensors;
  return report;
}

ordered_json inspect_checkpoint(const std::string& path, bool full) {
  const Folder folder = Env::process().open_folder(path);
  const std::vector<std::string> problems = io::verify(folder, full ? io::Verify::full : io::Verify::sizes);
  ordered_json report = {{"folder", path}, {"checked", checked(full)}, {"whole", whole(problems, full)}};
  if (!problems.empty()) {
    report["problems"] = problems;
    return report;
  }
  const io::Manifest manifest = io::Manifest::read(folder);
  report.update(ordered_json{
      {"step", manifest.step}, {"tokens", manifest.tokens}, {"finite", manifest.finite}, {"run_id", manifest.run_id}});
  for (const io::ManifestFile& file : manifest.files)
    report["files"].push_back({{"name", file.name}, {"size_bytes", file.size}, {"tensors", file.tensors.size()}});
  return report;
}

ordered_json inspect_run(const std::string& path, bool full) {
  const fs::path folder = path;
  if (!fs::exists(folder)) throw Error(ErrorKind::usage, path + ": no such folder");
  if (!fs::exists(folder / "config.yaml"))
    throw io::naming_runs_within(Error(ErrorKind::checkpoint, path + ": not a run folder; expected config.yaml in it"),
                                 folder);
  ordered_json report = {{"folder", path}, {"checked", checked(full)}};
  report["checkpoints"] = ordered_json::array();
  if (fs::exists(folder / "checkpoints")) {
    const io::Checkpoints checkpoints(Env::process().open_folder(folder / "checkpoints"));
    for (const io::Checkpoint& one : checkpoints.scan(full ? io::Verify::full : io::Verify::sizes))
      report["checkpoints"].push_back(checkpoint_row(one, full));
  }
  const auto [last, torn] = last_metrics(folder / "metrics.jsonl");
  report["last_metrics"] = last;
  if (torn) report["metrics.jsonl"] = "its last line is cut off; the next start removes it";
  return report;
}

ordered_json inspect_diff(const std::string& before, const std::string& after) {
  const auto file = [](const std::string& path) {
    if (!fs::is_directory(path)) return path;
    for (const char* name : {"config.yaml", "config.json", hub::kAdapterConfig})
      if (fs::exists(fs::path(path) / name)) return (fs::path(path) / name).string();
    throw io::naming_runs_within(
        Error(ErrorKind::usage,
              fmt::format("{}: neither config.yaml nor config.json nor {} in it", path, hub::kAdapterConfig)),
        path);
  };
  ordered_json rows = ordered_json::array();
  for (const config::Change& change : config::diff(config::read_file(file(before)), config::read_file(file(after))))
    rows.push_back({{"option", change.path}, {"before", value_of(change.before)}, {"after", value_of(change.after)}});
  return {{"differences", rows}};
}

}  // namespace hone::cli
