# Completion for @program@ in bash. Use it with:  source <(@program@ completion bash)
_@program@_files() {
    local ending
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(
        compgen -d -- "$cur"
        for ending in "$@"; do compgen -f -X "!*.$ending" -- "$cur"; done
    )
}

_@program@_complete() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD - 1]}"
    local path="$1" flags="" words="" candidate word i
    # bash takes = for a word of its own.
    if [[ "$cur" == "=" ]]; then
        cur=""
    elif [[ "$prev" == "=" ]]; then
        prev="${COMP_WORDS[COMP_CWORD - 2]}"
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        candidate="${path:+$path }${COMP_WORDS[i]}"
        for word in @paths@; do
            [[ "$candidate" == "$word" ]] && path="$candidate"
        done
    done
    COMPREPLY=()
    case "$path" in
@arms@    esac
    if [[ "$cur" == -* ]]; then
        words="$flags"
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

_@program@() { _@program@_complete ""; }
_@program@_@scheduler@() { _@program@_complete "@scheduler@"; }
complete -o default -F _@program@ @program@
complete -o default -F _@program@_@scheduler@ @scheduler_program@
