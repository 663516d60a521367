#!/bin/sh
# tuning.sh - docs/internals/tuning.md is the table of planner/math/tuning.def: compares them, or with `write` writes the document anew.
cd "$(dirname "$0")/../.." || exit 2
def=planner/math/tuning.def doc=docs/internals/tuning.md
new=$(mktemp) || exit 2
trap 'rm -f "$new"' EXIT
cat > "$new" <<'HEAD'
# The constants of the planner

Every searcher, and the bound, has constants that trade time and memory against the quality of plans. They stand in
one table, `planner/math/tuning.def`, from which this page is made (`tests/layout/tuning.sh write`; `make check`
compares). No value makes a plan wrong: every plan passes the checker, whatever stands here. But each changes which
plan is found, so a change moves the golden outputs and the tables of `BENCHMARKS.md`.

- *trades*: what a larger value buys, and for what. Read in order: "its", "and" and "..." refer to the row above.
- *origin*: the table of `BENCHMARKS.md` by which the value was set, and the commit whose message has the figures
  (`git show`). `prototype`: it was measured with a program that was written before this one. `-`: it was not measured
  alone; the tables of `BENCHMARKS.md` were made with it.

To try another value, change the row, build, and run `make bench`; `--seed 1`, `2`, ... show how far chance goes.
HEAD
sed -nE -e 's|^/\* ---- (.*) ---- \*/$|\n## \1\n\n\| constant \| value \| trades \| origin \|\n\|-\|-\|-\|-\||p' \
    -e 's/^(INTEGER|REAL)\(([A-Z0-9_]+), (.+), "(.*)", "(.*)"\)$/| `\2` | \3 | \4 | \5 |/p' "$def" >> "$new"
rows=$(grep -cE '^(INTEGER|REAL)\(' "$def")
[ "$(grep -c '^| `' "$new")" = "$rows" ] || { echo "tuning: a row of $def is not INTEGER(NAME, value, \"trades\", \"origin\") on a line of its own"; exit 1; }
awk -v f="$doc" 'length > 120 { print "tuning: " f ":" NR " would have over 120 columns"; bad = 1 } END { exit bad }' "$new" || exit 1
[ "$1" = write ] && exec cp "$new" "$doc"
cmp -s "$new" "$doc" || { echo "tuning: $doc is not the table of $def (tests/layout/tuning.sh write)"; exit 1; }
