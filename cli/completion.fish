# Fish completion for memplan: the program itself knows what may come next; where it says nothing, a file is meant.
function __memplan_offers
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    test -n "$last"; or set last ''
    memplan complete $words[2..-1] $last 2>/dev/null
end
complete -c memplan -a '(__memplan_offers)'
