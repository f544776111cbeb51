/*
 * probe_file.h - finds the libraries that targets load.
 */
#ifndef KP_TARGET_PROBE_FILE_H
#define KP_TARGET_PROBE_FILE_H

#include <stddef.h>

#include "kprofd/buf.h"

/*
 * Writes the absolute path of the library that belongs to this program, in the
 * build directory or installed; returns it.  The file may be missing.
 */
const char *probe_file(char *path, size_t n, const char *name);

/* Writes it as a binary, without ".so", which load_nif/2 adds. */
void probe_file_put(struct kp_buf *b, const char *path);

#endif
