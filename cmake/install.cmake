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
# The texts keep their folders, so that their links hold.
install(FILES LICENSE NOTES.md README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(folder teardown alloc/memory alloc/heap alloc/model cuda adapters/onnxruntime tools tests)
    install(FILES ${folder}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
install(FILES alloc/model/include/strata/config.h
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/alloc/model/include/strata)
install(FILES tests/package/core_only.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/tests/package)

# For builds without CMake; relative to themselves, so that an installed tree may be moved.
file(RELATIVE_PATH strata_pc_include "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    "/p/${CMAKE_INSTALL_INCLUDEDIR}")
configure_file(cmake/strata.pc.in ${CMAKE_BINARY_DIR}/strata.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/strata.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(STRATA_HEAP)
    configure_file(cmake/strata-heap.pc.in ${CMAKE_BINARY_DIR}/strata-heap.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/strata-heap.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    set_target_properties(strata_heap PROPERTIES INSTALL_RPATH "$ORIGIN") # finds libstrata beside it
endif()
install(FILES ${CMAKE_BINARY_DIR}/strata-config.cmake
    ${CMAKE_BINARY_DIR}/strata-config-version.cmake DESTINATION ${strata_package})
