# SPDX-License-Identifier: Apache-2.0
# Library, public headers, program, and what lets others find them: pkg-config and CMake package files. The library is
# static, so whoever links it needs the libraries below it too: both kinds of file name them.
include(CMakePackageConfigHelpers)

install(TARGETS mqblk EXPORT mqblk-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/mqblk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET mqblk_program)
  install(TARGETS mqblk_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/mqblk)
install(EXPORT mqblk-targets NAMESPACE mqblk:: DESTINATION ${package_folder})
configure_package_config_file(cmake/mqblk-config.cmake.in mqblk-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(mqblk-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mqblk-config.cmake ${PROJECT_BINARY_DIR}/mqblk-config-version.cmake
        DESTINATION ${package_folder})

# Relative, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/mqblk.pc.in mqblk.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mqblk.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
