// The file that `hone teach` writes, in which a process goes on where one before it was stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "io/new_file.h"

namespace hone::cli {

// What rows come from, but for the records: each fact by the name that messages give it. A stopped file goes on with
// the same ones alone.
using TaughtFacts = std::map<std::string, std::string>;

// Rows go into a hidden file beside the name, and a note beside that says, now and then, how far it is known to be on
// the disk and of which records. What lies behind that is written anew. One process writes it.
class TaughtFile {
 public:
  // Throws Error(data): something has the name already, or it cannot be written; Error(locked): another process is
  // writing it.
  explicit TaughtFile(const std::filesystem::path& path);
  ~TaughtFile();
  TaughtFile(const TaughtFile&) = delete;

  // Returns how many rows are there already. Throws Error(data), which lists what differs, where they come from
  // something else.
  std::int64_t begin(const TaughtFacts& facts);
  // Throws Error(data) unless `records`, a hash of those that the rows there are of, is the one that was noted.
  void check_records(const std::string& records) const;
  // The next rows; records: a hash of those that all rows are of now.
  void write(const std::vector<std::string>& rows, const std::string& records);
  void finish();  // it appears

  // After a failure: what is there stays, for the same command. Returns words that say so; "": there is nothing.
  std::string keep() noexcept;

 private:
  struct Note {
    std::int64_t rows = 0;
    std::uint64_t bytes = 0;
    std::string records;  // a hash
    TaughtFacts facts;
  };
  std::optional<Note> read_note() const;
  void write_note();
  std::string note_name() const;

  class Lock {  // let go of last
   public:
    Lock(const Folder& folder, const std::string& name, const std::filesystem::path& path);
    ~Lock();
    Lock(const Lock&) = delete;

   private:
    int file_;
  };
  std::optional<Lock> lock_;
  std::optional<io::NewFile> file_;
  std::optional<OutFile> out_;
  Note now_;
  std::int64_t noted_rows_ = 0;
  double noted_at_ = 0, noting_took_ = 0;
  std::string shown_;  // the path as it was given
};

}  // namespace hone::cli
