/* gzip.h - compresses bytes as gzip does.  Pure.  Source: RFC 1952, by zlib. */
#ifndef KPROFD_BASE_GZIP_H
#define KPROFD_BASE_GZIP_H

#include "kprofd/buf.h"

/* Appends the whole of n bytes, compressed.  Errors stick in b. */
void gzip_put(struct kp_buf *b, const void *p, size_t n);

#endif
