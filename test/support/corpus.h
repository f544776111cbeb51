/*
 * corpus.h - reads the files that unit tests and fuzzers share.
 *
 * Paths are relative to the top of the tree, where make runs the tests; set
 * KP_CORPUS where that is not so.  The bytes are the caller's: test_free().
 */
#ifndef TEST_CORPUS_H
#define TEST_CORPUS_H

#include <stdio.h>
#include <stdlib.h>

static uint8_t *
corpus_read(const char *set, const char *name, size_t *n)
{
	const char *root = getenv("KP_CORPUS");
	char path[512];
	uint8_t *p;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s",
	    root != NULL ? root : "test/fuzz/corpus", set, name);
	f = fopen(path, "rb");
	if (f == NULL)
		fail_msg("cannot open '%s': run from the top of the tree", path);
	p = test_malloc(1 << 20);
	*n = fread(p, 1, 1 << 20, f);
	fclose(f);
	return p;
}

#endif
