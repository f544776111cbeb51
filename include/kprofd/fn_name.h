/* fn_name.h - functions as people write them. */
#ifndef KPROFD_FN_NAME_H
#define KPROFD_FN_NAME_H

#include "kprofd/buf.h"

/* lists:seq/2, MyApp.Repo.all/2; not yet clean (text_put()). */
void fn_name_put(struct kp_buf *b, const char *mod, const char *fun,
    uint32_t arity);

#endif
