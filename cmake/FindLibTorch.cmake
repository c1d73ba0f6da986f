# Finds LibTorch laid out as in the pip wheel or the libtorch zip: <root>/include and <root>/lib. The root is TORCH_DIR
# (variable, then environment) where that is set, else .deps/torch (with HONE_CUDA .deps/torch-cuda/torch) where that is there, else
# looked for by CMAKE_PREFIX_PATH.
# Torch's own TorchConfig.cmake is not used: on a CUDA wheel it stops without a CUDA toolkit. Makes LibTorch::LibTorch and
# LibTorch_VERSION. With HONE_CUDA its CUDA half is linked, and must be there; else nothing of CUDA is, wherever it lies.
set(_places "${TORCH_DIR}")
if(NOT _places)
  set(_places "$ENV{TORCH_DIR}")
endif()
set(_why "run ./dev build, which fetches it, or give -DTORCH_DIR=<folder with include/ and lib/>")
if(_places)
  get_filename_component(_places "${_places}" ABSOLUTE)  # programs find their libraries from any folder
  set(_why "TORCH_DIR=${_places} must hold include/ATen/ATen.h and lib/libtorch_cpu.so")
elseif(HONE_CUDA AND EXISTS "${PROJECT_SOURCE_DIR}/.deps/torch-cuda/torch")
  set(_places "${PROJECT_SOURCE_DIR}/.deps/torch-cuda/torch")
elseif(EXISTS "${PROJECT_SOURCE_DIR}/.deps/torch")
  set(_places "${PROJECT_SOURCE_DIR}/.deps/torch")
endif()
if(HONE_CUDA)
  string(APPEND _why ", and HONE_CUDA needs its CUDA half, which HONE_CUDA=1 ./dev build fetches")
endif()

# Nothing is cached: another TORCH_DIR, or another LibTorch in .deps, counts from the next configuring on.
foreach(_name ROOT_DIR torch_cpu_LIBRARY c10_LIBRARY torch_cuda_LIBRARY c10_cuda_LIBRARY)
  unset(LibTorch_${_name} CACHE)
  unset(LibTorch_${_name})
endforeach()
if(_places)
  find_path(LibTorch_ROOT_DIR NAMES include/ATen/ATen.h PATHS "${_places}" PATH_SUFFIXES torch libtorch NO_CACHE
                                                                                          NO_DEFAULT_PATH)
else()
  find_path(LibTorch_ROOT_DIR NAMES include/ATen/ATen.h PATH_SUFFIXES torch libtorch NO_CACHE NO_CMAKE_SYSTEM_PATH)
endif()
if(LibTorch_ROOT_DIR)
  get_filename_component(LibTorch_ROOT_DIR "${LibTorch_ROOT_DIR}" ABSOLUTE)  # without a slash at its end
endif()
set(_needed torch_cpu c10)
if(HONE_CUDA)
  list(APPEND _needed torch_cuda c10_cuda)
endif()
set(_variables LibTorch_ROOT_DIR)
foreach(_name IN LISTS _needed)
  find_library(LibTorch_${_name}_LIBRARY ${_name} PATHS "${LibTorch_ROOT_DIR}/lib" NO_CACHE NO_DEFAULT_PATH)
  list(APPEND _variables LibTorch_${_name}_LIBRARY)
endforeach()

unset(LibTorch_VERSION)
foreach(_header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(EXISTS "${LibTorch_ROOT_DIR}/include/${_header}" AND NOT LibTorch_VERSION)
    file(STRINGS "${LibTorch_ROOT_DIR}/include/${_header}" _lines
         REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    string(REGEX MATCHALL "[0-9]+" _numbers "${_lines}")
    list(JOIN _numbers "." LibTorch_VERSION)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS ${_variables} VERSION_VAR LibTorch_VERSION
                                  REASON_FAILURE_MESSAGE "${_why}")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  # The nvidia wheels lie beside a CUDA wheel's torch; even its libtorch_cpu.so needs cudart and cupti from them, and finds
  # them by its own rpath. The linker wants to see them, too.
  file(GLOB _nvidia_lib "${LibTorch_ROOT_DIR}/../nvidia/*/lib")
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
  if(HONE_CUDA)
    # Nothing of ours names a symbol of libtorch_cuda, so it must be kept by hand: it registers the CUDA kernels.
    target_link_options(
      LibTorch::LibTorch INTERFACE
      "LINKER:--no-as-needed,${LibTorch_torch_cuda_LIBRARY},${LibTorch_c10_cuda_LIBRARY},--as-needed")
    set_property(TARGET LibTorch::LibTorch APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS USE_C10D_NCCL)
    # LibTorch's headers of streams and events call the CUDA runtime themselves; hone calls cuDNN.
    file(GLOB _called "${LibTorch_ROOT_DIR}/../nvidia/*/lib/libcudart.so.*"
         "${LibTorch_ROOT_DIR}/../nvidia/*/lib/libcudnn.so.*")
    target_link_libraries(LibTorch::LibTorch INTERFACE ${_called})
    foreach(_library IN LISTS _called)
      file(REAL_PATH "${_library}/.." _folder)
      list(APPEND LibTorch_RUNTIME_FOLDERS "${_folder}")
    endforeach()
    file(GLOB _nvidia_include "${LibTorch_ROOT_DIR}/../nvidia/*/include")
    target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${_nvidia_include})
  endif()
endif()
