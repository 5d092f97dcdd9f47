/* gc/instance.h -- one collector in a process: notice a second copy of this library. */
#ifndef TEAI_INSTANCE_H
#define TEAI_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>

enum { TEAI_INSTANCE_TEXT_BYTES = 700 };

/* Whether another copy in this process has been started; if so a message with both paths is in `text`. If not, this copy counts
 * as started from now on. Takes the loader's lock. */
bool teai_instance_is_second(char *text, size_t text_bytes);

#endif
