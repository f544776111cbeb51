/*
 * tiers_file.h - reads tiers.conf as a file, and sums it up in a line.
 * kprofd/config.h parses its content.
 */
#ifndef KPROFD_CONFIG_TIERS_FILE_H
#define KPROFD_CONFIG_TIERS_FILE_H

#include "kprofd/buf.h"
#include "kprofd/config.h"

/*
 * The whole file with a NUL behind its n bytes, to be freed; "-" is standard
 * input.  NULL: `why` is one line for the user.
 */
char *tiers_file_read(const char *path, size_t *n, char *why, size_t whylen);
/* tiers.conf: ok: 5 tiers, 6 function patterns, 1 entry; sampling: ... */
void tiers_file_summary(struct kp_buf *b, const char *path,
    const struct kp_conf *c);
const char *tiers_file_sampling(char *buf, size_t n,
    const struct kp_sampling *s);

#endif
