"""Check layouts from Python. What is wrong with them comes back as data: nothing is raised, nothing is printed by ppdsl."""

from __future__ import annotations

from ppdsl import check_layout

LAYOUTS = (
    "Et*3||t*3|t*6NL",
    "Et*3||t*3|t*5NL",
    "Et*3||x*3|t*6Nl",
)


def main() -> None:
    """Check each layout against a model of 12 layers on two ranks."""
    for layout in LAYOUTS:
        result = check_layout(layout, pp=2, num_layers=12)
        print(layout, "is valid" if result.valid else "is invalid")
        for found in result.diagnostics:
            if found.severity == "error":
                where = "" if found.span is None else f" at {found.span.start}"
                print(f"  {found.code}{where}: {found.message}")
                if found.help is not None:
                    print(f"    {found.help}")


if __name__ == "__main__":
    main()

# Prints:
#
# Et*3||t*3|t*6NL is valid
# Et*3||t*3|t*5NL is invalid
#   PP302 at 10: layout has 11 decoder layers, --num-layers says 12
#     `t*4` in stage 2 gives 12: Et*3||t*4|t*5NL
# Et*3||x*3|t*6Nl is invalid
#   PP101 at 6: unknown symbol `x`
#   PP101 at 14: unknown symbol `l`
#     write `L` for `l`
