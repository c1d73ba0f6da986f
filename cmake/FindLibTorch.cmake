# Finds LibTorch laid out as in the pip wheel or the libtorch zip: <root>/include and <root>/lib.
# Looks at TORCH_DIR (variable or environment), then .deps/torch, then CMAKE_PREFIX_PATH. Torch's own TorchConfig.cmake is
# not used: on a CUDA wheel it stops without a CUDA toolkit. Makes LibTorch::LibTorch, LibTorch_VERSION, LibTorch_CUDA
# (TRUE when libtorch_cuda.so is there and HONE_CPU_ONLY is not set).
set(_hints "${TORCH_DIR}" "$ENV{TORCH_DIR}" "${PROJECT_SOURCE_DIR}/.deps/torch" "${CMAKE_SOURCE_DIR}/.deps/torch")
find_path(LibTorch_ROOT_DIR NAMES include/ATen/ATen.h HINTS ${_hints} PATH_SUFFIXES torch libtorch NO_CMAKE_SYSTEM_PATH)
foreach(_name torch_cpu c10 torch_cuda c10_cuda)
  find_library(LibTorch_${_name}_LIBRARY ${_name} HINTS "${LibTorch_ROOT_DIR}/lib" NO_DEFAULT_PATH)
  mark_as_advanced(LibTorch_${_name}_LIBRARY)
endforeach()

foreach(_header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(EXISTS "${LibTorch_ROOT_DIR}/include/${_header}" AND NOT LibTorch_VERSION)
    file(STRINGS "${LibTorch_ROOT_DIR}/include/${_header}" _lines
         REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    string(REGEX MATCHALL "[0-9]+" _numbers "${_lines}")
    list(JOIN _numbers "." LibTorch_VERSION)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch
  REQUIRED_VARS LibTorch_ROOT_DIR LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run ./dev build, which fetches it, or give -DTORCH_DIR=<folder with include/ and lib/>")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  # The nvidia wheels lie beside a CUDA wheel's torch; its libtorch_cpu.so needs cudart and cupti from them.
  file(GLOB _nvidia_lib "${LibTorch_ROOT_DIR}/../nvidia/*/lib")
  file(GLOB _nvidia_include "${LibTorch_ROOT_DIR}/../nvidia/*/include")
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  set_target_properties(
    LibTorch::LibTorch
    PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
               "${LibTorch_ROOT_DIR}/include;${LibTorch_ROOT_DIR}/include/torch/csrc/api/include"
               INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
               INTERFACE_COMPILE_FEATURES cxx_std_20
               INTERFACE_LINK_LIBRARIES "${LibTorch_torch_cpu_LIBRARY};${LibTorch_c10_LIBRARY}")
  foreach(_folder IN LISTS _nvidia_lib)
    target_link_options(LibTorch::LibTorch INTERFACE "LINKER:-rpath-link,${_folder}")
  endforeach()
  set(LibTorch_CUDA FALSE)
  if(LibTorch_torch_cuda_LIBRARY AND NOT HONE_CPU_ONLY)
    set(LibTorch_CUDA TRUE)
    # Nothing of ours names a symbol of libtorch_cuda, so it must be kept by hand: it registers the CUDA kernels.
    target_link_options(
      LibTorch::LibTorch INTERFACE
      "LINKER:--no-as-needed,${LibTorch_torch_cuda_LIBRARY},${LibTorch_c10_cuda_LIBRARY},--as-needed")
    target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${_nvidia_include})
  endif()
endif()
mark_as_advanced(LibTorch_ROOT_DIR)
