/*
 * probe_file.h - finds the libraries that targets load.
 */
#ifndef KPROFD_AGENT_PROBE_FILE_H
#define KPROFD_AGENT_PROBE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/buf.h"

/*
 * Writes the absolute path of the library that belongs to this program, in the
 * build directory or installed; returns it.  The file may be missing.
 */
const char *probe_file(char *path, size_t n, const char *name);

#define PROBE_FILE_MAX (4u << 20)	/* bytes of a library that is sent */

/*
 * Reads a library that is to be sent: a complete one for 64 bits.  machine: x86_64, in
 * the words of a node's system_architecture.  False: b holds nothing, and why the
 * reason.  The caller has initialised b.
 */
bool probe_file_read(struct kp_buf *b, const char **machine, const char *path, char *why,
    size_t n);

/* Writes it as a binary, without ".so", which load_nif/2 adds. */
void probe_file_put(struct kp_buf *b, const char *path);

#endif
