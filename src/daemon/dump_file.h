/*
 * dump_file.h - -dump-file: every closed window, appended as a table or as
 * lines of JSON.
 */
#ifndef KPROFD_DAEMON_DUMP_FILE_H
#define KPROFD_DAEMON_DUMP_FILE_H

#include <stdbool.h>

#include "kprofd/stats.h"

struct dump_file;

/* NULL: it was told why. */
struct dump_file *dump_file_open(const char *path, bool json);
/* conf: that the window was measured by. */
void dump_file_window(struct dump_file *t, const struct kp_window *w,
    const struct kp_conf *conf);
/* Of a run that never began nothing stays that was not there. */
void dump_file_close(struct dump_file *t, bool began);

#endif
