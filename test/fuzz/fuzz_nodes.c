/*
 * fuzz_nodes.c - a list of nodes is a file of anybody's, a glob comes from a
 * socket: the first line is taken as a glob, a host and a node, the rest as a
 * list.
 */
#include <string.h>

#include "fuzz.h"
#include "kprofd/nodes.h"

#define MAX 8		/* names, so that the cap is met */
#define GLOB_MAX (2 * KP_NODE_NAME_MAX)	/* bytes: more is more of the same */

/* Nodes that were taken are nodes, each once; written out they read the same. */
static void
again(const struct kp_node_list *l)
{
	char text[MAX * (KP_NODE_TYPED_MAX + 1) + 1] = "";
	struct kp_node_list back;
	struct kp_node_at at;
	const char *why;
	uint32_t line;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		REQUIRE(strlen(l->v[i]) <= KP_NODE_TYPED_MAX);
		REQUIRE(kp_node_split(l->v[i], strlen(l->v[i]), &at) == NULL);
		REQUIRE(kp_node_name_ok(at.node, strlen(at.node)));
		REQUIRE(at.port <= 65535 && kp_node_same(at.node, l->v[i]));
		REQUIRE(kp_node_list_find(l, at.node) == l->v[i]);
		REQUIRE(kp_glob("*@*", l->v[i]) && kp_glob("*", l->v[i]));
		REQUIRE(strpbrk(l->v[i], "*?[") != NULL ||
		    kp_glob(l->v[i], l->v[i]));
		memcpy(text + n, l->v[i], strlen(l->v[i]));
		n += strlen(l->v[i]);
		text[n++] = '\n';
	}
	REQUIRE(kp_node_list_parse(&back, text, n, MAX, &line, &why) == KP_OK);
	REQUIRE(back.n == l->n && back.more == 0 && line == l->n);
	for (size_t i = 0; i < l->n; i++)
		REQUIRE(strcmp(back.v[i], l->v[i]) == 0);
	kp_node_list_free(&back);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *eol = memchr(p, '\n', size);
	size_t n = eol != NULL ? (size_t)(eol - p) : size;
	size_t rest = eol != NULL ? size - n - 1 : 0;
	struct kp_node_list l;
	struct kp_host_at host;
	struct kp_node_at node;
	const char *why;
	uint32_t line;
	char *glob;

	glob = strndup(p, n < GLOB_MAX ? n : GLOB_MAX);
	if (glob == NULL)
		return 0;
	if (kp_node_list_parse(&l, p + size - rest, rest, MAX, &line, &why) ==
	    KP_OK) {
		REQUIRE(l.n <= MAX && (l.more == 0 || l.n == MAX));
		for (size_t i = 0; i < l.n; i++)
			(void)kp_glob(glob, l.v[i]);
		again(&l);
		kp_node_list_free(&l);
	}
	(void)kp_glob(glob, glob);
	if (kp_host_split(p, n, &host) == NULL)
		REQUIRE(host.host[0] != '\0' && host.port <= 65535);
	if (kp_node_split(p, n, &node) == NULL)
		REQUIRE(kp_node_name_ok(node.node, strlen(node.node)));
	free(glob);
	return 0;
}
