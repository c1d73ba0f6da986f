// By the folder's path: who has moved the folder is told nothing, and nothing is lost by it.
#include "io/file_identity.h"

#include <sys/stat.h>

namespace hone::io {

std::optional<FileIdentity> identity_of(const Folder& folder, const std::string& name) {
  struct stat info{};
  if (::stat((folder.path() / name).c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino)};
}

}  // namespace hone::io
