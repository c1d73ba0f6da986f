// What a run does when: stretches of time with names, for timers and traces. While nobody listens, one costs a look at
// an atomic.
#pragma once

#include <cstdint>
#include <string_view>

namespace hone::spans {

enum class Kind {
  phase,  // of a run: "data", "forward", "backward", "ranks", "update", "log", "evaluation", "save", and the "step"
          // that holds the first five and what callbacks do then
  op      // what sections (base/sections.h) tell apart; they lie within phases
};

struct Stretch {
  Kind kind = Kind::phase;
  std::string_view name;      // of static storage
  double begin = 0, end = 0;  // monotonic_seconds()
  std::uint64_t thread = 0;   // the system's number of it
};

// Told of each stretch at its end, by the thread that it was on.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void heard(const Stretch& stretch) noexcept = 0;
};
void listen(Listener& listener, bool ops);  // from now on; `ops`: to these, too
void leave(Listener& listener) noexcept;    // it is told nothing more; one that does not listen: nothing happens

std::uint64_t this_thread() noexcept;  // its number, as in stretches
bool heeded(Kind kind) noexcept;  // somebody listens to such
void tell(Kind kind, std::string_view name, double begin, double end) noexcept;

class Span {
 public:
  explicit Span(std::string_view name);  // a phase; of static storage
  ~Span();
  Span(const Span&) = delete;

 private:
  std::string_view name_;
  double begin_;  // < 0: nobody listened
};

}  // namespace hone::spans
