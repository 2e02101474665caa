"""Lists of image files with their labels: CSV or JSON lines."""

import array
import csv
import io
import json
import os
from collections.abc import Iterable, Iterator

import numpy as np
from etils import epath

from vit_jax.data.files import FileSource, Paths
from vit_jax.data.labels import class_order

SUFFIXES = (".csv", ".jsonl")
WHOLE = "all"


def find_manifest(folder: epath.Path, split: str) -> epath.Path | None:
    """folder/SPLIT.csv or folder/SPLIT.jsonl, whichever is there."""
    for suffix in SUFFIXES:
        if (folder / f"{split}{suffix}").exists():
            return folder / f"{split}{suffix}"
    return None


def open_manifest(
    file: epath.Path, split: str, *, named: str | None = None
) -> FileSource:
    """The rows of a manifest that belong to `split`.

    A row has `path`, relative to the manifest's folder or absolute, and `label`, the
    class's name; it may have `split`. Where no row has one, all rows are the split
    `all`. A CSV starts with a line that names its columns.

    Args:
      named: the split that the file's own name stands for; all rows are then taken,
        and one that names another split is refused.

    Raises:
      ValueError: it is no UTF-8 text of its kind, is empty, a row lacks path or label
        or is of another split than its file, or no row belongs to `split`.
    """
    paths, labels = Paths(), array.array("i")
    ids: dict[str, int] = {}
    splits: set[str] = set()
    number = 0
    for number, row in enumerate(_rows(file), start=1):
        path, label, own = _checked(file, number, row)
        if named and own and own != named:
            raise ValueError(
                f"{file}, row {number}: it names the split {own} in a list of the "
                f"split {named}; move it to {own}{file.suffix}."
            )
        if own:
            splits.add(own)
        label_id = ids.setdefault(label, len(ids))
        if named or (own or WHOLE) == split:
            paths.extend([path])
            labels.append(label_id)
    if not number:
        raise ValueError(
            f"{file} lists no images; give it rows with path and label"
            f"{' below a line that names these columns' if _is_csv(file) else ''}."
        )
    splits = splits or {WHOLE}
    if not named and split not in splits:
        raise ValueError(
            f"{file} has no split {split}; it has {', '.join(sorted(splits))}."
        )
    names = class_order(set(ids))
    # Ids so far are in the order of the rows.
    places = {name: place for place, name in enumerate(names)}
    table = np.array([places[name] for name in ids], np.int32)
    return FileSource(file.parent, paths, table[np.asarray(labels, np.int64)], names)


def _checked(file: epath.Path, number: int, row: dict) -> tuple[str, str, str]:
    """(path, label, split or nothing) of a row."""
    if not row.get("path") or row.get("label") in (None, ""):
        raise ValueError(
            f"{file}, row {number}: it must have path and label, and has "
            f"{', '.join(str(key) for key in row if row[key]) or 'nothing'}."
        )
    return str(row["path"]), str(row["label"]), str(row.get("split") or "")


def _rows(file: epath.Path) -> Iterator[dict]:
    """Row after row, so that a long list is never in memory as a whole."""
    read = _csv_rows if _is_csv(file) else _json_rows
    try:
        with file.open("rb") as opened:
            text = io.TextIOWrapper(opened, encoding="utf-8-sig", newline="")
            yield from read(file, text)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} is no UTF-8 text (byte {_undecodable(file)}); save it as UTF-8."
        ) from error


def _undecodable(file: epath.Path) -> int:
    """The first byte that is no UTF-8."""
    try:
        file.read_bytes().decode()
    except UnicodeDecodeError as error:
        return error.start
    raise AssertionError(f"{file} is UTF-8")


def _is_csv(file: epath.Path) -> bool:
    return os.fspath(file).endswith(".csv")


def _csv_rows(file: epath.Path, text: Iterable[str]) -> Iterator[dict]:
    reader = csv.DictReader(text)
    try:
        for number, row in enumerate(reader, start=1):
            # What has no column gathers under the key None.
            if None in row:
                raise ValueError(
                    f"{file}, row {number}: it has more values than the "
                    f"{len(reader.fieldnames or ())} columns of the first line; quote "
                    "a value that holds a comma."
                )
            yield row
    except csv.Error as error:
        raise ValueError(f"{file}, line {reader.line_num + 1}: {error}.") from error


def _json_rows(file: epath.Path, text: Iterable[str]) -> Iterator[dict]:
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            yield dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{file}, line {number} is no JSON object.") from error
