// Order is everything here: files, manifest, folder, rename, parent. See docs/formats.md.
#include "io/folder_commit.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "io/ownership.h"

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

// What a hidden folder of ours is for: the name in ".tmp-<name>-<id>", ".trash-<name>-<number>" or ".old-<name>".
std::optional<std::string> name_within(std::string_view entry, std::string_view prefix) {
  if (!entry.starts_with(prefix)) return std::nullopt;
  entry.remove_prefix(prefix.size());
  if (prefix == kOld) return std::string(entry);
  const std::size_t dash = entry.rfind('-');
  if (dash == entry.npos || dash + 1 == entry.size()) return std::nullopt;
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0; };
  if (!std::all_of(entry.begin() + static_cast<std::ptrdiff_t>(dash) + 1, entry.end(), plain)) return std::nullopt;
  return std::string(entry.substr(0, dash));
}

// To `.trash-…` first: a folder that is half removed can no longer be proved to be ours.
void remove_ours(const Folder& parent, const std::string& entry, const std::string& name) {
  const std::string trash = trash_name(parent, name);
  parent.rename(entry, parent, trash);
  parent.sync();
  parent.remove_tree(trash);
}

// What gave way to a new folder, under the hidden name `old`. The new one is durable: that the old one cannot be
// removed is no failure of the save.
void remove_or_keep(const Folder& parent, const std::string& old, const std::string& name) {
  try {
    const std::string why = why_not_ours(parent, old);
    if (why.empty()) return remove_ours(parent, old, name);
    const std::string kept = set_aside(parent, old, name);
    log::warning("{}: replaced; the old one is kept as {}, as it is not hone's alone: {}",
                 (parent.path() / name).string(), kept, why);
  } catch (const Error& error) {
    log::warning("left behind: {}", error.what());
  }
}

}  // namespace

FolderCommit::FolderCommit(const Folder& parent, std::string name, Options options)
    : parent_(parent),
      name_(std::move(name)),
      hidden_name_(std::string(kHidden) + name_ + "-" + options.run_id),
      options_(std::move(options)) {
  parent_.remove_tree(hidden_name_);
  hidden_ = parent_.make_folder(hidden_name_);
  hidden_->try_lock();
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
  files_.push_back(save_safetensors(*folder, SafetensorsPlan(file, tensors, metadata), bytes_of));
  files_.back().name = name;
}

void FolderCommit::add_model(const ModelSave& save, const TensorBytes& bytes_of) {
  const ModelPlan plan = plan_model(save);
  for (const SafetensorsPlan& file : plan.files) files_.push_back(save_safetensors(*hidden_, file, bytes_of));
  if (!plan.index.empty()) add_file(plan.index_name, plan.index);
}

const Folder& FolderCommit::folder_of(const std::string& name) { return *place(name).first; }

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
  if (options_.keep_replaced) return move_over_kept();
  const std::string old = std::string(kOld) + name_;
  if (parent_.exists(old)) remove_or_keep(parent_, old, name_);
  parent_.rename(name_, parent_, old);
  try {
    parent_.rename(hidden_name_, parent_, name_);
  } catch (...) {
    parent_.rename(old, parent_, name_);
    throw;
  }
  parent_.sync();
  remove_or_keep(parent_, old, name_);
}

void FolderCommit::move_over_kept() {
  const std::string old = set_aside(parent_, name_, name_);
  try {
    parent_.rename(hidden_name_, parent_, name_);
  } catch (...) {
    parent_.rename(old, parent_, name_);
    throw;
  }
  log::info("{}: the folder that was there is now {}", (parent_.path() / name_).string(), old);
}

void require_free(const std::filesystem::path& path, bool replace) {
  const NamedFolder named = locate_folder(path, ErrorKind::checkpoint);
  require_writable(named.parent, ErrorKind::checkpoint);
  if (named.is_among_checkpoints())
    throw Error(ErrorKind::checkpoint, path.string() + ": among the checkpoints of a run; expected a folder elsewhere");
  std::error_code unknown;  // then making the folder says why
  if (!std::filesystem::exists(std::filesystem::symlink_status(named.path(), unknown))) return;
  const std::string taken = path.string() + ": is there already";
  std::string why = why_not_ours(Env::process().open_folder(named.parent), named.name);
  if (why.empty() && named.holds_working_folder()) why = "it is the current folder, or one above it";
  if (!why.empty())
    throw Error(ErrorKind::checkpoint, fmt::format("{}, and --replace would not take it: {}", taken, why))
        .hint("choose another name, or move it away");
  if (!replace)
    throw Error(ErrorKind::checkpoint, taken + "; nothing was written")
        .hint("--replace moves it to " + named.name + ".old-1 (or the next free number) first");
}

// A folder in the making is locked by who makes it: what nobody holds was left by a process that was killed.
static void remove_abandoned(const Folder& parent, const std::string& name) {
  const std::size_t size = kHidden.size() + name.size() + 1 + new_id().size();
  try {
    for (const std::string& entry : parent.list())
      if (name_within(entry, kHidden) == name && entry.size() == size && parent.is_folder(entry) &&
          parent.open_folder(entry).try_lock())
        parent.remove_tree(entry);
  } catch (const Error& error) {
    log::warning("left behind: {}", error.what());
  }
}

FolderCommit commit_to(const std::filesystem::path& path, bool replace) {
  require_free(path, replace);
  const NamedFolder named = locate_folder(path, ErrorKind::checkpoint);
  const Folder parent = Env::process().make_folders(named.parent);
  remove_abandoned(parent, named.name);
  return {parent, named.name, {.run_id = new_id(), .replace = replace, .fence = {}, .keep_replaced = true}};
}

void remove_committed(const Folder& parent, const std::string& name) {
  if (parent.exists(name)) remove_ours(parent, name, name);
}

int clean_leftovers(const Folder& parent, const std::function<bool(std::string_view)>& ours) {
  int count = 0;
  for (const std::string& entry : parent.list()) {
    const auto within = [&](std::string_view prefix) {
      const auto name = name_within(entry, prefix);
      return name && ours(*name) ? name : std::nullopt;
    };
    if (const auto name = within(kOld); name && !parent.exists(*name)) {
      parent.rename(entry, parent, *name);  // its successor never came
      parent.sync();
    } else if (name) {
      remove_or_keep(parent, entry, *name);
    } else if (parent.is_folder(entry) && (within(kHidden) || within(kTrash))) {
      parent.remove_tree(entry);
    } else {
      continue;
    }
    ++count;
  }
  return count;
}

}  // namespace hone::io
