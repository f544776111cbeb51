#include <stdio.h>
#include "kprofd/config.h"
static inline void diag_print(FILE *f, const char *file, const char *src, size_t n, const struct kp_diags *d) { (void)src;(void)n; for (size_t i=0;i<d->n;i++) fprintf(f,"%s:%u:%u: %s\n",file,d->v[i].pos.line,d->v[i].pos.col,d->v[i].text); }
