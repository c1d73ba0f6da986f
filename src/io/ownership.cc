// A manifest is the proof: nobody else writes one, and it lists every file.
#include "io/ownership.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"
#include "io/manifest.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;

// Entries that the manifest does not list; those of a folder as "<folder>/<name>".
std::vector<std::string> unlisted(const Folder& folder, const Manifest& manifest) {
  std::vector<std::string> found;
  const auto listed_below = [&](const std::string& name) {
    return std::any_of(manifest.files.begin(), manifest.files.end(),
                       [&](const ManifestFile& file) { return file.name.starts_with(name + "/"); });
  };
  for (const std::string& name : folder.list()) {
    if (name == kManifestName) continue;
    if (!folder.is_folder(name) || !listed_below(name)) {
      if (folder.is_folder(name) || !manifest.find(name)) found.push_back(name);
      continue;
    }
    for (const std::string& inner : folder.open_folder(name).list())
      if (!manifest.find(name + "/" + inner)) found.push_back(name + "/" + inner);
  }
  return found;
}

}  // namespace

bool NamedFolder::holds_working_folder() const {
  std::error_code unknown;
  const fs::path here = fs::current_path(unknown), whole = path();
  return std::mismatch(whole.begin(), whole.end(), here.begin(), here.end()).first == whole.end();
}

bool NamedFolder::is_among_checkpoints() const {
  std::error_code unknown;
  return parent.filename() == "checkpoints" && fs::exists(parent.parent_path() / "run.json", unknown);
}

NamedFolder locate_folder(const fs::path& path, ErrorKind kind) {
  if (path.empty()) throw Error(kind, "no folder given; expected its name");
  std::error_code error;
  const fs::path named = path.has_filename() ? path : path.parent_path();  // no "/" at the end
  const fs::path whole = fs::weakly_canonical(fs::absolute(named), error);
  if (error) throw_system_error(kind, path, "cannot be found", error.value());
  if (fs::exists(whole, error) && !fs::is_directory(whole, error))
    throw Error(kind, path.string() + ": is there already and no folder; expected a folder, or a new name");
  if (!whole.has_filename())
    throw Error(kind, path.string() + ": the root of the file system; expected a folder of its own");
  return {whole.parent_path(), whole.filename().string()};
}

void require_writable(const fs::path& path, ErrorKind kind) {
  std::error_code unknown;  // then making it says why
  fs::path at = fs::absolute(path, unknown).lexically_normal();
  while (at.has_relative_path() && !fs::exists(at, unknown)) at = at.parent_path();
  if (fs::exists(at, unknown) && !fs::is_directory(at, unknown))
    throw_system_error(kind, path, "cannot be written", ENOTDIR);
  if (fs::is_directory(at, unknown) && ::faccessat(AT_FDCWD, at.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    throw_system_error(kind, path, "cannot be written", errno);
}

std::string why_not_ours(const Folder& parent, const std::string& name) {
  if (!parent.is_folder(name)) return "it is no folder";
  const Folder folder = parent.open_folder(name);
  if (!folder.exists(kManifestName)) return fmt::format("hone did not make it, as there is no {} in it", kManifestName);
  try {
    const std::vector<std::string> others = unlisted(folder, Manifest::read(folder));
    if (others.empty()) return "";
    return fmt::format("hone did not write {}", list_names(others, 5));
  } catch (const Error& error) {
    return error.what();
  }
}

std::string set_aside(const Folder& parent, const std::string& entry, const std::string& name) {
  int number = 1;
  while (parent.exists(fmt::format("{}.old-{}", name, number))) ++number;
  const std::string old = fmt::format("{}.old-{}", name, number);
  parent.rename(entry, parent, old);
  parent.sync();
  return old;
}

bool is_set_aside(std::string_view name) {
  const std::size_t at = name.rfind(".old-");
  if (at == name.npos || at + 5 == name.size()) return false;
  return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at) + 5, name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

std::string new_id() {
  std::random_device device;
  const std::uint64_t random = std::uint64_t{device()} << 32 | device();
  return hex64(random ^ static_cast<std::uint64_t>(::getpid())).substr(0, 12);
}

}  // namespace hone::io
