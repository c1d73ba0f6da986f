// Hashes of folders.
#include "hub/hash.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "hub/adapter_config.h"

namespace hone::hub {

std::string hash_of_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "config.json" || name == kAdapterConfig || name.ends_with(".safetensors"))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Hasher all;
  for (const std::filesystem::path& file : files)
    all.update_field(file.filename().string()).update_field(hash_file(file));
  return all.digest128_hex();
}

}  // namespace hone::hub
