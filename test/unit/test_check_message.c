/* test_check_message.c - what kprofd -check -control sends. */
#include "cases.h"
#include "daemon/check/check_message.h"

static struct check_message got;

static bool
reads(const char *text)
{
	return check_message_read(&got, text, strlen(text));
}

TEST(test_check)
{
	const char *const nodes[] = { "a@h", "b@h" };
	struct kp_buf b;

	kp_buf_init(&b, CHECK_MESSAGE_MAX);
	check_message_put(&b, 2000, "my\ntiers .conf", nodes, 2, "{tiers,\n\n",
	    9);
	assert_true(check_message_read(&got, (const char *)b.p, b.len));
	assert_fields(got, IS(ms, 2000) IS(path, "my?tiers .conf") IS(nnodes, 2)
	    IS(nodes[1], "b@h") IS(n, 9));
	assert_memory_equal(got.text, "{tiers,\n\n", 9);
	kp_buf_free(&b);
	/* all targets, and an empty file */
	assert_true(reads("100 -\n\n"));
	assert_fields(got, IS(nnodes, 0) IS(n, 0));
}

TEST(test_check_refused)
{
	static const char *const bad[] = { "", "\n", "100", "100 t", "100 t\n",
		"100 t\na@h\n", "t\n\n", "99 t\n\n", "600001 t\n\n",
		"-100 t\n\n", "99999999999999999999 t\n\n", "100t\n\n",
		"100 t\na h\n\n", "100 t\nah\n\n" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(reads(bad[i]));
	assert_false(check_message_read(&got, "100 t\n\nx\0y", 10));
	assert_false(check_message_read(&got, "100 t\0\n\n", 8));
}

/* One more than any of them may have. */
TEST(test_check_limits)
{
	const char *nodes[CHECK_NODES_MAX + 1];
	char *path = malloc(2 * CHECK_PATH_MAX + 1);
	char *text = calloc(1, KP_CONF_SIZE_MAX + 1);
	struct kp_buf b;

	assert_true(path != NULL && text != NULL);
	memset(path, 'p', 2 * CHECK_PATH_MAX);
	path[2 * CHECK_PATH_MAX] = '\0';
	memset(text, '%', KP_CONF_SIZE_MAX + 1);
	for (int i = 0; i <= CHECK_NODES_MAX; i++)
		nodes[i] = "a@h";
	for (int i = 0; i < 3; i++) {
		kp_buf_init(&b, CHECK_MESSAGE_MAX + 1024);
		check_message_put(&b, 100, path, nodes,
		    CHECK_NODES_MAX + (i == 1), text,
		    KP_CONF_SIZE_MAX + (i == 2));
		assert_int_equal(b.err, KP_OK);
		assert_int_equal(check_message_read(&got, (const char *)b.p,
		    b.len), i == 0);
		kp_buf_free(&b);
	}
	assert_int_equal(strlen(got.path), CHECK_PATH_MAX);
	free(path);
	free(text);
}

TESTS(NULL, NULL)
