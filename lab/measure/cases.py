# lab/measure/cases.py -- the workloads of the comparison, with sizes that let the whole take minutes.
import dataclasses

from .program import Program

HEAPS = ("gc", "malloc", "boehm", "go")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str                 # the row: the workload and its variant
    arguments: tuple
    quick_arguments: tuple    # smaller, so that a first look takes seconds
    more: tuple = ()          # further columns: (heap, binary's heap, settings)

    @property
    def workload(self):
        return self.name.partition(" ")[0]

    def programs(self, quick):
        arguments = self.quick_arguments if quick else self.arguments
        columns = [(heap, heap, ()) for heap in HEAPS] + list(self.more)
        return [Program(case=self.name, heap=heap, binary=f"{self.workload}-{binary_heap}", arguments=arguments,
                        settings=settings) for heap, binary_heap, settings in columns]


# Marking in span order against object order: ours by a setting, Go's by a build without Green Tea.
MARKERS = (("gc marker=object", "gc", ("TEASPAN=marker=object",)), ("go nogreentea", "gonogreentea", ()))

CASES = (
    Case("coll putget", ("putget",), ("--allocs", "1000000", "putget")),
    Case("coll push", ("push",), ("--allocs", "1000000", "push")),
    Case("readorder packed", ("--gcs", "5", "packed"), ("--gcs", "5", "--nodes", "500000", "packed"), MARKERS),
    Case("readorder scattered", ("--gcs", "3", "scattered"), ("--gcs", "3", "--nodes", "500000", "scattered"), MARKERS),
    Case("heapwalk", (), ()),
    Case("heapwalk_free", (), ()),
    Case("heapwalk_free_manual", (), ()),
    Case("allocbench default", ("--variant", "default"), ("--allocs", "100000", "--variant", "default")),
    Case("allocbench arena", ("--variant", "arena"), ("--allocs", "100000", "--variant", "arena")),
    Case("allocbench pool", ("--variant", "pool"), ("--allocs", "100000", "--variant", "pool")),
    Case("binarytrees", ("18", "1"), ("15", "1")),
    Case("strings trim", ("trim",), ("--allocs", "2000000", "trim")),
    Case("strings itoa", ("itoa",), ("--allocs", "2000000", "itoa")),
)

# The knobs that Go gives an operator, on one program: the row of the second table, and its settings.
POLICIES = (
    ("GOGC unset", ()),
    ("GOGC=25", ("GOGC=25",)),
    ("GOGC=off 8MiB", ("GOGC=off", "GOMEMLIMIT=8MiB")),
    ("GOGC=off 64MiB", ("GOGC=off", "GOMEMLIMIT=64MiB")),
)
POLICY_HEAPS = ("gc", "go")


def heap_programs(quick):
    return [program for case in CASES for program in case.programs(quick)]


def policy_programs(quick):
    size = ("--allocs", "100000") if quick else ()
    return [Program(case=name, heap=heap, binary=f"allocbench-{heap}", arguments=size, settings=settings)
            for name, settings in POLICIES for heap in POLICY_HEAPS]
