/*
 * fuzz_config.c - tiers.conf from anyone: parse it, and if it is good compile
 * the match specs of every function it names.
 */
#include <stdint.h>
#include <stdlib.h>

#include "kprofd/config.h"

#define SPEC_BYTES_MAX (256u << 10)
#define FNS_MAX 3	/* functions compiled for one input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
compile(const struct kp_conf *c, const struct kp_mfa_pat *p)
{
	struct kp_spec_params sp = { .one_in = 7,
		.label_const = UINT64_C(1) << 36, .exact = true };
	struct kp_mfa f = { p->mod, p->fun != NULL ? p->fun : "f",
		p->arity >= 0 ? (uint32_t)p->arity : 2 };
	struct kp_buf b;

	kp_buf_init(&b, SPEC_BYTES_MAX);
	kp_spec_tier(c, &f, &sp, &b);
	kp_buf_reset(&b);
	kp_spec_entry(c, &f, &sp, &b);
	kp_buf_reset(&b);
	sp.clauses = true;
	sp.shape = KP_SHAPE_VALUES;
	kp_spec_entry(c, &f, &sp, &b);
	kp_buf_free(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_conf *c;
	struct kp_diags d;
	struct kp_mfa_pat p;
	size_t n = 0;

	if (kp_mfa_pat_parse(&p, (const char *)data, size) == KP_OK)
		kp_mfa_pat_free(&p);
	if (kp_conf_parse(&c, (const char *)data, size, &d) == KP_OK) {
		if (d.errors > 0)
			abort();
		for (size_t i = 0; i < c->ntiers; i++) {
			for (size_t j = 0; j < c->tiers[i].nfns &&
			    n < FNS_MAX; j++, n++)
				compile(c, &c->tiers[i].fns[j]);
		}
		kp_conf_free(c);
	} else if (d.errors == 0) {
		abort();	/* a refusal that says nothing */
	}
	kp_diags_free(&d);
	return 0;
}
