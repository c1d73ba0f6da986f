// The control groups that the process is in, from the root of their hierarchy down.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hone {

struct CgroupFolder {
  std::filesystem::path path;
  bool second = false;  // of version 2, whose files have other names
};
// Where those of a controller ("cpu", "memory") are to be read.
std::vector<CgroupFolder> cgroup_folders(const std::filesystem::path& root, const std::string& controller);

}  // namespace hone
