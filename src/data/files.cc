// What a data file's path stands for.
#include "data/files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "io/pipe.h"
#include "data/source.h"
#include "hone/registry.h"

namespace hone {

void DataFile::validate(Problems& problems) const {
  problems.require(!path.empty() || !source.type.empty(), "path",
                   "missing: a file, - for standard input, or a source that does without one");
}

}  // namespace hone

namespace hone::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSigns = "*?[{";

Error error(const std::string& path, const std::string& fact) {
  return Error(ErrorKind::data, fmt::format("{}: {}", path, fact));
}

// What is tokenised beforehand is read twice (also to be sure that it has not changed meanwhile), so it must be a file.
void refuse(const std::string& path, bool as_stream) {
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  if (path.empty()) throw error("data", "a file without a path; standard input is \"-\"");
  if (!as_stream && is_standard_input(path))
    throw error(path, "standard input; expected a file, because data is read more than once")
        .hint("write it into a file first: cat > data.jsonl");
  if (!as_stream && fs::is_fifo(status))
    throw error(path, "a pipe; expected a file, because data is read more than once");
  if (fs::is_character_file(status) || fs::is_block_file(status)) throw error(path, "a device; expected a data file");
  if (fs::is_socket(status)) throw error(path, "a socket; expected a data file");
}

// All names in the folder that are not hidden, sorted.
std::vector<fs::path> names_in(const std::string& folder) {
  std::error_code failed;
  std::vector<fs::path> names;
  for (auto at = fs::directory_iterator(folder, failed); !failed && at != fs::directory_iterator();
       at.increment(failed))
    if (!at->path().filename().string().starts_with(".")) names.push_back(at->path().filename());
  if (failed) throw error(folder, "cannot be read: " + failed.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> in_folder(const std::string& folder, std::vector<std::string>& others) {
  std::vector<std::string> files, folders;
  for (const fs::path& name : names_in(folder)) {
    const fs::path path = fs::path(folder) / name;
    std::error_code ignored;
    if (fs::is_directory(path, ignored))
      folders.push_back(name.string() + "/");
    else if (fs::is_regular_file(path, ignored) && has_data_extension(path.string()))
      files.push_back(path.string());
    else
      others.push_back(name.string());
  }
  others.insert(others.end(), folders.begin(), folders.end());
  if (files.empty()) {
    Error none = error(folder, "a folder without data files; " + std::string(kKinds));
    if (folders.empty()) throw none;
    throw std::move(none).hint("folders in it are not looked into: give one, or a pattern such as " +
                               (fs::path(folder) / "*/*.jsonl").string());
  }
  return files;
}

std::vector<std::string> fitting(const std::string& pattern) {
  if (pattern.find("**") != std::string::npos)
    throw error(pattern, "** is not supported").hint("a pattern for each depth: data/*.jsonl and data/*/*.jsonl");
  glob_t found{};
  const int code = glob(pattern.c_str(), GLOB_BRACE | GLOB_NOSORT | GLOB_ERR, nullptr, &found);
  std::vector<std::string> files;
  for (std::size_t i = 0; code == 0 && i < found.gl_pathc; ++i) files.push_back(found.gl_pathv[i]);
  globfree(&found);
  if (code != 0 && code != GLOB_NOMATCH) throw error(pattern, "a folder of this pattern cannot be read");
  std::erase_if(files, [](const std::string& path) { return fs::is_directory(path); });
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (files.empty()) throw error(pattern, "no file fits this pattern");
  return files;
}

}  // namespace

bool is_standard_input(const std::string& path) {
  return path == "-" || path == "/dev/stdin" || path == "/dev/fd/0";
}

bool is_read_once(const std::string& path) { return is_standard_input(path) || io::is_pipe(path); }

FoundFiles files_of(const DataFile& entry, bool as_stream) {
  if (entry.path.empty() && is_file_format(entry.source.type))
    throw error("data", fmt::format("source {} without a path; it reads files", entry.source.type));
  if (const auto* source = registries().sources.find(entry.source.type);
      source != nullptr && !source->takes_context && !entry.path.empty())
    throw error(entry.path, fmt::format("source {} makes its records itself and reads no file; leave the path out",
                                        entry.source.type));
  if (entry.path.empty() && !entry.source.type.empty()) {
    if (!as_stream && !entry.max_samples)
      throw error("data", fmt::format("source {} without a path, which may have no end; expected max_samples beside it "
                                      "where it is read before it is used",
                                      entry.source.type));
    return {{entry}, {}};
  }
  std::error_code unknown;
  const fs::file_status status = fs::status(entry.path, unknown);
  FoundFiles found;
  std::vector<std::string> paths = {entry.path};
  if (fs::is_directory(status))
    paths = in_folder(entry.path, found.others);
  else if (!fs::exists(status) && entry.path.find_first_of(kSigns) != std::string::npos)
    paths = fitting(entry.path);
  else if (status.type() == fs::file_type::not_found && fs::path(entry.path).is_relative() &&
           !is_standard_input(entry.path))
    throw error(entry.path, "cannot open: No such file or directory")
        .hint("a relative path, looked for from " + fs::current_path(unknown).string());
  for (const std::string& path : paths) {
    refuse(path, as_stream);
    found.files.push_back(entry);
    found.files.back().path = path;
  }
  return found;
}

void log_found(const DataFile& entry, const FoundFiles& found) {
  const std::vector<DataFile>& files = found.files;
  if (files.size() == 1 && files[0].path == entry.path) return;
  log::info("{}: {}: {}", entry.path, counted(static_cast<std::int64_t>(files.size()), "file"),
            files.size() == 1 ? files[0].path : files.front().path + " to " + files.back().path);
  if (!found.others.empty()) log::info("{}: not read: {}", entry.path, list_names(found.others));
}

}  // namespace hone::data
