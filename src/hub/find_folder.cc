// Finds the folder that holds a model: a path, a run folder, or org/name in the local Hugging Face cache.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/env.h"
#include "base/strings.h"
#include "hone/hub.h"
#include "hub/adapter_config.h"
#include "io/checkpoints.h"
#include "io/gguf_given.h"
#include "io/runs_within.h"

namespace hone {
namespace fs = std::filesystem;
namespace {

bool has_config(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored) || hub::is_adapter_folder(folder);
}

// The newest whole checkpoint of a run folder, or of its `checkpoints` folder.
fs::path newest_checkpoint(const fs::path& checkpoints) {
  const io::Checkpoints all(Env::process().open_folder(checkpoints));
  const auto newest = all.newest();
  if (!newest) throw Error(ErrorKind::checkpoint, fmt::format("{}: no checkpoint yet", checkpoints.string()));
  return checkpoints / newest->name;
}

// file: what tells such a folder.
fs::path existing_folder(const fs::path& path, std::string_view file) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) && io::is_gguf(path)) throw io::a_gguf(path);
  if (!fs::is_directory(path, ignored))
    throw Error(ErrorKind::checkpoint, fmt::format("{}: a file; expected a folder with {}", path.string(), file))
        .hint(fmt::format("give the folder: {}", path.parent_path().empty() ? "." : path.parent_path().string()));
  if (has_config(path)) return path;
  if (fs::is_directory(path / "checkpoints", ignored)) return newest_checkpoint(path / "checkpoints");
  if (path.filename() == "checkpoints" || path.parent_path().filename() == "checkpoints")
    return newest_checkpoint(path);
  throw io::naming_runs_within(
      Error(ErrorKind::checkpoint,
            fmt::format("{}: no {}; expected a Hugging Face folder, a checkpoint or a run folder", path.string(),
                        file)),
      path);
}

// org/name as Hugging Face allows it: nothing that could leave the cache.
bool is_repository(const std::string& where) {
  const auto plain = [](const std::string& part) {
    return !part.empty() && part.front() != '.' && part.find("..") == std::string::npos &&
           part.find("--") == std::string::npos && std::all_of(part.begin(), part.end(), [](unsigned char c) {
             return std::isalnum(c) || c == '.' || c == '_' || c == '-';
           });
  };
  const std::size_t slash = where.find('/');
  return slash != std::string::npos && plain(where.substr(0, slash)) && plain(where.substr(slash + 1));
}

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (const fs::path cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "huggingface" / "hub";
  return variable("HOME") / ".cache" / "huggingface" / "hub";
}

fs::path snapshot_of(const fs::path& repository) {
  std::ifstream ref(repository / "refs" / "main");
  std::string commit;
  if (std::getline(ref, commit) && commit.find('/') == std::string::npos && commit.find("..") == std::string::npos &&
      !commit.empty() && has_config(repository / "snapshots" / commit))
    return repository / "snapshots" / commit;
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(repository / "snapshots", ignored))
    if (has_config(entry.path())) found.push_back(entry.path());
  return found.size() == 1 ? found[0] : fs::path();
}

}  // namespace

namespace {

// The folder beside it whose name is nearly the same; "": there is none.
std::string near_folder(const fs::path& path) {
  std::error_code ignored;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), ignored))
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  const std::string near = nearest(path.filename().string(), names);
  return near.empty() ? "" : (path.parent_path() / near).string();
}

// Of a model or of an adapter.
fs::path find_folder(const std::string& where, std::string_view file = "config.json") {
  if (where.empty()) throw Error(ErrorKind::usage, "the model: no folder given");
  std::error_code ignored;
  const fs::path path = fs::path(where).has_filename() ? fs::path(where) : fs::path(where).parent_path();
  if (fs::exists(path, ignored)) return existing_folder(path, file);
  if (!is_repository(where)) {
    Error missing(ErrorKind::checkpoint, fmt::format("{}: no such folder", where));
    if (path.is_absolute()) throw missing;
    throw std::move(missing).hint("a relative path, looked for from " + fs::current_path(ignored).string());
  }
  std::string name = where;
  name.replace(name.find('/'), 1, "--");
  const fs::path cache = cache_folder(), snapshot = snapshot_of(cache / ("models--" + name));
  if (!snapshot.empty()) return snapshot;
  const std::string near = near_folder(path);
  throw Error(ErrorKind::checkpoint,
              fmt::format("{}: no such folder, and not in the Hugging Face cache {}", where, cache.string()))
      .hint(near.empty() ? fmt::format("hf download {}", where) : fmt::format("did you mean {}?", near));
}

// As its adapter_config.json names it: seen from here, or from the adapter's folder, or in the Hugging Face cache.
fs::path base_of(const fs::path& adapter) {
  const std::string base = hub::read_adapter_config(adapter).base;
  const std::string file = (adapter / hub::kAdapterConfig).string();
  if (base.empty()) throw Error(ErrorKind::checkpoint, file + ": base_model_name_or_path: missing");
  std::error_code ignored;
  const bool beside = !fs::exists(base, ignored) && fs::exists(adapter / base, ignored);
  return during("looking for the base model that " + file + " names",
                [&] { return find_folder(beside ? (adapter / base).string() : base); });
}

}  // namespace

ModelPlace find_model(const std::string& where) {
  const fs::path folder = find_folder(where);
  if (!hub::is_adapter_folder(folder)) return {folder, {}};
  const fs::path base = base_of(folder);
  if (hub::is_adapter_folder(base))
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: the adapter of an adapter, {}: not supported", folder.string(), base.string()))
        .hint("hone merge makes a model of the latter");
  return {base, folder};
}

fs::path find_model_folder(const std::string& where) {
  const ModelPlace place = find_model(where);
  if (place.adapter.empty()) return place.folder;
  throw Error(ErrorKind::checkpoint, fmt::format("{}: an adapter; expected a whole model", place.adapter.string()))
      .hint("hone merge makes a model of it and its base");
}

fs::path find_adapter_folder(const std::string& where) {
  const fs::path folder = find_folder(where, hub::kAdapterConfig);
  if (hub::is_adapter_folder(folder)) return folder;
  throw Error(ErrorKind::checkpoint,
              fmt::format("{}: a model; expected an adapter, with adapter_config.json", folder.string()));
}

}  // namespace hone
