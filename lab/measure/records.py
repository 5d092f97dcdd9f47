# lab/measure/records.py -- write what was measured as JSON (everything) and CSV (a row for each run).
import csv
import dataclasses
import json
import pathlib

RUN_COLUMNS = ["round", "case", "heap", "binary", "arguments", "settings", "cpus", "failure", "wall_ms", "user_ms",
               "system_ms", "max_rss_kb"]


def run_record(run):
    program = run.program
    return {
        "round": run.round, "case": program.case, "heap": program.heap, "binary": program.binary,
        "arguments": " ".join(program.arguments), "settings": " ".join(program.settings), "cpus": program.cpus,
        "failure": run.failure, "wall_ms": round(run.wall_ms, 3), "user_ms": round(run.user_ms, 3),
        "system_ms": round(run.system_ms, 3), "max_rss_kb": run.max_rss_kb, "values": run.values,
    }


def write_json(path, document):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, default=dataclasses.asdict)
        file.write("\n")


def write_csv(path, runs):
    """Keys of result lines follow the fixed columns, in the order they first appear."""
    keys = list(dict.fromkeys(key for run in runs for key in run.values))
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, RUN_COLUMNS + keys)
        writer.writeheader()
        for run in runs:
            record = run_record(run)
            writer.writerow(record.pop("values") | record)
