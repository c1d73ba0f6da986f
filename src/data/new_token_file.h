// A file of the token cache while it is made.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"

namespace hone::data {

// Made under a temporary name and renamed, so that it is whole or not there, also with two builders at once. Takes away
// what builders of this machine left that were killed. Throws Error(data).
class NewTokenFile {
 public:
  NewTokenFile(const std::string& folder, const std::string& name);
  ~NewTokenFile();  // away with it, and with folders that were made for it, unless it was kept
  NewTokenFile(const NewTokenFile&) = delete;
  NewTokenFile& operator=(const NewTokenFile&) = delete;
  std::unique_ptr<NewTokenFile> second();  // an empty one that this one is to give way to

  OutFile& out() { return *out_; }
  InFile open() const { return InFile(folder_->path() / temporary_, ErrorKind::data); }
  void keep();  // syncs it; there may be a damaged one, or the same content from another builder

 private:
  NewTokenFile(const std::string& folder, const std::string& name, const std::string& mark);
  std::string name_, temporary_;
  std::vector<std::filesystem::path> missing_;  // folders that were not there, the innermost first
  std::optional<Folder> folder_;
  std::optional<OutFile> out_;
};

}  // namespace hone::data
