/* include/teaspan/teaspan.h -- the whole public interface, in reading order. */
#ifndef TEASPAN_TEASPAN_H
#define TEASPAN_TEASPAN_H

#include <teaspan/base.h>
#include <teaspan/alloc.h>
#include <teaspan/root.h>
#include <teaspan/fiber.h>
#include <teaspan/thread.h>
#include <teaspan/finalizer.h>
#include <teaspan/weak.h>
#include <teaspan/arena.h>
#include <teaspan/pacer.h>
#include <teaspan/stats.h>
#include <teaspan/init.h>

#endif
