// Every kernel is compiled for GPUs that are not here, by NVRTC, which needs none; and what is kept of it on disk.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#define cuda_table emulated_table
#include "ops/cuda/cache.cc"
#include "ops/cuda/compiler.cc"
#include "ops/sequences.h"
#undef cuda_table

#include "harness/files.h"

namespace hone::ops::emulated_table {
namespace {

namespace fs = std::filesystem;

// Opened by its path it does not find what lies beside it, which it opens by name: that is opened before.
void* open_nvrtc(const fs::path& folder) {
  std::error_code none;
  std::vector<fs::path> parts, whole;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("libnvrtc-builtins.so.")) parts.push_back(entry.path());
    if (name.starts_with("libnvrtc.so.")) whole.push_back(entry.path());
  }
  if (whole.empty()) return nullptr;
  for (const fs::path& part : parts) dlopen(part.c_str(), RTLD_NOW | RTLD_GLOBAL);
  return dlopen(std::max_element(whole.begin(), whole.end())->c_str(), RTLD_NOW);
}

// HONE_NVRTC_DIR, the CUDA LibTorch's, CUDA's own; null: none of them.
void* nvrtc() {
  static void* const library = [] {
    const char* named = std::getenv("HONE_NVRTC_DIR");
    std::vector<fs::path> folders;
    if (named) folders.emplace_back(named);
    const fs::path wheels = fs::path(HONE_SOURCE_DIR) / ".deps" / "torch-cuda" / "nvidia";
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(wheels, none)) folders.push_back(entry.path() / "lib");
    folders.emplace_back("/usr/local/cuda/lib64");
    for (const fs::path& folder : folders)
      if (void* found = open_nvrtc(folder)) return found;
    return static_cast<void*>(nullptr);
  }();
  return library;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
const fs::path kSources = fs::path(HONE_SOURCE_DIR) / "src" / "ops" / "cuda" / "kernels";

// By name; of optimizers' updates one for each rule.
std::map<std::string, std::string> all_sources() {
  std::map<std::string, std::string> made;
  for (const auto& entry : fs::directory_iterator(kSources))
    if (entry.path().extension() == ".cu") made[entry.path().stem()] = text_of(entry.path());
  EXPECT_EQ(made.size(), 21u);
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_SOURCE_DIR) / "src" / "optim" / "elements"))
    made["update-" + entry.path().stem().string()] = with_element(text_of(entry.path()), made.at("update"));
  made.erase("update");
  return made;
}

std::vector<Header> all_headers() {
  std::vector<Header> made;
  for (const auto& entry : fs::directory_iterator(kSources))
    if (entry.path().extension() == ".h") made.push_back({entry.path().filename(), text_of(entry.path())});
  return made;
}

#define NEED_NVRTC() \
  if (!nvrtc()) GTEST_SKIP() << "no libnvrtc.so; HONE_NVRTC_DIR names the folder of one"

TEST(CudaCompiler, CompilesEveryKernelForEveryTypeAndGpu) {
  NEED_NVRTC();
  const Compiler compiler(nvrtc());
  const std::vector<Header> headers = all_headers();
  for (const auto& [name, source] : all_sources())
    for (const char* value : {"float", "double", "Bf16", "Half"})
      for (const int capability : {75, 80, 90, 100}) {
        // bf16 begins with 8.0, and machine code of all types would take long.
        const bool in_code = value == std::string(capability < 80 ? "Half" : "Bf16");
        if (capability < 80 && !in_code) continue;
        const Unit unit{name, source, value};
        const std::string number = std::to_string(capability);
        const std::string ptx = compiler.compiled(unit, headers, "compute_" + number);
        EXPECT_NE(ptx.find(".target sm_" + number), std::string::npos) << unit.name;
        for (const char* atomic : {"\tatom.", "\tred."})
          EXPECT_EQ(ptx.find(atomic), std::string::npos) << unit.name << ": an order that timing decides";
        EXPECT_EQ(ptx.find("L2::cache_hint"), std::string::npos) << unit.name << ": cores.h says why not";
        const std::string sm = compiler.architecture_for(capability);
        EXPECT_EQ(sm, "sm_" + number + (capability == 90 ? "a" : ""));
        if (!in_code) continue;
        std::string said;
        EXPECT_EQ(compiler.compiled(unit, headers, sm, &said).substr(1, 3), "ELF") << unit.name << " " << sm;
        // Products that hardware makes beside a kernel's threads, but after one another where a compiler cannot see
        // that nobody touches their registers meanwhile: twice as slow, and said here alone.
        EXPECT_EQ(said.find("(C75"), std::string::npos) << unit.name << " " << sm << ": " << said;
      }
}
TEST(CudaCompiler, SaysWhatIsWrongWithASource) {
  NEED_NVRTC();
  const Compiler compiler(nvrtc());
  try {
    compiler.compiled({"broken", "int x = nobody;", "float"}, {}, "sm_80");
    FAIL();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(what.find("kernels/broken.cu for float and sm_80: "), 0u) << what;
    EXPECT_NE(what.find("\"nobody\" is undefined"), std::string::npos) << what;
  }
}
TEST(CudaCompiler, MakesPtxForGpusThatItDoesNotKnow) {
  NEED_NVRTC();
  const Compiler compiler(nvrtc());
  EXPECT_EQ(compiler.architecture_for(999).find("compute_"), 0u);
  EXPECT_THROW(compiler.architecture_for(10), Error);
}
TEST(CudaCompiler, IsNotWhatHasNoFunctions) { EXPECT_THROW(Compiler(dlopen("libm.so.6", RTLD_NOW)), Error); }

TEST(CudaCache, CompilesOnceAndAgainWhereAFileIsDamaged) {
  const hone::test::TempFolder folder;
  const fs::path cache = folder / "a/b";
  int made = 0;
  const auto get = [&] {
    return kept_on_disk(cache, "kernel", [&] {
      ++made;
      return std::string("code\0more", 9);
    });
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get(), std::string("code\0more", 9));
  EXPECT_EQ(made, 1);
  const std::string whole = text_of(cache / "kernel");
  int expected = 1;
  const auto cut = [&](std::size_t size) { return whole.substr(0, size); };
  for (const std::string& damaged : {cut(0), cut(20), cut(32), cut(whole.size() - 1), whole + "x"}) {
    std::ofstream(cache / "kernel") << damaged;
    EXPECT_EQ(get(), std::string("code\0more", 9));
    EXPECT_EQ(made, ++expected);
    EXPECT_EQ(text_of(cache / "kernel"), whole);
  }
}
TEST(CudaCache, DoesWithoutAFolder) {
  const hone::test::TempFolder folder;
  const fs::path file = folder.write("file", "not a folder");
  for (const fs::path& place : {fs::path(), file / "below"})
    EXPECT_EQ(kept_on_disk(place, "kernel", [] { return std::string("code"); }), "code");
}

TEST(CudaSequences, HoldEveryTokenOnce) {
  const Sequences made = sequences_of({{2, 5}, {5, 5}, {5, 9}, {300, 301}}, 310);
  EXPECT_EQ(made.ends, (std::vector<std::int32_t>{0, 2, 5, 9, 137, 265, 300, 301, 310}));
  EXPECT_EQ(made.longest, 128);
  ASSERT_EQ(made.between.size(), 3u);
  EXPECT_EQ(made.between[1].begin, 9);
  EXPECT_EQ(made.between[1].end, 300);
  EXPECT_EQ(sequences_of({{0, 700}}, 700).ends, (std::vector<std::int32_t>{0, 700}));
  EXPECT_EQ(sequences_of({{0, 700}}, 700).longest, 700);
  EXPECT_EQ(sequences_of({}, 3).ends, (std::vector<std::int32_t>{0, 3}));
}

}  // namespace
}  // namespace hone::ops::emulated_table
