/*
 * tables.h - -dump-file: every closed window, appended as a table or as
 * lines of JSON.
 */
#ifndef KP_KPROFD_TABLES_H
#define KP_KPROFD_TABLES_H

#include <stdbool.h>

#include "kprofd/stats.h"

struct tables;

/* NULL: it was told why.  conf is borrowed. */
struct tables *tables_open(const char *path, bool json,
    const struct kp_conf *conf);
/* Those to come are of another one, borrowed as well. */
void tables_conf(struct tables *t, const struct kp_conf *conf);
void tables_window(struct tables *t, const struct kp_window *w);
void tables_close(struct tables *t);

#endif
