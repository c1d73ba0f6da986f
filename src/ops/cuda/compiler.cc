// NVRTC by its functions' names: nothing of CUDA is included here, so that this is built and tested without it.
#include "ops/cuda/compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "hone/error.h"

namespace hone::ops::cuda_table {
namespace {

constexpr const char* kKernels = "ops/cuda/kernels/";  // as kernels include what lies beside them

template <class Function>
void find(void* library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(dlsym(library, name));
  if (!to)
    throw Error(ErrorKind::config, fmt::format("NVRTC: has no function {}; expected that of CUDA 12 or 13", name));
}

// NVRTC looks for its other half by name alone, not beside itself, and takes the one that is loaded.
void load_builtins(void* library) {
  namespace fs = std::filesystem;
  Dl_info place{};
  if (dladdr(dlsym(library, "nvrtcVersion"), &place) == 0 || !place.dli_fname) return;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(fs::path(place.dli_fname).parent_path(), ignored))
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so.")) dlopen(file.path().c_str(), RTLD_NOW);
}

}  // namespace

std::string with_element(std::string_view element, std::string_view source) {
  return fmt::format("#include \"{}types.h\"\n{}\n{}", kKernels, element, source);
}

std::vector<std::string> compiler_options(const Unit& unit, const std::string& architecture) {
  return {"--gpu-architecture=" + architecture, "--std=c++17", "-DHONE_VALUE=" + unit.value};
}

Compiler::Compiler(void* library) {
  load_builtins(library);
  find(library, "nvrtcVersion", f_.version);
  find(library, "nvrtcGetErrorString", f_.error);
  find(library, "nvrtcGetNumSupportedArchs", f_.architecture_count);
  find(library, "nvrtcGetSupportedArchs", f_.architectures);
  find(library, "nvrtcCreateProgram", f_.create);
  find(library, "nvrtcCompileProgram", f_.compile);
  find(library, "nvrtcDestroyProgram", f_.destroy);
  find(library, "nvrtcGetProgramLogSize", f_.log_size);
  find(library, "nvrtcGetProgramLog", f_.log);
  find(library, "nvrtcGetCUBINSize", f_.code_size);
  find(library, "nvrtcGetCUBIN", f_.code);
  find(library, "nvrtcGetPTXSize", f_.ptx_size);
  find(library, "nvrtcGetPTX", f_.ptx);
  int major = 0, minor = 0;
  check(f_.version(&major, &minor), "say its version");
  version_ = fmt::format("{}.{}", major, minor);
}

void Compiler::check(int result, const char* doing) const {
  if (result != 0) throw Error(ErrorKind::bug, fmt::format("NVRTC: cannot {}: {}", doing, f_.error(result)));
}

std::string Compiler::architecture_for(int capability) const {
  int count = 0;
  check(f_.architecture_count(&count), "list architectures");
  std::vector<int> known(static_cast<std::size_t>(count));
  check(f_.architectures(known.data()), "list architectures");
  int best = 0;
  for (const int each : known)
    if (each <= capability && each > best) best = each;
  if (best == 0)
    throw Error(ErrorKind::config, fmt::format("GPU of compute capability {}.{}: older than NVRTC {} compiles for",
                                               capability / 10, capability % 10, version_));
  // What of 9.0 no later GPU has is for a compiler that is told so (kernels/cores.h).
  if (best == capability) return fmt::format("sm_{}{}", best, best == 90 ? "a" : "");
  return fmt::format("compute_{}", best);
}

std::string Compiler::compiled(const Unit& unit, const std::vector<Header>& headers, const std::string& architecture,
                               std::string* said) const {
  const std::string file = unit.name + ".cu";
  std::vector<std::string> paths;
  for (const Header& header : headers) paths.push_back(kKernels + header.name);
  std::vector<const char*> texts, names;
  for (std::size_t i = 0; i < headers.size(); ++i)
    texts.push_back(headers[i].text.c_str()), names.push_back(paths[i].c_str());
  struct Program {
    const Functions& f;
    void* handle = nullptr;
    ~Program() {
      if (handle) f.destroy(&handle);
    }
  } program{f_};
  check(f_.create(&program.handle, unit.source.c_str(), file.c_str(), static_cast<int>(headers.size()),
                  texts.data(), names.data()),
        "make a program");
  const std::vector<std::string> options = compiler_options(unit, architecture);
  std::vector<const char*> all;
  for (const std::string& option : options) all.push_back(option.c_str());
  const int result = f_.compile(program.handle, static_cast<int>(all.size()), all.data());
  const auto text = [&](auto size_of, auto get) {
    std::size_t size = 0;
    check(size_of(program.handle, &size), "say how much it made");
    std::string made(size, '\0');
    check(get(program.handle, made.data()), "give what it made");
    return made;
  };
  if (result != 0)
    throw Error(ErrorKind::bug, fmt::format("kernels/{} for {} and {}: {}\n{}", file, unit.value, architecture,
                                            f_.error(result), text(f_.log_size, f_.log).c_str()));
  if (said) *said = text(f_.log_size, f_.log);
  return architecture.starts_with("sm_") ? text(f_.code_size, f_.code) : text(f_.ptx_size, f_.ptx);
}

}  // namespace hone::ops::cuda_table
