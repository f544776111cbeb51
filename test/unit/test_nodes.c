/* test_nodes.c - names of nodes, lists of them, globs. */
#include "cases.h"
#include "kprofd/nodes.h"

static bool
name_ok(const char *s)
{
	return kp_node_name_ok(s, strlen(s));
}

TEST(test_names)
{
	char name[KP_NODE_NAME_MAX + 2];

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

/* What is right is split into these; NULL: it is wrong, and these words say so. */
TEST(test_split)
{
	static const char PORT[] = "port is not a number", NAME[] = "not the name",
	    ADDRESS[] = "not an IPv6 address", EMPTY[] = "host is empty",
	    HOST[] = "not a host";
	static const struct {
		const char *typed, *node;
		unsigned port;
		const char *wrong;
	} cases[] = {
		{ "app@host", "app@host", 0, NULL },
		{ "app@host:4370", "app@host", 4370, NULL },
		{ "app@host:65535", "app@host", 65535, NULL },
		{ "app@10.0.0.7:1", "app@10.0.0.7", 1, NULL },
		{ "app@::1", "app@::1", 0, NULL },
		{ "app@[::1]", "app@::1", 0, NULL },
		{ "app@[::1]:4370", "app@::1", 4370, NULL },
		{ "app@::1:4370", "app@::1:4370", 0, NULL },
		{ "app@fe80::1%eth0", "app@fe80::1%eth0", 0, NULL },
		{ "app@[fe80::1%eth0]:9", "app@fe80::1%eth0", 9, NULL },
		{ "app@::ffff:10.0.0.7", "app@::ffff:10.0.0.7", 0, NULL },
		{ "app@host:", NULL, 0, PORT },
		{ "app@host:0", NULL, 0, PORT },
		{ "app@host:65536", NULL, 0, PORT },
		{ "app@host:004370", NULL, 0, PORT },
		{ "app@host:-1", NULL, 0, PORT },
		{ "app@host:4370x", NULL, 0, PORT },
		{ "app@host:epmd", NULL, 0, PORT },
		{ "app@[::1]:", NULL, 0, PORT },
		{ "app@[::1]4370", NULL, 0, ADDRESS },
		{ "app@[::1", NULL, 0, ADDRESS },
		{ "app@[host]:4370", NULL, 0, ADDRESS },
		{ "app@[]:4370", NULL, 0, ADDRESS },
		{ "app@1:2:3", NULL, 0, ADDRESS },
		{ "app@host:1:2", NULL, 0, ADDRESS },
		{ "app@::1%", NULL, 0, ADDRESS },
		{ "app@:4370", NULL, 0, EMPTY },
		{ "app@::1]", NULL, 0, ADDRESS },
		{ "app@h]:1", NULL, 0, HOST },
		{ "app", NULL, 0, NAME },
		{ "app:4370", NULL, 0, NAME },
		{ "app@", NULL, 0, NAME },
		{ "@host:1", NULL, 0, NAME },
		{ "a@b@c:1", NULL, 0, NAME },
		{ "a b@c", NULL, 0, NAME },
		{ "", NULL, 0, NAME },
	};
	struct kp_node_at at;
	struct kp_host_at host;
	const char *why;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		why = kp_node_split(cases[i].typed, strlen(cases[i].typed),
		    &at);
		if (cases[i].node == NULL && (why == NULL ||
		    strstr(why, cases[i].wrong) == NULL))
			fail_msg("'%s': %s", cases[i].typed, why);
		if (cases[i].node == NULL)
			continue;
		if (why != NULL)
			fail_msg("'%s': %s", cases[i].typed, why);
		assert_string_equal(at.node, cases[i].node);
		assert_int_equal(at.port, cases[i].port);
	}
	assert_null(kp_host_split("[::1]:4369", 10, &host));
	assert_fields(host, IS(host, "::1") IS(port, 4369));
	why = kp_host_split("", 0, &host);
	assert_has(why, EMPTY);
}

/* The port is not part of the name's length. */
TEST(test_split_longest)
{
	char typed[KP_NODE_TYPED_MAX + 1];
	struct kp_node_at at;

	memset(typed, 'h', sizeof(typed));
	memcpy(typed, "a@", 2);
	memcpy(typed + KP_NODE_NAME_MAX, ":65535", 7);
	assert_null(kp_node_split(typed, strlen(typed), &at));
	assert_int_equal(strlen(at.node), KP_NODE_NAME_MAX);
	assert_int_equal(at.port, 65535);
	memcpy(typed + KP_NODE_NAME_MAX, "h:65535", 8);
	assert_non_null(kp_node_split(typed, strlen(typed), &at));
}

TEST(test_same)
{
	assert_true(kp_node_same("app@h", "app@h:4370"));
	assert_true(kp_node_same("app@h:1", "app@h:2"));
	assert_true(kp_node_same("app@[::1]:4370", "app@::1"));
	assert_false(kp_node_same("app@h", "app@h2:4370"));
	assert_false(kp_node_same("app@::1", "app@::1:4370"));
	assert_true(kp_node_same("odd", "odd"));
	assert_false(kp_node_same("odd", "app@h"));
}

static enum kp_err
parse(struct kp_node_list *l, const char *text, size_t max, uint32_t *line)
{
	const char *why;

	return kp_node_list_parse(l, text, strlen(text), max, line, &why);
}

TEST(test_list)
{
	struct kp_node_list l;
	uint32_t line;

	assert_int_equal(parse(&l, "# all of them\n\n  a@h \t# the first\r\n"
	    "b@h\na@h\n\t#\nc@h", 64, &line), KP_OK);
	assert_fields(l, IS(n, 3) IS(v[0], "a@h") IS(v[1], "b@h")
	    IS(v[2], "c@h") IS(more, 0));
	assert_string_equal(kp_node_list_find(&l, "b@h"), "b@h");
	assert_null(kp_node_list_find(&l, "b@"));
	assert_null(kp_node_list_find(&l, "b@hh"));
	kp_node_list_free(&l);
	assert_int_equal(parse(&l, "", 64, &line), KP_OK);
	assert_int_equal(l.n, 0);
	kp_node_list_free(&l);
}

/* What is no name is told with its line; what is there twice counts once. */
TEST(test_list_errors)
{
	struct kp_node_list l;
	const char *why;
	uint32_t line;
	char *big;

	assert_int_equal(parse(&l, "a@h\n\nb h\n", 64, &line), KP_EFORMAT);
	assert_int_equal(line, 3);
	assert_int_equal(parse(&l, "a@h b@h", 64, &line), KP_EFORMAT);
	assert_int_equal(line, 1);
	assert_int_equal(kp_node_list_parse(&l, "a@h\0", 4, 64, &line, &why),
	    KP_EFORMAT);
	assert_int_equal(parse(&l, "a@h\nb@h\nc@h\na@h\nd@h\n", 2, &line),
	    KP_OK);
	assert_fields(l, IS(n, 2) IS(more, 2));
	kp_node_list_free(&l);
	big = malloc(KP_NODE_FILE_MAX + 1);
	memset(big, '\n', KP_NODE_FILE_MAX + 1);
	assert_int_equal(kp_node_list_parse(&l, big, KP_NODE_FILE_MAX + 1, 64,
	    &line, &why), KP_ELIMIT);
	assert_int_equal(kp_node_list_parse(&l, big, KP_NODE_FILE_MAX, 64,
	    &line, &why), KP_OK);
	assert_int_equal(l.n, 0);
	free(big);
}

/* A node has one line's port; two lines that differ cannot both be right. */
TEST(test_list_ports)
{
	struct kp_node_list l;
	const char *why = "";
	uint32_t line;

	assert_int_equal(parse(&l, "a@h:4370\na@h\nb@h\nb@h:4371\n"
	    "c@[::1]:4372\nc@::1\n", 64, &line), KP_OK);
	assert_fields(l, IS(n, 3) IS(v[0], "a@h:4370") IS(v[1], "b@h:4371"));
	assert_string_equal(kp_node_list_find(&l, "c@::1"), "c@[::1]:4372");
	kp_node_list_free(&l);
	assert_int_equal(kp_node_list_parse(&l, "a@h:1\n\na@h:2\n", 13, 64,
	    &line, &why), KP_EFORMAT);
	assert_int_equal(line, 3);
	assert_has(why, "another port");
	assert_int_equal(kp_node_list_parse(&l, "a@h:x\n", 6, 64, &line,
	    &why), KP_EFORMAT);
	assert_has(why, "the port is not a number");
}

TEST(test_glob)
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
		{ "app[!0-9]@h", "app3@h", false },
		{ "app[!0-9]@h", "appx@h", true },
		{ "[]]", "]", true }, { "[^]]", "]", false },
		{ "[^]]", "a", true }, { "[a-]", "-", true },
		{ "[a-]", "b", false }, { "[ab", "a", false },
		{ "[", "[", false }, { "*[", "[", false },
		{ "*.example.org", "a@b.example.org", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (kp_glob(cases[i].glob, cases[i].s) != cases[i].match)
			fail_msg("glob '%s' of '%s'", cases[i].glob,
			    cases[i].s);
}

/* A pattern that makes others try every way takes a moment here. */
TEST(test_glob_stars)
{
	char glob[401], s[KP_NODE_NAME_MAX + 1];

	for (int i = 0; i < 200; i++)
		memcpy(glob + 2 * i, "*a", 2);
	glob[400] = '\0';
	memset(s, 'a', KP_NODE_NAME_MAX);
	s[KP_NODE_NAME_MAX] = '\0';
	assert_true(kp_glob(glob, s));
	s[KP_NODE_NAME_MAX - 1] = 'b';
	assert_false(kp_glob(glob, s));
}

TESTS(NULL, NULL)
