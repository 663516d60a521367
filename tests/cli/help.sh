# help.sh - help, version and completion: what the tables say.
try help help
try version version
for command in estimate plan graph check timeline report draw sweep fit pack ops solvers devices help version complete; do try "help_$command" help "$command"; done
try help_long plan --help
try help_short plan -h
try help_train help train
try help_profile help profile
holds manual_has_every_page sh -c "test -x '$build/manual' || exit 0; for c in \$('$build/manual' names); do '$build/manual' man \$c > /dev/null || exit 1; done"
holds help_fits_80_columns sh -c "
    for command in '' estimate plan graph check apply timeline report draw sweep fit pack train profile ops; do
        '$memplan' help \$command | awk -v c=\"\$command\" 'length > 80 && !/^  memplan/ { print c \": \" \$0; bad = 1 } END { exit bad }' || exit 1
    done"
# what help shows as an example is done, in this order: the first plan is what the others read
holds help_examples_run sh -c "
    mkdir -p shown && cd shown && ln -sfn '$root/examples' examples && PATH='$build':\$PATH
    for command in estimate plan graph check apply pack timeline sweep fit draw train profile ops solvers devices help version complete; do
        example=\$(memplan help \$command | sed -n '/^example:/{n;p;}')
        sh -c \"\$example\" > shown.txt 2>&1 || { echo \"\$example\"; cat shown.txt; exit 1; }
    done"
try help_unknown help estimat
try bare
FILTER='grep -E ^(operator|Relu|Conv|Softmax|SimplifiedLayerNorm)' try ops ops
FILTER='grep -E ^(operator|Relu|Conv|Softmax|SimplifiedLayerNorm)' try ops_cpu ops --device cpu
try solvers solvers
try devices devices
FILTER='sed -n 1,17p' try devices_json devices --json
FILTER='sed -n 1,16p' try ops_json ops --device cpu --json
try solvers_json solvers --json
try version_json version --json
try complete_commands complete pl
try complete_options complete plan m.onnx --se
try complete_choices complete estimate m.onnx --optimizer ''
try complete_file complete plan ''

# ---- completion in the shells that are here
holds completion_bash sh -c "command -v bash > /dev/null || exit 0; PATH='$build':\$PATH bash -c '
    . \"$root/cli/completion.bash\"; COMP_WORDS=(memplan pl); COMP_CWORD=1; _memplan; test \"\${COMPREPLY[*]}\" = plan'"
holds completion_zsh sh -c "command -v zsh > /dev/null || exit 0; PATH='$build':\$PATH zsh -fc '
    compadd() { print -r -- \${(P)2}; }; words=(memplan estimate m.onnx --optimizer momentum); CURRENT=5
    out=\$(. \"$root/cli/completion.zsh\"); test \"\$out\" = momentum'"
holds completion_fish sh -c "command -v fish > /dev/null || exit 0; PATH='$build':\$PATH fish --no-config -c '
    source \"$root/cli/completion.fish\"; complete -C \"memplan pl\"' | grep -q '^plan'"
