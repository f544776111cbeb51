/* fuzz.h - what the fuzz targets share. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * If there is one: whether what was replayed, a whole corpus, has come as far
 * as it is meant to.
 */
void fuzz_replayed(void);

/* Unlike assert() it cannot be compiled out. */
#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

#endif
