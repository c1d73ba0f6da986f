// Hidden names, and what becomes of the files behind them.
#include "io/new_file.h"

#include <system_error>

namespace hone::io {

namespace fs = std::filesystem;

void require_file_name(const fs::path& path, ErrorKind kind) {
  std::error_code unknown;  // then making the folder or the file says why
  if (!path.has_filename() || fs::is_directory(path, unknown))
    throw Error(kind, path.string() + ": a folder, expected the name of a file");
}

NewFile::NewFile(Env& env, const fs::path& path, ErrorKind kind, Leftover leftover)
    : path_(fs::absolute(path).lexically_normal()),
      folder_(env.make_folders(path_.parent_path(), kind)),
      name_(path_.filename().string()),
      hidden_(Folder::kNew + name_) {
  if (leftover == Leftover::remove) folder_.remove(hidden_);
}

NewFile::~NewFile() {
  std::error_code ignored;  // the failure that led here is the one to report
  if (is_ours_) fs::remove(hidden_path(), ignored);
}

void NewFile::appear() {
  folder_.rename(hidden_, folder_, name_);
  is_ours_ = false;
  folder_.sync();
}

void NewFile::replace() {
  folder_.replace(hidden_, name_);
  is_ours_ = false;
}

}  // namespace hone::io
