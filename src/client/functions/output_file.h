/*
 * output_file.h - the file of -o that a trace is kept in.
 *
 * A trace is first written under another name beside that of the user, and
 * replaces an older file only when it has begun: a trace that cannot begin leaves
 * that file as it was.  A file that is not a trace is never replaced.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_OUTPUT_FILE_H
#define KPROFD_CLIENT_FUNCTIONS_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Looks whether a file, or a database, can be written at this path, before a command
 * works for long; makes nothing.  False after printing why not.
 */
bool output_can_be(const char *path, bool db);

struct output_file {
	FILE *f;		/* NULL: not open */
	const char *name;	/* for people; borrowed */
	char *path, *beside;	/* NULL: written in place */
};

/* name NULL: a temporary file.  False after printing what failed. */
bool output_file_open(struct output_file *t, const char *name);
/* Gives the file its name.  False after printing what failed. */
bool output_file_keep(struct output_file *t);
/* Closes it, and removes it unless it was kept. */
void output_file_close(struct output_file *t);

#endif
