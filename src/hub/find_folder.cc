// Finds the folder that holds a model: a path, a run folder, or org/name in the local Hugging Face cache.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/env.h"
#include "hone/hub.h"
#include "io/checkpoints.h"

namespace hone {
namespace fs = std::filesystem;
namespace {

bool has_config(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored);
}

// The newest whole checkpoint of a run folder, or of its `checkpoints` folder.
fs::path newest_checkpoint(const fs::path& checkpoints) {
  const io::Checkpoints all(Env::process().open_folder(checkpoints));
  const auto newest = all.newest();
  if (!newest) throw Error(ErrorKind::checkpoint, fmt::format("{}: no checkpoint yet", checkpoints.string()));
  return checkpoints / newest->name;
}

fs::path existing_folder(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    throw Error(ErrorKind::checkpoint, fmt::format("{}: a file; expected a folder with config.json", path.string()))
        .hint(fmt::format("give the folder: {}", path.parent_path().empty() ? "." : path.parent_path().string()));
  if (has_config(path)) return path;
  if (fs::is_directory(path / "checkpoints", ignored)) return newest_checkpoint(path / "checkpoints");
  if (path.filename() == "checkpoints" || path.parent_path().filename() == "checkpoints")
    return newest_checkpoint(path);
  throw Error(
      ErrorKind::checkpoint,
      fmt::format("{}: no config.json; expected a Hugging Face folder, a checkpoint or a run folder", path.string()));
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

fs::path find_model_folder(const std::string& where) {
  if (where.empty()) throw Error(ErrorKind::usage, "the model: no folder given");
  std::error_code ignored;
  const fs::path path = fs::path(where).has_filename() ? fs::path(where) : fs::path(where).parent_path();
  if (fs::exists(path, ignored)) return existing_folder(path);
  if (!is_repository(where)) throw Error(ErrorKind::checkpoint, fmt::format("{}: no such folder", where));
  std::string name = where;
  name.replace(name.find('/'), 1, "--");
  const fs::path cache = cache_folder(), snapshot = snapshot_of(cache / ("models--" + name));
  if (!snapshot.empty()) return snapshot;
  throw Error(ErrorKind::checkpoint,
              fmt::format("{}: no such folder, and not in the Hugging Face cache {}", where, cache.string()))
      .hint(fmt::format("hf download {}", where));
}

}  // namespace hone
