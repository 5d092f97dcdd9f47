# tests/workloads/test_workloads.py -- every heap's build of a workload is the same program.
#
# Usage: test_workloads.py BIN_FOLDER. Checks the programs that are there: wrong usage gives the same two lines and
# status 2 on every heap, and alloc_bytes of every heap are within 10 % of the Go twin's
# (of the largest, where there is no Go): the rule without which a row of a comparison is void.
import os
import pathlib
import subprocess
import sys
import unittest

HEAPS = ("go", "gc", "boehm", "malloc")
WRONG_USAGE = {
    "allocbench": (["--variant", "marble"], ["--allocs", "x"], ["--allocs"], ["extra"], ["--nonsense", "1"]),
    "binarytrees": ([], ["x"], ["8", "0"], ["8", "1", "2"], ["-3"]),
    "coll": ([], ["pull"], ["--allocs", "0", "push"], ["push", "put"]),
    "readorder": ([], ["sideways"], ["--nodes", "0", "packed"], ["/nonexistent/order.idx.txt"]),
    "heapwalk": (["x"], ["--objects", "-1"]),
    "heapwalk_free": (["x"], ["--objects", "many"]),
    "heapwalk_free_manual": (["x"], ["--objects", "1e3"]),
    "strings": ([], ["reverse"], ["trim", "itoa"]),
}
# At the sizes of a comparison, or where the share of fixed costs is as small.
SAME_BYTES = (
    "allocbench", "allocbench --variant arena", "allocbench --variant pool", "binarytrees 14", "coll putget", "coll push",
    "readorder --nodes 200000 --gcs 1 packed", "readorder --nodes 200000 --gcs 1 scattered", "heapwalk", "heapwalk_free",
    "heapwalk_free_manual", "strings --allocs 2000000 trim", "strings --allocs 1000000 itoa",
)
BIN = None


def programs(workload):
    return [p for p in (BIN / f"{workload}-{heap}" for heap in HEAPS) if p.exists()]


def run(program, arguments):
    environment = {k: v for k, v in os.environ.items() if k not in ("GOGC", "GOMEMLIMIT", "GODEBUG", "TEASPAN")}
    return subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, timeout=100)


def field(line, key):
    return next(int(word.split("=")[1]) for word in line.split() if word.startswith(key + "="))


class Workloads(unittest.TestCase):
    def test_wrong_usage_is_answered_alike_by_every_heap(self):
        for workload, cases in WRONG_USAGE.items():
            for arguments in cases:
                answers = {(r.returncode, r.stderr) for r in (run(p, arguments) for p in programs(workload))}
                with self.subTest(workload=workload, arguments=arguments):
                    self.assertEqual(1, len(answers), answers)
                    status, text = answers.pop()
                    self.assertEqual(2, status)
                    first, second, rest = (text + "\n\n").split("\n", 2)
                    self.assertTrue(first.startswith(f"{workload}: "), text)
                    self.assertTrue(second.startswith(f"usage: {workload}"), text)
                    self.assertEqual("", rest.strip())

    def test_every_heap_allocates_the_same_bytes(self):
        for words in (line.split() for line in SAME_BYTES):
            lines = {p.name: run(p, words[1:]).stdout.splitlines()[-1] for p in programs(words[0])}
            self.assertTrue(lines, f"no program of {words[0]} in {BIN}")
            amounts = {name: field(line, "alloc_bytes") for name, line in lines.items()}
            reference = amounts.get(f"{words[0]}-go", max(amounts.values()))
            with self.subTest(line=" ".join(words), amounts=amounts):
                for amount in amounts.values():
                    self.assertLessEqual(abs(amount - reference), reference // 10)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
