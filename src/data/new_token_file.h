// A file of the token cache while it is made.
#pragma once

#include <cstdint>
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
  // An empty one that this one is to give way to, or that has what is to come into this one. mark: what tells it from
  // others.
  std::unique_ptr<NewTokenFile> second(const std::string& mark) const;
  void copy_into(OutFile& out) const;  // what is in it

  OutFile& out() { return *out_; }
  std::uint64_t size() const { return out_->size(); }
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
