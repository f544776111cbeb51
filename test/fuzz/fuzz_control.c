/*
 * fuzz_control.c - a client of the control socket sends a check: what was taken,
 * written out again, reads the same.
 */
#include <string.h>

#include "fuzz.h"
#include "daemon/check/check_message.h"

static struct check_message a, b;

static void
check(const char *p, size_t n)
{
	const char *nodes[CHECK_NODES_MAX];
	struct kp_buf out;

	if (!check_message_read(&a, p, n))
		return;
	REQUIRE(a.ms >= CHECK_MS_MIN && a.ms <= CHECK_MS_MAX);
	REQUIRE(a.nnodes <= CHECK_NODES_MAX && a.n <= KP_CONF_SIZE_MAX);
	REQUIRE(a.text + a.n == p + n && strlen(a.path) <= CHECK_PATH_MAX);
	for (unsigned i = 0; i < a.nnodes; i++) {
		REQUIRE(kp_node_name_ok(a.nodes[i], strlen(a.nodes[i])));
		nodes[i] = a.nodes[i];
	}
	kp_buf_init(&out, CHECK_MESSAGE_MAX);
	check_message_put(&out, a.ms, a.path, nodes, a.nnodes, a.text, a.n);
	REQUIRE(out.err == KP_OK);
	REQUIRE(check_message_read(&b, (const char *)out.p, out.len));
	REQUIRE(b.ms == a.ms && strcmp(b.path, a.path) == 0);
	REQUIRE(b.nnodes == a.nnodes && b.n == a.n);
	for (unsigned i = 0; i < a.nnodes; i++)
		REQUIRE(strcmp(b.nodes[i], a.nodes[i]) == 0);
	REQUIRE(a.n == 0 || memcmp(b.text, a.text, a.n) == 0);
	kp_buf_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check((const char *)data, size);
	return 0;
}
