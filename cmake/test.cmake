# cmake/test.cmake -- teaspan_add_test(): one test with its label, its time limit and a sanitizer's settings.

# The collector reads stacks and static data as words and keeps its heap outside malloc, so leak reports would be
# about memory that is referenced from where the sanitizer does not look.
set(teaspan_test_environment
    ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=halt_on_error=1)

# A test that exits with 77 says on its output why it was skipped.
function(teaspan_add_test name label timeout_s)
    if(NOT TEASPAN_TESTS)
        return()
    endif()
    add_test(NAME ${name} COMMAND ${ARGN})
    set_tests_properties(${name} PROPERTIES
        LABELS ${label}
        TIMEOUT ${timeout_s}
        SKIP_RETURN_CODE 77
        ENVIRONMENT "${teaspan_test_environment}")
endfunction()
