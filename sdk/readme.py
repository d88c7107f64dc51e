"""The parts of README.md that are generated: the status table and the transcript of `make sim`.

Each stands between two comments, ``<!-- name -->`` and ``<!-- /name -->``; what is between them is replaced.
"""

import re
from pathlib import Path
from typing import Any

from spec import results
from spec.parameters import ParameterError

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def status_rows(build: Path | None = None) -> list[dict[str, Any]]:
    """One row a block from ``build/sim``: configurations, tests, vectors, mismatches, and its page in the docs."""
    rows = []
    for path in sorted(((build or results.BUILD) / "sim").glob("*.json")):
        figures: dict[str, list[Any]] = {}
        for record in results.records_of(path):
            figures.setdefault(record["figure"], []).append(record["value"])
        room = path.stem.split(".")[0]
        pages = [f"blocks/{path.stem.replace('.', '_')}.md", f"blocks/{room}.md", f"{room}.md"]
        shown = next((ROOT / "docs" / page for page in pages if (ROOT / "docs" / page).exists()), None)
        rows.append(
            {
                "block": path.stem,
                "configurations": len(figures["tests"]),
                "tests": sum(figures["tests"]),
                "vectors": sum(figures["vectors"]),
                "mismatches": sum(figures["mismatches"]),
                "page": shown.relative_to(ROOT) if shown else None,
            }
        )
    return rows


def status_table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| block | configurations | tests | items compared | mismatches | page |", "|---|--:|--:|--:|--:|---|"]
    for row in rows:
        page = f"[{row['page'].name}]({row['page']})" if row["page"] else ""
        counts = " | ".join(f"{row[key]:,}" for key in ("configurations", "tests", "vectors", "mismatches"))
        lines.append(f"| `{row['block']}` | {counts} | {page} |")
    return "\n".join(lines)


def replaced(text: str, name: str, content: str) -> str:
    """``text`` with the part called ``name`` replaced; a part that is missing is refused."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ParameterError(f"{README.name}: part {name!r} found {len(pattern.findall(text))} times: legal is once")
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def write_readme(transcript: str | None = None, readme: Path = README) -> None:
    """Renew the generated parts of the README from the last ``make sim``; without a transcript that part stays."""
    text = replaced(readme.read_text(), "status", status_table(status_rows()))
    if transcript is not None:
        text = replaced(text, "transcript", f"```text\n{transcript.rstrip()}\n```")
    readme.write_text(text)
