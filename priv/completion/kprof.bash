# bash completion for kprof(1) -*- shell-script -*-
#
# Commands, options and choices are asked of kprof itself, so that they are
# those of the version that is installed.

_kprof_commands()
{
	"$1" -h 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\).*/\1/p'
}

# What -h of a command prints; the options of a connection are on a page of their own.
_kprof_help()
{
	local lines=$("$1" "$2" -h 2>/dev/null)

	case $lines in
	*'help connection'*) lines+=$'\n'$("$1" help connection) ;;
	esac
	printf '%s\n' "$lines"
}

_kprof_options()
{
	_kprof_help "$1" "$2" | sed -n 's/^  \(-[a-z-]*\).*/\1/p'
}

# What the value of an option is, in capitals: FILE, TIME, ...
_kprof_value_of()
{
	_kprof_help "$1" "$2" |
	    sed -n "s/^  $3 \([A-Z][A-Z:=]*\)  *[^ ].*/\1/p"
}

# "choose one of a,b,c" is what a choice answers to what is none.
_kprof_choices()
{
	case $2,$3 in
	report,-sort) echo requests cost change name ;;
	top,-sort) echo requests total p99 errors share name ;;
	*)
		"$1" "$2" "$3" '?' 2>&1 |
		    sed -n 's/.*choose one of \([^ ]*\).*/\1/p' | tr , ' '
		;;
	esac
}

_kprof()
{
	local kprof=${COMP_WORDS[0]} cmd=${COMP_WORDS[1]} what='' words=''
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}

	if [ "$COMP_CWORD" -eq 1 ]; then
		words="$(_kprof_commands "$kprof") help -h -version"
	elif [ "$cmd" = help ]; then
		words="$(_kprof_commands "$kprof") connection"
	else
		case $prev in
		--*) what=$(_kprof_value_of "$kprof" "$cmd" "${prev#-}") ;;
		-*) what=$(_kprof_value_of "$kprof" "$cmd" "$prev") ;;
		esac
		case $what,$cmd,$cur in
		FILE,* | SOCKET,* | ,check,[!-]* | ,check, | ,diff,[!-]* | ,diff, | \
		    ,merge,[!-]* | ,merge, | ,analyse,[!-]* | ,analyse,)
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
			;;
		FIGURE,* | KEY,* | FORM,* | KIND,* | MODE,*)
			words=$(_kprof_choices "$kprof" "$cmd" "${prev/#--/-}")
			;;
		,*) words=$(_kprof_options "$kprof" "$cmd") ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
} &&
    complete -F _kprof kprof
