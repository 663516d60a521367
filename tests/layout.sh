#!/bin/sh
# layout.sh - what reviewers would otherwise have to look for: include arrows, switches over operator kinds, long files, layout.
cd "$(dirname "$0")/.." || exit 2
bad=0
complain() { echo "layout: $1"; bad=1; }

# cli -> executor -> formats -> planner -> estimator: who may include whom.
rank() { case $1 in estimator) echo 1 ;; planner) echo 2 ;; formats) echo 3 ;; executor) echo 4 ;; cli) echo 5 ;; *) echo 0 ;; esac; }
for folder in estimator planner formats executor cli; do
    grep -n '^# *include "' "$folder"/*.[ch] "$folder"/*/*.[ch] "$folder"/*/*.cu* "$folder"/*.def 2>/dev/null | while IFS= read -r line; do
        path=${line#*\"}
        path=${path%\"*}
        case $path in onnx.pb-c.h) [ "$folder" = formats ] || echo "$line" ; continue ;; esac
        other=$(rank "${path%%/*}")
        [ "$other" -ge 1 ] && [ "$other" -le "$(rank "$folder")" ] || echo "$line"
    done
done > /tmp/layout.$$
[ -s /tmp/layout.$$ ] && { cat /tmp/layout.$$; complain "these includes go against the arrows cli -> executor -> formats -> planner -> estimator"; }
rm -f /tmp/layout.$$

# Foreign libraries stay in their folders.
grep -nE '^# *include <(igraph|glpk)' formats/*.[ch] executor/*.[ch] cli/*.[ch] 2>/dev/null && complain "igraph and GLPK live in planner/ and estimator/"
grep -nE '^# *include <jansson' estimator/*.[ch] planner/*.[ch] executor/*.[ch] executor/*/*.[ch] 2>/dev/null && complain "JSON is formats' business"
grep -nE 'case MP_OP|strcmp\([^,]*kind, "' planner/*.c executor/*.c executor/*/*.c cli/*.c 2>/dev/null &&
    complain "nobody switches on an operator's kind: the registry's rows say what is different about it"
grep -nE '(^|[^a-z_])(printf|puts|exit|abort)\(' estimator/*.c planner/*.c formats/*.c executor/*.c executor/*/*.c executor/cuda/*.cu* 2>/dev/null && complain "the library never prints or exits"

for f in */*.c */*.h executor/*/*.c executor/*/*.h executor/cuda/*.cu*; do
    n=$(wc -l < "$f")
    [ "$n" -le 500 ] || complain "$f has $n lines; 500 are the most"
done
[ "$(wc -l < cli/main.c)" -le 100 ] || complain "cli/main.c has over 100 lines"

if command -v clang-format > /dev/null; then
    clang-format --dry-run -Werror */*.c */*.h executor/*/*.c executor/*/*.h executor/cuda/*.cu* 2>&1 | grep error: | cut -d: -f1 | sort | uniq -c > /tmp/layout.$$
    [ -s /tmp/layout.$$ ] && { cat /tmp/layout.$$; complain "these files are not laid out as clang-format does it (make format)"; }
    rm -f /tmp/layout.$$
else
    echo "layout: clang-format is not installed, so the layout of the code was not looked at"
fi
[ $bad = 0 ] && echo "layout: in order"
exit $bad
