/*
 * The file of a trace: what is there stays until there is something in its
 * place, and of what is no file nothing is replaced.
 *
 * A pipe's name in /proc cannot be resolved, so that one by way of a link
 * (/dev/stdout is one) was taken for a file that is not there yet: a trace
 * replaced the link, and nothing came out of the pipe.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "cases.h"
#include "client/client.h"
#include "client/functions/output_file.h"

static char dir[64], name[128], other[128];
static unsigned said;

void
say(const char *fmt, ...)
{
	(void)fmt;
	said++;
}

FIXTURE(setup)
{
	said = 0;
	snprintf(dir, sizeof(dir), "/tmp/test_trace_file.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(name, sizeof(name), "%s/name", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	return 0;
}

/* Nothing else may be left there. */
FIXTURE(teardown)
{
	unlink(name);
	unlink(other);
	assert_int_equal(rmdir(dir), 0);
	return 0;
}

static void
write_as_trace(const char *text)
{
	struct output_file t;

	assert_true(output_file_open(&t, name));
	fputs(text, t.f);
	assert_true(output_file_keep(&t));
	output_file_close(&t);
	assert_int_equal(said, 0);
}

static bool
is_link(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static void
holds(const char *path, const char *text)
{
	char is[64] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_true(fread(is, 1, sizeof(is) - 1, f) > 0);
	fclose(f);
	assert_string_equal(is, text);
}

TEST(pipe_by_link)
{
	char is[16] = "", fd[64];
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	snprintf(fd, sizeof(fd), "/proc/self/fd/%d", ends[1]);
	assert_int_equal(symlink(fd, name), 0);
	write_as_trace("trace");
	assert_true(is_link(name));
	close(ends[1]);
	assert_int_equal(read(ends[0], is, sizeof(is)), 5);
	assert_string_equal(is, "trace");
	close(ends[0]);
}

/* A link to what is not there yet names where the trace is to be. */
TEST(link_ahead)
{
	assert_int_equal(symlink(other, name), 0);
	write_as_trace("trace");
	assert_true(is_link(name));
	holds(other, "trace");
}

TEST(link_to_file)
{
	FILE *f = fopen(other, "w");

	assert_non_null(f);
	fclose(f);
	assert_int_equal(symlink(other, name), 0);
	write_as_trace("trace");
	assert_true(is_link(name));
	holds(other, "trace");
}

TEST(new_file)
{
	struct output_file t;

	assert_true(output_file_open(&t, name));
	assert_int_equal(access(name, F_OK), -1);
	output_file_close(&t);
	assert_int_equal(access(name, F_OK), -1);
	write_as_trace("trace");
	holds(name, "trace");
}

TESTS(setup, teardown)
