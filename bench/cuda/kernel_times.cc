// When each kernel, copy and fill of a program began and ended on its GPU, one line each, in the file that
// HONE_KERNEL_TIMES names: microseconds since the first one, microseconds it took, stream, name. The driver loads it:
//
//   cuda=.deps/torch-cuda/nvidia/cu13
//   g++ -O2 -shared -fPIC -I $cuda/include bench/cuda/kernel_times.cc -L $cuda/lib -l:libcupti.so.13 -o kernel_times.so
//   CUDA_INJECTION64_PATH=$PWD/kernel_times.so HONE_KERNEL_TIMES=times.csv build/cuda/hone bench recipe.yaml
//   bench/cuda/kernel_times.py times.csv
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
std::FILE* out = nullptr;
std::uint64_t first = 0;

void write(std::uint64_t start, std::uint64_t end, std::uint32_t stream, const char* name) {
  if (first == 0) first = start;
  std::fprintf(out, "%.3f,%.3f,%u,%s\n", (static_cast<double>(start) - static_cast<double>(first)) / 1e3,
               static_cast<double>(end - start) / 1e3, stream, name == nullptr ? "?" : name);
}

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  *size = kBufferBytes;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *records = 0;
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      write(kernel.start, kernel.end, kernel.streamId, kernel.name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto& copy = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
      const char* names[] = {"copy", "copy to the device", "copy to the host"};
      write(copy.start, copy.end, copy.streamId, names[copy.copyKind <= 2 ? copy.copyKind : 0]);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto& fill = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      write(fill.start, fill.end, fill.streamId, "fill");
    }
  }
  std::free(buffer);
}

void finish() {
  cuptiActivityFlushAll(1);
  std::fclose(out);
}

}  // namespace

extern "C" int InitializeInjection() {
  const char* path = std::getenv("HONE_KERNEL_TIMES");
  out = path == nullptr ? nullptr : std::fopen(path, "w");
  if (out == nullptr) return 1;
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS)
      std::fprintf(stderr, "kernel_times: kind %d is not there\n", kind);
  std::atexit(finish);
  return 1;
}
