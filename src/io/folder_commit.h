// Makes a folder appear whole or not at all: written under a hidden name, synced, described by a manifest, renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "io/manifest.h"
#include "io/safetensors_writer.h"

namespace hone::io {

// The commit protocol of checkpoints and exports (docs/formats.md). One thread at a time.
class FolderCommit {
 public:
  struct Options {
    std::string run_id = "0";  // part of the hidden name
    // What is there already under this name gives way; otherwise it is an error. What gives way is removed if all of it
    // is hone's, and else kept as <name>.old-k.
    bool replace = false;
    std::function<void()> fence;  // called just before the rename; throws if somebody else took over the run folder
    bool keep_replaced = false;   // what gives way is kept as <name>.old-k in any case
  };
  // Makes `.tmp-<name>-<run_id>` in `parent`; a left-over of the same name is removed first.
  FolderCommit(const Folder& parent, std::string name, Options options);
  ~FolderCommit();  // not committed: removes the hidden folder; what cannot be removed is logged
  FolderCommit(const FolderCommit&) = delete;
  FolderCommit& operator=(const FolderCommit&) = delete;

  // name: plain, or "<folder>/<plain>" (the folder is made when needed). Each is written, synced and noted.
  void add_file(const std::string& name, std::string_view content);
  void add_safetensors(const std::string& name, const std::vector<TensorSpec>& tensors, const TensorMetadata& metadata,
                       const TensorBytes& bytes_of);
  void add_model(const ModelSave& save, const TensorBytes& bytes_of);
  // For files that are written by other means: where it lies, the folder made when needed; and what was written, which
  // must be synced.
  const Folder& folder_of(const std::string& name);
  void note(ManifestFile entry);
  const Folder& folder() const { return *hidden_; }
  std::uint64_t bytes() const;  // written so far

  // Writes the manifest (its `files` are filled in here), syncs, renames, syncs the parent. Durable when it returns.
  void commit(Manifest manifest);

 private:
  const Folder& below(const std::string& name);  // a folder in folder(), made when needed
  std::pair<const Folder*, std::string> place(const std::string& name);
  void move_into_place();
  void move_over_kept();
  Folder parent_;
  std::string name_, hidden_name_;
  Options options_;
  std::optional<Folder> hidden_;
  std::map<std::string, Folder> below_;  // by name
  std::vector<ManifestFile> files_;
  bool committed_ = false;
};

// A new folder that a user named. One that is there already is an error, unless `replace`, hone made it and nothing of
// somebody else's is in it.
void require_free(const std::filesystem::path& path, bool replace);
// require_free(), then a commit that makes this folder; one that is there is moved to `<path>.old-k`.
FolderCommit commit_to(const std::filesystem::path& path, bool replace);

// Renames the folder to `.trash-…` first, syncs, then unlinks: a half-deleted folder never looks like a whole one.
void remove_committed(const Folder& parent, const std::string& name);
// Puts right what killed processes left of folders whose name is `ours`: removes `.tmp-<name>-<id>` and
// `.trash-<name>-k`, and brings `.old-<name>` back where <name> is missing. Call under the run's lock. Returns how
// many.
int clean_leftovers(const Folder& parent, const std::function<bool(std::string_view)>& ours);

}  // namespace hone::io
