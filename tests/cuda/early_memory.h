// Memory of tensors as kernels find it that are launched early on the emulated GPU: until they wait, as it was when
// something began that waits for all before it. That is the least that a GPU promises, which may let them begin then.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cuda/emulated_gpu.h"

namespace hone::ops::test {

// Of tensors that are made while it lives; what was made before is always there. What was made since is spoiled.
class EarlyTensors final : public emulated::EarlyMemory {
 public:
  EarlyTensors() : allocator_before_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(&allocator(), kFirst);
    emulated::early_memory = this;
    // Of LibTorch's kernels, the one that nn::KvCache counts on.
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& op) -> std::unique_ptr<at::ObserverContext> {
          if (std::string(op.name()) == "aten::embedding")
            static_cast<EarlyTensors*>(emulated::early_memory)->begin_after_all();
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~EarlyTensors() override {
    at::removeCallback(handle_);
    emulated::early_memory = nullptr;
    c10::SetCPUAllocator(allocator_before_, kFirst);
    all().clear();
  }
  EarlyTensors(const EarlyTensors&) = delete;

  // Something is launched that waits for all that was launched before it.
  void begin_after_all() {
    for (auto& [at, each] : all()) each.before.assign(at, at + each.size);
  }

  void show_before() override {
    for (auto& [at, each] : all()) {
      each.now.assign(at, at + each.size);
      if (each.before.empty())
        std::memset(at, 0xff, each.size);
      else
        std::memcpy(at, each.before.data(), each.size);
    }
  }
  bool show_now() override {
    bool is_untouched = true;
    for (auto& [at, each] : all()) {
      if (each.before.empty())
        is_untouched &= std::all_of(at, at + each.size, [](char byte) { return byte == '\xff'; });
      else
        is_untouched &= std::memcmp(at, each.before.data(), each.size) == 0;
      std::memcpy(at, each.now.data(), each.size);
    }
    return is_untouched;
  }

 private:
  // before: when something began last; empty: it was not there. now: as it is, while it is shown as it was.
  struct Bytes {
    std::size_t size = 0;
    std::vector<char> before{}, now{};
  };
  static constexpr std::uint8_t kFirst = 1;

  struct Allocator final : c10::Allocator {
    c10::DataPtr allocate(std::size_t size) override {
      void* const made = c10::alloc_cpu(size);
      if (made) all()[static_cast<char*>(made)] = {size};
      return {made, made, &give_back, at::kCPU};
    }
    static void give_back(void* at) {
      all().erase(static_cast<char*>(at));
      c10::free_cpu(at);
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void* to, const void* from, std::size_t size) const override { default_copy_data(to, from, size); }
  };
  static Allocator& allocator() {
    static Allocator made;
    return made;
  }
  static std::map<char*, Bytes>& all() {
    static std::map<char*, Bytes> made;
    return made;
  }

  c10::Allocator* allocator_before_;
  at::CallbackHandle handle_{};
};

}  // namespace hone::ops::test
