# cmake/go.cmake -- the Go twins of the workloads: examples/go/NAME becomes build/bin/NAME-go.
#
# Sets teaspan_go_programs to the paths below build/bin. Go 1.26 is the first with the collector that is compared; an older
# one counts as absent. Nothing is fetched: the module has no dependencies, and the toolchain is the installed one.
set(teaspan_go_programs "")
set(go_module ${PROJECT_SOURCE_DIR}/examples/go)
set(go_environment GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off CGO_ENABLED=0)

find_program(GO_EXECUTABLE go HINTS /usr/local/go/bin)
set(go_version 0)
if(GO_EXECUTABLE)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env GOTOOLCHAIN=local ${GO_EXECUTABLE} env GOVERSION
        OUTPUT_VARIABLE go_version_text OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(go_version_text MATCHES "^go([0-9.]+)")
        set(go_version ${CMAKE_MATCH_1})
    endif()
endif()
if(go_version VERSION_LESS 1.26)
    message(NOTICE "teaspan: Go 1.26 or newer is not installed (found: ${go_version}): no -go workloads")
    return()
endif()

# One Go build at a time: each uses all CPUs itself.
set_property(GLOBAL APPEND PROPERTY JOB_POOLS go=1)

file(GLOB_RECURSE go_sources CONFIGURE_DEPENDS ${go_module}/*.go ${go_module}/go.mod)

function(teaspan_add_go_program package program)
    set(output ${PROJECT_BINARY_DIR}/bin/${program})
    add_custom_command(OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -E env ${go_environment} ${ARGN}
                ${GO_EXECUTABLE} build -buildvcs=false -o ${output} ./${package}
        WORKING_DIRECTORY ${go_module}
        DEPENDS ${go_sources}
        JOB_POOL go
        COMMENT "Building Go program bin/${program}"
        VERBATIM)
    add_custom_target(${program} ALL DEPENDS ${output})
    set(teaspan_go_programs ${teaspan_go_programs} ${program} PARENT_SCOPE)
endfunction()

foreach(source ${go_sources})
    get_filename_component(directory ${source} DIRECTORY)
    get_filename_component(parent ${directory} DIRECTORY)
    file(STRINGS ${source} is_main REGEX "^package main" LIMIT_COUNT 1)
    if(parent STREQUAL go_module AND is_main)
        get_filename_component(package ${directory} NAME)
        list(APPEND go_packages ${package})
    endif()
endforeach()
list(REMOVE_DUPLICATES go_packages)
foreach(package ${go_packages})
    teaspan_add_go_program(${package} ${package}-go)
    if(package STREQUAL readorder)
        teaspan_add_go_program(${package} ${package}-gonogreentea GOEXPERIMENT=nogreenteagc)
    endif()
endforeach()
