# cmake/install.cmake -- what `cmake --install` puts where: headers, libraries, pkg-config file, CMake package.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/teaspan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h*")
install(TARGETS teaspan teaspan_static EXPORT teaspan)

# Both files find the rest relative to themselves, so an installed tree may be moved.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/teaspan)
install(EXPORT teaspan NAMESPACE teaspan:: FILE teaspan-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/teaspan-config.cmake.in teaspan-config.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(teaspan-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/teaspan-config.cmake ${PROJECT_BINARY_DIR}/teaspan-config-version.cmake
    DESTINATION ${package_dir})

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pkgconfig /${pkgconfig_dir} /)
configure_file(cmake/teaspan.pc.in teaspan.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/teaspan.pc DESTINATION ${pkgconfig_dir})
