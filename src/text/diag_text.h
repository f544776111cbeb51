/*
 * diag_text.h - shows the errors in a file, each with its source line:
 *
 *	tiers.conf:3:18: error: found 'x', expected a tier name
 *	  {db, [{db, x y}]}
 *	             ^
 */
#ifndef KPROFD_TEXT_DIAG_TEXT_H
#define KPROFD_TEXT_DIAG_TEXT_H

#include <stdio.h>

#include "kprofd/buf.h"
#include "kprofd/config.h"

/* src: the n bytes that were parsed; NULL: the lines are not shown. */
void diag_text(struct kp_buf *b, const char *file, const char *src, size_t n,
    const struct kp_diags *diags);
void diag_print(FILE *to, const char *file, const char *src, size_t n,
    const struct kp_diags *diags);

#endif
