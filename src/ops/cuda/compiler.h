// NVRTC, NVIDIA's compiler as a library: from a kernel's source to what the driver loads. Needs no GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hone::ops::cuda_table {

// What is compiled: kernels/<name>.cu for one type of values ("float", "double", "Bf16" or "Half").
struct Unit {
  std::string name, source, value;
};

// What sources include as "ops/cuda/kernels/<name>".
struct Header {
  std::string name, text;
};

// The source of a kernel that computes with an Element (src/optim/elements), whose text is given.
std::string with_element(std::string_view element, std::string_view source);

// With which it is compiled: beside source and compiler, what the result depends on.
std::vector<std::string> compiler_options(const Unit& unit, const std::string& architecture);

// Thread-safe once made.
class Compiler {
 public:
  // Of an open library that has NVRTC's functions or was linked with it. Throws Error(config): it has not.
  explicit Compiler(void* library);

  const std::string& version() const { return version_; }
  // What to compile for: "sm_90" for a GPU of capability 90, or "compute_120" of a newer one than this NVRTC knows.
  // Throws Error(config) for one that is too old.
  std::string architecture_for(int capability) const;
  // Of the sm_ architectures machine code, of the others PTX. said: what the compiler says of it. Throws Error(bug)
  // with that where it cannot.
  std::string compiled(const Unit& unit, const std::vector<Header>& headers, const std::string& architecture,
                       std::string* said = nullptr) const;

 private:
  struct Functions {
    int (*version)(int*, int*);
    const char* (*error)(int);
    int (*architecture_count)(int*);
    int (*architectures)(int*);
    int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
    int (*compile)(void*, int, const char* const*);
    int (*destroy)(void**);
    int (*log_size)(void*, std::size_t*);
    int (*log)(void*, char*);
    int (*code_size)(void*, std::size_t*);
    int (*code)(void*, char*);
    int (*ptx_size)(void*, std::size_t*);
    int (*ptx)(void*, char*);
  };
  void check(int result, const char* doing) const;
  Functions f_{};
  std::string version_;
};

}  // namespace hone::ops::cuda_table
