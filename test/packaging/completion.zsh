# What zsh offers for the last word of a command line, one a line into a file:
# an interactive zsh on a pseudo-terminal is asked.
# usage: zsh -f completion.zsh DIRECTORY-OF-COMPLETIONS COMMAND-LINE FILE
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D"
# compadd is given the words; with -O, -A or -D it only sorts them out.
zpty -w z 'compadd() {
	if [[ "${@[1,(i)(-|--)]}" != *-[OAD]\ * ]]; then
		local -a found
		builtin compadd -A found "$@"
		print -rl -- $found >>'${(q)3}'
	fi
	builtin compadd "$@"
}
answer() {
	_main_complete
	compstate[insert]= compstate[list]=
	: >'${(q)3}'.done
}
zle -C answer complete-word answer
bindkey "^T" answer'
: >$3
zpty -w -n z "$2"$'\C-t'
for (( i = 0; i < 600; i++ )); do
	[[ -e $3.done ]] && exit 0
	# Its terminal has to be read, or it would stop.
	zpty -r -t z || sleep 0.05
done >/dev/null
echo "zsh did not answer: $2" >&2
exit 1
