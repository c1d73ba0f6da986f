// Kernels by NVRTC and the driver, both found through LibTorch, which links neither.
#include "ops/cuda/gpus.h"

#include <c10/cuda/CUDAStream.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "ops/cuda/cache.h"
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

}  // namespace

CUfunction Gpus::function(int device, const Kernel& kernel, at::ScalarType type) {
  const std::lock_guard lock(mutex_);
  CUfunction& made = functions_[{device, kernel.source, kernel.name, kernel.element, type}];
  if (made) return made;
  driver_.check(driver_.function(&made, module(device, kernel, type), kernel.name),
                fmt::format("kernel {} of {}.cu", kernel.name, kernel.source));
  return made;
}

Gpus::Known Gpus::known(CUfunction function) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, made] : functions_)
    if (function && made == function) return {std::get<1>(key), std::get<2>(key), std::get<4>(key)};
  return {};
}

Gpus::Gpus() : library_(open_library()), driver_(library_), compiler_(library_) {}

Gpus::Gpu& Gpus::of(int index) {
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

CUmodule Gpus::module(int device, const Kernel& kernel, at::ScalarType type) {
  CUmodule& made = modules_[{device, kernel.source, kernel.element, type}];
  if (made) return made;
  const std::string code = image(of(device).capability, kernel, value_name(type));
  driver_.check(driver_.load(&made, code.c_str()), fmt::format("kernels/{}.cu", kernel.source));
  return made;
}

std::string Gpus::image(int capability, const Kernel& kernel, const std::string& value) {
  const std::string name = kernel.source, element(kernel.element);
  Unit unit{name, std::string(kernel_source(name + ".cu")), value};
  HONE_ASSERT(!unit.source.empty());
  if (!element.empty()) unit.source = with_element(kernel_source("elements/" + element + ".h"), unit.source);
  std::vector<Header> headers;
  for (const std::string_view header : kernel_headers())
    headers.push_back({std::string(header), std::string(kernel_source(header))});
  const std::string architecture = compiler_.architecture_for(capability);
  Hasher key;
  key.update_field(unit.source).update_field(compiler_.version());
  for (const Header& header : headers) key.update_field(header.text);
  for (const std::string& option : compiler_options(unit, architecture)) key.update_field(option);
  const std::string file = fmt::format("{}-{}-{}-{}", name + element, value, architecture, key.digest128_hex());
  return kept_on_disk(kernel_cache(), file, [&] { return compiler_.compiled(unit, headers, architecture); });
}

}  // namespace hone::ops::cuda_table
