/* gc/instance.c -- one collector in a process: notice a second copy of this library.
 *
 * Problem. A program linked with the archive loads a plug-in that was linked with it too, or with the shared library. Each copy
 * would scan the other's heap for nothing, stop the other's threads, and free objects that only the other one's memory refers
 * to. So the first copy that is started stays the only one.
 *
 * Each copy carries an ELF note that holds the distance from the note to a flag, which is set when that copy starts. Starting,
 * a copy walks the loaded objects, finds all notes (its own and others'), and reads their flags. Unlike an exported symbol
 * a note is found in a stripped program that exports nothing, and does not clash in symbol lookup.
 *
 * Locks. The loader's, in dl_iterate_phdr(); that also keeps two copies from starting at once.
 */
#define _GNU_SOURCE
#include "gc/instance.h"

#include "base/config.h"
#include "base/word.h"
#include "gc/log.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Not static: the note refers to it by name. */
__attribute__((visibility("hidden"))) _Atomic uint32_t teai_instance_started TEAI_STATE;

#define INSTANCE_NAME "teaspan"
enum { INSTANCE_NOTE_TYPE = 0x7ea };

/* A 32-bit distance always does: linkers keep the parts of an object within 2 GiB of each other. */
__asm__(".pushsection .note.teaspan, \"a\", %note\n"
        ".balign 4\n"
        ".long 8, 4, 0x7ea\n"
        ".asciz \"" INSTANCE_NAME "\"\n"
        ".long teai_instance_started - .\n"
        ".popsection\n");

struct instance_note {
    uint32_t name_bytes, value_bytes, type;
    char name[sizeof INSTANCE_NAME];
    int32_t flag_distance;
};
_Static_assert(sizeof(INSTANCE_NAME) == 8 && offsetof(struct instance_note, flag_distance) == 20, "as written above");

struct instance_search {
    char own_path[256], other_path[256];
    bool found_other;
};

/* The program itself has no name in the loader's list. */
static void instance_copy_path(char path[256], const char *name)
{
    if (name != NULL && *name != '\0') {
        teai_format(path, 256, "%s", name);
        return;
    }
    ssize_t nbytes = readlink("/proc/self/exe", path, 255);
    if (nbytes > 0)
        path[nbytes] = '\0';
    else
        teai_format(path, 256, "the program");
}

static void instance_note_found(struct instance_search *search, const struct instance_note *note, const char *object_name)
{
    const char *at = (const char *)&note->flag_distance + note->flag_distance;
    const _Atomic uint32_t *flag = (const _Atomic uint32_t *)(const void *)at;
    if (flag == &teai_instance_started) {
        instance_copy_path(search->own_path, object_name);
    } else if (atomic_load_explicit(flag, memory_order_relaxed) != 0) { /* relaxed: the loader's lock orders it */
        instance_copy_path(search->other_path, object_name);
        search->found_other = true;
    }
}

static void instance_search_notes(struct instance_search *search, uintptr_t base_addr, size_t nbytes, const char *object_name)
{
    while (nbytes >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *header = (const ElfW(Nhdr) *)base_addr;
        size_t bytes = sizeof *header + teai_round_up(header->n_namesz, 4) + teai_round_up(header->n_descsz, 4);
        if (bytes > nbytes)
            return;
        const struct instance_note *note = (const struct instance_note *)base_addr;
        if (header->n_type == INSTANCE_NOTE_TYPE && header->n_namesz == sizeof note->name &&
            header->n_descsz == sizeof note->flag_distance && memcmp(note->name, INSTANCE_NAME, sizeof note->name) == 0)
            instance_note_found(search, note, object_name);
        base_addr += bytes;
        nbytes -= bytes;
    }
}

static int instance_search_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE && info->dlpi_phdr[i].p_align <= 4)
            instance_search_notes(context, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, info->dlpi_phdr[i].p_memsz,
                                  info->dlpi_name);
    return 0;
}

bool teai_instance_is_second(char *text, size_t text_bytes)
{
    struct instance_search search = { .found_other = false };
    instance_copy_path(search.own_path, "this library");
    dl_iterate_phdr(instance_search_object, &search);
    if (!search.found_other) {
        atomic_store_explicit(&teai_instance_started, 1, memory_order_relaxed);
        return false;
    }
    teai_format(text, text_bytes, "teaspan: a second collector in this process: %s has started one, that of %s does not "
                                  "start; link all of the program with the shared library", search.other_path,
                search.own_path);
    return true;
}
