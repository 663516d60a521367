#!/bin/sh
# installed.sh PREFIX CC - the files that `make install` has put under PREFIX suffice: pkg-config builds the examples from there alone, and they run.
prefix=$1 cc=$2
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
complain() { echo "installed: $1"; bad=1; }

export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
unset LD_LIBRARY_PATH # programs linked as in docs/reference/library.md start without it
flags=$(pkg-config --cflags --libs memplan) || exit 1
cd "$work" || exit 1
for source in "$here"/examples/*.c; do
    $cc -std=c11 -Wall -Wextra -Werror -o "$(basename "$source" .c)" "$source" $flags 2> log || { head -5 log; complain "$source cannot be built"; }
done
if command -v g++ > /dev/null; then
    echo '#include <memplan/memplan.h>
int main() { return mp_status_text(MP_OK)[0] == 0; }' > plus.cpp
    g++ -Wall -Wextra -Werror -o plus plus.cpp $flags 2> log && ./plus || { head -5 log; complain "C++ cannot use memplan.h"; }
fi

# Each example, and a part of its expected output.
says() { # WHAT COMMAND...
    what=$1
    shift
    out=$("$@" 2>&1)
    case $out in *"$what"*) ;; *) complain "$* says: $out" ;; esac
}
says "mlp4: 59048960 bytes at" ./peak "$here/examples/mlp4.onnx" 1024
says "16 layers in 1000 of 1800 bytes" ./own_graph
says "peak 6616 bytes" ./check_graph "$here/examples/branch.dot" 7000
says "no order of steps needs less than 3000" ./check_graph "$here/examples/branch.dot" 1000
says "evict-late: peak 6000 bytes, 9.80 % more time" ./searcher "$here/examples/branch.dot" 6000
says "of 59048960 bytes" ./plan_model "$here/examples/mlp4.onnx" 1024 96 plan.json
says "plan.json holds" "$prefix/bin/memplan" check "$here/examples/mlp4.onnx" plan.json --batch 1024
says "rank 1: gpt2, batch 8" ./rank_plan gpt2 layers=4 8 dp=2,pp=2 4GiB
says "rank0.json holds" "$prefix/bin/memplan" check gpt2 rank0.json
says "rank1.json holds" "$prefix/bin/memplan" check gpt2 rank1.json
says "rank 0 has no plan within 67108864 bytes" ./rank_plan gpt2 layers=4 8 dp=2,pp=2 64MiB
says "step 2: loss" ./train_plan "$here/examples/fashion_cnn.onnx" 16 9000000 2

for schema in "$here"/docs/reference/schemas/*.json; do
    cmp -s "$schema" "$prefix/share/memplan/schemas/$(basename "$schema")" || complain "the schema $(basename "$schema") is not installed"
done
[ -e "$prefix/share/doc/memplan/schemas/plan.json" ] || complain "the documents' link to the schemas leads nowhere"
for page in memplan memplan-plan memplan-train; do
    [ -s "$prefix/share/man/man1/$page.1" ] || complain "there is no man page $page(1)"
done
[ -z "$(find "$prefix/include" -name '*.h' ! -path "$prefix/include/memplan/*")" ] || complain "headers lie outside include/memplan"
[ $bad = 0 ] && echo "installed: $(find "$prefix/include" -name '*.h' | wc -l) headers and $(ls "$here"/examples/*.c | wc -l) examples in order"
exit $bad
