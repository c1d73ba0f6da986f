// The devices that LibTorch has here: the host's processors, and those of its backends that this build and this machine
// have. Nothing here names a backend: what is not the host's is an accelerator, with streams of its own.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hone::devices {

// Of the processes of a job those on this machine, and which of them this one is, from 0.
struct LocalRank {
  int rank = 0, size = 1;
};

// Of a name: "cpu", "cuda", "cuda:1", or "auto", which is the accelerator where there is one, else the host. Without a
// number it is the first; of several processes each has the one of its own number, or the only one that it sees. Throws
// Error(config): no such kind in this build, no such device in this machine, a number although each process is to have
// its own, or fewer of them than processes; `option` is what said the name.
at::Device choose(const std::string& name, const std::string& option, const std::optional<LocalRank>& of_job = {});
std::vector<at::Device> all();  // the host first

// Of the calling thread: what libraries and streams take where nobody names a device.
void make_current(at::Device device);

void synchronize(at::Device device);  // waits until the device has done all that it was given

// Whether accelerators may round the factors of products in fp32 to TF32; of the whole process.
void round_products(bool rounded);

// Whether the same work must give the same bits twice, also where an accelerator is faster without; of the whole
// process. At first it must.
void want_same_bits(bool wanted);
bool same_bits_wanted();

// In bytes; of an accelerator.
struct Memory {
  std::uint64_t free = 0, total = 0;   // of the device
  std::uint64_t in_use = 0, peak = 0;  // by tensors of this process
};
std::optional<Memory> memory(at::Device device);  // nothing: the host's, or a backend that does not say
void reset_peak(at::Device device);

// Tensors of the host on a device. An accelerator fetches them by itself, on a stream of its own, while it computes
// what it was given before; what the caller asks of it next comes after them. The host waits for nothing.
std::vector<at::Tensor> copied(const std::vector<at::Tensor>& tensors, at::Device device);
// One that is small and wanted at once: in turn with what the device was given. The host waits for nothing here either,
// as it would by Tensor::to(), until the device has done all that.
at::Tensor sent(const at::Tensor& x, at::Device device);
// How often that was done, by all threads of this process. Work in which it was done is no work for a recording
// (ops/recording.h): what was sent is there once.
std::int64_t sends();

}  // namespace hone::devices
