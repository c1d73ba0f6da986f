// What all fuzz targets share: the folder of their files, and what counts as a failure.
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/log.h"
#include "hone/error.h"

namespace hone::fuzz {
namespace {

// In memory where there is some; taken away when the process ends in an orderly way.
class Scratch {
 public:
  Scratch() {
    std::string name = std::string(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + "/hone-fuzz-XXXXXX";
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::map<std::string, Target>& known() {
  static std::map<std::string, Target> all;
  return all;
}

}  // namespace

void run(Target target, std::string_view input) {
  log::set_level(log::Level::silent);
  try {
    target(input);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bug) throw;
  }
}

std::string file_of(const std::string& name, std::string_view content) {
  static const Scratch scratch;
  const std::string path = (scratch.path() / name).string();
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  return path;
}

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

const std::map<std::string, Target>& targets() { return known(); }
Registration::Registration(const char* name, Target target) { known().emplace(name, target); }

}  // namespace hone::fuzz
