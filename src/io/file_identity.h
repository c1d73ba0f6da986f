// Which file stands at a name: whether it is still the one that was opened there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/env.h"

namespace hone::io {

struct FileIdentity {
  std::uint64_t device = 0, number = 0;  // the inode's
  bool operator==(const FileIdentity&) const = default;
};

// Through a leaf symlink. Nothing: there is none, or the folder is not where it was opened.
std::optional<FileIdentity> identity_of(const Folder& folder, const std::string& name);

}  // namespace hone::io
