// Progress of long work: one line redrawn on a terminal that obeys escapes, plain lines now and then elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hone {

// One thread at a time. Draws through log (so messages never cut the line); nothing when it is quiet, where the log
// drops what is below a warning, or where it is JSON.
class Progress {
 public:
  struct Options {
    std::string what = "train";  // first word of the line
    std::string unit = "step";   // what is counted
    std::int64_t total = 0;      // 0: unknown
    std::int64_t start = 0;      // where a resumed run begins; the rate counts from here
    bool quiet = false;
    double plain_every_s = 10;  // seconds between lines where none is redrawn
  };
  using Values = std::vector<std::pair<std::string, std::string>>;  // shown in this order: {"loss", "2.345"}

  explicit Progress(Options options);
  ~Progress();  // removes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::int64_t done, const Values& values = {});
  void add_tokens(std::int64_t tokens);  // shown as tokens/s
  void finish();                         // removes the line; the caller logs its own summary
  double seconds() const;                // since construction

  // The text of the line, for a terminal of `width` columns; for tests.
  std::string line(std::int64_t done, const Values& values, std::size_t width, double elapsed_s) const;

 private:
  bool due(std::int64_t done);
  Options options_;
  bool redraws_, finished_ = false;
  double started_, last_drawn_ = -1;
  std::int64_t tokens_ = 0;
};

std::size_t terminal_width();  // COLUMNS, else what the terminal says, else 80
// Whether escape sequences may be written (2: to stderr): it is a terminal, TERM is set and not dumb, NO_COLOR is not
// set.
bool use_escapes(int descriptor = 2);

}  // namespace hone
