# lab/measure/options.py -- a command line whose errors are two lines: what is wrong, then the usage.
import argparse
import sys

EXIT_USAGE = 2


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
