"""Tables in a page of docs/, each between marks that name the script which writes it. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def fill(page: str, tables: Mapping[str, str], script: str) -> str:
    """The page with each table between its marks. Raises ValueError if it lacks one's marks.

    Args:
        tables: name → Markdown.
        script: that writes them, `scripts/bench_…`; part of the mark.
    """
    for name, table in tables.items():
        start, end = f"<!-- {name}: written by {script} -->\n", f"<!-- /{name} -->"
        before, mark, rest = page.partition(start)
        if not mark or end not in rest:
            raise ValueError(
                f"the page has no place for the table {name!r}: put {start.strip()} and {end.strip()} in it"
            )
        page = before + mark + "\n" + table + "\n\n" + end + rest.partition(end)[2]
    return page


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of equally long rows."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
