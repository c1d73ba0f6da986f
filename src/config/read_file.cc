// Configuration files from disk.
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "hone/config.h"

namespace hone::config {
namespace {

Error a_folder(const std::string& path) {
  Error error(ErrorKind::config, path + ": a folder; expected a file of options");
  const std::string folder = path + (path.ends_with('/') ? "" : "/");
  if (std::ifstream(folder + "config.yaml")) return std::move(error).hint(folder + "config.yaml is one");  // a run's
  if (std::ifstream(folder + "config.json"))
    return std::move(error).hint(folder + "config.json is one; a model to train is named by --model.path");
  return error;
}

Error too_long(const std::string& path) {
  return Error(ErrorKind::config, path + ": more than 16 MB; expected a configuration");
}

}  // namespace

Node read_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw Error(ErrorKind::config, path + ": cannot be read: " + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw a_folder(path);
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))  // as <(a command) is
    throw Error(ErrorKind::config, path + ": not a regular file");
  constexpr std::int64_t kMost = 16'000'000;
  if (status.st_size > kMost) throw too_long(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::config, path + ": cannot be read: " + std::strerror(errno));
  std::string text;
  for (char c; std::ssize(text) <= kMost && file.get(c);) text += c;
  if (std::ssize(text) > kMost) throw too_long(path);
  Problems problems;
  Node node = path.ends_with(".json") ? parse_json(text, path, problems) : parse_yaml(text, path, problems);
  problems.raise(path);
  if (!node.is_map() && !node.is_null())
    throw Error(ErrorKind::config, path + ": got a single value or a list, expected a section of options");
  if (node.is_null()) node = Node::map();
  return node;
}

}  // namespace hone::config
