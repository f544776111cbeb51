#compdef kprof
# zsh completion for kprof(1)
#
# Commands, options and choices are asked of kprof itself, so that they are
# those of the version that is installed.

local program=$words[1] command=$words[2] option=${words[CURRENT - 1]/#--/-} value=
local -a found

# What -h prints; the options of a connection are on a page of their own.
_kprof_help() {
	local lines="$($program $1 -h 2>/dev/null)"

	print -r -- $lines
	[[ $lines != *'help connection'* ]] || $program help connection
}

# The lines of -h that begin with this, as NAME:HELP.
_kprof_lines()
{
	_kprof_help $2 |
	    sed -n "s/^  \($1[a-z-]*\)\( [A-Z][A-Z:=.]*\)*  *\(.*\)/\1:\3/p"
}

if (( CURRENT == 2 )); then
	found=(${(f)"$(_kprof_lines '[a-z]')"} 'help:show the options of a command'
	    '-h:list the commands' '-version:print the version')
	_describe command found
	return
elif [[ $command == help ]]; then
	found=(${(f)"$(_kprof_lines '[a-z]')"} 'connection:how a node is reached')
	_describe command found
	return
elif [[ $option == -* ]]; then
	value=$(_kprof_help $command |
	    sed -n "s/^  $option \([A-Z][A-Z:=]*\)  *[^ ].*/\1/p")
fi
case $value,$command,$option in
FILE,* | SOCKET,*)
	_files ;;
KEY,report,-sort)
	compadd requests cost change name ;;
KEY,top,-sort)
	compadd requests total p99 errors share name ;;
FIGURE,* | KEY,* | FORM,* | KIND,* | MODE,*)
	# "choose one of a,b,c" is the answer to a value that is not a choice.
	compadd ${(s:,:)"$($program $command $option '?' 2>&1 |
	    sed -n 's/.*choose one of \([^ ]*\).*/\1/p')"} ;;
,(check|diff|merge|analyse),*)
	if [[ $PREFIX != -* ]]; then
		_files
		return
	fi ;|
,*)
	found=(${(f)"$(_kprof_lines - $command)"})
	_describe -o option found ;;
esac
