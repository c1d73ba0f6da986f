# What `cmake --install` puts where: headers, libraries, the program, and honeConfig.cmake with the finders it needs.
include(CMakePackageConfigHelpers)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/hone")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/hone" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_BINARY_DIR}/include/hone/stamp.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/hone")
install(TARGETS hone_core EXPORT honeTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(HONE_TORCH)
  install(TARGETS hone_hone hone_plugin EXPORT honeTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET hone_program)
  # By name: CMake leaves out folders inside the project, and .deps/torch and .deps/pyarrow are such. The same in the build
  # folder: CMake would otherwise pad the shorter one with colons, and an empty entry is the current directory.
  set(rpath "${LibTorch_ROOT_DIR}/lib" ${LibTorch_RUNTIME_FOLDERS})
  if(TARGET hone_deps::parquet)
    list(APPEND rpath "${HONE_PYARROW_FOLDER}")
  endif()
  set_target_properties(hone_program PROPERTIES INSTALL_RPATH "${rpath}" BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS hone_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  # Of ./dev package: folders beside the program's, as tools/setup/package lays them out, and without debug information.
  set(rpath [[$ORIGIN/../lib]] [[$ORIGIN/../lib/torch/lib]])
  foreach(folder IN LISTS LibTorch_RUNTIME_FOLDERS)
    string(REGEX REPLACE "^.*/nvidia/" [[$ORIGIN/../lib/nvidia/]] folder "${folder}")
    list(APPEND rpath "${folder}")
  endforeach()
  set_target_properties(hone_shipped PROPERTIES INSTALL_RPATH "${rpath}" BUILD_WITH_INSTALL_RPATH ON
                                                RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/shipped")
  target_link_options(hone_shipped PRIVATE -s)
endif()

install(EXPORT honeTargets NAMESPACE hone:: DESTINATION "${package}")
configure_package_config_file(cmake/honeConfig.cmake.in "${PROJECT_BINARY_DIR}/honeConfig.cmake"
                              INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/honeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/honeConfig.cmake" "${PROJECT_BINARY_DIR}/honeConfigVersion.cmake"
              cmake/FindLibTorch.cmake cmake/HoneDependencies.cmake DESTINATION "${package}")
