/* examples/arena.c -- one request's objects in an arena, released together when the request is done.
 *
 * Each request parses an arithmetic expression into a tree of the arena and evaluates it. The arena is scanned, so its
 * blocks may refer to collected objects; the result is a collected object and outlives the reset.
 */
#include <stdio.h>
#include <string.h>
#include <teaspan/teaspan.h>

struct tree {
    char sign; /* '+', '*', or 0: a number */
    long number;
    struct tree *left, *right;
};

struct parser {
    struct tea_arena *arena;
    const char *text;
};

static struct tree *tree_new(struct parser *parser, char sign, struct tree *left,
                             struct tree *right)
{
    struct tree *t = tea_arena_alloc(parser->arena, sizeof *t); /* zeroed */
    if (t != NULL) {
        t->sign = sign;
        t->left = left;
        t->right = right;
    }
    return t;
}

/* number = digit { digit } */
static struct tree *parse_number(struct parser *parser)
{
    struct tree *t = tree_new(parser, 0, NULL, NULL);
    for (; t != NULL && *parser->text >= '0' && *parser->text <= '9'; parser->text++)
        t->number = t->number * 10 + (*parser->text - '0');
    return t;
}

/* product = number { '*' number } */
static struct tree *parse_product(struct parser *parser)
{
    struct tree *t = parse_number(parser);
    while (t != NULL && *parser->text == '*') {
        parser->text++;
        t = tree_new(parser, '*', t, parse_number(parser));
    }
    return t;
}

/* sum = product { '+' product } */
static struct tree *parse_sum(struct parser *parser)
{
    struct tree *t = parse_product(parser);
    while (t != NULL && *parser->text == '+') {
        parser->text++;
        t = tree_new(parser, '+', t, parse_product(parser));
    }
    return t;
}

static long value_of(const struct tree *t)
{
    if (t->sign == 0)
        return t->number;
    long left = value_of(t->left), right = value_of(t->right);
    return t->sign == '+' ? left + right : left * right;
}

/* The answer as a collected string; NULL: no memory. */
static char *answer(struct tea_arena *arena, const char *text)
{
    struct parser parser = {arena, text};
    const struct tree *t = parse_sum(&parser);
    if (t == NULL)
        return NULL;
    char line[64];
    snprintf(line, sizeof line, "%s = %ld", text, value_of(t));
    return tea_strdup(line);
}

int main(void)
{
    enum { REQUESTS = 100000 };
    struct tea_arena *arena = tea_arena_create(0);
    if (arena == NULL)
        return 1;
    char *line = NULL;
    for (int i = 0; i < REQUESTS; i++) {
        if ((line = answer(arena, i % 2 == 0 ? "1+2*3" : "10*10+4*5*6+7")) == NULL)
            return 1;
        if (i < 2)
            printf("%s (%zu bytes of the arena)\n", line, tea_arena_used_bytes(arena));
        tea_arena_reset(arena);
    }
    size_t reserved_bytes = tea_arena_reserved_bytes(arena);
    printf("%d requests, %zu bytes reserved\n", REQUESTS, reserved_bytes);
    tea_arena_destroy(arena);
    tea_collect();
    bool is_right = strcmp(line, "10*10+4*5*6+7 = 227") == 0 && reserved_bytes == 64 << 10;
    return is_right ? 0 : 1;
}
