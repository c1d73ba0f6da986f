// hf upload REPO FOLDER . ...
#include "cli/upload_command.h"

#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "io/manifest.h"

namespace hone::cli {
namespace {

bool is_plain_character(unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; }

// As the hub has it: letters, digits, - _ . ; neither -- nor .. ; no - or . at an end; at most 96 in all.
bool is_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_plain_character) &&
         name.find("--") == std::string::npos && name.find("..") == std::string::npos &&
         std::string("-.").find(name.front()) == std::string::npos &&
         std::string("-.").find(name.back()) == std::string::npos && !name.ends_with(".git");
}

bool is_repository(const std::string& repo) {
  const std::vector<std::string> parts = split(repo, '/');
  return repo.size() <= 96 && parts.size() <= 2 && std::all_of(parts.begin(), parts.end(), is_name);
}

}  // namespace

std::string repository_name(const UploadFlags& flags, const std::string& folder) {
  if (!flags.repo.empty()) {
    if (!is_repository(flags.repo))
      throw Error(ErrorKind::usage, "--repo: got " + hone::quoted(flags.repo) +
                                        ", expected name or org/name of letters, digits, -, _ and .");
    return flags.repo;
  }
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  std::string name;
  for (const char c : (path.has_filename() ? path : path.parent_path()).filename().string()) {
    const char next = is_plain_character(static_cast<unsigned char>(c)) ? c : '-';
    const bool twice = !name.empty() && (next == '-' || next == '.') && name.back() == next;
    if (!twice) name += next;
  }
  const auto at_end = [&] { return !name.empty() && std::string("-.").find(name.back()) != std::string::npos; };
  while (at_end()) name.pop_back();
  while (!name.empty() && std::string("-.").find(name.front()) != std::string::npos) name.erase(0, 1);
  return is_repository(name) ? name : "model";
}

std::vector<std::string> upload_command(const UploadFlags& flags, const std::string& folder) {
  // A folder that looks like an option is named so that it does not.
  const std::string place = folder.starts_with("-") ? "./" + folder : folder;
  std::vector<std::string> words{"hf", "upload", repository_name(flags, folder), place, "."};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(std::string(option) + "=" + value);
  };
  words.push_back("--exclude=" + std::string(io::kManifestName));
  add("--revision", flags.revision);
  if (flags.private_repo) words.push_back("--private");
  add("--commit-message", flags.commit_message);
  add("--commit-description", flags.commit_description);
  if (flags.create_pr) words.push_back("--create-pr");
  return words;
}

}  // namespace hone::cli
