/*
 * dump_file.h - appends every closed window to the file of -dump-file, as a
 * table or as lines of JSON.
 */
#ifndef KPROFD_DAEMON_DUMP_FILE_H
#define KPROFD_DAEMON_DUMP_FILE_H

#include <stdbool.h>

#include "kprofd/stats.h"

struct dump_file;

/* NULL: the reason was logged. */
struct dump_file *dump_file_open(const char *path, bool json);
/* conf: the configuration by which the window was measured. */
void dump_file_window(struct dump_file *t, const struct kp_window *w,
    const struct kp_conf *conf);
/* Removes the file if the start failed (not began) and it was created here. */
void dump_file_close(struct dump_file *t, bool began);

#endif
