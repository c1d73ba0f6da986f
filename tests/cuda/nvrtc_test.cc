// Every kernel source compiles for every GPU that hone is made for, by NVRTC, which needs no GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace hone::test {
namespace {

namespace fs = std::filesystem;

const fs::path kTree = HONE_SOURCE_DIR;

// The functions of NVRTC (its documentation, "User interface"), by their names in the library.
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char* source, const char* name, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int count, const char* const* options) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*ptx_size)(Program, std::size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;

  explicit Nvrtc(void* library) {
    take(library, "nvrtcCreateProgram", create), take(library, "nvrtcCompileProgram", compile);
    take(library, "nvrtcGetProgramLogSize", log_size), take(library, "nvrtcGetProgramLog", log);
    take(library, "nvrtcGetPTXSize", ptx_size), take(library, "nvrtcGetPTX", ptx);
    take(library, "nvrtcDestroyProgram", destroy);
  }
  template <class Function>
  static void take(void* library, const char* name, Function& to) {
    to = reinterpret_cast<Function>(dlsym(library, name));
    ASSERT_NE(to, nullptr) << name;
  }
};

void* library() {
  std::vector<fs::path> places;
  if (const char* given = std::getenv("HONE_NVRTC")) places.emplace_back(given);
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(kTree / ".deps/torch-cuda/nvidia", ignored))
    for (const auto& file : fs::directory_iterator(folder.path() / "lib", ignored))
      if (file.path().filename().string().starts_with("libnvrtc.so")) places.push_back(file.path());
  for (const fs::path& place : places) {
    // It looks for its other half by name alone, and takes the one that is loaded.
    for (const auto& file : fs::directory_iterator(place.parent_path(), ignored))
      if (file.path().filename().string().starts_with("libnvrtc-builtins.so.")) dlopen(file.path().c_str(), RTLD_NOW);
    if (void* opened = dlopen(place.c_str(), RTLD_NOW)) return opened;
  }
  return nullptr;
}

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// The PTX; what the compiler says is a failure.
std::string compiled(const Nvrtc& nvrtc, const std::string& source, const std::string& architecture) {
  Nvrtc::Program program = nullptr;
  nvrtc.create(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {target.c_str(), "--std=c++17"};
  const int result = nvrtc.compile(program, 2, options);
  std::size_t size = 0;
  nvrtc.log_size(program, &size);
  std::string log(size, '\0'), ptx;
  nvrtc.log(program, log.data());
  EXPECT_EQ(result, 0) << architecture << ": " << log;
  if (result == 0) {
    nvrtc.ptx_size(program, &size);
    ptx.resize(size);
    nvrtc.ptx(program, ptx.data());
  }
  nvrtc.destroy(&program);
  return ptx;
}

TEST(Nvrtc, CompilesEveryKernel) {
  void* opened = library();
  if (!opened) GTEST_SKIP() << "no libnvrtc: HONE_CUDA=1 ./dev build brings one, or HONE_NVRTC names it";
  const Nvrtc nvrtc(opened);
  const fs::path folder = kTree / "src/ops/cuda/kernels";
  const std::string prelude = text_of(folder / "prelude.cuh");
  std::size_t sources = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() != ".cu") continue;
    ++sources;
    SCOPED_TRACE(file.path().filename().string());
    const std::string source = prelude + text_of(file.path());
    for (const char* architecture : {"compute_80", "compute_90", "compute_100"}) {
      const std::string ptx = compiled(nvrtc, source, architecture);
      const std::string name = file.path().stem().string();
      for (const char* type : {"float", "double", "bf16"})
        EXPECT_NE(ptx.find(".visible .entry " + name + "_" + type + "("), std::string::npos) << type;
    }
  }
  EXPECT_EQ(sources, 4u);
}

}  // namespace
}  // namespace hone::test
