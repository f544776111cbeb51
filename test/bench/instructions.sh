#!/bin/sh
# Counts the instructions that an event takes, from bytes to statistics, and
# compares them with the record beside this file: fails where one is more than
# 5 % over it.  -record writes the record anew.
# usage: instructions.sh BUILD_DIR [-record]
set -eu

record=$(dirname "$0")/instructions.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The C library picks its functions by what the processor can do.
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW

while read -r probe stage flight; do
	events=$(valgrind -q --tool=callgrind --collect-atstart=no \
	    --toggle-collect=count_stage --callgrind-out-file="$work/out" \
	    "$1/bench/count" "$probe" "$stage" "$flight" 2>"$work/err") || {
		cat "$work/err" >&2
		exit 1
	}
	awk -v e="$events" -v p="$probe" -v s="$stage" -v f="$flight" \
	    '/^(summary|totals):/ { n = $2 }
	    END { if (n == 0 || e == 0) exit 1;
		printf "%-6s  %-8s  %5d  %6.1f\n", p, s, f, n / e }' \
	    "$work/out" >> "$work/now"
done <<-END
	relay decode 100
	relay requests 100
	relay series 100
	relay series 2000
	native decode 100
	native requests 100
	native series 100
	native series 2000
	native merge 4
	native merge 4000
END

if [ "${2:-}" = -record ]; then
	{
		echo "# instructions an event takes: make bench-instructions"
		echo "# probe, up to this stage, requests in flight, instructions"
		cat "$work/now"
	} > "$record"
	cat "$work/now"
	exit 0
fi
grep -v '^#' "$record" | awk '
	NR == FNR { was[$1, $2, $3] = $4; next }
	{
		key = $1 SUBSEP $2 SUBSEP $3
		over = was[key] > 0 ? 100 * ($4 / was[key] - 1) : 100
		slip = over > 5 ? "  more than 5 % over the record" : ""
		bad += slip != ""
		printf "%s  %+5.1f %%%s\n", $0, over, slip
	}
	END { exit bad > 0 }' - "$work/now"
