// The one session of the program.
#include "cli/ranks.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "dist/session.h"

namespace hone::cli {
namespace {

std::unique_ptr<dist::Session>& session() {
  static std::unique_ptr<dist::Session> joined;
  return joined;
}

}  // namespace

World join_ranks() {
  if (!session()) session() = dist::Session::join();
  return session() ? session()->world() : World();
}

void announce_ranks() {
  if (session()) session()->announce();
}

std::optional<std::string> own_words(const std::string& error, int code) {
  return session() ? session()->own_words(error, code) : error;
}

void leave_ranks(int code) {
  if (!session()) return;
  session()->leave();
  if (session()->leaves_threads()) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  session().reset();
}

}  // namespace hone::cli
