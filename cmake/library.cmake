# cmake/library.cmake -- libteaspan, shared and static, from one set of position-independent objects.
file(GLOB teaspan_sources CONFIGURE_DEPENDS
     base/*.c platform/*.c pacer/*.c gc/*.c scavenger/*.c)
set(teaspan_names_sources ${PROJECT_SOURCE_DIR}/gc/interpose_names.c ${PROJECT_SOURCE_DIR}/gc/exception_names.c)
list(REMOVE_ITEM teaspan_sources ${teaspan_names_sources})

add_library(teaspan_objects OBJECT ${teaspan_sources})
set_target_properties(teaspan_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(teaspan_objects PRIVATE teaspan_flags Threads::Threads)
target_include_directories(teaspan_objects
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    PRIVATE ${PROJECT_SOURCE_DIR})

# nodelete: threads may be inside the collector for as long as the process lives.
add_library(teaspan SHARED)
set_target_properties(teaspan PROPERTIES
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/teaspan.map)
target_link_options(teaspan PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/teaspan.map
    -Wl,-z,nodelete -Wl,-z,defs)

add_library(teaspan_static STATIC)
set_target_properties(teaspan_static PROPERTIES OUTPUT_NAME teaspan)

foreach(library teaspan teaspan_static)
    add_library(teaspan::${library} ALIAS ${library})
    target_sources(${library} PRIVATE $<TARGET_OBJECTS:teaspan_objects>)
    target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:teaspan_flags> Threads::Threads m)
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# Functions of the C library that programs reach through us (gc/interpose.c): exported by the shared library, wrapped by the
# linker for the archive. A sanitizer's own versions come before the shared library's, and take them for the C library's; so
# a sanitized one exports none.
set(teaspan_interposed
    pthread_create pthread_join pthread_tryjoin_np pthread_timedjoin_np pthread_detach pthread_exit
    pthread_sigmask sigprocmask sigsuspend pselect ppoll epoll_pwait sigwait sigwaitinfo sigtimedwait sigaction signal)
list(JOIN teaspan_interposed ",--wrap=" teaspan_wrap_flags)
set(teaspan_wrap_flags -Wl,--wrap=${teaspan_wrap_flags})
target_link_options(teaspan_static INTERFACE ${teaspan_wrap_flags})
target_sources(teaspan_static PRIVATE ${teaspan_names_sources})
target_compile_definitions(teaspan_static PRIVATE TEASPAN_WRAPPED)
target_include_directories(teaspan_static PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
set_target_properties(teaspan_static PROPERTIES POSITION_INDEPENDENT_CODE ON)
if(NOT TEASPAN_SANITIZE)
    target_sources(teaspan PRIVATE ${teaspan_names_sources})
    target_include_directories(teaspan PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
endif()

# z,defs does not go with sanitizers: their run-time library is linked to the program only.
if(TEASPAN_SANITIZE)
    get_target_property(options teaspan LINK_OPTIONS)
    list(REMOVE_ITEM options -Wl,-z,defs)
    set_target_properties(teaspan PROPERTIES LINK_OPTIONS "${options}")
endif()
