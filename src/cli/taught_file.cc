// Rows first, then the note of them: whatever a note says is on the disk.
#include "cli/taught_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/ownership.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kShare = 10;  // so much longer than noting takes is computed before it is done again
constexpr std::uint64_t kMaxNote = 1'000'000;

void require_free(const fs::path& path) {
  io::require_file_name(path, ErrorKind::checkpoint);
  if (std::error_code ignored; fs::exists(fs::symlink_status(path, ignored)))
    throw Error(ErrorKind::checkpoint, path.string() + ": is there already; nothing was written")
        .hint("choose another name, or move it away");
}

// "--top-k: was 64, is 16" of each that differs.
std::vector<std::string> differences(const TaughtFacts& before, const TaughtFacts& now) {
  TaughtFacts all = before;
  all.insert(now.begin(), now.end());
  std::vector<std::string> found;
  const auto shown = [](const TaughtFacts& facts, const std::string& name) {
    const auto fact = facts.find(name);
    return fact == facts.end() ? "not given" : escape_for_terminal(fact->second, 60);
  };
  for (const auto& [name, ignored] : all)
    if (const std::string was = shown(before, name), is = shown(now, name); was != is)
      found.push_back(fmt::format("{}: was {}, is {}", name, was, is));
  return found;
}

}  // namespace

// A file system that has no locks has one process to write there, as far as anybody can tell.
TaughtFile::Lock::Lock(const Folder& folder, const std::string& name, const fs::path& path)
    : file_(folder.open_lock(name)) {
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(file_);
  throw Error(ErrorKind::locked, path.string() + ": another process is writing it")
      .hint("wait for it, or choose another name");
}

TaughtFile::Lock::~Lock() { ::close(file_); }

TaughtFile::TaughtFile(const fs::path& path) : shown_(path.string()) {
  require_free(path);
  const fs::path whole = fs::absolute(path).lexically_normal();
  io::require_writable(whole.parent_path(), ErrorKind::checkpoint);
  const Folder folder = Env::process().make_folders(whole.parent_path(), ErrorKind::checkpoint);
  lock_.emplace(folder, Folder::kNew + whole.filename().string(), path);
  file_.emplace(Env::process(), whole, ErrorKind::checkpoint, io::NewFile::Leftover::stays);
  require_free(path);  // of a process that was writing it until now
  if (read_note()) file_->keep();
}

TaughtFile::~TaughtFile() = default;

std::string TaughtFile::note_name() const { return ".resume-" + file_->name(); }

std::optional<TaughtFile::Note> TaughtFile::read_note() const {
  const std::optional<std::string> text = file_->folder().maybe_read_file(note_name(), kMaxNote);
  if (!text) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(*text);
    Note note{json.at("rows"), json.at("bytes"), json.at("records"), json.at("facts")};
    // One that a finished file has left: there is no file that it is of.
    return file_->folder().file_size(file_->hidden()).value_or(0) >= note.bytes ? std::optional(note) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::data, (file_->folder().path() / note_name()).string() + ": is no note of how far " + shown_ +
                                     " is")
        .hint("move it away");
  }
}

void TaughtFile::write_note() {
  if (now_.rows == noted_rows_) return;
  const Stopwatch watch;
  out_->sync();
  const nlohmann::json json = {
      {"rows", now_.rows}, {"bytes", now_.bytes}, {"records", now_.records}, {"facts", now_.facts}};
  file_->folder().replace_file(note_name(), json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file_->keep();
  noted_rows_ = now_.rows, noted_at_ = monotonic_seconds(), noting_took_ = watch.seconds();
}

std::int64_t TaughtFile::begin(const TaughtFacts& facts) {
  now_.facts = facts;
  const std::optional<Note> before = read_note();
  if (before) {
    if (const std::vector<std::string> differ = differences(before->facts, facts); !differ.empty())
      throw Error(ErrorKind::data, fmt::format("{}: was begun otherwise, and has {}: {}", shown_,
                                               counted(before->rows, "row"), fmt::join(differ, "; ")))
          .hint(fmt::format("ask as it was begun, or remove {} to begin anew", file_->hidden_path().string()));
    now_ = *before;
  } else {
    file_->folder().remove(note_name());  // of a file that was finished
  }
  noted_rows_ = now_.rows;
  out_.emplace(file_->folder().open_to_write(file_->hidden()));
  out_->truncate(now_.bytes);
  if (now_.rows > 0) log::info("{}: going on after {}", shown_, counted(now_.rows, "row"));
  return now_.rows;
}

void TaughtFile::check_records(const std::string& records) const {
  if (records == now_.records) return;
  throw Error(ErrorKind::data, fmt::format("{}: what it has, {}, is not of the first records any longer", shown_,
                                           counted(now_.rows, "row")))
      .hint(fmt::format("give the file of records that it was begun with, or remove {} to begin anew",
                        file_->hidden_path().string()));
}

void TaughtFile::write(const std::vector<std::string>& rows, const std::string& records) {
  for (const std::string& row : rows) out_->write(row);
  now_.rows += std::ssize(rows), now_.bytes = out_->size(), now_.records = records;
  if (monotonic_seconds() - noted_at_ >= kShare * noting_took_) write_note();
}

void TaughtFile::finish() {
  out_->sync();
  out_->close();
  file_->appear();
  file_->folder().remove(note_name());
  file_->folder().remove(Folder::kNew + note_name());  // of a process that was killed there
}

std::string TaughtFile::keep() noexcept {
  try {
    if (out_) write_note();
  } catch (const std::exception&) {  // what was noted before is there
  }
  try {
    return noted_rows_ == 0 ? "" : fmt::format("the same command goes on after {}", counted(noted_rows_, "row"));
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace hone::cli
