// Draws progress: what a line says, and when it is drawn.
#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"

namespace hone {
namespace {

constexpr double kRedrawEvery = 0.1;  // seconds: fast enough to look alive, too slow to cost anything

std::string bar(double share, std::size_t width) {
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return "[" + std::string(filled, '=') + (filled < width ? ">" : "") +
         std::string(width - std::min(width, filled + 1), ' ') + "]";
}

}  // namespace

std::size_t terminal_width() {
  if (const char* columns = std::getenv("COLUMNS")) {
    if (const auto width = parse_int(columns); width && *width > 0 && *width < 10000)
      return static_cast<std::size_t>(*width);
  }
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool use_escapes(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(descriptor) == 1 && !(no_color && *no_color) && term && *term && std::string_view(term) != "dumb";
}

Progress::Progress(Options options)
    : options_(std::move(options)), redraws_(use_escapes()), started_(monotonic_seconds()) {
  options_.quiet |= log::level() > log::Level::info || log::form() == log::Form::json;
}

Progress::~Progress() { finish(); }

double Progress::seconds() const { return monotonic_seconds() - started_; }
void Progress::add_tokens(std::int64_t tokens) { tokens_ += tokens; }

// From the most to the least important: what does not fit in the width is left out from the end.
std::string Progress::line(std::int64_t done, const Values& values, std::size_t width, double elapsed_s) const {
  const double rate = elapsed_s > 0 ? static_cast<double>(done - options_.start) / elapsed_s : 0;
  std::vector<std::string> parts;
  parts.push_back(options_.total > 0 ? fmt::format("{} {}/{}", options_.what, done, options_.total)
                                     : fmt::format("{} {} {}s", options_.what, done, options_.unit));
  const auto add = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) parts.push_back(values[i].first + " " + values[i].second);
  };
  const std::size_t first = std::min<std::size_t>(1, values.size());
  add(0, first);  // what matters most: the loss
  if (tokens_ > 0 && elapsed_s > 0)
    parts.push_back(human_count(static_cast<double>(tokens_) / elapsed_s) + " tokens/s");
  else if (rate > 0)
    parts.push_back(fmt::format("{} {}s/s", human_count(rate), options_.unit));
  if (options_.total > done && rate > 0)
    parts.push_back(human_duration(static_cast<double>(options_.total - done) / rate) + " left");
  add(first, values.size());
  std::string text;
  for (const std::string& part : parts) {
    const std::string more = (text.empty() ? "" : "  ") + part;
    if (!text.empty() && display_width(text) + display_width(more) > width) break;
    text += more;
  }
  while (display_width(text) > width) text.pop_back();
  const std::size_t room = width - display_width(text);
  if (options_.total > 0 && room >= 14) {
    const double share = std::clamp(static_cast<double>(done) / static_cast<double>(options_.total), 0.0, 1.0);
    text += "  " + bar(share, std::min<std::size_t>(room - 4, 30));
  }
  return text;
}

bool Progress::due(std::int64_t done) {
  const double now = seconds();
  const double every = redraws_ ? kRedrawEvery : options_.plain_every_s;
  const bool last = options_.total > 0 && done >= options_.total;
  // The first plain line waits too: work that is short prints none.
  const bool is_due = last_drawn_ < 0 ? redraws_ || now >= every : now - last_drawn_ >= every;
  if (!is_due && !(last && last_drawn_ >= 0)) return false;
  last_drawn_ = now;
  return true;
}

void Progress::update(std::int64_t done, const Values& values) {
  if (options_.quiet || finished_ || !due(done)) return;
  if (!redraws_) return log::info("{}", line(done, values, 200, seconds()));
  // One column stays free: writing the last one makes some terminals wrap.
  const std::size_t width = std::max<std::size_t>(terminal_width(), 2) - 1;
  const std::string text = line(done, values, width, seconds());
  log::set_status("\x1b[36m" + text + "\x1b[0m");
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (redraws_ && !options_.quiet) log::set_status("");
}

}  // namespace hone
