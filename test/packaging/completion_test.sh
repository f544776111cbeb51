#!/bin/sh
# Completion offers what the programs take, in bash, zsh and fish alike.
# usage: completion_test.sh BUILD_DIR
set -u

b=$(cd "$1" && pwd)
kprof=$b/kprof kprofd=$b/kprofd
dir=$(mktemp -d "${TMPDIR:-/tmp}/completion_test.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
. "$(dirname "$0")/lib.sh"
PATH=$b:$PATH

# Under the names by which zsh and fish find them.
mkdir "$dir/zsh" "$dir/fish"
for p in kprof kprofd; do
	cp "priv/completion/$p.zsh" "$dir/zsh/_$p"
	cp "priv/completion/$p.fish" "$dir/fish/$p.fish"
done

in_bash() {
	bash --norc -c '
		. "priv/completion/$1.bash" || exit 1
		f=$(complete -p "$1" | sed "s/.*-F \([^ ]*\).*/\1/")
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		"$f" && printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}

in_zsh() {
	rm -f "$dir/zsh.out" "$dir/zsh.out.done"
	zsh -f test/packaging/completion.zsh "$dir/zsh" "$*" "$dir/zsh.out" &&
	    cat "$dir/zsh.out"
}

# fish prints a word and its help; the home directory is where it writes.
in_fish() {
	HOME=$dir fish --no-config -c \
	    "set fish_complete_path '$dir/fish'; complete -C '$*'" |
	    sed 's/\t.*//'
}

# offers WANTED WORD...: what each shell offers for the last word.  Not each of
# them writes the directory of a file again, and some escape blanks.
offers() {
	wanted=$(printf '%s\n' "$1" | sed '/^$/d' | sort)
	shift
	for shell in bash zsh fish; do
		same "$shell: $*" "$(in_$shell "$@" 2>"$dir/err" |
		    sed 's,.*/,,; s/\\//g; /^$/d' | sort)" "$wanted"
		[ ! -s "$dir/err" ] || fail "$shell: $*: $(cat "$dir/err")"
	done
}

# options PROGRAM [COMMAND], as its -h lists them
options() {
	"$@" -h | sed -n 's/^  \(-[a-z-]*\).*/\1/p'
}
commands() {
	"$kprof" -h | sed -n 's/^  \([a-z][a-z-]*\).*/\1/p'
}

offers "$(options "$kprofd")" kprofd -
offers "-target
-target-file" kprofd -ta
offers "json
text" kprofd -log ''
offers "auto
native
relay" kprofd -probe ''
offers "none
peer" kprofd -tls-verify ''
offers -log-file kprofd -verbose -log-
offers '' kprofd -duration ''
offers '' kprofd -epmd ''
offers '' kprofd -resolve ''

offers "reload
report
resume" kprof re
offers "-h
-version" kprof -
offers "reload
report
resume" kprof help re
offers "$(commands | grep '^c')" kprof c
connection=$("$kprof" help connection | sed -n 's/^  \(-[a-z-]*\).*/\1/p')
for c in $(commands); do
	wanted=$(options "$kprof" "$c")
	case $c in
	check | stacks | count | time | memory | trace | suggest | clear-tokens)
		wanted=$(printf '%s\n%s' "$wanted" "$connection") ;;
	esac
	offers "$wanted" kprof "$c" -
done
offers connection kprof help con
offers "async
busy
calls
gc
out
self
total" kprof report -json -what ''
offers "time
total" kprof slow --sort t
offers "change
cost
name
requests" kprof report -sort ''
offers "none
peer" kprof stacks -tls-verify ''
offers '' kprof stacks -resolve ''
offers -json kprof tree 42 -j

: >"$dir/a file.db"
: >"$dir/tiers.conf"
offers 'a file.db' kprof report -db "$dir/a"
for words in 'kprof check' 'kprofd -tiers' 'kprofd -target-file' \
    'kprofd -verbose -tiers' \
    'kprof count -tls-ca'; do
	# shellcheck disable=SC2086
	offers tiers.conf $words "$dir/t"
done

finish
