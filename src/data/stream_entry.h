// The records of one entry of data.train, one after another: its files in order, again and again where that is
// possible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/data.h"

namespace hone::data {

// What to call it: its path, or the source that needs none.
std::string name_of(const DataFile& file);

// Behind a record.
struct StreamMark {
  std::int64_t pass = 0, records = 0;     // how often all of it has been read before; records of this pass
  std::int64_t file = 0;                  // the last of these is from
  std::optional<SourcePlace> place = {};  // in that file, where the source can go there
  std::uint64_t hash = 0;                 // of all records so far, in all passes
};

// It is not what the run has read before. problem: of reading it, "" if there was none.
Error other_data(const std::string& name, std::int64_t records, const std::string& problem = "");

// One thread at a time.
class EntryReader {
 public:
  // files: of one entry, each with its options; a pipe is read once. waiting: see SourceFile; also called for each
  // record. pictures: records may have some. chat_template_kwargs: of Dataset::Options.
  EntryReader(std::vector<DataFile> files, RecordKind records, ProblemType problem_type, std::function<void()> waiting,
              bool pictures = false, std::string chat_template_kwargs = {});
  // Before anything else: whether records have log-probabilities of a teacher; of Dataset::Options.
  void set_teacher(bool there, double temperature) { teacher_log_probs_ = there, teacher_temperature_ = temperature; }
  // Behind `at`, by way of `from`, an earlier mark whose place is known or that is the beginning of a pass. What lies
  // between is read, but not tokenised. Error(data): these are not the records that have been read before.
  void go_to(const StreamMark& from, const StreamMark& at);
  bool next(Record& record);                        // false: the end, and it cannot be read again
  const StreamMark& mark() const { return mark_; }  // behind the record that next() gave last
  const DataFile& file() const { return files_[static_cast<std::size_t>(mark_.file)]; }  // that it is from

 private:
  bool next_of_file(Record& record);
  void open();
  std::string name() const;

  std::vector<DataFile> files_;
  RecordKind records_;
  ProblemType problem_type_;
  std::function<void()> waiting_;
  bool pictures_, again_ = true, teacher_log_probs_ = false;
  double teacher_temperature_ = 1;
  std::string chat_template_kwargs_;
  StreamMark mark_;
  std::unique_ptr<Source> source_;  // of the file at the mark; null: not opened
};

}  // namespace hone::data
