#compdef @program@ @scheduler_program@
# Completion for @program@ in zsh. Use it with:  source <(@program@ completion zsh)
@functions@
_@program@_start() {
    case "$service" in
        @scheduler_program@) _@program@_@scheduler@ ;;
        *) _@program@ ;;
    esac
}
compdef _@program@_start @program@ @scheduler_program@
