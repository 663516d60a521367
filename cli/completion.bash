# Bash completion for memplan: the program itself knows what may come next.
_memplan()
{
    COMPREPLY=()
    local IFS=$'\n'
    COMPREPLY=($(memplan complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _memplan memplan
