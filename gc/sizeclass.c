/* gc/sizeclass.c -- the size class tables, once in the library; gc/sizeclass.h says what they mean. */
#include "gc/sizeclass.h"
#include "gc/page_heap.h"
#include "gc/sizeclass_table.h"
