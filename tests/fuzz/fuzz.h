// Fuzz targets: one file each, HONE_FUZZ(name) { ... }, with a folder of small seeds of that name beside it. With
// `./dev test fuzz` each becomes a libFuzzer program; in every other build replay_test.cc runs them on their seeds.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace hone::fuzz {

using Target = void (*)(std::string_view input);

// Runs the target once. An Error is a fine answer to bad input, unless it is a bug of ours; so is none.
void run(Target target, std::string_view input);

// A file in memory with this name, holding `content`; its path. It lives until the next one of the same name.
std::string file_of(const std::string& name, std::string_view content);

// Ends the process, or the test, when something that always holds does not.
void require(bool holds, const char* what);

const std::map<std::string, Target>& targets();
struct Registration {
  Registration(const char* name, Target target);
};

}  // namespace hone::fuzz

#ifdef HONE_FUZZER
#define HONE_FUZZ_ENTRY(name)                                                                             \
  extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const unsigned char* data, \
                                                                               std::size_t size) {        \
    ::hone::fuzz::run(fuzz_##name, {reinterpret_cast<const char*>(data), size});                          \
    return 0;                                                                                             \
  }
#else
#define HONE_FUZZ_ENTRY(name) static const ::hone::fuzz::Registration register_##name(#name, fuzz_##name);
#endif
#define HONE_FUZZ(name)                            \
  static void fuzz_##name(std::string_view input); \
  HONE_FUZZ_ENTRY(name)                            \
  static void fuzz_##name(std::string_view input)
