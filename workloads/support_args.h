/* workloads/support_args.h -- the command line of a workload, described by a table.
 *
 * Wrong usage ends the program with status 2 and two lines on stderr, which are the same, byte for byte, for
 * every heap and for the Go twin (examples/go/internal/workload/args.go): what is wrong, then the usage.
 */
#ifndef WORKLOADS_SUPPORT_ARGS_H
#define WORKLOADS_SUPPORT_ARGS_H

#include <stddef.h>
#include <stdint.h>

enum arg_kind {
    ARG_NUMBER, /* decimal digits, `min` to `max`, into *number */
    ARG_CHOICE, /* one of `choices`, into *text */
    ARG_TEXT    /* anything, into *text */
};

struct arg {
    const char *
        name; /* "--allocs" is an option; "depth" a positional argument, in the order of the table */
    enum arg_kind kind;
    uint64_t min, max;
    uint64_t *number;
    const char *choices; /* "default|arena|pool" */
    const char **text;
    int optional; /* a positional argument that may be left out; options always may */
};

struct workload {
    const char *name;
    const char *synopsis; /* what follows "usage: NAME " */
    const struct arg *args;
    size_t nargs;
};

/* The last two members, from the table itself. */
#define ARGS_OF(table) (table), sizeof(table) / sizeof((table)[0])

/* Reads argv into the places that the table names; those not given keep their values. */
void args_parse(const struct workload *workload, int argc, char **argv);

/* Wrong usage that only the workload can see: `what`, a colon and `value` on the first line. */
_Noreturn void args_reject(const struct workload *workload, const char *what, const char *value);

#endif
