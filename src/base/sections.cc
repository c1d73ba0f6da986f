// Time by named section.
#include "base/sections.h"

#include <utility>

#include "base/clock.h"
#include "base/spans.h"

namespace hone::sections {
namespace {

struct State {
  bool running = false;
  Section current = Section::other;
  double since = 0;
  std::function<void()> settle;
  Totals totals;
};
// Of a thread: a section that another thread enters (a loader that prepares rows ahead) is not counted.
thread_local State state;

void enter(Section section) {
  if (state.settle) state.settle();
  const double now = monotonic_seconds();
  state.totals.seconds[static_cast<std::size_t>(state.current)] += now - state.since;
  state.current = section;
  state.since = now;
}

void add(OfEach& totals, double count) {
  if (state.running) totals[static_cast<std::size_t>(state.current)] += count;
}

}  // namespace

void start(std::function<void()> settle) {
  if (settle) settle();
  state = {.running = true,
           .current = Section::other,
           .since = monotonic_seconds(),
           .settle = std::move(settle),
           .totals = {}};
}

Totals stop() {
  enter(Section::other);
  state.running = false;
  state.settle = nullptr;
  return state.totals;
}

bool running() { return state.running; }

void add_flop(double count) { add(state.totals.flop, count); }
void add_bytes(double count) { add(state.totals.bytes, count); }
void add_waited(double seconds) { add(state.totals.waited, seconds); }

Timed::Timed(Section section)
    : section_(section),
      outer_(state.current),
      counted_(state.running),
      begin_(spans::heeded(spans::Kind::op) ? monotonic_seconds() : -1) {
  if (counted_) enter(section);
}

Timed::~Timed() {
  if (counted_ && state.running) enter(outer_);
  if (begin_ >= 0)
    spans::tell(spans::Kind::op, kNames[static_cast<std::size_t>(section_)], begin_, monotonic_seconds());
}

}  // namespace hone::sections
