# lab/measure/options.py -- a command line whose errors are two lines: what is wrong, then the usage.
import argparse
import os
import sys

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + 2


class Options(argparse.ArgumentParser):
    def __init__(self, name, usage, description):
        super().__init__(prog=name, usage=f"{name} {usage}", description=description, allow_abbrev=False)
        self.synopsis = f"usage: {name} {usage}"

    def error(self, message):
        print(f"{self.prog}: {message}\n{self.synopsis}", file=sys.stderr)
        sys.exit(EXIT_USAGE)

    def parse(self, arguments):
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            self.error(f"unknown option: {unknown[0]}")
        return options


def whole_number(low, high):
    def convert(text):
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"not a number from {low} to {high}: {text}")
        return int(text)
    return convert


def exit_with(main):
    """End with the status of main(arguments); in silence when interrupted, or when nobody reads the output any more."""
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_FAILED
    sys.exit(status)
