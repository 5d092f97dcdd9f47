/* workloads/support_args.c -- the command line of a workload, described by a table. */
#include "support_args.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void args_reject(const struct workload *workload, const char *what, const char *value)
{
    fprintf(stderr, "%s: %s: %s\nusage: %s %s\n", workload->name, what, value, workload->name,
            workload->synopsis);
    exit(2);
}

static bool arg_is_option(const char *name)
{
    return name[0] == '-' && name[1] != '\0';
}

/* The name as messages say it: without dashes. */
static const char *arg_label(const struct arg *arg)
{
    return arg->name + strspn(arg->name, "-");
}

static bool number_parse(const char *text, uint64_t *number_out)
{
    uint64_t number = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(*c - '0');
    }
    *number_out = number;
    return *text != '\0';
}

static bool choice_matches(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *choice = choices; choice != NULL; choice = strchr(choice, '|')) {
        choice += *choice == '|';
        if (strcspn(choice, "|") == length && strncmp(choice, text, length) == 0)
            return true;
    }
    return false;
}

static void arg_set(const struct workload *workload, const struct arg *arg, const char *text)
{
    char what[64];
    uint64_t number;
    switch (arg->kind) {
    case ARG_NUMBER:
        snprintf(what, sizeof what, "bad %s", arg_label(arg));
        if (!number_parse(text, &number) || number < arg->min || number > arg->max)
            args_reject(workload, what, text);
        *arg->number = number;
        break;
    case ARG_CHOICE:
        snprintf(what, sizeof what, "unknown %s", arg_label(arg));
        if (!choice_matches(arg->choices, text))
            args_reject(workload, what, text);
        *arg->text = text;
        break;
    case ARG_TEXT:
        *arg->text = text;
        break;
    }
}

static const struct arg *option_find(const struct workload *workload, const char *name)
{
    for (size_t i = 0; i < workload->nargs; i++)
        if (strcmp(workload->args[i].name, name) == 0)
            return &workload->args[i];
    args_reject(workload, "unknown option", name);
}

/* The first positional argument at or after row `from`; nargs if there is none. */
static size_t positional_next(const struct workload *workload, size_t from)
{
    while (from < workload->nargs && arg_is_option(workload->args[from].name))
        from++;
    return from;
}

void args_parse(const struct workload *workload, int argc, char **argv)
{
    size_t row = positional_next(workload, 0);
    for (int i = 1; i < argc; i++) {
        if (arg_is_option(argv[i])) {
            const struct arg *option = option_find(workload, argv[i]);
            if (++i == argc)
                args_reject(workload, "missing value", option->name);
            arg_set(workload, option, argv[i]);
        } else if (row < workload->nargs) {
            arg_set(workload, &workload->args[row], argv[i]);
            row = positional_next(workload, row + 1);
        } else {
            args_reject(workload, "unexpected argument", argv[i]);
        }
    }
    if (row < workload->nargs && !workload->args[row].optional)
        args_reject(workload, "missing argument", workload->args[row].name);
}
