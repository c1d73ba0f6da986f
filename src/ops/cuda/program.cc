// Compiling, keeping and launching.
#include "ops/cuda/program.h"

#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "base/hash.h"
#include "hone/error.h"

namespace hone::ops::cuda {
namespace {

namespace fs = std::filesystem;

// A function of a library that LibTorch's CUDA half has loaded (NVRTC), or that comes with the driver.
template <class Function>
Function* found(const char* library, const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (!symbol)
    if (void* opened = dlopen(library, RTLD_NOW | RTLD_GLOBAL)) symbol = dlsym(opened, name);
  if (!symbol) throw Error(ErrorKind::bug, fmt::format("{}: {} cannot be had of it", library, name));
  return reinterpret_cast<Function*>(symbol);
}
#define HONE_NVRTC(name) found<decltype(name)>("libnvrtc.so.13", #name)
#define HONE_DRIVER(name) found<decltype(name)>("libcuda.so.1", #name)

// NVRTC looks for its other half by name alone, not beside itself, and takes the one that is loaded.
void load_builtins() {
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(HONE_NVRTC(nvrtcCreateProgram)), &where) == 0) return;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(fs::path(where.dli_fname).parent_path(), ignored))
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so.")) dlopen(file.path().c_str(), RTLD_NOW);
}

void check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  HONE_DRIVER(cuGetErrorString)(result, &text);
  throw Error(ErrorKind::bug, fmt::format("{}: {}", what, text ? text : "unknown"));
}

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  HONE_NVRTC(nvrtcGetProgramLogSize)(program, &size);
  std::string log(size, '\0');
  if (size > 0) HONE_NVRTC(nvrtcGetProgramLog)(program, log.data());
  return log.substr(0, log.find('\0'));
}

std::string ptx_of(nvrtcProgram program) {
  std::size_t size = 0;
  HONE_NVRTC(nvrtcGetPTXSize)(program, &size);
  std::string ptx(size, '\0');
  HONE_NVRTC(nvrtcGetPTX)(program, ptx.data());
  return ptx;
}

// As the XDG base directory specification has it; "": nowhere.
fs::path cache_folder() {
  const auto variable = [](const char* name) { return fs::path(std::getenv(name) ? std::getenv(name) : ""); };
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "hone";
  const fs::path home = variable("HOME");
  return home.empty() ? home : home / ".cache" / "hone";
}

// Where a compiled source is kept; "": nowhere.
fs::path file_of(const std::string& name, const std::string& architecture) {
  const fs::path folder = cache_folder();
  if (folder.empty()) return {};
  int major = 0, minor = 0;
  HONE_NVRTC(nvrtcVersion)(&major, &minor);
  Hasher key;
  key.update_field(source_of(name)).update_field(architecture).update_int(major).update_int(minor);
  return folder / "kernels" / fmt::format("{}-{}.ptx", name, key.digest128_hex());
}

// With a last line that only a whole file has.
constexpr const char* kWhole = "\n// whole\n";

std::string kept(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  const std::string all = text.str(), end = kWhole;
  return all.ends_with(end) ? all.substr(0, all.size() - end.size()) : "";
}

// Whoever cannot keep it compiles it again.
void keep(const fs::path& file, const std::string& ptx) {
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  const fs::path beside = file.string() + fmt::format(".{}", getpid());
  std::ofstream(beside, std::ios::binary) << ptx << kWhole;
  fs::rename(beside, file, ignored);
  if (ignored) fs::remove(beside, ignored);
}

// By device and function; a process has each once.
struct Key {
  int device;
  std::string name;
  auto operator<=>(const Key&) const = default;
};
std::mutex lock;
std::map<Key, CUmodule> modules;
std::map<Key, CUfunction> functions;

CUmodule module_of(int device, const std::string& source) {
  CUmodule& module = modules[{device, source}];
  if (module) return module;
  const auto version = [&](CUdevice_attribute part) {
    int value = 0;
    check(HONE_DRIVER(cuDeviceGetAttribute)(&value, part, device), "asking for the GPU's architecture");
    return value;
  };
  const std::string architecture = fmt::format("compute_{}{}", version(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                                               version(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  const fs::path file = file_of(source, architecture);
  std::string ptx = file.empty() ? "" : kept(file);
  if (ptx.empty()) {
    ptx = compiled(source, architecture);
    if (!file.empty()) keep(file, ptx);
  }
  check(HONE_DRIVER(cuModuleLoadData)(&module, ptx.c_str()), "loading kernels " + source);
  return module;
}

CUfunction function_of(int device, const std::string& source, const std::string& name) {
  const std::lock_guard held(lock);
  CUfunction& function = functions[{device, name}];
  if (!function)
    check(HONE_DRIVER(cuModuleGetFunction)(&function, module_of(device, source), name.c_str()), "kernel " + name);
  return function;
}

}  // namespace

std::string compiled(const std::string& name, const std::string& architecture) {
  const std::string source = source_of(name);
  if (source.empty()) throw Error(ErrorKind::bug, "kernels: no source is called " + name);
  static const bool whole = (load_builtins(), true);
  static_cast<void>(whole);
  nvrtcProgram program = nullptr;
  HONE_NVRTC(nvrtcCreateProgram)(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {target.c_str(), "--std=c++17"};
  const nvrtcResult result = HONE_NVRTC(nvrtcCompileProgram)(program, 2, options);
  const std::string log = log_of(program), ptx = result == NVRTC_SUCCESS ? ptx_of(program) : "";
  HONE_NVRTC(nvrtcDestroyProgram)(&program);
  if (result != NVRTC_SUCCESS)
    throw Error(ErrorKind::bug, fmt::format("kernels {} for {}: NVRTC: {}", name, architecture, log));
  return ptx;
}

void launch(const std::string& source, const std::string& function, std::int64_t blocks, std::int64_t threads,
            const Arguments& arguments) {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const CUfunction kernel = function_of(stream.device_index(), source, function);
  check(HONE_DRIVER(cuLaunchKernel)(kernel, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1,
                                    0, stream.stream(), const_cast<void**>(arguments.data()), nullptr),
        "kernel " + function);
}

}  // namespace hone::ops::cuda
