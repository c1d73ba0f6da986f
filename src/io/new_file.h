// A file that a user named, while it is made: it appears when it is whole.
#pragma once

#include <filesystem>
#include <string>

#include "base/env.h"

namespace hone::io {

// Throws Error(kind) for what is no file's name: a folder, or a path that ends with "/".
void require_file_name(const std::filesystem::path& path, ErrorKind kind);

// Until then it lies beside its name under a hidden one, and goes with this object, so that a failure frees the space.
// Whoever writes it syncs it before it appears. One thread at a time; of several processes that write one file the
// last to begin wins, unless they lock it.
class NewFile {
 public:
  // What a process that was killed has left under the hidden name.
  enum class Leftover { remove, stays };
  // Makes the folder that it is in. Throws Error(kind), as all that is done in the folder.
  NewFile(Env& env, const std::filesystem::path& path, ErrorKind kind, Leftover leftover = Leftover::remove);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const Folder& folder() const { return folder_; }
  const std::filesystem::path& path() const { return path_; }  // absolute
  const std::string& name() const { return name_; }
  const std::string& hidden() const { return hidden_; }
  std::filesystem::path hidden_path() const { return folder_.path() / hidden_; }
  OutFile create() const { return folder_.create(hidden_); }

  void appear();   // what has the name by now is never replaced: an error
  void replace();  // what has the name, in one rename
  void keep() { is_ours_ = false; }  // under its hidden name, for a process that goes on with it

 private:
  std::filesystem::path path_;
  Folder folder_;
  std::string name_, hidden_;
  bool is_ours_ = true;  // to be removed
};

}  // namespace hone::io
