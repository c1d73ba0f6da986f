// What hone tokenizer train learns from: the texts of data files, and lines of plain text.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "data/unmet.h"
#include "hone/source.h"
#include "io/lines.h"

namespace hone::cli {

// The texts of files, one after the other. What a file is goes by its name, as with data: of JSON Lines, JSON, CSV, TSV
// and Parquet the texts of their records (prompt and completion together; of conversations contents, reasoning, calls
// of tools, the tools and documents one by one; of pairs the prompt once), of all else each line with its end, byte for
// byte. One thread calls it.
class TrainingTexts {
 public:
  // like: columns and ignore of each file
  TrainingTexts(std::vector<std::string> paths, const SourceFile& like)
      : paths_(std::move(paths)), like_(like), unmet_(like.ignore, like.columns) {}
  bool next(std::string& text);  // false: no more; throws Error(data) with path:line
  std::uint64_t bytes() const { return bytes_; }

 private:
  // The lines of a file of text.
  class Lines {
   public:
    explicit Lines(const std::string& path);
    bool next(std::string& line);

   private:
    bool refill();
    std::string path_, buffer_;
    io::ByteReader bytes_;
    std::size_t at_ = 0;
    std::int64_t number_ = 0;
  };

  void open(const std::string& path);
  static std::unique_ptr<Source> open_source(SourceFile& file);
  bool next_record();

  std::vector<std::string> paths_;
  SourceFile like_;
  data::Unmet unmet_;
  std::size_t opened_ = 0;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<Lines> lines_;    // of the file that is open, one of the two
  std::unique_ptr<Source> source_;
  std::deque<std::string> waiting_;  // texts of the record read last
};

}  // namespace hone::cli
