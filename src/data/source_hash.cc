// Notes of hashes.
#include "data/source_hash.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/hash.h"

namespace hone::data {
namespace {

constexpr std::uint64_t kMaxNote = 1 << 16;
constexpr std::int64_t kSettled = 3;  // seconds after a change; some file systems keep times in steps of two

// Nothing: there is no such file.
std::optional<struct stat> about(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

nlohmann::json facts_of(const std::string& path, const struct stat& info) {
  const auto time = [](const timespec& at) { return nlohmann::json::array({at.tv_sec, at.tv_nsec}); };
  return {{"path", std::filesystem::absolute(path).string()}, {"device", info.st_dev}, {"inode", info.st_ino},
          {"size", info.st_size}, {"modified", time(info.st_mtim)}, {"changed", time(info.st_ctim)}};
}

}  // namespace

SourceHash::SourceHash(const std::string& path, const std::string& cache_folder) : path_(path), folder_(cache_folder) {
  name_ = fmt::format("source-{}.json", hash128_hex(std::filesystem::absolute(path).string()));
  const std::time_t begun = std::time(nullptr);
  const std::optional<struct stat> before = about(path);
  if (before && !folder_.empty()) try {
      const Folder folder = Env::process().open_folder(folder_, ErrorKind::data);
      const nlohmann::json note = nlohmann::json::parse(folder.read_file(name_, kMaxNote));
      if (note.at("file") == facts_of(path, *before)) hash_ = note.at("hash").get<std::string>();
    } catch (const std::exception&) {  // no note, or none that can be read
    }
  if (!hash_.empty()) return;
  hash_ = hash_file(path);
  const std::optional<struct stat> after = about(path);
  if (!before || !after || after->st_ctim.tv_sec + kSettled > begun) return;
  const nlohmann::json facts = facts_of(path, *after);
  if (facts == facts_of(path, *before)) facts_ = nlohmann::json{{"file", facts}, {"hash", hash_}}.dump() + "\n";
}

void SourceHash::note() const noexcept {
  if (!facts_ || folder_.empty()) return;
  try {
    Env::process().open_folder(folder_, ErrorKind::data).replace_file(name_, *facts_);
  } catch (const std::exception&) {  // no such folder, or a full disk
  }
}

}  // namespace hone::data
