// Launches by the driver, which LibTorch finds: a program that never meets a GPU runs where there is no driver.
#include "ops/cuda/program.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <vector>

#include "ops/cuda/gpus.h"

namespace hone::ops::cuda_table {
namespace {

// What a block may share without asking for it: 48 KB, of which a kernel's own variables take some.
constexpr std::int64_t kRoomUnasked = 32 << 10;
constexpr int kEarlyCapability = 90;  // of GPUs that can begin a kernel before the last one has ended

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
