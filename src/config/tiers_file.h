/*
 * tiers_file.h - reads tiers.conf as a file, sums it up in a line, and shows its errors.
 * kprofd/config.h parses its content.
 */
#ifndef KPROFD_CONFIG_TIERS_FILE_H
#define KPROFD_CONFIG_TIERS_FILE_H

#include <stdio.h>

#include "kprofd/buf.h"
#include "kprofd/config.h"
#include "text/json.h"

/*
 * The whole file with a NUL behind its n bytes, to be freed; "-" is standard
 * input.  NULL: `why` is one line for the user.
 */
char *tiers_file_read(const char *path, size_t *n, char *why, size_t whylen);
/*
 * tiers.conf: ok: 5 tiers, 6 function patterns, 1 entry; sampling: ...
 * and a line for each objective.
 */
void tiers_file_summary(struct kp_buf *b, const char *path,
    const struct kp_conf *c);
/* The members of an object: what is to be reached. */
void objective_json(struct json *j, const struct kp_objective *o);
const char *tiers_file_sampling(char *buf, size_t n,
    const struct kp_sampling *s);

/*
 * Shows the errors in a file, each with its source line:
 *
 *	tiers.conf:3:18: error: found 'x', expected a tier name
 *	  {db, [{db, x y}]}
 *	             ^
 *
 * src: the n bytes that were parsed; NULL: the lines are not shown.
 */
void diag_text(struct kp_buf *b, const char *file, const char *src, size_t n,
    const struct kp_diags *diags);
void diag_print(FILE *to, const char *file, const char *src, size_t n,
    const struct kp_diags *diags);

#endif
