// Stretches of time, and who wants to know of them.
#include "base/spans.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/clock.h"

namespace hone::spans {
namespace {

struct Entry {
  Listener* listener;
  bool ops;
};

struct Listeners {
  std::mutex mutex;
  std::vector<Entry> all;
};

// Never destroyed: threads may end spans when the process ends.
Listeners& listeners() {
  static auto* all = new Listeners;
  return *all;
}

std::array<std::atomic<int>, 2> counts{};  // by kind

std::atomic<int>& count_of(Kind kind) { return counts[static_cast<std::size_t>(kind)]; }

}  // namespace

std::uint64_t this_thread() noexcept {
  static const thread_local auto number = static_cast<std::uint64_t>(syscall(SYS_gettid));
  return number;
}

void listen(Listener& listener, bool ops) {
  leave(listener);
  const std::lock_guard lock(listeners().mutex);
  listeners().all.push_back({&listener, ops});
  count_of(Kind::phase) += 1;
  count_of(Kind::op) += ops ? 1 : 0;
}

void leave(Listener& listener) noexcept {
  const std::lock_guard lock(listeners().mutex);
  std::erase_if(listeners().all, [&](const Entry& entry) {
    if (entry.listener != &listener) return false;
    count_of(Kind::phase) -= 1;
    count_of(Kind::op) -= entry.ops ? 1 : 0;
    return true;
  });
}

bool heeded(Kind kind) noexcept { return count_of(kind).load(std::memory_order_relaxed) > 0; }

void tell(Kind kind, std::string_view name, double begin, double end) noexcept {
  if (!heeded(kind)) return;
  const Stretch stretch{kind, name, begin, end, this_thread()};
  const std::lock_guard lock(listeners().mutex);
  for (const Entry& entry : listeners().all)
    if (kind == Kind::phase || entry.ops) entry.listener->heard(stretch);
}

Span::Span(std::string_view name) : name_(name), begin_(heeded(Kind::phase) ? monotonic_seconds() : -1) {}

Span::~Span() {
  if (begin_ >= 0) tell(Kind::phase, name_, begin_, monotonic_seconds());
}

}  // namespace hone::spans
