// Temporary names that say whose they are, and what becomes of the files behind them.
#include "data/new_token_file.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/hash.h"
#include "base/host.h"
#include "base/strings.h"

namespace hone::data {
namespace {

constexpr std::string_view kTemporary = ".tmp-";

std::string own_host() { return hex64(hash64(host_name())); }

void reap(const Folder& folder) {
  for (const std::string& name : folder.list()) {
    if (!name.starts_with(kTemporary)) continue;
    const std::vector<std::string> parts = hone::split(name, '-');  // ".tmp", name, host, process
    const auto process = parts.size() < 4 ? std::nullopt : parse_int(parts.back());
    if (!process || parts[parts.size() - 2] != own_host()) continue;
    if (kill(static_cast<pid_t>(*process), 0) != 0 && errno == ESRCH) folder.remove(name);
  }
}

std::vector<std::filesystem::path> missing_of(std::filesystem::path folder) {
  std::vector<std::filesystem::path> missing;
  std::error_code ignored;
  for (; !folder.empty() && !std::filesystem::exists(folder, ignored); folder = folder.parent_path())
    missing.push_back(folder);
  return missing;
}

}  // namespace

NewTokenFile::NewTokenFile(const std::string& folder, const std::string& name) : NewTokenFile(folder, name, "") {}

NewTokenFile::NewTokenFile(const std::string& folder, const std::string& name, const std::string& mark)
    : name_(name),
      temporary_(fmt::format("{}{}{}-{}-{}", kTemporary, mark, name, own_host(), getpid())),
      missing_(missing_of(folder)),
      folder_(Env::process().make_folders(folder, ErrorKind::data)) {
  reap(*folder_);
  folder_->remove(temporary_);  // of an earlier process with our number
  out_.emplace(folder_->create(temporary_));
}

NewTokenFile::~NewTokenFile() {
  if (!out_) return;
  try {
    folder_->remove(temporary_);
  } catch (const Error&) {  // it is reaped by the next one
  }
  for (const std::filesystem::path& folder : missing_) ::rmdir(folder.c_str());  // not where anything is in it
}

std::unique_ptr<NewTokenFile> NewTokenFile::second(const std::string& mark) const {
  std::unique_ptr<NewTokenFile> made(new NewTokenFile(folder_->path().string(), name_, mark + "-"));
  made->missing_ = missing_;
  return made;
}

void NewTokenFile::copy_into(OutFile& out) const {
  const InFile in = open();
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (std::uint64_t at = 0; at < size(); at += block.size()) {
    block.resize(std::min<std::uint64_t>(block.size(), size() - at));
    in.read(at, block);
    out.write(block);
  }
}

void NewTokenFile::keep() {
  out_->sync();
  out_->close();
  folder_->replace(temporary_, name_);
  out_.reset();
}

}  // namespace hone::data
