# help.sh - help, version and completion: what the tables say.
try help help
try version version
for command in estimate plan graph check timeline draw sweep fit pack ops solvers devices help version complete; do try "help_$command" help "$command"; done
try help_long plan --help
try help_unknown help estimat
try bare
FILTER='grep -E ^(operator|Relu|Conv|Softmax|SimplifiedLayerNorm)' try ops ops
FILTER='grep -E ^(operator|Relu|Conv|Softmax|SimplifiedLayerNorm)' try ops_cpu ops --device cpu
try solvers solvers
try devices devices
try complete_commands complete pl
try complete_options complete plan m.onnx --se
try complete_choices complete estimate m.onnx --optimizer ''
try complete_file complete plan ''
