// How messages name the options of data: in the words of whoever is to change them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hone {

// While one lives messages name the flags of a command, "--max-length"; otherwise a recipe's options,
// "data.max_length". Of the whole process, and one at a time; the functions below may be called from any thread.
class WordsOfFlags {
 public:
  explicit WordsOfFlags(const char* prefix = "--");  // static
  ~WordsOfFlags();
  WordsOfFlags(const WordsOfFlags&) = delete;
  WordsOfFlags& operator=(const WordsOfFlags&) = delete;
};

// Of a recipe's option, as "data.overlong", and a value: "data.overlong: split", "--overlong split"; without a value
// the option alone.
std::string option_words(std::string_view option, std::string_view value = "");
// What is read, and the field that it is read from: "columns: {text: story}", "--columns text=story".
std::string columns_words(const std::vector<std::pair<std::string, std::string>>& columns);
// "ignore: [label] beside the file's path", "--ignore label".
std::string ignore_words(std::string_view field);

}  // namespace hone
