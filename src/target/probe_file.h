/*
 * probe_file.h - finds the libraries that targets load.
 */
#ifndef KP_TARGET_PROBE_FILE_H
#define KP_TARGET_PROBE_FILE_H

#include <stddef.h>

#include "kprofd/buf.h"

/*
 * Writes the absolute path of the one that belongs to this program, as it is
 * built or as it is installed; returns it.  It need not be there.
 */
const char *probe_file(char *path, size_t n, const char *name);

/* As a binary, without its extension, which load_nif/2 puts there itself. */
void probe_file_put(struct kp_buf *b, const char *path);

#endif
