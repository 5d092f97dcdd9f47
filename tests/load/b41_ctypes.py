# tests/load/b41_ctypes.py -- B41: our library can be loaded by Python's ctypes. Argument: libteaspan.so
import ctypes
import sys
import threading

tea = ctypes.CDLL(sys.argv[1])
tea.tea_alloc.restype = ctypes.c_void_p
tea.tea_alloc.argtypes = [ctypes.c_size_t]
tea.tea_gc_count.restype = ctypes.c_uint32


def use():
    for _ in range(20_000):
        assert tea.tea_alloc(1000)
    tea.tea_collect()


use()
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert tea.tea_gc_count() >= 5
