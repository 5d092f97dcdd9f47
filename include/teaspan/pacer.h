/* include/teaspan/pacer.h -- collect now; when to collect by itself; how much memory to use.
 *
 * The two knobs mean what they mean in Go: GOGC (how far the heap may grow over what survived the last
 * collection, in per cent) and GOMEMLIMIT (a soft limit on all memory the collector manages).
 */
#ifndef TEASPAN_PACER_H
#define TEASPAN_PACER_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

/* tea_collect -- run a full collection: mark, then sweep everything, before returning.
 *
 * Threads:  any. Collects even while tea_disable() or GOGC=off is in force.
 * Source:   Go's runtime.GC().
 */
TEA_API void tea_collect(void);

/* tea_collect_and_release -- tea_collect(), then give every free page back to the operating system.
 *
 * Source:   Go's debug.FreeOSMemory().
 */
TEA_API void tea_collect_and_release(void);

/* tea_disable, tea_enable -- hold off collections that allocation would start; calls nest.
 *
 * Errors:   tea_enable() without a matching tea_disable(): TEA_ERR_STATE and a message.
 * Threads:  any; the count is one for the process.
 */
TEA_API void tea_disable(void);
TEA_API enum tea_status tea_enable(void);

/* tea_set_gc_percent -- set GOGC; negative turns proportional collection off. Returns the old value.
 *
 * Source:   Go's debug.SetGCPercent.
 */
TEA_API int tea_set_gc_percent(int percent);

/* tea_set_memory_limit -- set GOMEMLIMIT in bytes; negative only reads. Returns the old value
 * (INT64_MAX: no limit).
 *
 * Source:   Go's debug.SetMemoryLimit.
 */
TEA_API int64_t tea_set_memory_limit(int64_t limit_bytes);

TEA_END_DECLS
#endif
