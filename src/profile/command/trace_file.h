/*
 * trace_file.h - the file that a trace is kept in.
 *
 * It is written under another name beside the one that was given, and replaces
 * an older file only when there is something to keep: a trace that cannot begin
 * leaves that file as it was.  A file that is not a trace of kprof's is never
 * replaced.
 */
#ifndef KPROFD_PROFILE_COMMAND_TRACE_FILE_H
#define KPROFD_PROFILE_COMMAND_TRACE_FILE_H

#include <stdbool.h>
#include <stdio.h>

struct trace_file {
	FILE *f;		/* NULL: not open */
	const char *name;	/* for people; borrowed */
	char *path, *beside;	/* NULL: written in its place */
};

/* name NULL: one without a name.  What is wrong is said. */
bool trace_file_open(struct trace_file *t, const char *name);
/* What is in it so far is there under its name from now on.  As above. */
bool trace_file_keep(struct trace_file *t);
/* What is not kept goes. */
void trace_file_close(struct trace_file *t);

#endif
