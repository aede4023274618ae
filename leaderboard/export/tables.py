"""Tables on disk as `datasets` loads them: Parquet and JSONL under `data/`, and a card that names them.

The same rows give the same bytes. A column's meaning stands in the Parquet file's schema and in the card.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256
from kernel_evaluator.upstream.files import write_text

from leaderboard.export.schemas import Columns, arrow_schema
from leaderboard.files.store import written_beside

_MADE_BY = "Made by KernelBench Leaderboard"
_CONFIG = re.compile(r"^- config_name: (\w+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of one configuration, and what their columns are."""

    name: str
    columns: Columns
    lines: Sequence[Mapping[str, Any]]
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Card:
    """What people are told of a dataset."""

    title: str
    text: str
    license: str
    citation: str = ""


def write(folder: Path, tables: Sequence[Table], card: Card) -> None:
    """Write every table and the card.

    Raises ValueError where the card would replace a README.md of another's, or one of other tables, which
    nobody could load then; and where a row does not fit its schema.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    readme = folder / "README.md"
    there = readme.read_text("utf-8", errors="replace") if readme.exists() else _MADE_BY
    if _MADE_BY not in there:
        raise ValueError(f"{readme}: is no export's card, which would replace it; give --out another folder")
    if others := set(_CONFIG.findall(there)) - {table.name for table in tables}:
        raise ValueError(f"{readme}: is the card of {', '.join(sorted(others))}; give --out another folder")
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for table in tables:
        schema = arrow_schema(table.columns, {"evaluator_sha256": evaluator_sha256()})
        try:
            arrow = pa.Table.from_pylist([dict(line) for line in table.lines], schema=schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"a row of {table.name} does not fit its schema: {error}") from error
        path = folder / "data" / f"{table.name}.parquet"
        with written_beside(path) as beside:
            pq.write_table(arrow, beside, compression="zstd")
        lines = (json.dumps(dict(line), ensure_ascii=False) + "\n" for line in table.lines)
        write_text(folder / "data" / f"{table.name}.jsonl", "".join(lines))
    write_text(readme, _card(tables, card))


def _card(tables: Sequence[Table], card: Card) -> str:
    configs = "".join(
        f"- config_name: {table.name}\n  data_files:\n  - split: train\n    path: data/{table.name}.parquet\n"
        for table in tables
    )
    parts = [
        f"---\nlicense: {card.license}\npretty_name: {json.dumps(card.title)}\nconfigs:\n{configs}---\n",
        f"# {card.title}\n\n{card.text}\n\n{_MADE_BY} {EVALUATOR_VERSION}, evaluator "
        f"`{evaluator_sha256()[:16]}`.\n",
    ]
    for table in tables:
        parts.append(
            f"\n## {table.name}: {len(table.lines)} rows\n\n| column | type | what |\n|---|---|---|\n"
        )
        parts += [f"| `{name}` | {kind} | {what} |\n" for name, (kind, what) in table.columns.items()]
        if table.left_out:
            parts.append("\nLeft out:\n\n| reason | samples |\n|---|---|\n")
            parts += [f"| {reason} | {count} |\n" for reason, count in sorted(table.left_out.items())]
    if card.citation:
        parts.append(f"\n## Citation\n\n{card.citation}\n")
    return "".join(parts)
