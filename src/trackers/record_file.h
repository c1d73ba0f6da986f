// A file in a run's folders that one tracker appends records to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/log.h"

namespace hone::trackers {

// The last of these, each of which is in the one before; those that are missing are made.
Folder opened_or_made(Folder folder, const std::vector<std::string>& names);

// What a failed write leaves is cut off before the next one. Where somebody removes or cuts the file meanwhile, or
// removes a folder above it, it is begun anew, with a warning. One thread at a time.
class RecordFile {
 public:
  // folders: as opened_or_made() has them. A file of that name is not there yet.
  RecordFile(const Folder& run, std::vector<std::string> folders, std::string name);
  std::uint64_t open();                             // where its last whole record ends; 0: it has none (any more)
  void append(std::string_view records);            // REQUIRES: open()
  const Folder& folder() const { return *folder_; }  // that it is in. REQUIRES: open()

 private:
  Folder run_;
  std::vector<std::string> folders_;
  std::string name_;
  std::optional<Folder> folder_;
  std::optional<OutFile> file_;
  bool made_ = false;
  std::uint64_t good_size_ = 0;  // end of its last whole record
  log::Limiter warnings_;
};

}  // namespace hone::trackers
