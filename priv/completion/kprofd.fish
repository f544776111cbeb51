# fish completion for kprofd(8)
#
# The options are asked of kprofd itself, so that they are those of the version
# that is installed.

function __kprofd_value
    set -l option (string replace -r '^--' - -- (commandline -opc)[-1])
    kprofd -h 2>/dev/null | string replace -rf "^  $option ([A-Z:=]+) +[^ ].*" '$1'
end

function __kprofd_words
    switch "$(__kprofd_value)"
        case FORMAT
            printf '%s\n' text json
        case KIND
            printf '%s\n' auto native relay
        case MODE
            printf '%s\n' none peer
        case ''
            kprofd -h 2>/dev/null |
                string replace -rf '^  (-[a-z-]+)( [A-Z][A-Z:=.]*)* +(.*)' '$1\t$3'
    end
end

complete -c kprofd -f -a '(__kprofd_words)'
complete -c kprofd -n 'contains -- "$(__kprofd_value)" FILE SOCKET' -F
