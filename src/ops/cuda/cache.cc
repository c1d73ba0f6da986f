// A file of the cache: the hash of the content, then the content.
#include "ops/cuda/cache.h"

#include <cstdlib>
#include <optional>

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"

namespace hone::ops::cuda_table {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 32;

fs::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? fs::path(value) : fs::path();
}

std::optional<std::string> whole(const std::optional<std::string>& file) {
  if (!file || file->size() <= kHashDigits) return {};
  std::string content = file->substr(kHashDigits);
  if (hash128_hex(content) != file->substr(0, kHashDigits)) return {};
  return content;
}

// Whatever the file system says against it, the run goes on.
template <class Work>
auto attempted(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    log::write(log::Level::debug, std::string("kernel cache: ") + error.what());
    return {};
  }
}

}  // namespace

fs::path kernel_cache() {
  if (const fs::path cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "hone" / "kernels";
  const fs::path home = variable("HOME");
  return home.is_absolute() ? home / ".cache" / "hone" / "kernels" : fs::path();
}

std::string kept_on_disk(const fs::path& folder, const std::string& name, const std::function<std::string()>& make) {
  if (folder.empty()) return make();
  const auto open = attempted([&] { return std::optional(Env::process().make_folders(folder)); });
  if (!open) return make();
  if (const auto found = attempted([&] { return whole(open->maybe_read_file(name)); })) return *found;
  std::string made = make();
  attempted([&] {
    open->replace_file(name, hash128_hex(made) + made);
    return true;
  });
  return made;
}

}  // namespace hone::ops::cuda_table
