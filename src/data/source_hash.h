// The hash of a data file's content, without reading it again where it is known.
#pragma once

#include <optional>
#include <string>

namespace hone::data {

// Hashes are noted in the token cache's folder, with what the system says of the file: its place, size and times. Any
// write changes the time of its last change, which nobody can set; a hash that was made within seconds of such a change
// is not noted, as a later one could bear the same time. Throws Error(data) if the file cannot be read.
class SourceHash {
 public:
  SourceHash(const std::string& path, const std::string& cache_folder);
  const std::string& hash() const { return hash_; }
  // For the next run, in the folder if it is there. Never fails: then it is hashed again.
  void note() const noexcept;

 private:
  std::string path_, folder_, name_, hash_;
  std::optional<std::string> facts_;  // that may be noted
};

}  // namespace hone::data
