#compdef memplan
# Zsh completion for memplan: the program itself knows what may come next; where it says nothing, a file is meant.
_memplan()
{
    local -a offers
    offers=(${(f)"$(memplan complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#offers} )); then compadd -a offers; else _files; fi
}
_memplan "$@"
