/* test_nodes.c - names of nodes, lists of them, globs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kprofd/nodes.h"

static bool
name_ok(const char *s)
{
	return kp_node_name_ok(s, strlen(s));
}

static void
test_names(void **state)
{
	char name[KP_NODE_NAME_MAX + 2];

	(void)state;
	assert_true(name_ok("app@host"));
	assert_true(name_ok("a-b_1@10.0.0.1"));
	assert_true(name_ok("A9@[::1]"));
	/* what no VM takes for itself, and refuses of others */
	assert_false(name_ok("a.b@c"));
	assert_false(name_ok("a+b@c"));
	assert_false(name_ok("a:b@c"));
	assert_false(name_ok(""));
	assert_false(name_ok("app"));
	assert_false(name_ok("@host"));
	assert_false(name_ok("app@"));
	assert_false(name_ok("a@b@c"));
	assert_false(name_ok("a b@c"));
	assert_false(name_ok("a@b\n"));
	assert_false(name_ok("a@b\x1b"));
	assert_false(name_ok("a'@b"));
	assert_false(name_ok("\xc3\xa4@b"));
	memset(name, 'h', sizeof(name));
	memcpy(name, "a@", 2);
	assert_true(kp_node_name_ok(name, KP_NODE_NAME_MAX));
	assert_false(kp_node_name_ok(name, KP_NODE_NAME_MAX + 1));
}

static enum kp_err
parse(struct kp_node_list *l, const char *text, size_t max, uint32_t *line)
{
	return kp_node_list_parse(l, text, strlen(text), max, line);
}

static void
test_list(void **state)
{
	struct kp_node_list l;
	uint32_t line;

	(void)state;
	assert_int_equal(parse(&l, "# all of them\n\n  a@h \t# the first\r\n"
	    "b@h\na@h\n\t#\nc@h", 64, &line), KP_OK);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.v[0], "a@h");
	assert_string_equal(l.v[1], "b@h");
	assert_string_equal(l.v[2], "c@h");
	assert_int_equal(l.more, 0);
	assert_true(kp_node_list_has(&l, "b@h"));
	assert_false(kp_node_list_has(&l, "b@"));
	assert_false(kp_node_list_has(&l, "b@hh"));
	kp_node_list_free(&l);
	assert_int_equal(parse(&l, "", 64, &line), KP_OK);
	assert_int_equal(l.n, 0);
	kp_node_list_free(&l);
}

/* What is no name is told with its line; what is there twice counts once. */
static void
test_list_errors(void **state)
{
	struct kp_node_list l;
	uint32_t line;
	char *big;

	(void)state;
	assert_int_equal(parse(&l, "a@h\n\nb h\n", 64, &line), KP_EFORMAT);
	assert_int_equal(line, 3);
	assert_int_equal(parse(&l, "a@h b@h", 64, &line), KP_EFORMAT);
	assert_int_equal(line, 1);
	assert_int_equal(kp_node_list_parse(&l, "a@h\0", 4, 64, &line),
	    KP_EFORMAT);
	assert_int_equal(parse(&l, "a@h\nb@h\nc@h\na@h\nd@h\n", 2, &line),
	    KP_OK);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.more, 2);
	kp_node_list_free(&l);
	big = malloc(KP_NODE_FILE_MAX + 1);
	memset(big, '\n', KP_NODE_FILE_MAX + 1);
	assert_int_equal(kp_node_list_parse(&l, big, KP_NODE_FILE_MAX + 1, 64,
	    &line), KP_ELIMIT);
	assert_int_equal(kp_node_list_parse(&l, big, KP_NODE_FILE_MAX, 64,
	    &line), KP_OK);
	assert_int_equal(l.n, 0);
	free(big);
}

static void
test_glob(void **state)
{
	static const struct {
		const char *glob, *s;
		bool match;
	} cases[] = {
		{ "*", "", true }, { "*", "app@h", true },
		{ "", "", true }, { "", "a", false },
		{ "app@h", "app@h", true }, { "app@h", "app@hh", false },
		{ "app*", "app1@h", true }, { "app@*", "app1@h", false },
		{ "*@h", "a@h@h", true }, { "*a*b*", "xxaxxbxx", true },
		{ "*a*b*c", "xxaxxbxx", false }, { "a**b", "ab", true },
		{ "?@h", "a@h", true }, { "?@h", "@h", false },
		{ "app[12]@h", "app2@h", true },
		{ "app[12]@h", "app3@h", false },
		{ "app[0-9]@h", "app3@h", true },
		{ "app[^0-9]@h", "app3@h", false },
		{ "app[^0-9]@h", "appx@h", true },
		{ "[]]", "]", true }, { "[^]]", "]", false },
		{ "[^]]", "a", true }, { "[a-]", "-", true },
		{ "[a-]", "b", false }, { "[ab", "a", false },
		{ "[", "[", false }, { "*[", "[", false },
		{ "*.example.org", "a@b.example.org", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (kp_glob(cases[i].glob, cases[i].s) != cases[i].match)
			fail_msg("glob '%s' of '%s'", cases[i].glob,
			    cases[i].s);
}

/* A pattern that makes others try every way takes a moment here. */
static void
test_glob_stars(void **state)
{
	char glob[401], s[KP_NODE_NAME_MAX + 1];

	(void)state;
	for (int i = 0; i < 200; i++)
		memcpy(glob + 2 * i, "*a", 2);
	glob[400] = '\0';
	memset(s, 'a', KP_NODE_NAME_MAX);
	s[KP_NODE_NAME_MAX] = '\0';
	assert_true(kp_glob(glob, s));
	s[KP_NODE_NAME_MAX - 1] = 'b';
	assert_false(kp_glob(glob, s));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_list_errors),
		cmocka_unit_test(test_glob),
		cmocka_unit_test(test_glob_stars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
