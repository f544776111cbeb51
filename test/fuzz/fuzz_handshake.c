/*
 * fuzz_handshake.c - what a peer sends in place of a node's handshake, or as one.
 * The first byte says how the node is looked for, the second in pieces of how many
 * bytes it comes: what is read does not depend on that, and nobody but the right
 * node gets past its challenge.
 */
#include <string.h>

#include "conn/handshake_check.h"
#include "fuzz.h"

static const char node[] = "app@h.example";
static unsigned reached[HANDSHAKE_OTHER_NODE + 1], accepted;

static struct handshake_check
begin(unsigned how)
{
	return (struct handshake_check){ .node = node, .exact = how & 1,
		.tls = how & 2 };
}

/* Compares what was read, not the private bytes. */
static void
same(const struct handshake_check *a, const struct handshake_check *b)
{
	REQUIRE(a->messages == b->messages && a->release == b->release);
	REQUIRE(strcmp(a->status, b->status) == 0);
	REQUIRE(strcmp(a->name, b->name) == 0);
}

static void
right(const struct handshake_check *h, enum handshake_said said)
{
	REQUIRE(memchr(h->status, '\0', sizeof(h->status)) != NULL);
	REQUIRE(h->name[0] == '\0' || kp_node_name_ok(h->name, strlen(h->name)));
	REQUIRE(said != HANDSHAKE_TOO_OLD ||
	    (h->release > 0 && h->release < HANDSHAKE_RELEASE_LEAST));
	if (said != HANDSHAKE_FINE || h->messages < 2)
		return;
	REQUIRE(h->release == HANDSHAKE_RELEASE_LEAST);
	REQUIRE(strncmp(h->name, "app@", 4) == 0);
	REQUIRE(!h->exact || strcmp(h->name, node) == 0);
	accepted++;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum handshake_said whole, said = HANDSHAKE_FINE;
	struct handshake_check a, b;
	size_t piece, n;

	if (size < 2)
		return 0;
	a = begin(data[0]);
	b = begin(data[0]);
	piece = data[1] + 1u;
	data += 2;
	size -= 2;
	whole = handshake_check(&a, data, size);
	for (size_t i = 0; i < size && said == HANDSHAKE_FINE; i += n) {
		n = piece < size - i ? piece : size - i;
		said = handshake_check(&b, data + i, n);
	}
	REQUIRE(said == whole);
	same(&a, &b);
	right(&a, whole);
	reached[whole]++;
	return 0;
}

void
fuzz_replayed(void)
{
	for (size_t i = 0; i < sizeof(reached) / sizeof(reached[0]); i++)
		REQUIRE(reached[i] > 0);
	REQUIRE(accepted > 0);
}
