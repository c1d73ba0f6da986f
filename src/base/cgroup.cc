// Control groups: /proc/self/cgroup says which ones the process is in, /proc/self/mountinfo where they are.
#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/strings.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

struct ControlGroup {
  bool second = false;  // of version 2
  std::string path;     // as seen from the hierarchy's root
};

struct Mount {
  bool second = false;
  std::string within;  // the part of the hierarchy that is mounted
  std::string at;
};

bool has(const std::string& list, const std::string& controller) {
  const std::vector<std::string> names = split(list, ',');
  return std::find(names.begin(), names.end(), controller) != names.end();
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// hierarchy:controllers:path, version 2: 0::path.
std::vector<ControlGroup> groups_in(const fs::path& root, const std::string& controller) {
  std::vector<ControlGroup> groups;
  for (const std::string& line : lines_of(root / "proc/self/cgroup")) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty() || has(controllers, controller))
      groups.push_back({controllers.empty(), line.substr(second + 1)});
  }
  return groups;
}

// mountinfo writes blanks as \040, tabs, ends of lines and backslashes alike.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool code = text[i] == '\\' && i + 3 < text.size();
    plain +=
        code ? static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')) : text[i];
    if (code) i += 3;
  }
  return plain;
}

// 36 35 98:0 WITHIN AT OPTIONS ... - TYPE SOURCE OPTIONS
std::vector<Mount> mounts_in(const fs::path& root, const std::string& controller) {
  std::vector<Mount> mounts;
  for (const std::string& line : lines_of(root / "proc/self/mountinfo")) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string id, parent, device, within, at, type, source, options;
    before >> id >> parent >> device >> within >> at;
    after >> type >> source >> options;
    if (type == "cgroup2" || (type == "cgroup" && has(options, controller)))
      mounts.push_back({type == "cgroup2", unescaped(within), unescaped(at)});
  }
  return mounts;
}

std::string first_line(const fs::path& path) {
  const std::vector<std::string> lines = lines_of(path);
  return lines.empty() ? "" : lines[0];
}

// "150000 100000", "max 100000".
std::optional<double> quota_of(std::string_view micros, std::string_view period) {
  const auto time = parse_double(trim(micros)), of = parse_double(trim(period));
  if (!time || !of || *time <= 0 || *of <= 0) return std::nullopt;  // max, or -1 in version 1
  return *time / *of;
}

std::optional<double> quota_at(const fs::path& folder, bool second) {
  if (!second) return quota_of(first_line(folder / "cpu.cfs_quota_us"), first_line(folder / "cpu.cfs_period_us"));
  const std::string line = first_line(folder / "cpu.max");
  const std::size_t blank = line.find(' ');
  return blank == std::string::npos ? std::nullopt : quota_of(line.substr(0, blank), line.substr(blank + 1));
}

// The group's path below the mount. Of a group that is not below it, as in a container that sees the path of its host,
// the mount itself is the nearest that can be read.
fs::path below(const ControlGroup& group, const Mount& mount) {
  const std::string within = mount.within == "/" ? "" : mount.within;
  if (group.path.rfind(within, 0) != 0 || group.path.find("/..") != std::string::npos) return {};
  const std::string rest = group.path.substr(within.size());
  if (!rest.empty() && rest[0] != '/') return {};
  return fs::path(rest).relative_path();
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(const fs::path& root, const std::string& controller) {
  std::vector<CgroupFolder> folders;
  const std::vector<Mount> mounts = mounts_in(root, controller);
  for (const ControlGroup& group : groups_in(root, controller))
    for (const Mount& mount : mounts) {
      if (mount.second != group.second) continue;
      fs::path folder = root / fs::path(mount.at).relative_path();
      folders.push_back({folder, mount.second});
      for (const fs::path& part : below(group, mount)) folders.push_back({folder /= part, mount.second});
    }
  return folders;
}

std::optional<double> cgroup_quota(const fs::path& root) {
  std::optional<double> least;
  for (const CgroupFolder& folder : cgroup_folders(root, "cpu"))
    if (const auto quota = quota_at(folder.path, folder.second)) least = std::min(least.value_or(*quota), *quota);
  return least;
}

}  // namespace hone
