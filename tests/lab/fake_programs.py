# tests/lab/fake_programs.py -- shell scripts that pretend to be workloads, in a folder of their own.
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "lab"))

LINE = "allocs=10 peak_rss=9612KB ms=512 gc_cycles=24 alloc_bytes=1000 alloc_objects=10"


class FakePrograms(unittest.TestCase):
    """A folder of shell scripts in place of build/bin."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name) / "bin"
        self.results = pathlib.Path(folder.name) / "results"
        self.log = pathlib.Path(folder.name) / "log"
        self.bin.mkdir()

    def add(self, binary, script):
        path = self.bin / binary
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def add_line(self, binary, fields):
        self.add(binary, f"echo '{binary.rpartition('-')[0]}: {fields}'")

    def run_script(self, script, *arguments):
        """Run lab/SCRIPT on these programs, as a user does."""
        return subprocess.run(
            [sys.executable, "-B", str(ROOT / "lab" / script), "--bin", str(self.bin), "--results",
             str(self.results), *arguments], capture_output=True, text=True, timeout=60, check=False)
