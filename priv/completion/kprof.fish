# fish completion for kprof(1)
#
# Commands, options and choices are asked of kprof itself, so that they are
# those of the version that is installed.

# What -h prints; the options of a connection are on a page of their own.
function __kprof_help
    set -l lines (kprof $argv -h 2>/dev/null)
    string match -q '*help connection*' -- $lines && set -a lines (kprof help connection)
    printf '%s\n' $lines
end

# The lines of -h that begin with this, as a name and its help.
function __kprof_lines
    __kprof_help $argv[2..] |
        string replace -rf "^  ($argv[1][a-z-]*)( [A-Z][A-Z:=.]*)* +(.*)" '$1\t$3'
end

# What the value of the last option is, in capitals: FILE, TIME, ...
function __kprof_value
    set -l words (commandline -opc)
    set -q words[3] || return
    set -l option (string replace -r '^--' - -- $words[-1])
    __kprof_help $words[2] |
        string replace -rf "^  $option ([A-Z:=]+) +[^ ].*" '$1'
end

function __kprof_wants_file
    set -l words (commandline -opc)
    set -l value (__kprof_value)
    contains -- "$value" FILE SOCKET && return
    set -q words[2] && test -z "$value" &&
        contains -- $words[2] check diff merge analyse &&
        not string match -q -- '-*' (commandline -ct)
end

function __kprof_words
    set -l words (commandline -opc)
    if not set -q words[2]
        __kprof_lines '[a-z]'
        printf '%s\t%s\n' help 'show the options of a command' \
            -h 'list the commands' -version 'print the version'
        return
    else if test $words[2] = help
        __kprof_lines '[a-z]'
        printf '%s\t%s\n' connection 'how a node is reached'
        return
    end
    set -l value (__kprof_value)
    set -l option (string replace -r '^--' - -- $words[-1])
    switch "$value,$words[2],$option"
        case KEY,report,-sort
            printf '%s\n' requests cost change name
        case KEY,top,-sort
            printf '%s\n' requests total p99 errors share name
        case 'FIGURE,*' 'KEY,*' 'FORM,*' 'KIND,*' 'MODE,*'
            # "choose one of a,b,c" is the answer to a value that is not a choice.
            kprof $words[2] $option '?' 2>&1 |
                string replace -rf '.*choose one of ([^ ]*).*' '$1' | string split ,
        case ',*'
            __kprof_lines - $words[2]
    end
end

complete -c kprof -f -a '(__kprof_words)'
complete -c kprof -n __kprof_wants_file -F
