// What a teacher has said of a record's tokens, laid on these, and how a store of tokens keeps it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/column.h"
#include "hone/data.h"
#include "hone/source.h"

namespace hone {
class Hasher;  // base/hash.h
}

namespace hone::data {

class NewTokenFile;

// Of a document: at some of its tokens, ascending, `width` tokens that were the likeliest there, the likeliest first.
struct DocTeacher {
  std::uint64_t width = 0;  // 0: of none
  std::vector<std::uint64_t> places = {};
  std::vector<std::uint32_t> ids = {};  // [places, width]
  std::vector<float> log_probs = {};
};

// The temperature that the log-probabilities of a file were made with. Throws Error(config) where it has one, but none
// of these are read.
class FileTeacher {
 public:
  FileTeacher(const DataFile& file, bool read, double of_others);
  void bring(Record& record) const;  // to that of others

 private:
  float scale_;
};

// Lays what a teacher has said of a record, of all of its tokens or of those that are learnt, on those that are learnt
// and that others stand before; of each place the `top_k` likeliest, 0: all. Throws Error(data) that begins with
// `place` where it does not fit the tokens or is no list of log-probabilities.
DocTeacher laid_on(const Tokens& tokens, const TeacherLogProbs& said, std::int64_t top_k,
                   const std::function<std::string()>& place);

// The same of all documents of a file, where each place has as many. Positions count through the whole file.
class TaughtColumns {
 public:
  // A document comes whose places have so many; 0: it has none. Throws Error(data) that begins with `place` if those
  // before had another number.
  void expect(std::uint64_t width, const std::function<std::string()>& place);
  void add(const DocTeacher& said, std::uint64_t base);  // of a document that begins at `base`

  bool is_there() const { return there_; }  // a teacher
  std::uint64_t width() const { return width_; }
  std::uint64_t places() const;
  std::int64_t highest_id() const { return highest_id_; }  // -1: there is none
  std::int64_t highest_id(std::uint64_t begin, std::uint64_t end) const;  // of places there
  // Of the tokens at [begin, end), as targets of the first of `count` places; the others have none.
  TaughtTargets targets(std::uint64_t begin, std::uint64_t end, std::uint64_t count) const;
  void add_content(Hasher& hasher, std::uint64_t begin, std::uint64_t end) const;

  // While it is filled: what is in memory goes into files of its own, beside that one which is to have all in the end.
  // Nothing but add(), places() and highest_id() is asked from then on, until it is taken back or lies in a file.
  std::uint64_t bytes_in_memory() const;
  bool is_put_away() const { return away_ != nullptr; }
  void put_away(const NewTokenFile& beside);  // throws Error(data)
  void take_back();                           // into memory; likewise

  // As a file has them, each of places, ids and log-probabilities: what is put away, or null, and what follows it.
  void each_array(
      const std::function<void(const NewTokenFile* away, std::span<const std::byte> rest)>& visit) const;
  void lie_at(std::uint64_t width, std::span<const std::uint64_t> places, std::span<const std::uint32_t> ids,
              std::span<const float> log_probs);
  bool fits(std::uint64_t tokens) const;  // whether they can be of a file of so many

 private:
  struct Away;
  std::size_t first_from(std::uint64_t position) const;
  bool there_ = false;
  std::uint64_t width_ = 0;
  std::int64_t highest_id_ = -1;
  Column<std::uint64_t> places_;  // ascending
  Column<std::uint32_t> ids_;     // [places, width]
  Column<float> log_probs_;
  std::shared_ptr<Away> away_;  // what comes before these
};

}  // namespace hone::data
