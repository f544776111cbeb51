/*
 * fuzz_shape.c - any answer of a target to what kprofd -check -explain asks of
 * the arguments of a call: a byte for the function's arity, then the term.
 *
 * What is made of it is bounded by the buffer, has no control characters, and is
 * a call.
 */
#include <string.h>

#include "fuzz.h"
#include "kprofd/config.h"

#define CONF "{tiers, [{t, {m, f, '_'}}]}.\n{identity, fun({m, f, " \
	"[#{verb := V, <<\"k\">> := 1}]}) -> V; (_) -> undefined end}."
#define TEXT_BYTES 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_text(const struct kp_buf *b, uint32_t arity)
{
	REQUIRE(b->len >= 5 && memcmp(b->p, "m:f(", 4) == 0);
	REQUIRE(b->p[b->len - 1] == ')');
	REQUIRE(arity > 0 || b->len == 5);
	for (size_t i = 0; i < b->len; i++)
		REQUIRE(b->p[i] >= ' ' && b->p[i] != 127);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct kp_conf *conf;
	struct kp_mfa f = { "m", "f", size > 0 ? data[0] : 0 };
	struct kp_diags d;
	struct kp_buf b;

	if (conf == NULL) {
		REQUIRE(kp_conf_parse(&conf, CONF, strlen(CONF), &d) == KP_OK);
		kp_diags_free(&d);
	}
	if (size == 0)
		return 0;
	kp_buf_init(&b, TEXT_BYTES);
	if (kp_shape_text(conf, &f, data + 1, size - 1, &b) == KP_OK)
		check_text(&b, f.arity);
	REQUIRE(b.len <= TEXT_BYTES);
	kp_buf_free(&b);
	return 0;
}
