/*
 * test_headroom.c - what a node has left.  A node of 300 free atoms ended when kprofd
 * attached to it: loading the agent makes more.
 */
#include "cases.h"
#include "kprofd/etf.h"
#include "agent/headroom.h"

#define MIB (UINT64_C(1) << 20)

static struct headroom h;
static char why[600];

static void
answer(const struct kp_buf *b)
{
	struct kp_term r;

	kp_term_begin_raw(&r, b->p, b->len);
	headroom_answer(&h, &r);
}

static void
counts(int64_t atom_limit, int64_t atoms, int64_t process_limit,
    int64_t processes)
{
	struct kp_buf b;

	h = (struct headroom){ 0 };
	kp_buf_init(&b, 4096);
	kp_etf_list(&b, 4);
	kp_etf_int(&b, atom_limit);
	kp_etf_int(&b, atoms);
	kp_etf_int(&b, process_limit);
	kp_etf_int(&b, processes);
	kp_etf_nil(&b);
	answer(&b);
	kp_buf_free(&b);
}

/* A list of {ok, Text}; {error, enoent} for NULL. */
static void
files(const char *const *v, uint32_t n)
{
	struct kp_buf b;

	kp_buf_init(&b, 65536);
	kp_etf_list(&b, n);
	for (uint32_t i = 0; i < n; i++) {
		kp_etf_tuple(&b, 2);
		kp_etf_atom(&b, v[i] != NULL ? "ok" : "error");
		if (v[i] != NULL)
			kp_etf_binary(&b, v[i], strlen(v[i]));
		else
			kp_etf_atom(&b, "enoent");
	}
	kp_etf_nil(&b);
	answer(&b);
	kp_buf_free(&b);
}

/* Everything else is plenty. */
static void
groups(const char *own)
{
	counts(1048576, 20000, 262144, 100);
	files(&own, 1);
}

static bool
refuses(uint64_t memory)
{
	return headroom_refuses(&h, "a@h", memory, why, sizeof(why));
}

TEST(test_counts)
{
	counts(1048576, 20000, 262144, 100);
	assert_false(refuses(64 * MIB));
	counts(20000, 19700, 262144, 100);
	assert_true(refuses(64 * MIB));
	assert_has(why, "'a@h' has 300 of its 20 000 atoms left, and "
	    "2 000 are needed");
	counts(20000, 17999, 262144, 100);
	assert_false(refuses(64 * MIB));
	counts(1048576, 20000, 1024, 1022);
	assert_true(refuses(64 * MIB));
	assert_has(why, "has 2 of its 1 024 processes left");
	/* as processes end, the count can be over the limit */
	counts(1048576, 20000, 1024, 1030);
	assert_true(refuses(64 * MIB));
	assert_has(why, "has 0 of its 1 024 processes left");
}

/* A node that does not answer as others do is attached to as ever. */
TEST(test_not_known)
{
	struct kp_buf b;

	h = (struct headroom){ 0 };
	kp_buf_init(&b, 4096);
	kp_etf_atom(&b, "false");
	for (int i = 0; i < 4 && h.step != HEADROOM_DONE; i++)
		answer(&b);
	assert_int_equal(h.step, HEADROOM_DONE);
	assert_false(refuses(64 * MIB));
	kp_buf_free(&b);
	counts(0, 0, 0, 0);
	assert_false(refuses(64 * MIB));
	counts(-5, 7, -1, 3);
	assert_false(refuses(64 * MIB));
}

TEST(test_memory)
{
	/* of the service, its slice, the root */
	static const char *const two[] = { "209715200\n", "157286400\n",
		"anon 1\nfile 5\ninactive_file 52428800\n",
		"max\n", "999999999\n", NULL, NULL, NULL, NULL };
	/* the slice has less than the service */
	static const char *const outer[] = { "max\n", "157286400\n", NULL,
		"104857600\n", "94371840\n", "inactive_file 0\n",
		NULL, NULL, NULL };
	/* the first version says "no limit" by a large number */
	static const char *const one[] = { "9223372036854771712\n", "5\n", NULL,
		"41943040\n", "31457280\n", "inactive_file 999999999\n"
		"total_inactive_file 1048576\n" };

	groups("0::/system.slice/shop.service\n");
	assert_fields(h, IS(ndirs, 3)
	    IS(dirs[0].name, "/sys/fs/cgroup/system.slice/shop.service")
	    IS(dirs[1].name, "/sys/fs/cgroup/system.slice")
	    IS(dirs[2].name, "/sys/fs/cgroup"));
	files(two, 9);
	assert_true(h.limited);
	assert_int_equal(h.memory_left, 100 * MIB);
	assert_false(refuses(64 * MIB));
	assert_true(refuses(128 * MIB));
	assert_has(why, "'a@h' has 100 MiB left of the 200 MiB that "
	    "its control group may have, and a profile may take 160 MiB");
	groups("0::/system.slice/shop.service\n");
	files(outer, 9);
	assert_fields(h, IS(memory_left, 10 * MIB) IS(memory_limit, 100 * MIB));
	groups("9:name=systemd:/x\n5:cpu,memory:/pod\n4:memoryless:/y\n");
	assert_int_equal(h.ndirs, 2);
	assert_string_equal(h.dirs[0].name, "/sys/fs/cgroup/memory/pod");
	files(one, 6);
	assert_int_equal(h.memory_left, 11 * MIB);
	/* in a container: its own group is the root */
	groups("0::/\n");
	assert_int_equal(h.ndirs, 1);
	files((const char *const[]){ "max\n", "7\n", "" }, 3);
	assert_false(h.limited);
}

/* Names and numbers of any length, and no newline at the end. */
TEST(test_odd_files)
{
	char text[2000] = "0::";

	for (size_t i = 3; i < 1500; i++)
		text[i] = i % 50 == 3 ? '/' : 'a';
	groups(text);
	assert_int_equal(h.ndirs, 1);
	groups("0:");
	assert_fields(h, IS(ndirs, 0) IS(step, HEADROOM_DONE));
	groups("0::no slash");
	groups("::");
	groups("");
	assert_int_equal(h.ndirs, 0);
	groups("0::/\n0::/\n0::/\n0::/\n0::/a/b/c/d/e/f\n0::/a/b/c/d/e\n");
	assert_int_equal(h.ndirs, HEADROOM_DIRS);
	memset(text, '9', sizeof(text) - 1);
	groups("0::/");
	files((const char *const[]){ text, text, text }, 3);
	assert_false(h.limited);
}

/* Only atoms that each node has: the question is not to make any. */
TEST(test_questions)
{
	struct dist_ids ids;
	struct kp_buf b;

	kp_buf_init(&ids.self, 64);
	kp_buf_init(&ids.peer, 64);
	kp_etf_pid(&ids.self, "k@h", 1, 0, 1);
	kp_buf_init(&b, 65536);
	h = (struct headroom){ 0 };
	assert_true(headroom_ask(&h, &b, &ids));
	assert_non_null(memmem(b.p, b.len, "process_count", 13));
	h.step = HEADROOM_GROUPS;
	kp_buf_reset(&b);
	assert_true(headroom_ask(&h, &b, &ids));
	assert_non_null(memmem(b.p, b.len, "/proc/self/cgroup", 17));
	groups("0::/a\n1:memory:/b\n");
	kp_buf_reset(&b);
	assert_true(headroom_ask(&h, &b, &ids));
	assert_int_equal(b.err, KP_OK);
	assert_non_null(memmem(b.p, b.len, "/sys/fs/cgroup/a/memory.max", 27));
	assert_non_null(memmem(b.p, b.len,
	    "/sys/fs/cgroup/memory/b/memory.usage_in_bytes", 45));
	h.step = HEADROOM_DONE;
	assert_false(headroom_ask(&h, &b, &ids));
	kp_buf_free(&b);
	kp_buf_free(&ids.self);
	kp_buf_free(&ids.peer);
}

TEST(test_full)
{
	struct kp_term r;
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "badrpc");
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "EXIT");
	kp_etf_atom(&b, "system_limit");
	kp_term_begin_raw(&r, b.p, b.len);
	assert_true(headroom_is_full(&r, "a@h", why, sizeof(why)));
	assert_has(why, "limit of processes");
	kp_buf_reset(&b);
	kp_etf_atom(&b, "undefined");
	kp_term_begin_raw(&r, b.p, b.len);
	assert_false(headroom_is_full(&r, "a@h", why, sizeof(why)));
	kp_buf_free(&b);
}

TESTS(NULL, NULL)
