# help.sh - help, version and completion, as in the tables.
try help help
try version version
for command in estimate plan graph check timeline report draw sweep fit share pack ops solvers devices models model help version complete; do try "help_$command" help "$command"; done
try help_long plan --help all
try help_short plan -h
try help_train help train
try help_profile help profile
holds manual_has_every_page sh -c "test -x '$build/manual' || exit 0; for c in \$('$build/manual' names); do '$build/manual' man \$c > /dev/null || exit 1; done"
holds help_fits_80_columns sh -c "
    for command in '' estimate plan graph check apply timeline report draw sweep fit share pack train profile ops; do
        '$memplan' help \$command | awk -v c=\"\$command\" 'length > 80 && !/^  memplan/ { print c \": \" \$0; bad = 1 } END { exit bad }' || exit 1
    done"
# runs the examples of the help, in this order: the others read the first plan
holds help_examples_run sh -c "
    mkdir -p shown && cd shown && ln -sfn '$root/examples' examples && PATH='$build':\$PATH
    for command in estimate plan graph check apply pack timeline sweep fit share draw train profile ops solvers devices models model help version complete; do
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

# ---- completion in the shells that are here: a command with a word behind the cursor, choices for an empty word, and a file
cat > completion.bash.test <<'END'
. "$1" && complete -p memplan | grep -q -e '-o default.* _memplan memplan' || exit 1
COMP_WORDS=(memplan pl m.onnx); COMP_CWORD=1; _memplan; test "${COMPREPLY[*]}" = plan || exit 1
COMP_WORDS=(memplan estimate m.onnx --optimizer ''); COMP_CWORD=4; _memplan; test "${#COMPREPLY[@]}" -gt 3 || exit 1
printf '%s\n' "${COMPREPLY[@]}" | grep -qx momentum || exit 1
COMP_WORDS=(memplan plan m.onnx); COMP_CWORD=2; _memplan; test -z "${COMPREPLY[*]}"
END
cat > completion.zsh.test <<'END'
head -n 1 "$1" | grep -qx '#compdef memplan' || exit 1
compadd() { print -rl -- ${(P)2}; }
_files() { print a file; }
words=(memplan pl m.onnx); CURRENT=2; test "$(. "$1")" = plan || exit 1
words=(memplan estimate m.onnx --optimizer ''); CURRENT=5; . "$1" | grep -qx momentum || exit 1
words=(memplan plan m.onnx); CURRENT=3; test "$(. "$1")" = 'a file'
END
cat > completion.fish.test <<'END'
source $argv[1]; complete -C 'memplan pl' | grep -q '^plan'; or exit 1
complete -C 'memplan estimate m.onnx --optimizer ' | grep -q '^momentum'; or exit 1
complete -C 'memplan estimate m.onnx --optimizer mom' | grep -q '^momentum'
END
holds completion_bash sh -c "command -v bash > /dev/null || exit 0; PATH='$build':\$PATH bash completion.bash.test '$root/cli/completion.bash'"
holds completion_zsh sh -c "command -v zsh > /dev/null || exit 0; PATH='$build':\$PATH zsh -f completion.zsh.test '$root/cli/completion.zsh'"
holds completion_fish sh -c "command -v fish > /dev/null || exit 0; PATH='$build':\$PATH fish --no-config completion.fish.test '$root/cli/completion.fish'"
try help_option_longer plan mlp.onnx --batchsize 8
