#!/bin/sh
# Writes a header with the bytes of the files that the web server serves.
# usage: assets.sh FILE ... >web_assets.h
set -eu

list=
n=0
for f in "$@"; do
	xxd -i -n "web_file_$n" "$f" | sed -e '/^unsigned int/d' \
	    -e 's/^unsigned char/static const unsigned char/'
	list="$list{ \"/${f##*/}\", web_file_$n, sizeof(web_file_$n) },"
	n=$((n + 1))
done
printf 'static const struct { const char *path; const unsigned char *p;\n'
printf '    size_t n; } web_files[] = {%s };\n' "$list"
