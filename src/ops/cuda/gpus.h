// NVIDIA's driver, found through LibTorch, and what is loaded by it, of all GPUs.
#pragma once

#include <c10/core/ScalarType.h>
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "hone/error.h"
#include "ops/cuda/compiler.h"
#include "ops/cuda/sources.h"

namespace hone::ops::cuda_table {

// Throws Error(config) where the library has not all that a launch needs.
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
    look_for(library, "cuGraphGetEdges_v2", edges);
    look_for(library, "cuGraphAddDependencies_v2", depend);
    look_for(library, "cuGraphAddKernelNode_v2", add);
    look_for(library, "cuGraphDestroyNode", remove);
    look_for(library, "cuGraphNodeGetType", type);
    look_for(library, "cuGraphKernelNodeGetParams_v2", parameters);
    look_for(library, "cuFuncGetParamInfo", parameter);
    look_for(library, "cuGraphKernelNodeSetAttribute", change);
  }
  // Of the graphs that a stream remembers; false: this driver is too old for one of them.
  bool has_graphs() const { return edges && depend && add && remove && type && parameters && parameter && change; }
  template <class Function>
  static void find(void* library, const char* name, Function*& to) {
    look_for(library, name, to);
    if (!to) throw Error(ErrorKind::config, fmt::format("the NVIDIA driver: has no function {}", name));
  }
  template <class Function>
  static void look_for(void* library, const char* name, Function*& to) {
    to = reinterpret_cast<Function*>(dlsym(library, name));
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
  decltype(&cuGraphGetEdges_v2) edges;
  decltype(&cuGraphAddDependencies_v2) depend;
  decltype(&cuGraphAddKernelNode_v2) add;
  decltype(&cuGraphDestroyNode) remove;
  decltype(&cuGraphNodeGetType) type;
  decltype(&cuGraphKernelNodeGetParams_v2) parameters;
  decltype(&cuFuncGetParamInfo) parameter;
  decltype(&cuGraphKernelNodeSetAttribute) change;
};

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

  CUfunction function(int device, const Kernel& kernel, at::ScalarType type);

  // Whose function it is; a name of nothing where it is none of ours.
  struct Known {
    std::string_view source, name;
    at::ScalarType type = at::kFloat;
  };
  Known known(CUfunction function);

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

  Gpus();

  Gpu& of(int index);
  CUmodule module(int device, const Kernel& kernel, at::ScalarType type);
  std::string image(int capability, const Kernel& kernel, const std::string& value);

  void* library_;
  Driver driver_;
  Compiler compiler_;
  std::mutex mutex_;
  std::map<int, Gpu> gpus_;
  using Text = std::string_view;
  std::map<std::tuple<int, Text, Text, at::ScalarType>, CUmodule> modules_;
  std::map<std::tuple<int, Text, Text, Text, at::ScalarType>, CUfunction> functions_;
};

}  // namespace hone::ops::cuda_table
