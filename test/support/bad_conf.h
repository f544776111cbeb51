/* bad_conf.h - a tiers.conf that is refused, and what is said of it. */
#ifndef TEST_SUPPORT_BAD_CONF_H
#define TEST_SUPPORT_BAD_CONF_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kprofd/config.h"

/* What must be said: "line:col: text" each, in this order. */
struct bad {
	const char *text, *said;
};

static void
assert_bad(const struct bad *b)
{
	struct kp_conf *c = (struct kp_conf *)(uintptr_t)1;
	struct kp_diags d;
	char said[4096] = "";
	size_t n = 0;

	assert_int_equal(kp_conf_parse(&c, b->text, strlen(b->text), &d),
	    KP_EFORMAT);
	assert_ptr_equal(c, (void *)(uintptr_t)1);
	for (size_t i = 0; i < d.n && n < sizeof(said); i++)
		n += (size_t)snprintf(said + n, sizeof(said) - n,
		    "%u:%u: %s%s\n", d.v[i].pos.line, d.v[i].pos.col,
		    d.v[i].warning ? "warning: " : "", d.v[i].text);
	assert_string_equal(said, b->said);
	kp_diags_free(&d);
}

#endif
