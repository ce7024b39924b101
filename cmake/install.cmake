# What is installed: headers, libraries, the command, and the CMake package `strata` with the
# targets strata::strata, strata::strata-static, strata::heap, strata::heap-static and
# strata::onnxruntime.
include(CMakePackageConfigHelpers)

foreach(folder ${strata_include_folders})
    install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
endforeach()

set(strata_installed strata strata_static)
set_target_properties(strata_static PROPERTIES EXPORT_NAME strata-static)
if(STRATA_HEAP)
    list(APPEND strata_installed strata_heap strata_heap_static strata_onnxruntime)
    install(DIRECTORY alloc/heap/include/ adapters/onnxruntime/include/
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endif()
install(TARGETS ${strata_installed} EXPORT strata
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(strata_package ${CMAKE_INSTALL_LIBDIR}/cmake/strata)
install(EXPORT strata NAMESPACE strata:: FILE strata-targets.cmake DESTINATION ${strata_package})
configure_package_config_file(cmake/strata-config.cmake.in
    ${CMAKE_BINARY_DIR}/strata-config.cmake INSTALL_DESTINATION ${strata_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/strata-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES LICENSE NOTES.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_BINARY_DIR}/strata-config.cmake
    ${CMAKE_BINARY_DIR}/strata-config-version.cmake DESTINATION ${strata_package})
