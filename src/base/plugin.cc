// What a plug-in throws.
#include "base/plugin.h"

#include <exception>
#include <new>
#include <string_view>

#include "base/log.h"
#include "base/signals.h"
#include "hone/error.h"

namespace hone {
namespace {

constexpr const char* kNoException = "it has thrown what is no std::exception";

// LibTorch's message without its stack; it has no header here, so that its text tells it.
std::string words_of(const std::exception& error) {
  const std::string text = error.what();
  const auto stack = text.find("\nException raised from");
  return stack == std::string::npos ? text : "LibTorch: " + text.substr(0, stack);
}

// Of LibTorch's, which whoever knows how much there should be explains.
bool is_lack_of_memory(const std::string& words) {
  return words.starts_with("LibTorch: ") &&
         (words.find("allocate memory") != std::string::npos || words.find("out of memory") != std::string::npos);
}

}  // namespace

void rethrow_from(const std::string& who) {
  try {
    throw;
  } catch (Error& error) {
    if (error.kind() != kStopped) error.add_context(who);
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string words = words_of(error);
    if (is_lack_of_memory(words)) throw;
    throw Error(ErrorKind::bug, who + ": " + words);
  } catch (...) {
    throw Error(ErrorKind::bug, who + ": " + kNoException);
  }
}

void warn_of_failure(const std::string& who) noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    log::warning("{}: {}", who, words_of(error));
  } catch (...) {
    log::warning("{}: {}", who, kNoException);
  }
}

}  // namespace hone
