// What proves that a folder or file is hone's, before it is moved, replaced or removed; and where it is moved.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/env.h"

namespace hone::io {

// A folder that a user named, there or not yet: links, "." and ".." are followed, so that `name` is its own.
struct NamedFolder {
  std::filesystem::path parent;  // absolute
  std::string name;
  std::filesystem::path path() const { return parent / name; }
  bool holds_working_folder() const;  // it is the current folder, or one above it
  bool is_among_checkpoints() const;  // of a run, which goes on from one of them
};
// Error(kind): "", the root of the file system, or what is no folder.
NamedFolder locate_folder(const std::filesystem::path& path, ErrorKind kind);

// Before the work that ends with writing there: Error(kind) where what is there of the path may not be written in.
void require_writable(const std::filesystem::path& path, ErrorKind kind);

// "" if `name` in `parent` is a folder that hone made with everything in it: its manifest lists each file. Otherwise
// the reason against, for a message.
std::string why_not_ours(const Folder& parent, const std::string& name);

// Renames `entry` to `<name>.old-<k>`, the first number that is free; returns that.
std::string set_aside(const Folder& parent, const std::string& entry, const std::string& name);
bool is_set_aside(std::string_view name);  // "….old-<k>"

// 12 hexadecimal digits that differ between runs and processes; not a secret.
std::string new_id();

}  // namespace hone::io
