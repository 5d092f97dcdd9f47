/* tests/unit/test_span.c -- from an address to its slot: every class, every offset, large spans as they grow and shrink. */
#include "tests/support/heap_fixture.h"

#include "gc/thread.h"

static struct tea_heap *const h = &teai_default_heap;

/* Spans are made and deleted as mutators do it: inside the runtime. */
static struct tea_mutator *enter_runtime(void)
{
    struct tea_mutator *m = teai_thread_self();
    assert_non_null(m);
    teai_runtime_enter(m);
    return m;
}

static uint32_t new_small(struct tea_mutator *m, uint8_t span_class)
{
    uint32_t span = teai_span_new_small(h, &m->pages, span_class);
    assert_int_not_equal(span, TEAI_NO_PAGE);
    return span;
}

static uint32_t new_large(uint32_t npages, uint32_t align_pages)
{
    bool zeroed;
    uint32_t span = teai_span_new_large(h, npages, align_pages, TEAI_CONSERVATIVE, &zeroed);
    assert_int_not_equal(span, TEAI_NO_PAGE);
    return span;
}

static void delete_span(uint32_t span)
{
    atomic_store(&h->tables.spans[span].nlive, 0);
    teai_slot_store(teai_span_states(&h->tables, span), TEAI_SLOT_FREE);
    teai_span_delete(h, span);
}

static void assert_no_slot_in(uint32_t first_page, uint32_t npages)
{
    for (uint32_t page = first_page; page < first_page + npages; page++) {
        uintptr_t base = teai_page_addr(&h->tables, page);
        assert_int_equal(teai_slot_find(&h->tables, base).span, TEAI_NO_PAGE);
        assert_int_equal(teai_slot_find(&h->tables, base + TEAI_PAGE_BYTES - 1).span, TEAI_NO_PAGE);
    }
}

/* By division, and every byte behind the last slot belongs to none. */
static void check_every_offset(uint32_t span, size_t sizeclass)
{
    const struct teai_tables *t = &h->tables;
    uint32_t slot_bytes = teai_sizeclass_bytes[sizeclass],
             nslots = teai_sizeclass_nslots[sizeclass];
    uintptr_t base = teai_page_addr(t, span);
    for (uint32_t offset = 0; offset < teai_sizeclass_pages[sizeclass] * TEAI_PAGE_BYTES;
         offset++) {
        struct teai_slot_ref ref = teai_slot_find(t, base + offset);
        bool in_slot = offset / slot_bytes < nslots;
        if (ref.span != (in_slot ? span : TEAI_NO_PAGE) ||
            (in_slot && ref.slot != offset / slot_bytes))
            fail_msg("class %zu, offset %u: span %u, slot %u", sizeclass, offset, ref.span,
                     ref.slot);
        if (in_slot && offset % slot_bytes == 0)
            assert_int_equal(teai_slot_addr(t, ref), base + offset);
    }
}

static void every_offset_of_every_class_leads_to_its_slot(void **state)
{
    (void)state;
    struct tea_mutator *m = enter_runtime();
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++) {
        uint32_t span = new_small(m, (uint8_t)c);
        check_every_offset(span, c / TEAI_NKINDS);
        assert_int_equal(teai_slot_bytes(&h->tables, (struct teai_slot_ref){span, 0}),
                         teai_sizeclass_bytes[c / TEAI_NKINDS]);
        delete_span(span);
    }
    teai_runtime_leave(h, m);
}

static void a_small_span_knows_its_class_and_kind(void **state)
{
    (void)state;
    struct tea_mutator *m = enter_runtime();
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++) {
        uint32_t span = new_small(m, (uint8_t)c);
        const struct teai_span *s = &h->tables.spans[span];
        assert_int_equal(s->span_class, c);
        assert_int_equal(s->kind, c % TEAI_NKINDS);
        assert_int_equal(s->nslots, teai_sizeclass_nslots[c / TEAI_NKINDS]);
        assert_int_equal(s->nlive, 0);
        assert_true(teai_span_is_swept(s, teai_heap_gen(h)));
        delete_span(span);
    }
    teai_runtime_leave(h, m);
}

static void marker_sees_the_classes_as_the_allocator_does(void **state)
{
    (void)state;
    enter_runtime();
    for (unsigned c = 0; c < 256; c++) {
        const struct teai_class_info *info = &teai_class_info[c];
        bool small = c >= TEAI_CLASS_FIRST_SMALL && c < TEAI_NSPAN_CLASSES;
        assert_int_equal(info->magic, small ? teai_sizeclass_magic[c / TEAI_NKINDS] : 0);
        assert_int_equal(info->slot_bytes, small ? teai_sizeclass_bytes[c / TEAI_NKINDS] : 0);
        assert_int_equal(info->nslots, small ? teai_sizeclass_nslots[c / TEAI_NKINDS] : 0);
        assert_int_equal(info->is_leaf, small && c % TEAI_NKINDS == TEAI_LEAF);
        assert_int_equal(info->is_typed, small && c % TEAI_NKINDS == TEAI_TYPED);
    }
}

static void free_pages_lead_nowhere(void **state)
{
    (void)state;
    struct tea_mutator *m = enter_runtime();
    uint32_t npages = teai_sizeclass_pages[TEAI_NSIZE_CLASSES - 1];
    uint32_t span = new_small(m, teai_span_class_of(TEAI_NSIZE_CLASSES - 1, TEAI_CONSERVATIVE));
    delete_span(span);
    assert_no_slot_in(span, npages);
    teai_runtime_leave(h, m);
}

static void assert_large(uint32_t span, uint32_t npages)
{
    const struct teai_tables *t = &h->tables;
    for (uint32_t page = span; page < span + npages; page++) {
        static const size_t offsets[] = {0, 1, 8, TEAI_PAGE_BYTES / 2 + 3, TEAI_PAGE_BYTES - 1};
        for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
            struct teai_slot_ref ref = teai_slot_find(t, teai_page_addr(t, page) + offsets[i]);
            assert_int_equal(ref.span, span);
            assert_int_equal(ref.slot, 0);
        }
    }
    struct teai_slot_ref ref = {span, 0};
    assert_int_equal(teai_slot_addr(t, ref), teai_page_addr(t, span));
    assert_int_equal(teai_slot_bytes(t, ref), npages * TEAI_PAGE_BYTES);
}

static void every_page_of_a_large_span_leads_to_its_start(void **state)
{
    (void)state;
    struct tea_mutator *m = enter_runtime();
    uint32_t span = new_large(1000, 0);
    teai_span_publish_large(h, span);
    assert_large(span, 1000);
    delete_span(span);
    assert_no_slot_in(span, 1000);
    teai_runtime_leave(h, m);
}

static void a_large_span_is_not_found_before_it_is_published(void **state)
{
    (void)state;
    struct tea_mutator *m = enter_runtime();
    uint32_t span = new_large(5, 0);
    assert_no_slot_in(span, 5);
    teai_span_publish_large(h, span);
    assert_large(span, 5);
    teai_runtime_leave(h, m);
}

static void a_large_span_can_be_aligned(void **state)
{
    (void)state;
    struct tea_mutator *m = enter_runtime();
    /* So that the first free page is not aligned anyhow. */
    new_small(m, teai_span_class_of(2, TEAI_LEAF));
    for (uint32_t align = 1; align <= 128; align *= 2) {
        uint32_t span = new_large(3, align);
        assert_int_equal(teai_page_addr(&h->tables, span) % (align * TEAI_PAGE_BYTES), 0);
        teai_span_publish_large(h, span);
        assert_large(span, 3);
    }
    teai_runtime_leave(h, m);
}

static void pages_follow_a_large_span_as_it_grows_and_shrinks(void **state)
{
    (void)state;
    struct tea_mutator *m = enter_runtime();
    uint32_t span = new_large(10, 0);
    teai_span_publish_large(h, span);
    bool zeroed;
    assert_true(teai_span_extend_large(h, span, 25, &zeroed));
    assert_large(span, 25);
    teai_span_shrink_large(h, span, 7);
    assert_large(span, 7);
    assert_no_slot_in(span + 7, 18);
    teai_runtime_leave(h, m);
}

static void a_large_span_does_not_grow_over_another(void **state)
{
    (void)state;
    struct tea_mutator *m = enter_runtime();
    uint32_t span = new_large(10, 0), behind = new_large(1, 0);
    teai_span_publish_large(h, span);
    teai_span_publish_large(h, behind);
    assert_int_equal(behind, span + 10);
    bool zeroed;
    assert_false(teai_span_extend_large(h, span, 11, &zeroed));
    assert_large(span, 10);
    assert_large(behind, 1);
    teai_runtime_leave(h, m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(every_offset_of_every_class_leads_to_its_slot),
        heap_test(a_small_span_knows_its_class_and_kind),
        heap_test(marker_sees_the_classes_as_the_allocator_does),
        heap_test(free_pages_lead_nowhere),
        heap_test(every_page_of_a_large_span_leads_to_its_start),
        heap_test(a_large_span_is_not_found_before_it_is_published),
        heap_test(a_large_span_can_be_aligned),
        heap_test(pages_follow_a_large_span_as_it_grows_and_shrinks),
        heap_test(a_large_span_does_not_grow_over_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
