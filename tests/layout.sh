#!/bin/sh
# layout.sh - what reviewers would otherwise have to look for: include arrows, switches over operator kinds, long files, layout.
cd "$(dirname "$0")/.." || exit 2
bad=0
complain() { echo "layout: $1"; bad=1; }

# cli -> executor -> formats -> planner -> estimator: who may include whom.
rank() { case $1 in estimator) echo 1 ;; planner) echo 2 ;; formats) echo 3 ;; executor) echo 4 ;; cli) echo 5 ;; *) echo 0 ;; esac; }
for folder in estimator planner formats executor cli; do
    grep -rn --include='*.[ch]' --include='*.cu*' --include='*.def' '^# *include "' "$folder" | while IFS= read -r line; do
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
grep -rnE '^# *include <(igraph|glpk)' formats executor cli && complain "igraph and GLPK live in planner/ and estimator/"
grep -rnE '^# *include <jansson' estimator planner executor && complain "JSON is formats' business"
grep -rnE 'case MP_OP|strcmp\([^,]*kind, "' planner executor cli &&
    complain "nobody switches on an operator's kind: the registry's rows say what is different about it"
grep -rnE --include='*.c' --include='*.cu*' '(^|[^a-z_])(printf|puts|exit|abort)\(' estimator planner formats executor && complain "the library never prints or exits"

sources=$(git ls-files '*.c' '*.h' '*.cu' '*.cuh')
for f in $sources; do
    n=$(wc -l < "$f")
    [ "$n" -le 500 ] || complain "$f has $n lines; 500 are the most"
done
[ "$(wc -l < cli/main.c)" -le 100 ] || complain "cli/main.c has over 100 lines"

if command -v clang-format > /dev/null; then
    clang-format --dry-run -Werror $sources 2>&1 | grep error: | cut -d: -f1 | sort | uniq -c > /tmp/layout.$$
    [ -s /tmp/layout.$$ ] && { cat /tmp/layout.$$; complain "these files are not laid out as clang-format does it (make format)"; }
    rm -f /tmp/layout.$$
else
    echo "layout: clang-format is not installed, so the layout of the code was not looked at"
fi
[ $bad = 0 ] && echo "layout: in order"
exit $bad
