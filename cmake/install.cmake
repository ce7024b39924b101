# What is installed: headers, libraries, the CMake package `strata`.
include(CMakePackageConfigHelpers)
foreach(folder ${strata_include_folders})
    install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h")
endforeach()
