# pack.sh - pack: offsets of the buffers of a CSV file, and of plan.json.
try pack pack buffers.csv --capacity 1024 -o placed.csv
holds pack_writes_what_it_can_read sh -c "'$memplan' pack placed.csv --minimize -o again.csv > /dev/null && cmp placed.csv again.csv"
try pack_minimize pack buffers.csv --minimize -o -
try pack_minimize_report pack buffers.csv --minimize
try pack_json pack buffers.csv --minimize --json
try pack_infeasible pack buffers.csv --capacity 448 -o never.csv
try pack_infeasible_json pack buffers.csv --capacity 448 --json
try pack_infeasible_minimize pack buffers.csv --capacity 448 --minimize -o never.csv
try pack_plan pack mlp.onnx plan.json -o packed.json
holds pack_plan_holds "$memplan" check mlp.onnx packed.json
try pack_plan_minimize pack graph.json plan.json --minimize
try pack_plan_infeasible pack mlp.onnx plan.json --capacity 1MiB -o never.json
holds pack_without_offsets sh -c "'$memplan' pack mlp.onnx no_offsets.json -o offsets.json > /dev/null && '$memplan' check mlp.onnx offsets.json | grep -q 'arena '"
printf 'id,lower,upper,size,offset\na,0,9,64,0\nb,3,5,64,32\n' > clash.csv
try pack_clash pack clash.csv --minimize -o never.csv
try pack_no_capacity pack buffers.csv
try pack_capacity pack buffers.csv --capacity lots
try pack_capacity_share pack buffers.csv --capacity 60%
try pack_batch pack buffers.csv --minimize --batch 4
try pack_stdout_twice pack buffers.csv --minimize --json -o -
printf 'id,lower,upper\na,0,9\n' > no_size.csv
printf 'id,lower,upper,size\na,9,9,64\n' > no_life.csv
printf 'id,lower,upper,size\na,0,9,4000000000000000000\nb,0,9,4000000000000000000\n' > too_large.csv
: > empty.csv
for bad in no_size no_life too_large empty absent; do try "bad_csv_$bad" pack "$bad.csv" --minimize -o never.csv; done
try pack_lie pack mlp.onnx lie.json -o never.json
try pack_absent_plan pack mlp.onnx absent.json
holds pack_writes_nothing_on_failure sh -c '! ls never.*'
holds pack_unwritable sh -c "'$memplan' pack buffers.csv --minimize -o no/such/folder.csv; test \$? = 1"
holds pack_stops_when_asked sh -c "
    awk 'BEGIN { print \"id,lower,upper,size,alignment\"; for (k = 0; k < 60; k++) printf \"%d,%d,%d,%d,1024\n\", k, k % 7, 9 + k % 5, 2000 + 37 * k }' > crowd.csv
    '$memplan' pack crowd.csv --minimize -o crowded.csv > crowd.txt 2> why.txt &
    pid=\$!; sleep 1; kill -INT \$pid; wait \$pid; test \$? = 0 && grep -q 'cut short' why.txt && test -s crowded.csv"
