#compdef kprofd
# zsh completion for kprofd(8)
#
# The options are asked of kprofd itself, so that they are those of the version
# that is installed.

local program=$words[1] option=${words[CURRENT - 1]/#--/-} value=
local -a found

if [[ $option == -* ]]; then
	value=$($program -h 2>/dev/null |
	    sed -n "s/^  $option \([A-Z][A-Z:=]*\)  *[^ ].*/\1/p")
fi
case $value in
FILE | SOCKET) _files ;;
FORMAT) compadd text json ;;
KIND) compadd auto native relay ;;
MODE) compadd none peer ;;
'')
	found=(${(f)"$($program -h 2>/dev/null |
	    sed -n 's/^  \(-[a-z-]*\)\( [A-Z][A-Z:=.]*\)*  *\(.*\)/\1:\3/p')"})
	_describe -o option found ;;
esac
