#!/bin/sh
# Fails where an object of a pure room refers to what neither a pure room defines
# nor this list has: a pure room gets bytes or structs and a clock's value, and
# does no I/O.
# usage: purity.sh BUILD ROOM ...
set -eu

obj=$1/obj/src
shift

# To all of them: memory, strings, numbers, patterns.
any='__ctype_b_loc __errno_location __popcountdi2 __stack_chk_fail aligned_alloc
asprintf calloc deflate deflateEnd deflateInit2_ exp2 explicit_bzero fmax free inet_pton llround madvise malloc memchr memcmp memcpy memmem
memmove memset qsort qsort_r realloc reallocarray regcomp regerror regexec regfree
snprintf sqrt strchr strcmp strcspn strdup strerror strlen strncasecmp strncmp strndup strrchr
strspn strstr strtod strtol strtoll vasprintf vsnprintf'

# The edges of these rooms: what reads a clock, a file, its readers or the time
# zone, and what starts a thread.
edges='base/clock.o:clock_gettime
base/secret.o:open base/secret.o:fstat base/secret.o:fdopen base/secret.o:close
base/secret.o:fileno base/secret.o:fgetxattr base/secret.o:getenv base/secret.o:geteuid
base/secret.o:getegid base/secret.o:getgroups base/secret.o:getgrgid_r base/secret.o:getpwnam_r
base/secret.o:fgetpwent_r base/secret.o:fopen base/secret.o:fclose
base/thread.o:pthread_create base/thread.o:pthread_sigmask base/thread.o:sigfillset
config/tiers_file.o:fopen config/tiers_file.o:fread config/tiers_file.o:ferror
config/tiers_file.o:fclose config/tiers_file.o:stdin config/tiers_file.o:fputs text/file_why.o:stat text/file_why.o:readlink
text/file_why.o:access text/file_why.o:statfs
text/text.o:newlocale text/text.o:uselocale text/text.o:wcwidth text/text.o:pthread_once
text/timefmt.o:gmtime_r text/timefmt.o:localtime_r text/timefmt.o:mktime
text/timefmt.o:timegm text/timefmt.o:strftime'

# Of the sources there are: an older build has objects of some that are gone.
objects=$(for room in "$@"; do
	for f in src/"$room"/*.c; do f=${f#src/}; echo "${f%.c}.o"; done
done)
cd "$obj"
# shellcheck disable=SC2086
{
	printf 'any %s\n' $any
	printf 'edge %s\n' $edges
	nm -A $objects
} | awk '
	$1 == "any" { may[$2] = 1; next }
	$1 == "edge" { may[$2] = 1; next }
	{ split($0, at, ":"); name = $NF; kind = $(NF - 1) }
	# With _FORTIFY_SOURCE some have another name; with newer C libraries, too.
	name ~ /^__.*_chk$/ { gsub(/^__|_chk$/, "", name) }
	{ sub(/^__isoc23_/, "", name) }
	kind == "U" { wants[at[1] ":" name] = name; n++; next }
	kind ~ /^[TDBRVWC]$/ { may[name] = 1 }
	END {
		for (w in wants)
			if (!(w in may) && !(wants[w] in may)) {
				print "not pure: src/" w
				bad = 1
			}
		if (n == 0) {
			print "purity.sh: there is nothing to look at"
			bad = 1
		}
		exit bad
	}'
