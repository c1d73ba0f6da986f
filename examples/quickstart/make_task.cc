// Makes the quickstart's task: all sums of two numbers below 100 in random order, as prompt and completion.
//
//   make_task FOLDER    writes FOLDER/train.jsonl (9,500 sums) and FOLDER/test.jsonl (500 sums that train.jsonl lacks);
//                       files of these names that hold anything else are left alone, with an error
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "hone/random.h"

namespace {

constexpr std::uint64_t kNumbers = 100, kTest = 500;

void write_sums(const std::string& path, const hone::Random& random, std::uint64_t begin, std::uint64_t end) {
  std::ostringstream sums;
  for (std::uint64_t i = begin; i < end; ++i) {
    const std::uint64_t pair = random.permuted(i, kNumbers * kNumbers);
    const std::uint64_t a = pair / kNumbers, b = pair % kNumbers;
    sums << R"({"prompt": ")" << a << '+' << b << R"(=", "completion": ")" << a + b << "\"}\n";
  }
  std::ostringstream before;
  if (std::ifstream old(path); old && old.peek() != std::ifstream::traits_type::eof()) before << old.rdbuf();
  if (before.str() == sums.str()) return;
  if (!before.str().empty()) throw hone::Error(hone::ErrorKind::data, path + ": is there already, with other content");
  std::ofstream file(path);
  file << sums.str();
  if (!file.flush()) throw hone::Error(hone::ErrorKind::data, path + ": cannot be written");
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) throw hone::Error(hone::ErrorKind::usage, "make_task: expected one argument, the folder to write to");
  const std::string folder = arguments[1];
  const hone::Random random(1, "quickstart");
  write_sums(folder + "/test.jsonl", random, 0, kTest);
  write_sums(folder + "/train.jsonl", random, kTest, kNumbers * kNumbers);
  return 0;
} catch (const hone::Error& error) {
  std::cerr << "error: " << error.what() << '\n';
  return static_cast<int>(error.kind());
}
