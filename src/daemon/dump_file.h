/*
 * dump_file.h - -dump-file: every closed window, appended as a table or as
 * lines of JSON.
 */
#ifndef KPROFD_DAEMON_DUMP_FILE_H
#define KPROFD_DAEMON_DUMP_FILE_H

#include <stdbool.h>

#include "kprofd/stats.h"

struct tables;

/* NULL: it was told why. */
struct tables *tables_open(const char *path, bool json);
/* conf: that the window was measured by. */
void tables_window(struct tables *t, const struct kp_window *w,
    const struct kp_conf *conf);
void tables_close(struct tables *t);

#endif
