// Where LibTorch's CPU tensors get their memory.
#include "tensor/tensor_memory.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/arena.h"

namespace hone {
namespace {

Arena* arena = nullptr;  // never destroyed: tensors may outlive everything

void give_back(void* data) {
  if (!arena->give_back(data)) c10::free_cpu(data);
}

class RegionAllocator final : public at::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes >= kLeastInRegion ? arena->take(bytes) : nullptr;
    if (!data) data = c10::alloc_cpu(bytes);
    return {data, data, &give_back, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

namespace {

// Large pages are made at once and zeroed whole: what small runs do with memory that the system has at hand is faster
// by small ones. Beyond that there are fewer of them to be made, which was a third of the time to load 0.5 B weights.
// Intel's CPUs gain from them in every pass, AMD's do not.
constexpr std::size_t kLargePage = 2 << 20, kSmallPagesBytes = std::size_t{2} << 30, kSmallPagesOnIntel = 64 << 20;

void ask_for_large_pages([[maybe_unused]] void* region, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_HUGEPAGE) && defined(__x86_64__)
  __builtin_cpu_init();
  const std::size_t small = __builtin_cpu_is("intel") ? kSmallPagesOnIntel : kSmallPagesBytes;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(region),
                       from = (begin + small + kLargePage - 1) / kLargePage * kLargePage;
  if (from < begin + bytes) madvise(reinterpret_cast<void*>(from), begin + bytes - from, MADV_HUGEPAGE);
#endif
}

}  // namespace

bool use_tensor_region() {
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
  const std::size_t bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* region = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) return false;
  ask_for_large_pages(region, bytes);
  arena = new Arena(region, bytes);
  static RegionAllocator allocator;
  c10::SetCPUAllocator(&allocator);
  return true;
#else
  return false;
#endif
}

// Each page is written before it is read: one that is read first is given twice, and each processor told of it.
at::Tensor fresh_zeros_like(const at::Tensor& x) {
  at::Tensor made = at::empty(x.sizes(), x.options().requires_grad(false));
  if (!made.is_cpu() || !arena || !arena->is_untouched(made.const_data_ptr())) return made.zero_();
  constexpr std::int64_t kPage = 4096, kPages = kLargePage / kPage;
  auto* bytes = static_cast<volatile char*>(made.mutable_data_ptr());
  const auto size = static_cast<std::int64_t>(made.nbytes());
  at::parallel_for(0, (size + kPage - 1) / kPage, kPages, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t page = begin; page < end; ++page) bytes[page * kPage] = 0;
  });
  bytes[size - 1] = 0;
  return made;
}

std::size_t tensor_region_in_use() { return arena ? arena->in_use() : 0; }

}  // namespace hone
