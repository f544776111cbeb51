#!/bin/sh
# What erlang/merge.escript refuses, and what it makes.
# usage: merge_test.sh BUILD
dir=$1/erlang/merge
bad=0

# $1: the host's body, $2 and $3: those of two parts
modules() {
	rm -rf "$dir" && mkdir -p "$dir/parts"
	printf '%s\n' '-module(kprof_host).' "$1" > "$dir/kprof_host.erl"
	printf '%s\n' '-module(kprof_one).' "$2" > "$dir/parts/kprof_one.erl"
	printf '%s\n' '-module(kprof_two).' "$3" > "$dir/parts/kprof_two.erl"
	escript erlang/merge.escript "$dir/kprof_host.beam" "$dir/kprof_host.erl" > "$dir/out" 2>&1
}

# $1: what it says; the rest as above
refused() {
	said=$1
	shift
	if modules "$@"; then
		echo "FAIL  merged: $said"
	elif grep -q "$said" "$dir/out"; then
		return
	else
		echo "FAIL  not '$said' but: $(head -3 "$dir/out")"
	fi
	bad=1
}

host='-export([f/0]). f() -> kprof_one:g().'
one='-export([g/0]). g() -> kprof_two:h().'
two='-export([h/0]). h() -> ok.'

refused 'h/0 is defined in kprof_one and kprof_two' "$host" "$one h() -> twice." "$two"
refused 'kprof_one does not export g/0' "$host" 'g() -> ok.' "$two"
refused 'there is no module kprof_three' "$host" '-export([g/0]). g() -> kprof_three:h().' "$two"
refused 'kprof_one is a name that no module has in a target' "$host" '-export([g/0]). g() -> ?MODULE.' "$two"
refused 'record r is not the same' "$host" "-record(r, {a}). $one" "-record(r, {b}). $two"
refused 'cannot merge -on_load' "$host" "-on_load(h/0). $one" '-export([h/0]). h() -> ok.'
refused 'cannot merge -nifs' "$host" "-nifs([g/0]). $one" "$two"

if modules "$host" "-record(r, {a}). $one" "-record(r, {a :: atom()}). $two"; then
	made=$(erl -noinput -pa "$dir" -eval '
	    io:format("~p ~p ~p", [kprof_host:f(), lists:sort(kprof_host:module_info(exports)),
	                           code:which(kprof_one)]), halt().')
	[ "$made" = 'ok [{f,0},{module_info,0},{module_info,1}] non_existing' ] || {
		echo "FAIL  made: $made"
		bad=1
	}
else
	cat "$dir/out"
	bad=1
fi
[ $bad = 0 ] && echo 'merge: ok'
exit $bad
