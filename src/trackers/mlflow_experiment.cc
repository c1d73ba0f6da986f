// Experiments are found by the name in their meta.yaml, and made as MLflow makes them.
#include "trackers/mlflow_experiment.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/strings.h"
#include "trackers/mlflow_names.h"
#include "trackers/record_file.h"

namespace hone::trackers {
namespace {

constexpr const char* kTrash = ".trash";
constexpr const char* kDefault = "Default";
constexpr std::uint64_t kMaxMeta = std::uint64_t{1} << 24;
constexpr int kLockTries = 100;  // with a pause of 50 ms: what is done under the lock takes a few

// MLflow has no locks: this one is for runs that begin at once. Where the file system has none, it goes without.
void lock_for_a_moment(const Folder& store) {
  for (int i = 0; i < kLockTries && !store.try_lock(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

struct Found {
  std::string id;
  bool is_deleted = false;
};

std::optional<Found> experiment_in(const Folder& folder, const std::string& name, bool is_trash) {
  for (const std::string& id : folder.list()) {
    if (!is_mlflow_id(id) || !folder.is_folder(id)) continue;
    const std::string meta = folder.open_folder(id).maybe_read_file(kMetaFile, kMaxMeta).value_or("");
    if (entry_of(meta, "name") == name) return Found{id, is_trash || entry_of(meta, "lifecycle_stage") == "deleted"};
  }
  return std::nullopt;
}

std::optional<Found> find_experiment(const Folder& store, const std::string& name) {
  if (const auto found = experiment_in(store, name, /*is_trash=*/false)) return found;
  return store.is_folder(kTrash) ? experiment_in(store.open_folder(kTrash), name, /*is_trash=*/true) : std::nullopt;
}

std::string new_id() { return random_letters(1, "123456789") + random_letters(17, "0123456789"); }

std::string make(const Folder& store, const std::string& name) {
  std::string id = name == kDefault ? "0" : new_id();
  // A folder without its file is of a process that could not write it.
  while (store.exists(id) && !(store.is_folder(id) && !store.open_folder(id).exists(kMetaFile))) id = new_id();
  const std::string now = fmt::format("{}", static_cast<std::int64_t>(wall_seconds() * 1000));
  const std::filesystem::path path = std::filesystem::absolute(store.path()).lexically_normal() / id;
  opened_or_made(store, {id})
      .replace_file(kMetaFile, meta_text({{"artifact_location", meta_string(file_uri(path))},
                                          {"creation_time", now},
                                          {"experiment_id", meta_string(id)},
                                          {"last_update_time", now},
                                          {"lifecycle_stage", "active"},
                                          {"name", meta_string(name)}}));
  return id;
}

}  // namespace

std::string random_letters(std::size_t count, std::string_view letters) {
  std::random_device device;
  std::uniform_int_distribution<std::size_t> any(0, letters.size() - 1);
  std::string text;
  while (text.size() < count) text += letters[any(device)];
  return text;
}

Folder mlflow_experiment(const std::filesystem::path& path, const std::string& name) {
  Env::process().make_folders(path);
  const Folder store = Env::process().open_folder(path);
  lock_for_a_moment(store);
  auto found = find_experiment(store, name);
  if (found && found->is_deleted)
    throw Error(ErrorKind::config,
                fmt::format("{}: the experiment {} was deleted in MLflow; expected one that is there, "
                            "or a new name",
                            escape_for_terminal(path.string()), hone::quoted(name)))
        .hint("`mlflow experiments restore --experiment-id " + found->id + "` brings it back");
  if (!find_experiment(store, kDefault)) make(store, kDefault);  // MLflow expects it in every store
  if (!found) found = find_experiment(store, name);
  return store.open_folder(found ? found->id : make(store, name));
}

}  // namespace hone::trackers
