#!/usr/bin/env python3
"""schemas.py DOCS WORK FILE... - says where the JSON of the command line is not as the schemas in DOCS/schemas have it.

It checks the FILEs in WORK, and the answers that every case of tests/cli with --json has printed there (CASE.stdout, beside a CASE.out
that begins with the command). The schemas are looked at, too: that they are of draft 2020-12, know no keys but those they name,
are all used, and have every key in DOCS/formats.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator


def with_files_in_place(value: Any, folder: Path) -> Any:
    """A schema in which every reference to another file is replaced by the referenced text."""
    if isinstance(value, list):
        return [with_files_in_place(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref", "#")
    if not reference.startswith("#"):
        other = json.loads((folder / reference).read_text())
        return {key: each for key, each in other.items() if key not in ("$schema", "$id")}
    return {key: with_files_in_place(each, folder) for key, each in value.items()}


def objects_in(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for each in schema:
            yield from objects_in(each)
    elif isinstance(schema, dict):
        if "properties" in schema and isinstance(schema.get("type"), (str, list)):
            yield schema
        for each in schema.values():
            yield from objects_in(each)


def faults_of_schema(path: Path, explained: set[str]) -> Iterator[str]:
    schema = json.loads(path.read_text())
    Draft202012Validator.check_schema(schema)
    for row in objects_in(schema):
        if row.get("additionalProperties") is not False:
            yield f"{path.name}: an object with {', '.join(row['properties'])} permits other keys"
        if path.name != "options.json":
            yield from (f"{path.name}: formats.md does not explain `{key}`" for key in row["properties"] if key not in explained)
        yield from (f"{path.name}: `{key}` is required and unknown" for key in row.get("required", []) if key not in row["properties"])


def printed(work: Path) -> Iterator[tuple[str, str]]:
    """Name and text of every answer in JSON."""
    for case in sorted(work.glob("*.out")):
        command = case.read_text(errors="replace").split("\n", 1)[0].split()
        text = case.with_suffix(".stdout")
        if command[:1] == ["$"] and "--json" in command and text.exists() and text.read_text().strip():
            yield case.stem, text.read_text()


def main() -> int:
    docs, work, files = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    text = re.sub(r"```.*?```", "", (docs / "formats.md").read_text(), flags=re.DOTALL)
    explained = set(re.findall(r"[a-z0-9_]+", " ".join(re.findall(r"`[^`]+`", text))))
    faults, used, seen = [], set(), 0
    validators = {}
    for path in sorted((docs / "schemas").glob("*.json")):
        faults += faults_of_schema(path, explained)
        schema = with_files_in_place(json.loads(path.read_text()), path.parent)
        if path.name != "options.json":
            validators[schema["properties"]["format"]["const"]] = Draft202012Validator(schema)
    for name, text in [*printed(work), *((name, (work / name).read_text()) for name in files)]:
        answer = json.loads(text)
        form = answer.get("format")
        seen += 1
        used.add(form)
        if form not in validators:
            faults.append(f"{name}: there is no schema of {form}")
            continue
        for fault in validators[form].iter_errors(answer):
            where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault.absolute_path)
            faults.append(f"{name}: {form}{where}: {fault.message[:300]}")
    faults += [f"no case answers with {form}" for form in sorted(set(validators) - used)]
    for fault in faults[:40]:
        print(fault)
    print(f"{seen} documents, {len(validators)} schemas, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
