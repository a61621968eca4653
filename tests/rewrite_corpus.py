"""Write the reports in corpus/invalid anew: ``python -m tests.rewrite_corpus``. Read the difference before you commit it."""

from __future__ import annotations

import json

from tests.corpora import refusal_files, refusals
from tests.test_corpus import report


def main() -> None:
    """Check every layout, and write what is said of it under its head."""
    for path in refusal_files():
        parts = [f"### {json.dumps({'layout': case.layout, **case.sizes})}\n{report(case.layout, case.sizes)}\n" for case in refusals(path)]
        path.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
