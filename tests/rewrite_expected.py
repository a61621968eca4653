"""Write the reports in expected anew: ``python -m tests.rewrite_expected``. Read the difference before you commit it."""

from __future__ import annotations

from importlib import import_module

from tests.reports import FOLDER, read_cases


def main() -> None:
    """Check every layout, and write what is said of it under its call."""
    for path in sorted(FOLDER.glob("*.txt")):
        rules = import_module(f"ppdsl.validation.{path.stem}").RULES
        parts = [f"{case.call}\n{case.report(rules)}\n" for case in read_cases(path.stem)]
        path.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
