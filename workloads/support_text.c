/* workloads/support_text.c -- counted strings on the heap under comparison, as Go has them. */
#include "support_text.h"

size_t text_format_number(char *out, uint64_t number, unsigned width)
{
    char digits[TEXT_MAX_DIGITS];
    size_t ndigits = 0;
    do {
        digits[TEXT_MAX_DIGITS - ++ndigits] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0 || ndigits < width);
    memcpy(out, digits + TEXT_MAX_DIGITS - ndigits, ndigits);
    return ndigits;
}

struct text text_copy(const char *bytes, size_t nbytes)
{
    return (struct text){memcpy(heap_alloc_leaf_uninit(nbytes), bytes, nbytes), nbytes};
}

struct text text_concat(struct text a, struct text b)
{
    return text_join(heap_alloc_leaf_uninit(a.nbytes + b.nbytes), a, b);
}

struct text text_from_number(uint64_t number)
{
    char digits[TEXT_MAX_DIGITS];
    return text_copy(digits, text_format_number(digits, number, 1));
}
