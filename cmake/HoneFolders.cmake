# One OBJECT library per folder of src/, and the plug-in lists written from the files that are there.
include_guard()

# hone_unity(<target>): the files of one folder are compiled in batches, unless HONE_UNITY is off. Names in anonymous
# namespaces are therefore unique within a folder, and none is a public type's (tools/check-names, a test): neighbours
# would see the wrong one.
function(hone_unity target)
  if(HONE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # What a file defines for itself alone looks to the compiler as if it were in a header.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# hone_precompile(<target> <headers...>): headers that the files of the target begin with, and those of every other that
# hone_precompiled_by(<other> <target>) names, which is compiled with the same flags. Only headers of other projects:
# hone's own change. A file names what it uses all the same; HONE_PRECOMPILE=OFF with HONE_UNITY=OFF shows where one
# does not.
function(hone_precompile target)
  if(HONE_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

function(hone_precompiled_by other target)
  if(HONE_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${other} REUSE_FROM ${target})
  endif()
endfunction()

# hone_folder(<name> <flags target>): object library hone_<name> from src/<name>, empty folders tolerated; its objects are
# appended to HONE_OBJECTS in the caller.
function(hone_folder name flags)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cc")
  list(FILTER sources EXCLUDE REGEX "/src/ops/cpu/(products/)?[^/]*$|/src/cli/main\\.cc$")  # kernels: see below
  if(NOT HONE_CUDA)
    list(FILTER sources EXCLUDE REGEX "/src/(ops|dist)/cuda/")
  endif()
  # Arrow's headers and CUDA's are no neighbours' business.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/io/parquet.cc" "${PROJECT_SOURCE_DIR}/src/dist/cuda/exchange.cc"
                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # Its loops take half the time; alone in its unit, as a file with options of its own is.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/images/resize.cc" PROPERTIES COMPILE_OPTIONS
                              "$<$<CONFIG:Release>:-O3>")
  if(sources)
    add_library(hone_${name} OBJECT ${sources})
    target_link_libraries(hone_${name} PRIVATE ${flags})
    hone_unity(hone_${name})
    hone_precompiled_by(hone_${name} ${flags}_headers)
    if(name IN_LIST HONE_FOLDERS_WITHOUT_LOOPS)
      set_target_properties(hone_${name} PROPERTIES HONE_WITHOUT_LOOPS ON)
    endif()
    set(HONE_OBJECTS ${HONE_OBJECTS} $<TARGET_OBJECTS:hone_${name}> PARENT_SCOPE)
  endif()
endfunction()

# Kernels: every file of src/ops/cpu is compiled once per instruction set (those in products/ once more, and what of these
# uses tiles a third time for AMX), as CPU_CAPABILITY of LibTorch's at::vec wants; src/ops/<op>.cc chooses at run time.
# Kernel files keep their code in a namespace that contains CPU_CAPABILITY's name.
function(hone_kernels)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/ops/cpu/*.cc")
  if(NOT sources)
    return()
  endif()
  set(sets DEFAULT)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND sets AVX2 AVX512)
  endif()
  file(GLOB products CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/ops/cpu/products/*.cc")
  set(tiles ${products})
  list(FILTER tiles INCLUDE REGEX "/(skinny|tile_[a-z_]+)\\.cc$")
  list(FILTER products EXCLUDE REGEX "/tile_attention_[a-z]+\\.cc$")  # for AMX alone
  list(APPEND sources ${products})
  if(AVX512 IN_LIST sets AND products)
    list(APPEND sets AVX512BF16 AMX)
  endif()
  # As a property of the files: a target's own options stand before those that it inherits, and the last -O counts.
  # What is written and read under one condition looks to the compiler as if it might not have been written.
  set_source_files_properties(${sources} ${tiles} PROPERTIES COMPILE_OPTIONS
                              "-O3;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
  set(flags_AVX2 -mavx2 -mfma -mf16c)
  set(flags_AVX512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c)
  set(flags_AVX512BF16 ${flags_AVX512} -mavx512bf16)
  set(flags_AMX ${flags_AVX512BF16} -mamx-tile -mamx-bf16 -mprfchw)
  set(HONE_AVX512BF16_FLAGS ${flags_AVX512BF16} PARENT_SCOPE)
  foreach(set IN LISTS sets)
    string(TOLOWER "hone_kernels_${set}" target)
    if(set STREQUAL "AVX512BF16")
      set(sources ${products})  # the others have nothing to gain
    elseif(set STREQUAL "AMX")
      set(sources ${tiles})
    endif()
    add_library(${target} OBJECT ${sources})
    target_link_libraries(${target} PRIVATE hone_torch_flags)
    target_compile_options(${target} PRIVATE ${flags_${set}})
    target_compile_definitions(${target} PRIVATE CPU_CAPABILITY=${set} CPU_CAPABILITY_${set})
    if(set STREQUAL "AMX")
      target_compile_definitions(${target} PRIVATE CPU_CAPABILITY_AVX512BF16)  # what AMX's kernels do outside tiles
    endif()
    list(APPEND HONE_OBJECTS $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(HONE_OBJECTS ${HONE_OBJECTS} PARENT_SCOPE)
endfunction()

# hone_write_devices(<output>): the functions of ops/devices.h and dist/exchange.h, from the files src/ops/<device>/backend.cc
# and src/dist/<device>/exchange.cc.
function(hone_write_devices output)
  foreach(part "ops:backend:Backend:BACKEND" "dist:exchange:DeviceExchange:EXCHANGE")
    string(REPLACE ":" ";" part "${part}")
    list(GET part 0 folder)
    list(GET part 1 stem)
    list(GET part 2 type)
    list(GET part 3 name)
    set(HONE_${name}_DECLARATIONS "")
    set(HONE_${name}_CASES "")
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${folder}/*/${stem}.cc")
    foreach(source IN LISTS sources)
      get_filename_component(device "${source}" DIRECTORY)
      get_filename_component(device "${device}" NAME)
      if(device STREQUAL "reference" OR (device STREQUAL "cuda" AND NOT HONE_CUDA))
        continue()
      endif()
      string(APPEND HONE_${name}_DECLARATIONS "const ${type}& ${device}_${stem}();\n")
      string(APPEND HONE_${name}_CASES "  if (device == \"${device}\") return &${device}_${stem}();\n")
    endforeach()
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/devices.cc.in" "${output}" @ONLY)
endfunction()

# hone_write_kernel_sources(<output>): the functions of ops/cuda/sources.h, with the text of every file of
# src/ops/cuda/kernels and src/optim/elements.
function(hone_write_kernel_sources output)
  set(HONE_KERNEL_SOURCES "")
  set(HONE_KERNEL_HEADERS "")
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/ops/cuda/kernels/*.cu"
       "${PROJECT_SOURCE_DIR}/src/ops/cuda/kernels/*.h" "${PROJECT_SOURCE_DIR}/src/optim/elements/*.h")
  foreach(source IN LISTS sources)
    string(REGEX REPLACE "^.*/(kernels/|optim/)" "" name "${source}")
    file(READ "${source}" text)
    string(APPEND HONE_KERNEL_SOURCES "  if (name == \"${name}\") return R\"KERNEL(${text})KERNEL\";\n")
    if(name MATCHES "^[^/]+\\.h$")
      string(APPEND HONE_KERNEL_HEADERS "\"${name}\", ")
    endif()
    set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/kernel_sources.cc.in" "${output}" @ONLY)
endfunction()

# hone_write_stamp(<output>): the header that tells hones apart by the text of the public headers and by LibTorch's version:
# what decides how a plug-in sees the types that it shares with the program.
function(hone_write_stamp output)
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/hone/*.h")
  set(texts "LibTorch ${LibTorch_VERSION}")
  foreach(header IN LISTS headers)
    file(SHA256 "${header}" hash)
    string(APPEND texts " ${hash}")
    set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  endforeach()
  string(SHA256 HONE_STAMP "${texts}")
  string(SUBSTRING "${HONE_STAMP}" 0 16 HONE_STAMP)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/stamp.h.in" "${output}" @ONLY)
endfunction()

# The plug-in folders: folder, member of Registries, interface.
set(HONE_PLUGINS_CORE "data/sources:sources:Source" "collators:collators:Collator" "schedules:schedules:Schedule"
                      "trackers:trackers:Tracker")
set(HONE_PLUGINS_TORCH "models:models:Model" "optim:optimizers:Optimizer" "objectives:objectives:Objective"
                       "callbacks:callbacks:Callback" "evals:evals:Evaluation" "rewards:rewards:Reward")
set(HONE_PLUGINS_CLI "cli:commands:Command")

# The header that defines the interface, as written in an #include; "" while there is none.
function(hone_interface_header interface folder result)
  set(${result} "" PARENT_SCOPE)
  foreach(root "include/hone" "src/${folder}")
    file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${root}/*.h")
    foreach(header IN LISTS headers)
      file(STRINGS "${header}" found REGEX "^class (HONE_API )?${interface}( final)?( :.*)? {")
      if(found)
        string(REGEX REPLACE "^.*/(include|src)/" "" header "${header}")
        set(${result} "${header}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

# hone_write_register(<output> <function> <plug-ins...>): writes the function that calls register_<file> of every plug-in
# and publishes the catalogues. A file is a plug-in when it defines register_<its name>; others may lie beside it.
function(hone_write_register output function)
  set(HONE_REGISTER_FUNCTION ${function})
  set(HONE_REGISTER_INCLUDES "")
  set(HONE_REGISTER_DECLARATIONS "")
  set(HONE_REGISTER_CALLS "")
  foreach(plugin IN LISTS ARGN)
    string(REPLACE ":" ";" plugin "${plugin}")
    list(GET plugin 0 folder)
    list(GET plugin 1 member)
    list(GET plugin 2 interface)
    get_filename_component(space "${folder}" NAME)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${folder}/*.cc")
    foreach(source IN LISTS sources)
      get_filename_component(stem "${source}" NAME_WE)
      file(STRINGS "${source}" defined REGEX "^void register_${stem}\\(")
      set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
      if(defined)
        string(APPEND HONE_REGISTER_DECLARATIONS
               "namespace hone::${space} {\nvoid register_${stem}(Registries&);\n}\n")
        string(APPEND HONE_REGISTER_CALLS "  hone::${space}::register_${stem}(all);\n")
      endif()
    endforeach()
    hone_interface_header(${interface} ${folder} header)
    if(header)
      string(APPEND HONE_REGISTER_INCLUDES "#include \"${header}\"\n")
      string(APPEND HONE_REGISTER_CALLS
             "  hone::config::set_catalogue(hone::${interface}::kInterface, &all.${member});\n")
    endif()
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/register.cc.in" "${output}" @ONLY)
endfunction()
