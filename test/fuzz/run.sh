#!/bin/sh
# run.sh DIR LIMIT NAME... - runs the fuzzers DIR/fuzz_NAME, each up to the
# limit (an option of libFuzzer's, -runs=N say), from what it has found before
# (DIR/corpus/NAME) and its seeds, those of unit tests ($KP_SEEDS/NAME) with them.  Says of each what it ran; the first finding
# ends it, whose input is left in DIR/NAME-*.
set -u
dir=$1
limit=$2
shift 2
src=$(dirname "$0")

# Bytes of an input, where longer ones only do more of the same.
max_len() {
	case $1 in
	config) echo 1024 ;;
	nodes | keys) echo 512 ;;
	request) echo 256 ;;
	agent) echo 128 ;;
	*) echo 4096 ;;
	esac
}

# Stacks of allocations are for a finding, which is run again to be looked at;
# memory stays in quarantine for some executions, not for thousands.
ASAN_OPTIONS=malloc_context_size=0:max_malloc_fill_size=256
ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1
ASAN_OPTIONS=$ASAN_OPTIONS:thread_local_quarantine_size_kb=64
ASAN_OPTIONS=$ASAN_OPTIONS:allocator_release_to_os_interval_ms=-1
export ASAN_OPTIONS

for t; do
	log=$dir/$t.log
	mkdir -p "$dir/corpus/$t"
	dict=$src/$t.dict
	[ -f "$dict" ] || dict=
	seeds=${KP_SEEDS:-}/$t
	[ -d "$seeds" ] || seeds=
	# -entropic: what it would be worth is less than what it costs.
	# -timeout: of the clock, which goes on while others have the processor.
	"$dir/fuzz_$t" -timeout=60 -rss_limit_mb=1024 -print_final_stats=1 \
	    -entropic=0 -reload=0 -max_len="$(max_len "$t")" \
	    ${dict:+"-dict=$dict"} "$limit" \
	    -artifact_prefix="$dir/$t-" \
	    "$dir/corpus/$t" "$src/corpus/$t" ${seeds:+"$seeds"} >"$log" 2>&1 || {
		tail -n 20 "$log"
		echo "fuzz_$t: a finding, see $log and $dir/$t-*"
		exit 1
	}
	sed -n "s/^Done \([0-9]*\) runs in \([0-9]*\) second(s)/fuzz_$t: \1 executions in \2 s, no finding/p" "$log"
done
