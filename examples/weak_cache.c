/* examples/weak_cache.c -- a cache that keeps nothing alive, and properties of objects kept beside them.
 *
 * The cache leads to loaded pages by weak pointers: who asks for a page in use gets the same one, and pages that nobody
 * uses are collected. A cleanup takes the dead entry out of the cache.
 *
 * Notes are attached to pages by ephemerons: a note may refer to its page and still dies with it.
 */
#include <stdio.h>
#include <teaspan/teaspan.h>

enum { NPAGES = 1000 };

struct page {
    unsigned number;
    char text[2000];
};

/* --- the cache --- */

static struct tea_weak *cache[NPAGES];
static unsigned nloaded, ncached;

/* Runs after the page is gone. Another page of that number may have been loaded since: then the entry is its. */
static void forget_page(void *argument)
{
    struct tea_weak **entry = argument;
    if (tea_weak_get(*entry) == NULL && *entry != NULL) {
        *entry = NULL;
        ncached--;
    }
}

static struct page *load_page(unsigned number)
{
    struct page *page = tea_alloc_leaf(sizeof *page);
    if (page == NULL)
        return NULL;
    page->number = number;
    snprintf(page->text, sizeof page->text, "page %u", number);
    nloaded++;
    return page;
}

static struct page *get_page(unsigned number)
{
    struct tea_weak **entry = &cache[number];
    struct page *page = tea_weak_get(*entry);
    if (page != NULL)
        return page;
    page = load_page(number);
    if (page == NULL)
        return NULL;
    ncached += *entry == NULL;
    *entry = tea_weak_create(page);
    if (*entry == NULL || tea_add_cleanup(page, forget_page, entry, NULL) != TEA_OK)
        return NULL;
    return page;
}

/* --- notes --- */

struct note {
    const struct page *about; /* does not keep the page alive */
    const char *text;
};

/* A list of pairs of page and note. */
struct note_cell {
    struct tea_ephemeron *pair;
    struct note_cell *next;
};

static struct note_cell *notes;

static bool add_note(struct page *page, const char *text)
{
    struct note *note = tea_alloc(sizeof *note);
    struct note_cell *cell = tea_alloc(sizeof *cell);
    if (note == NULL || cell == NULL)
        return false;
    *note = (struct note){.about = page, .text = text};
    *cell = (struct note_cell){.pair = tea_ephemeron_create(page, note), .next = notes};
    notes = cell;
    return cell->pair != NULL;
}

/* Takes cells of dead pages out of the list as it goes. */
static const struct note *find_note(const struct page *page)
{
    for (struct note_cell **at = &notes; *at != NULL;) {
        const struct page *about = tea_ephemeron_key((*at)->pair);
        if (about == page)
            return tea_ephemeron_value((*at)->pair);
        if (about == NULL)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    return NULL;
}

int main(void)
{
    tea_finalizer_mode(TEA_FINALIZE_ON_DEMAND); /* cleanups run where this program says, on its own thread */

    struct page *in_use[10];
    for (unsigned i = 0; i < NPAGES; i++) {
        struct page *page = get_page(i);
        if (page == NULL)
            return 1;
        if (i % 100 == 0)
            in_use[i / 100] = page;
    }
    if (!add_note(in_use[3], "read this one again"))
        return 1;

    tea_collect();
    tea_run_finalizers();
    unsigned ncached_then = ncached;
    bool same = get_page(300) == in_use[3] && nloaded == NPAGES;
    const struct note *note = find_note(in_use[3]);

    /* Pages in use stay in the cache. A pointer to one of them may also be the end of the page before; stale words on the
     * stack may keep others. */
    bool small = ncached_then >= 10 && ncached_then <= 50;
    printf("%u pages loaded, %s of them still cached\n", (unsigned)NPAGES, small ? "few" : "too many");
    printf("page 300 is %s\n", same ? "the same" : "another");
    printf("note: %s\n", note != NULL ? note->text : "(none)");
    for (unsigned i = 0; i < 10; i++)
        tea_keep_alive(in_use[i]);
    return small && same && note != NULL ? 0 : 1;
}
