/* conf_file.h - reads tiers.conf, and reports what is wrong with it. */
#ifndef KPROFD_DAEMON_CONF_FILE_H
#define KPROFD_DAEMON_CONF_FILE_H

#include "kprofd/config.h"

struct conf_file {
	const char *path;	/* borrowed */
	char *text;
	size_t len;
	struct kp_conf *conf;
	size_t warnings;	/* about the file */
};

/* Logs the mistakes; appends them to `mistakes` too, if that is not NULL. */
enum kp_err conf_file_load(struct conf_file *f, const char *path,
    struct kp_buf *mistakes);
void conf_file_free(struct conf_file *f);
/* Reports the mistakes that a target found; node: its name, or NULL. */
void conf_file_diags(const struct conf_file *f, const struct kp_diags *d,
    const char *node, struct kp_buf *mistakes);
/* Prints a line on stdout: how many tiers, functions, entries. */
void conf_file_summary(const struct conf_file *f);

/* Why {messages, true} is refused with -probe relay. */
extern const char conf_file_messages[];

#endif
