/* gzip.c - deflates in pieces, into a buffer that grows. */
#include <zlib.h>

#include "gzip.h"

#define LEVEL 3			/* 6 takes twice the time, for a seventh less */
#define PIECE 16384		/* bytes */
#define WINDOW (15 + 16)	/* zlib's largest, and gzip's header */
#define MEMORY 8		/* zlib's default */

void
gzip_put(struct kp_buf *b, const void *p, size_t n)
{
	z_stream z = { .next_in = (void *)(uintptr_t)p, .avail_in = (uInt)n };
	uint8_t piece[PIECE];
	int end = Z_OK;

	if (n > UINT32_MAX || deflateInit2(&z, LEVEL, Z_DEFLATED, WINDOW, MEMORY,
	    Z_DEFAULT_STRATEGY) != Z_OK) {
		b->err = b->err != KP_OK ? b->err : KP_ENOMEM;
		return;
	}
	while (end == Z_OK && b->err == KP_OK) {
		z.next_out = piece;
		z.avail_out = sizeof(piece);
		end = deflate(&z, Z_FINISH);
		kp_buf_put(b, piece, sizeof(piece) - z.avail_out);
	}
	deflateEnd(&z);
}
