/* gc/scan_kernel_portable.c -- scan words and look them up, in plain C: for every machine, and the twin that the
 * vector kernels are tested against.
 *
 * The filter has no branch on data: about half of the words of typical objects are pointers, and mispredicted
 * branches cost 2-3 times the work itself (measured).
 */
#include "gc/mark.h"
#include "gc/slot_runs.h"

typedef uint64_t __attribute__((may_alias)) aliased_word;
#define STATE_LOW_BITS UINT64_C(0x0101010101010101)

TEAI_NO_SANITIZE static size_t portable_filter(const struct teai_tables *t, uintptr_t base_addr, size_t nwords,
                                               uint64_t *out)
{
    const uintptr_t *words = (const uintptr_t *)base_addr;
    size_t n = 0;
    for (size_t i = 0; i < nwords; i++) {
        uint64_t offset = teai_word_load(&words[i]) - t->heap_base_addr;
        out[n] = offset;
        n += offset < t->heap_limit_bytes;
    }
    return n;
}

TEAI_NO_SANITIZE static size_t portable_filter_typed(const struct teai_tables *t, uintptr_t base_addr, size_t nwords,
                                                     uint64_t *out)
{
    const uintptr_t *words = (const uintptr_t *)base_addr;
    size_t first_word = (base_addr - t->heap_base_addr) / TEAI_WORD_BYTES;
    size_t n = 0;
    for (size_t i = 0; i < nwords; i++) {
        size_t word = first_word + i;
        uint64_t offset = teai_word_load(&words[i]) - t->heap_base_addr;
        out[n] = offset;
        n += offset < t->heap_limit_bytes && (t->pointer_bits[word / 8] >> (word % 8) & 1) != 0;
    }
    return n;
}

static size_t portable_filter_slots(const struct teai_tables *t, uintptr_t span_addr, const struct teai_class_info *info,
                                    const uint64_t *grey, uint64_t *out)
{
    size_t n = 0;
    for (uint32_t first = 0; first < info->nslots; first += 64) {
        uint64_t bits = grey[first / 64];
        while (bits != 0) {
            struct teai_slot_run run = teai_slot_run_take(&bits);
            uintptr_t base = span_addr + (uintptr_t)(first + run.start) * info->slot_bytes;
            size_t nwords = (size_t)run.length * info->slot_bytes / TEAI_WORD_BYTES;
            n += info->is_typed ? portable_filter_typed(t, base, nwords, out + n)
                                : portable_filter(t, base, nwords, out + n);
        }
    }
    return n;
}

/* Bit 0 of each byte that is GREY: bit 1 set and bit 2 clear. */
static uint64_t states_grey(const teai_slot_byte *states)
{
    uint64_t word = __atomic_load_n((const aliased_word *)(const void *)states, __ATOMIC_RELAXED);
    return (word >> 1) & ~(word >> 2) & STATE_LOW_BITS;
}

static unsigned portable_take_grey(teai_slot_byte *states, uint32_t nslots, uint64_t *grey_out)
{
    unsigned ngrey = 0;
    for (uint32_t first = 0; first < nslots; first += 64) {
        uint64_t bits = 0;
        for (uint32_t i = 0; i < 64 && first + i < nslots; i += 8) {
            uint64_t grey = states_grey(states + first + i);
            ngrey += (unsigned)__builtin_popcountll(grey);
            for (; grey != 0; grey &= grey - 1) {
                uint32_t slot = i + (uint32_t)__builtin_ctzll(grey) / 8;
                /* A store to this byte alone: its neighbours may be becoming grey. */
                teai_slot_store(&states[first + slot], TEAI_SLOT_BLACK);
                bits |= UINT64_C(1) << slot;
            }
        }
        grey_out[first / 64] = bits;
    }
    return ngrey;
}

static void portable_resolve(struct teai_marker *m, uint64_t *offsets, size_t noffsets)
{
    for (size_t i = 0; i < noffsets; i++)
        teai_mark_offset(m, offsets[i]);
}

static bool portable_any_grey(const teai_slot_byte *states, size_t nslots)
{
    uint64_t grey = 0;
    for (size_t i = 0; i < nslots; i += 8)
        grey |= states_grey(states + i);
    return grey != 0;
}

const struct teai_scan_kernel teai_scan_kernel_portable = {
    "portable", portable_filter, portable_filter_typed, portable_filter_slots, portable_take_grey, portable_resolve, portable_any_grey,
};
