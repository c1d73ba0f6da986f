// How much of a test that could go on for ever is done: a part beside the other tests, less where a sanitizer makes it
// slow, all of it by ./dev test soak.
#pragma once

#include <cstdlib>
#include <string_view>

namespace hone::test {

inline bool soaks() {
  const char* value = std::getenv("HONE_SOAK");
  return value && std::string_view(value) != "0" && *value != '\0';
}
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlowness = 8;
#else
inline constexpr int kSlowness = 1;
#endif
template <class T>
T scaled(T part, T all) {
  return soaks() ? all : part;
}

}  // namespace hone::test
