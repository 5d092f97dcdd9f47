/* tests/load/second_copy_module.c -- a plug-in that was linked with the archive; see second_copy.c. */
#include <teaspan/teaspan.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT enum tea_status plugin_start(const struct tea_options *options);
EXPORT void *plugin_alloc(size_t size_bytes);

enum tea_status plugin_start(const struct tea_options *options)
{
    return tea_init(options);
}

void *plugin_alloc(size_t size_bytes)
{
    return tea_alloc(size_bytes);
}
