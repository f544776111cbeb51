#include "kprofd/tables.h"
#include <stddef.h>
struct tables *tables_open(const char *path, bool json, const struct kp_conf *conf) { (void)path;(void)json;(void)conf; return NULL; }
void tables_window(struct tables *t, const struct kp_window *w) { (void)t;(void)w; }
void tables_close(struct tables *t) { (void)t; }
