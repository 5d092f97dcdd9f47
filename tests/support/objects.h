/* tests/support/objects.h -- objects that tell whether they have survived, and that nothing but a hidden address knows. */
#ifndef TEST_SUPPORT_OBJECTS_H
#define TEST_SUPPORT_OBJECTS_H

#include "tests/support/heap_fixture.h"

/* Overwrite what earlier calls left behind: the stack below the caller's frame, and the registers that a call need not
 * preserve. Fits a thread's stack of 64 KiB. */
void test_scrub(void);
/* test_scrub(), then tea_collect(), then test_scrub(). */
void test_collect(void);

/* A conservative object of at least a word, whose words hold a pattern made from its address; hidden. */
uintptr_t test_object_new(size_t size_bytes);
/* The pattern, in an object that the caller allocated. */
void test_object_fill(void *object, size_t size_bytes);
/* An allocated object starts at the hidden address and holds its pattern. */
bool test_object_is_intact(uintptr_t hidden, size_t size_bytes);

/* Allocate and drop conservative objects filled with ones, so that a slot freed too early does not keep its pattern. */
void test_churn(size_t size_bytes, unsigned nobjects);

#endif
