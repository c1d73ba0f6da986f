// A folder for the time of a command.
#pragma once

#include <string>

namespace hone {

// Under TMPDIR, or /tmp; removed with all it holds. Throws Error(usage) if it cannot be made.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace hone
