// Order is everything here: files, manifest, folder, rename, parent. See docs/formats.md.
#include "io/folder_commit.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"

namespace hone::io {
namespace {

constexpr std::string_view kHidden = ".tmp-", kTrash = ".trash-", kOld = ".old-";

// A trash name that is free; the counter keeps several removals in one process apart.
std::string trash_name(const Folder& parent, const std::string& name) {
  static std::atomic<unsigned> counter{0};
  std::string trash;
  do trash = fmt::format("{}{}-{}", kTrash, name, counter++);
  while (parent.exists(trash));
  return trash;
}

}  // namespace

FolderCommit::FolderCommit(const Folder& parent, std::string name, Options options)
    : parent_(parent),
      name_(std::move(name)),
      hidden_name_(std::string(kHidden) + name_ + "-" + options.run_id),
      options_(std::move(options)) {
  parent_.remove_tree(hidden_name_);
  hidden_ = parent_.make_folder(hidden_name_);
}

FolderCommit::~FolderCommit() {
  if (committed_) return;
  try {
    below_.clear();
    hidden_.reset();
    parent_.remove_tree(hidden_name_);
  } catch (const std::exception& error) {
    log::warning("left behind: {}", error.what());
  }
}

const Folder& FolderCommit::below(const std::string& name) {
  const auto found = below_.find(name);
  return found != below_.end() ? found->second : below_.emplace(name, hidden_->make_folder(name)).first->second;
}

std::pair<const Folder*, std::string> FolderCommit::place(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return {&*hidden_, name};
  HONE_ASSERT(name.find('/', slash + 1) == std::string::npos);
  return {&below(name.substr(0, slash)), name.substr(slash + 1)};
}

void FolderCommit::add_file(const std::string& name, std::string_view content) {
  const auto [folder, file] = place(name);
  folder->write_file(file, content);
  files_.push_back(manifest_entry(name, content));
}

void FolderCommit::add_safetensors(const std::string& name, const std::vector<TensorSpec>& tensors,
                                   const TensorMetadata& metadata, const TensorBytes& bytes_of) {
  const auto [folder, file] = place(name);
  ManifestFile entry = save_safetensors(*folder, file, tensors, metadata, bytes_of);
  entry.name = name;
  files_.push_back(std::move(entry));
}

void FolderCommit::add_model(const ModelSave& save, const TensorBytes& bytes_of) {
  for (ManifestFile& entry : save_model(*hidden_, save, bytes_of)) files_.push_back(std::move(entry));
}

void FolderCommit::note(ManifestFile entry) { files_.push_back(std::move(entry)); }

std::uint64_t FolderCommit::bytes() const {
  std::uint64_t sum = 0;
  for (const ManifestFile& file : files_) sum += file.size;
  return sum;
}

void FolderCommit::commit(Manifest manifest) {
  manifest.files = files_;
  hidden_->write_file(kManifestName, manifest.to_json());
  for (const auto& [name, folder] : below_) folder.sync();
  hidden_->sync();
  if (options_.fence) options_.fence();
  move_into_place();
  committed_ = true;  // in place, though not yet known to be durable
  parent_.sync();
}

// The old folder steps aside under a name from which clean_leftovers() brings it back if a kill comes in between.
void FolderCommit::move_into_place() {
  if (!options_.replace || !parent_.exists(name_)) return parent_.rename(hidden_name_, parent_, name_);
  const std::string old = std::string(kOld) + name_;
  parent_.remove_tree(old);
  parent_.rename(name_, parent_, old);
  try {
    parent_.rename(hidden_name_, parent_, name_);
  } catch (...) {
    parent_.rename(old, parent_, name_);
    throw;
  }
  parent_.sync();
  remove_aside(old);
}

// The new folder is durable: that the old one cannot be removed is no failure of the save.
void FolderCommit::remove_aside(const std::string& old) {
  try {
    parent_.remove_tree(old);
  } catch (const Error& error) {
    log::warning("left behind: {}", error.what());
  }
}

void require_free(const std::filesystem::path& path, bool replace) {
  if (replace || !std::filesystem::exists(std::filesystem::symlink_status(path))) return;
  throw Error(ErrorKind::checkpoint, fmt::format("{}: is there already; nothing was written", path.string()))
      .hint("--replace puts the new folder in its place.");
}

FolderCommit commit_to(const std::filesystem::path& path, bool replace) {
  require_free(path, replace);
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  const std::filesystem::path named = whole.has_filename() ? whole : whole.parent_path();
  FolderCommit::Options how;
  how.replace = replace;
  return {Env::process().make_folders(named.parent_path()), named.filename().string(), std::move(how)};
}

void remove_committed(const Folder& parent, const std::string& name) {
  if (!parent.exists(name)) return;
  const std::string trash = trash_name(parent, name);
  parent.rename(name, parent, trash);
  parent.sync();
  parent.remove_tree(trash);
}

int clean_leftovers(const Folder& parent) {
  int count = 0;
  for (const std::string& name : parent.list()) {
    if (name.starts_with(kOld) && !parent.exists(name.substr(kOld.size()))) {
      parent.rename(name, parent, name.substr(kOld.size()));  // its successor never came
      parent.sync();
    } else if (name.starts_with(kHidden) || name.starts_with(kTrash) || name.starts_with(kOld)) {
      parent.remove_tree(name);
    } else {
      continue;
    }
    ++count;
  }
  return count;
}

}  // namespace hone::io
