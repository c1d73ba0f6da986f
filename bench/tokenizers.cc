// The half of bench/tokenizers_by_turns.py that is hone's: loads a tokenizer and times encode() on request.
//
// tokenizers TOKENIZER: a line of standard input is a file of documents (split at NUL bytes), the number of threads and
// the number of passes; the answer is the number of ids and the seconds of each pass. "load" answers the seconds of
// loading and the peak memory of the process in MB.
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

#include "hone/text.h"

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<std::string> documents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> out;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    out.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Not getrusage(): its peak begins with that of the process that started this one.
double peak_mb() {
  std::ifstream status("/proc/self/status");
  double kib = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kib;
  return kib / 1024;
}

}  // namespace

int main(int, char** argv) {
  const auto start = Clock::now();
  const auto tokenizer = hone::load_tokenizer(argv[1]);
  const double load = seconds_since(start);
  const double peak = peak_mb();
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string path;
    int threads = 1, passes = 1;
    words >> path >> threads >> passes;
    if (path == "load") {
      std::cout << load << ' ' << peak << std::endl;
      continue;
    }
    const std::vector<std::string> texts = documents(path);
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    for (int pass = 0; pass < passes; ++pass) {
      std::size_t ids = 0;
      const auto begin = Clock::now();
      if (threads == 1)
        for (const auto& text : views) ids += tokenizer->encode(text).ids.size();
      else
        for (const auto& encoding : tokenizer->encode_batch(views, true, threads)) ids += encoding.ids.size();
      std::cout << ids << ' ' << seconds_since(begin) << ' ';
    }
    std::cout << std::endl;
  }
}
