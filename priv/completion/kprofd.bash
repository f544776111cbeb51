# bash completion for kprofd(8) -*- shell-script -*-
#
# The options are asked of kprofd itself, so that they are those of the version
# that is installed.

_kprofd()
{
	local kprofd=${COMP_WORDS[0]} what='' words=''
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}

	case $prev in
	-*)
		what=$("$kprofd" -h 2>/dev/null |
		    sed -n "s/^  ${prev/#--/-} \([A-Z][A-Z:=]*\)  *[^ ].*/\1/p")
		;;
	esac
	case $what in
	FILE | SOCKET)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	FORMAT) words='text json' ;;
	KIND) words='auto native relay' ;;
	MODE) words='none peer' ;;
	'')
		words=$("$kprofd" -h 2>/dev/null |
		    sed -n 's/^  \(-[a-z-]*\).*/\1/p')
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
} &&
    complete -F _kprofd kprofd
