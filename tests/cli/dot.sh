# dot.sh - graphs in DOT, through every command that takes a graph.
try dot_estimate estimate branch.dot
try dot_plan plan branch.dot --budget 80% --solver chen -o branch.json
try dot_check check branch.dot branch.json
holds dot_becomes_json sh -c "'$memplan' graph branch.dot -o branch_graph.json && '$memplan' check branch_graph.json branch.json"
holds dot_draws "$memplan" draw branch.dot --plan branch.json -o branch.svg
for bad in malformed cyclic undirected missing hostile; do try "bad_dot_$bad" plan "graph_$bad.dot" --budget 60% -o "written_$bad.json"; done
try bad_dot_absent estimate absent.gv
try bad_dot_batch estimate branch.dot --batch 4
holds dot_wrote_nothing sh -c '! ls written_*'
# one of each: "1 step"
printf 'digraph one { a [bytes=4096, seconds=0.5]; }\n' > one.dot
holds dot_one sh -c "'$memplan' plan one.dot --budget 100% -o one.json > one.txt"
try check_one check one.dot one.json
