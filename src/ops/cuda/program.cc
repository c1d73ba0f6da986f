// Kernels by NVRTC and the driver, both found through LibTorch, which links neither: a program that never meets a GPU
// runs where there is no driver.
#include "ops/cuda/program.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/hash.h"
#include "hone/error.h"
#include "ops/cuda/cache.h"
#include "ops/cuda/compiler.h"
#include "ops/cuda/sources.h"

namespace hone::ops::cuda_table {
namespace {

// LibTorch's own door to NVRTC and the driver, beside its other libraries: whoever opens it can find the functions of
// both.
void* open_library() {
  constexpr const char* kName = "libcaffe2_nvrtc.so";
  Dl_info place{};
  const auto* known = reinterpret_cast<const void*>(&c10::cuda::getCurrentCUDAStream);
  std::string path = kName;
  if (dladdr(known, &place) && place.dli_fname)
    path = (std::filesystem::path(place.dli_fname).parent_path() / kName).string();
  for (const std::string& each : {path, std::string(kName)})
    if (void* library = dlopen(each.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* why = dlerror();
  throw Error(ErrorKind::config, fmt::format("{}: cannot be loaded: {}", kName, why ? why : "no reason given"))
      .hint("is an NVIDIA driver installed?");
}

struct Driver {
  explicit Driver(void* library) {
    find(library, "cuGetErrorString", error);
    find(library, "cuDeviceGet", device);
    find(library, "cuDeviceGetAttribute", attribute);
    find(library, "cuCtxGetCurrent", current);
    find(library, "cuCtxSetCurrent", set_current);
    find(library, "cuDevicePrimaryCtxRetain", primary);
    find(library, "cuModuleLoadData", load);
    find(library, "cuModuleGetFunction", function);
    find(library, "cuFuncSetAttribute", set_attribute);
    find(library, "cuLaunchKernelEx", launch);
  }
  template <class Function>
  static void find(void* library, const char* name, Function*& to) {
    to = reinterpret_cast<Function*>(dlsym(library, name));
    if (!to) throw Error(ErrorKind::config, fmt::format("the NVIDIA driver: has no function {}", name));
  }
  void check(CUresult result, const std::string& doing) const {
    if (result == CUDA_SUCCESS) return;
    const char* text = nullptr;
    error(result, &text);
    throw Error(ErrorKind::bug, fmt::format("{}: the NVIDIA driver refuses it: {} ({})", doing,
                                            text ? text : "unknown error", static_cast<int>(result)));
  }
  decltype(&cuGetErrorString) error;
  decltype(&cuDeviceGet) device;
  decltype(&cuDeviceGetAttribute) attribute;
  decltype(&cuCtxGetCurrent) current;
  decltype(&cuCtxSetCurrent) set_current;
  decltype(&cuDevicePrimaryCtxRetain) primary;
  decltype(&cuModuleLoadData) load;
  decltype(&cuModuleGetFunction) function;
  decltype(&cuFuncSetAttribute) set_attribute;
  decltype(&cuLaunchKernelEx) launch;
};

// What a block may share without asking for it: 48 KB, of which a kernel's own variables take some.
constexpr std::int64_t kRoomUnasked = 32 << 10;
constexpr int kEarlyCapability = 90;             // of GPUs that can begin a kernel before the last one has ended

const char* value_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float";
    case at::kDouble:
      return "double";
    case at::kBFloat16:
      return "Bf16";
    case at::kHalf:
      return "Half";
    default:
      throw Error(ErrorKind::bug, fmt::format("kernels: no values of type {}", c10::toString(type)));
  }
}

// What is loaded, of all GPUs. Stays until the process ends, as their contexts do.
class Gpus {
 public:
  static Gpus& all() {
    static Gpus* const made = new Gpus;  // never destroyed: the driver may be gone before
    return *made;
  }

  int capability(int device) {
    const std::lock_guard lock(mutex_);
    return of(device).capability;
  }
  int multiprocessors(int device) {
    const std::lock_guard lock(mutex_);
    return of(device).multiprocessors;
  }
  int most_room(int device) {
    const std::lock_guard lock(mutex_);
    return of(device).most_room;
  }

  CUfunction function(int device, const Kernel& kernel, at::ScalarType type) {
    const std::lock_guard lock(mutex_);
    CUfunction& made = functions_[{device, kernel.source, kernel.name, kernel.element, type}];
    if (made) return made;
    driver_.check(driver_.function(&made, module(device, kernel, type), kernel.name),
                  fmt::format("kernel {} of {}.cu", kernel.name, kernel.source));
    return made;
  }

  // Threads that have used no GPU yet have no context.
  void enter(int device) {
    CUcontext now = nullptr;
    driver_.check(driver_.current(&now), "the current context");
    if (now) return;
    const std::lock_guard lock(mutex_);
    driver_.check(driver_.set_current(of(device).context), "the context of a GPU");
  }

  const Driver& driver() const { return driver_; }

 private:
  struct Gpu {
    CUcontext context = nullptr;
    int capability = 0, multiprocessors = 0, most_room = 0;
  };

  Gpus() : library_(open_library()), driver_(library_), compiler_(library_) {}

  Gpu& of(int index) {
    Gpu& gpu = gpus_[index];
    if (gpu.context) return gpu;
    CUdevice device = 0;
    int major = 0, minor = 0;
    driver_.check(driver_.device(&device, index), "a GPU");
    driver_.check(driver_.attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device), "its capability");
    driver_.check(driver_.attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device), "its capability");
    gpu.capability = 10 * major + minor;
    const CUdevice_attribute size = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    driver_.check(driver_.attribute(&gpu.multiprocessors, size, device), "its size");
    const CUdevice_attribute room = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    driver_.check(driver_.attribute(&gpu.most_room, room, device), "its shared memory");
    driver_.check(driver_.primary(&gpu.context, device), "its context");
    return gpu;
  }

  CUmodule module(int device, const Kernel& kernel, at::ScalarType type) {
    CUmodule& made = modules_[{device, kernel.source, kernel.element, type}];
    if (made) return made;
    const std::string code = image(of(device).capability, kernel, value_name(type));
    driver_.check(driver_.load(&made, code.c_str()), fmt::format("kernels/{}.cu", kernel.source));
    return made;
  }

  std::string image(int capability, const Kernel& kernel, const std::string& value) {
    const std::string name = kernel.source, element(kernel.element);
    Unit unit{name, std::string(kernel_source(name + ".cu")), value};
    HONE_ASSERT(!unit.source.empty());
    if (!element.empty()) unit.source = with_element(kernel_source("elements/" + element + ".h"), unit.source);
    std::vector<Header> headers;
    for (const char* header : {"types.h", "cores.h", "squares.h", "decode_cores-inl.h"})
      headers.push_back({header, std::string(kernel_source(header))});
    const std::string architecture = compiler_.architecture_for(capability);
    Hasher key;
    key.update_field(unit.source).update_field(compiler_.version());
    for (const Header& header : headers) key.update_field(header.text);
    for (const std::string& option : compiler_options(unit, architecture)) key.update_field(option);
    const std::string file = fmt::format("{}-{}-{}-{}", name + element, value, architecture, key.digest128_hex());
    return kept_on_disk(kernel_cache(), file,
                        [&] { return compiler_.compiled(unit, headers, architecture); });
  }

  void* library_;
  Driver driver_;
  Compiler compiler_;
  std::mutex mutex_;
  std::map<int, Gpu> gpus_;
  using Text = std::string_view;
  std::map<std::tuple<int, Text, Text, at::ScalarType>, CUmodule> modules_;
  std::map<std::tuple<int, Text, Text, Text, at::ScalarType>, CUfunction> functions_;
};

}  // namespace

int capability(const at::Tensor& x) {
  return Gpus::all().capability(x.is_cuda() ? x.device().index() : c10::cuda::current_device());
}

std::int64_t multiprocessors(const at::Tensor& x) { return Gpus::all().multiprocessors(x.device().index()); }

std::int64_t most_room(const at::Tensor& x) { return Gpus::all().most_room(x.device().index()); }

bool has_tensor_cores(const at::Tensor& x) { return capability(x) >= 80; }

void launch_with(const Kernel& kernel, const at::Tensor& like, const Grid& grid, std::span<const Argument> arguments) {
  Gpus& gpus = Gpus::all();
  const int device = like.device().index();
  const c10::DeviceGuard guard(like.device());
  gpus.enter(device);
  std::vector<void*> parameters;
  for (const Argument& each : arguments) parameters.push_back(each.at);
  const CUfunction function = gpus.function(device, kernel, like.scalar_type());
  if (grid.shared_bytes > kRoomUnasked)
    gpus.driver().check(gpus.driver().set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                    static_cast<int>(grid.shared_bytes)),
                        fmt::format("kernel {} with {} bytes for a block", kernel.name, grid.shared_bytes));
  // Kernels that are to be on a multiprocessor together want its memory divided alike.
  if (grid.early)
    gpus.driver().check(gpus.driver().set_attribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                                    CU_SHAREDMEM_CARVEOUT_MAX_SHARED),
                        fmt::format("kernel {}: its share of memory", kernel.name));
  const CUstream stream = c10::cuda::getCurrentCUDAStream(like.device().index()).stream();
  const auto count = [](std::int64_t x) { return static_cast<unsigned>(x); };
  CUlaunchAttribute early{};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = count(grid.x), config.gridDimY = count(grid.y), config.gridDimZ = 1;
  config.blockDimX = count(grid.threads), config.blockDimY = count(grid.threads_y), config.blockDimZ = 1;
  config.sharedMemBytes = count(grid.shared_bytes), config.hStream = stream;
  config.attrs = &early, config.numAttrs = grid.early && gpus.capability(device) >= kEarlyCapability ? 1 : 0;
  const CUresult result = gpus.driver().launch(&config, function, parameters.data(), nullptr);
  gpus.driver().check(result, fmt::format("kernel {} with {} x {} blocks of {} x {} threads", kernel.name, grid.x,
                                          grid.y, grid.threads, grid.threads_y));
}

}  // namespace hone::ops::cuda_table
