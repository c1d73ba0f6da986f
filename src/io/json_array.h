// A file that is one JSON array, read element by element.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/lines.h"

namespace hone::io {

// The decompressed bytes of a file one by one, with line and column; a byte order mark is dropped.
class CountedBytes {
 public:
  explicit CountedBytes(ByteReader reader);
  int peek();           // -1: the end
  int take();           // the same, and goes on behind it
  int peek_printing();  // skips white space
  std::int64_t line() const { return line_; }
  std::int64_t column() const { return column_; }

 private:
  ByteReader reader_;
  std::vector<char> block_;
  std::size_t at_ = 0, end_ = 0;
  std::int64_t line_ = 1, column_ = 1;
};

// Never holds more than an element of the file. One thread at a time.
class JsonArrayReader {
 public:
  // waiting: as for ByteReader
  explicit JsonArrayReader(const std::string& path, std::function<void()> waiting = {});
  explicit JsonArrayReader(ByteReader bytes);
  bool next(nlohmann::ordered_json& element);  // false: no more; throws Error(data) with path:line:column
  std::int64_t line() const { return begins_; }  // where the element last returned begins, from 1
  std::int64_t index() const { return index_; }  // its place in the array, from 0
  bool shares_line() const { return shares_line_; }  // whether another begins in its line, too

 private:
  [[noreturn]] void fail(const std::string& fact) const;
  bool at_element();
  bool end_of_array();
  void cut_element();
  nlohmann::ordered_json parse(std::int64_t line, std::int64_t column) const;

  std::string path_, element_;
  CountedBytes bytes_;
  bool goes_on_in_line();
  std::int64_t begins_ = 0, index_ = -1;
  bool begun_ = false, done_ = false, after_comma_ = false, shares_line_ = false;
};

}  // namespace hone::io
