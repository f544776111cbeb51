#!/bin/sh
# What the programs take is what -h and the man pages say they take, no more and
# no less.
# usage: options_test.sh BUILD_DIR
set -u

b=$1
kprof=$b/kprof kprofd=$b/kprofd
dir=$(mktemp -d "${TMPDIR:-/tmp}/options_test.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
. "$(dirname "$0")/lib.sh"

# One a line, sorted.
words() {
	tr -s ' \t' '\n\n' | sed '/^$/d' | sort -u
}

rendered() {
	mandoc -T ascii -O width=1000 "$1" | sed 's/.\x08//g'
}

# section FILE NAME, of a rendered page
section() {
	sed -n "/^$2\$/,/^[A-Z]/p" "$1" | sed '1d; /^[A-Z]/d'
}

# options PROGRAM [COMMAND], as its -h lists them
options() {
	"$@" -h | sed -n 's/^  \(-[a-z-]*\).*/\1/p' | words
}

commands() {
	"$kprof" -h | sed -n 's/^  \([a-z][a-z-]*\).*/\1/p'
}

# Options that have a description, from a page's source; one that has two is there twice.
described() {
	grep '^\.It Fl' "$1" | grep -oE 'Fl [a-z-]+|, [a-z-]+' |
	    sed 's/^[^ ]* /-/' | sort
}

for page in kprof.1 kprofd.8 tiers.conf.5; do
	# What is left out depends on the machine's own pages.
	same "mandoc -Tlint $page" "$(mandoc -Tlint -Wstyle "priv/man/$page" 2>&1 |
	    grep -vE 'referenced manual not found|outdated mandoc.db')" ''
	rendered "priv/man/$page" >"$dir/$page"
	for s in FILES EXAMPLES DIAGNOSTICS 'SEE ALSO'; do
		[ -n "$(section "$dir/$page" "$s")" ] || fail "$page has no $s"
	done
done

# ---- kprofd

same 'kprofd: options described' "$(described priv/man/kprofd.8)" \
    "$(options "$kprofd")"

# ---- kprof, command by command

# No line of -h is wider than a terminal, and help is the same.
narrow() {
	"$@" >"$dir/help"
	ok "$* prints its usage" grep -q '^usage: ' "$dir/help"
	same "wide lines of $*" "$(grep -E '^.{81}' "$dir/help")" ''
}
narrow "$kprofd" -h
narrow "$kprof" -h
same 'kprof help' "$("$kprof" help)" "$("$kprof" -h)"
same 'kprof help COMMAND and more' "$("$kprof" help report -json 2>&1)" \
    "$("$kprof" report -h)"
same 'kprofd help' "$("$kprofd" help)" "$("$kprofd" -h)"
same 'kprof help connection: they are of kprofd, too' \
    "$("$kprof" help connection | sed -n 's/^  -.*/&/p' |
    while IFS= read -r line; do
	"$kprofd" -h | grep -qxF -e "$line" || printf '%s\n' "$line"
    done)" ''
for c in $(commands); do
	narrow "$kprof" "$c" -h
	same "kprof help $c" "$("$kprof" help "$c")" "$(cat "$dir/help")"
done

all=
for c in $(commands); do
	all="$all $(options "$kprof" "$c")"
done
same 'kprof: options described' "$(described priv/man/kprof.1)" \
    "$(printf '%s -version' "$all" | words)"
same 'kprof: commands of the synopsis' \
    "$(section "$dir/kprof.1" SYNOPSIS | sed -n 's/^ *kprof \([a-z]\)/\1/p' |
    sed 's/ \[.*\| out.*//; s/|//g' | grep -vx help | words)" \
    "$(commands | words)"

# An option comes before the environment, and that before kprofd.db.
opened() {
	"$@" 2>&1 | sed "s/.*cannot open '\([^']*\)'.*/\1/"
}
KPROF_DB=$dir/env.db
export KPROF_DB
same 'KPROF_DB' "$(opened "$kprof" report)" "$dir/env.db"
same 'KPROF_DB and -db' "$(opened "$kprof" report -db "$dir/a.db")" "$dir/a.db"
unset KPROF_DB
abs=$(realpath "$kprof")
same 'no KPROF_DB' "$(cd "$dir" && opened "$abs" report)" kprofd.db

# ---- environment, signals, exit statuses, events

# environment DIR...: what is asked for there
environment() {
	grep -rohE 'getenv\("[A-Z_]+"\)' "$@" | grep -oE '[A-Z_]{2,}' | words
}
in_page() {
	sed -n '/^\.Sh ENVIRONMENT/,/^\.Sh EXIT/p' "priv/man/$1" |
	    sed -n 's/^\.It Ev //p' | tr -d , | words
}
same 'kprofd: environment' "$(in_page kprofd.8 | grep -vx TZ)" \
    "$(environment src/base src/daemon src/conn src/agent src/store src/export src/web)"
same 'kprof: environment' "$(in_page kprof.1 | grep -vx TZ)" \
    "$(environment src/base src/client src/profile src/conn src/store)"
same 'kprofd: signals' \
    "$(sed -n 's/^\.It Dv \(SIG.*\)/\1/p' priv/man/kprofd.8 |
    sed 's/Dv//g; s/,//g' | words)" \
    "$(grep -rohE '\{ SIG[A-Z]+, on_' src/daemon |
    grep -oE 'SIG[A-Z]+' | words)"
same 'kprofd: events of the log' \
    "$(section "$dir/kprofd.8" LOG | sed '1,/The events are:/d' |
    sed -nE 's/^     ([a-z_]+)(  .*)?$/\1/p' | words)" \
    "$({ find src/daemon src/agent -name '*.c' -exec cat {} +; cat src/export/push.c; } | tr '\n' ' ' |
    grep -oE '(\[PUSH_[A-Z_]+\] = \{ |log_(debug|info|warn|error)\(|\.event = [^",]*|(notice|agent_report|target_report)\((a|t|ctx), )"[a-z_]+"( : "[a-z_]+")?' |
    grep -oE '"[a-z_]+"' | tr -d '"' | words)"

# Each message of DIAGNOSTICS is one that the program has; "..." stands for what it
# names.  Reasons of files come from file_why.c.
for page in kprofd.8 kprof.1; do
	strings -n 8 "$b/${page%.*}" >"$dir/strings"
	sed -n '/^\.Sh DIAGNOSTICS/,/^\.Sh NOTES/p' "priv/man/$page" |
	    sed -n "s/^\.It //p" | sed "s/'[^']*'/'%s'/g; s/\.\.\./%s/g; s/: no such file\$/: %s/" >"$dir/diag"
	while read -r text; do
		ok "$page: '$text' is said" grep -qF -e "$text" "$dir/strings"
	done <"$dir/diag"
	[ -s "$dir/diag" ] || fail "$page has no diagnostics"
done

# The forms of tiers.conf.
same 'tiers.conf: forms' \
    "$(sed -n '/^\.Sh FORMS/,/^\.Sh IDENT/p' priv/man/tiers.conf.5 |
    sed -n 's/^\.It Li {\([a-z_]*\),.*/\1/p' | words)" \
    "$(sed -n 's/^	{ "\([a-z_]*\)", "{.*/\1/p' src/config/conf.c | words)"

finish
