#include "io/gguf_given.h"

#include <fstream>
#include <string_view>

namespace hone::io {

bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  char begin[4] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  return std::string_view(begin, sizeof begin) == "GGUF";
}

Error a_gguf(const std::filesystem::path& path) {
  return Error(ErrorKind::checkpoint, path.string() + ": a GGUF file, which hone writes and does not read; give the "
                                                      "folder that it was made of");
}

}  // namespace hone::io
