"""Lists of image files with their labels: CSV or JSON lines."""

import csv
import io
import json
import os

from etils import epath

from vit_jax.data.files import FileSource
from vit_jax.data.labels import class_order

SUFFIXES = (".csv", ".jsonl")
WHOLE = "all"


def find_manifest(folder: epath.Path, split: str) -> epath.Path | None:
    """folder/SPLIT.csv or folder/SPLIT.jsonl, whichever is there."""
    for suffix in SUFFIXES:
        if (folder / f"{split}{suffix}").exists():
            return folder / f"{split}{suffix}"
    return None


def open_manifest(file: epath.Path, split: str) -> FileSource:
    """The rows of a manifest that belong to `split`.

    A row has `path`, relative to the manifest's folder or absolute, and `label`, the
    class's name; it may have `split`. Where no row has one, all rows are the split
    `all`. A CSV starts with a line that names its columns.

    Raises:
      ValueError: it is no UTF-8 text of its kind, is empty, a row lacks path or label,
        or no row belongs to `split`.
    """
    rows = _rows(file)
    if not rows:
        raise ValueError(
            f"{file} lists no images; give it rows with path and label"
            f"{' below a line that names these columns' if _is_csv(file) else ''}."
        )
    for number, row in enumerate(rows, start=1):
        if not row.get("path") or row.get("label") in (None, ""):
            raise ValueError(
                f"{file}, row {number}: it must have path and label, and has "
                f"{', '.join(str(key) for key in row if row[key]) or 'nothing'}."
            )
    splits = {str(row["split"]) for row in rows if row.get("split")} or {WHOLE}
    if split not in splits:
        raise ValueError(
            f"{file} has no split {split}; it has {', '.join(sorted(splits))}."
        )
    names = class_order({str(row["label"]) for row in rows})
    chosen = [row for row in rows if str(row.get("split") or WHOLE) == split]
    ids = {name: number for number, name in enumerate(names)}
    return FileSource(
        file.parent,
        [str(row["path"]) for row in chosen],
        [ids[str(row["label"])] for row in chosen],
        names,
    )


def _rows(file: epath.Path) -> list[dict]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} is no UTF-8 text (byte {error.start}); save it as UTF-8."
        ) from error
    return _csv_rows(file, text) if _is_csv(file) else _json_rows(file, text)


def _is_csv(file: epath.Path) -> bool:
    return os.fspath(file).endswith(".csv")


def _csv_rows(file: epath.Path, text: str) -> list[dict]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise ValueError(f"{file}, line {reader.line_num + 1}: {error}.") from error
    for number, row in enumerate(rows, start=1):
        # What has no column gathers under the key None.
        if None in row:
            raise ValueError(
                f"{file}, row {number}: it has more values than the "
                f"{len(reader.fieldnames or ())} columns of the first line; quote a "
                "value that holds a comma."
            )
    return rows


def _json_rows(file: epath.Path, text: str) -> list[dict]:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{file}, line {number} is no JSON object.") from error
    return rows
