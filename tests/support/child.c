/* tests/support/child.c -- run a function in a child process of its own and keep what it printed. */
#define _GNU_SOURCE
#include "tests/support/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void child_set_environment(const char *const *environment)
{
    static const char *const ours[] = {"GOGC", "GOMEMLIMIT", "GODEBUG", "TEASPAN"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        unsetenv(ours[i]);
    for (; environment != NULL && *environment != NULL; environment++) {
        char name[64];
        size_t name_bytes = strcspn(*environment, "=");
        TEST_REQUIRE(name_bytes < sizeof name && (*environment)[name_bytes] == '=');
        memcpy(name, *environment, name_bytes);
        name[name_bytes] = '\0';
        setenv(name, *environment + name_bytes + 1, 1);
    }
}

static void read_back(FILE *file, char text[TEST_CHILD_TEXT_BYTES])
{
    rewind(file);
    size_t nbytes = fread(text, 1, TEST_CHILD_TEXT_BYTES - 1, file);
    text[nbytes] = '\0';
    fclose(file);
}

void test_child_run(struct test_child *child, int (*fn)(void *argument), void *argument,
                    const char *const *environment, unsigned timeout_s)
{
    /* Files, not pipes: a child may write more than a pipe holds before we read. */
    FILE *output = tmpfile(), *errors = tmpfile();
    TEST_REQUIRE(output != NULL && errors != NULL);
    fflush(NULL);
    pid_t pid = fork();
    TEST_REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(timeout_s);
        child_set_environment(environment);
        dup2(fileno(output), STDOUT_FILENO);
        dup2(fileno(errors), STDERR_FILENO);
        int status = fn(argument);
        fflush(NULL);
        _exit(status);
    }
    int status;
    TEST_REQUIRE(waitpid(pid, &status, 0) == pid);
    child->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_back(output, child->output);
    read_back(errors, child->errors);
}

unsigned test_count_lines(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; n++)
        at += strcspn(at, "\n");
    return n;
}

void test_require_failed(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: required: %s\n", file, line, text);
    fflush(NULL);
    _exit(1);
}
