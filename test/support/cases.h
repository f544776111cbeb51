/*
 * cases.h - tests that need no list: TEST(name) { ... } is one, TEST_WITH(name, setup,
 * teardown) is one with a fixture of its own, and TESTS(setup, teardown) at the end of
 * the file runs all of them, in their order.  TESTS_ONCE(first, last) does so with a
 * fixture for the file.
 *
 * CASES(path, run, setup, teardown) does so, too, and before that runs the cases of a
 * text file: a line "case NAME", and lines whose meaning is the runner's; one that
 * begins with a blank goes on with that before it.  Empty lines and those that begin
 * with # are for readers.  A file without cases fails, and so does what stands before
 * the first.
 */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TESTS_MAX = 400, CASES_BYTES = 1 << 20 };

static struct {
	struct CMUnitTest v[TESTS_MAX];
	int line[TESTS_MAX];
	size_t n;
} registered;

/* Keeps them by their lines. */
static inline void
register_test(struct CMUnitTest t, int line)
{
	size_t i = registered.n++;

	if (i == TESTS_MAX)
		abort();
	for (; i > 0 && registered.line[i - 1] > line; i--) {
		registered.v[i] = registered.v[i - 1];
		registered.line[i] = registered.line[i - 1];
	}
	registered.v[i] = t;
	registered.line[i] = line;
}

#define TEST_WITH(name, setup, teardown)                             \
	static void name(void **state);                              \
	__attribute__((constructor)) static void                     \
	register_##name(void)                                        \
	{                                                            \
		register_test((struct CMUnitTest){ #name, name,      \
		    setup, teardown, NULL }, __LINE__);              \
	}                                                            \
	static void                                                  \
	name(void **state __attribute__((unused)))
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* What runs before or after tests: returns 0 when it went well. */
#define FIXTURE(name)                                                \
	static int                                                   \
	name(void **state __attribute__((unused)))

/* The first two are of each test that has none of its own, the others of the file. */
static inline int
tests_run(const char *name, CMFixtureFunction setup, CMFixtureFunction teardown,
    CMFixtureFunction first, CMFixtureFunction last)
{
	for (size_t i = 0; i < registered.n; i++) {
		if (registered.v[i].setup_func != NULL ||
		    registered.v[i].teardown_func != NULL)
			continue;
		registered.v[i].setup_func = setup;
		registered.v[i].teardown_func = teardown;
	}
	return registered.n == 0 || _cmocka_run_group_tests(name, registered.v,
	    registered.n, first, last) != 0;
}

#define TESTS_MAIN(...)                                              \
	int                                                          \
	main(void)                                                   \
	{                                                            \
		return tests_run(__FILE__, __VA_ARGS__);             \
	}
#define TESTS(setup, teardown) TESTS_MAIN(setup, teardown, NULL, NULL)
#define TESTS_ONCE(first, last) TESTS_MAIN(NULL, NULL, first, last)

/* ---- what is in a text ---- */

static inline void
assert_part(const char *in, const char *text, bool has, const char *file, int line)
{
	if ((strstr(in, text) != NULL) == has)
		return;
	print_error("%s '%s' in\n%s\n", has ? "no" : "there is", text, in);
	_fail(file, line);
}

#define assert_has(in, text) assert_part(in, text, true, __FILE__, __LINE__)
#define assert_lacks(in, text) assert_part(in, text, false, __FILE__, __LINE__)

/* ---- what is in a struct: assert_fields(*c, IS(calls, 3) IS(node, "a@h")) ---- */

static inline void
number_is(const char *name, uintmax_t got, uintmax_t want, const char *file, int line)
{
	if (got == want)
		return;
	print_error("%s: %jd, not %jd\n", name, (intmax_t)got, (intmax_t)want);
	_fail(file, line);
}

static inline void
text_is(const char *name, const char *got, const char *want, const char *file, int line)
{
	if (got != NULL && want != NULL && strcmp(got, want) == 0)
		return;
	print_error("%s: '%s', not '%s'\n", name, got != NULL ? got : "(null)",
	    want != NULL ? want : "(null)");
	_fail(file, line);
}

#define assert_fields(s, checks)                                     \
	do {                                                         \
		__auto_type is_in_ = &(s);                           \
		checks                                               \
	} while (0)

/* Each choice has to compile for all types. */
#define TEXT_IS(f, v) text_is(#f, (const char *)(uintptr_t)is_in_->f, \
	(const char *)(uintptr_t)(v), __FILE__, __LINE__)
#define IS(f, v)                                                     \
	_Generic(is_in_->f, char *: TEXT_IS(f, v),                   \
	    const char *: TEXT_IS(f, v),                             \
	    default: number_is(#f, (uintmax_t)is_in_->f, (uintmax_t)(v), \
		__FILE__, __LINE__));

/* ---- cases in a file ---- */

struct one_case {
	const char *path, *name;
	char *rest;		/* the lines that are still to be read */
	unsigned line;		/* the number of the last one that was */
};

/* Says where, and fails. */
#define case_fail(c, ...)                                            \
	do {                                                         \
		print_error("%s:%u: ", (c)->path, (c)->line);        \
		fail_msg(__VA_ARGS__);                               \
	} while (0)

#define case_equal(c, got, want)                                     \
	do {                                                         \
		if (strcmp(got, want) != 0)                          \
			case_fail(c, "%s\nwanted: %s", got, want);   \
	} while (0)

/* The next line of the case, or NULL at its end. */
static inline char *
case_line(struct one_case *c)
{
	char *line, *next, *end;

	while (c->rest != NULL && strncmp(c->rest, "case ", 5) != 0) {
		line = strsep(&c->rest, "\n");
		c->line++;
		for (end = line + strlen(line); c->rest != NULL &&
		     c->rest[0] == ' '; end += strlen(end), c->line++) {
			next = strsep(&c->rest, "\n");
			next += strspn(next, " ") - 1;
			memmove(end, next, strlen(next) + 1);
		}
		if (line[0] != '\0' && line[0] != '#')
			return line;
	}
	return NULL;
}

/* Adds the cases of a file, each with its struct one_case as state. */
static inline bool
cases_add(const char *path, CMUnitTestFunction run)
{
	static struct one_case cases[TESTS_MAX];
	static char text[CASES_BYTES];
	static size_t used, ncases;
	FILE *file = fopen(path, "r");
	size_t len = file == NULL ? 0 :
	    fread(text + used, 1, sizeof(text) - 1 - used, file);
	bool good = len > 0 && feof(file);
	unsigned line = 0, n = 0;

	for (char *p = text + used, *end; good && *p != '\0'; p = end) {
		end = strchrnul(p, '\n');
		end += *end == '\n';
		line++;
		if (strncmp(p, "case ", 5) == 0) {
			end[-1] = '\0';
			cases[ncases] = (struct one_case){ path, p + 5, end,
				line };
			register_test((struct CMUnitTest){ p + 5, run, NULL, NULL,
			    &cases[ncases++] }, 0);
			n++;
		}
		good = n > 0 || *p == '#' || *p == '\n';
	}
	if (!good || n == 0)
		fprintf(stderr, "%s:%u: no cases; run from the top of the tree\n",
		    path, line);
	else
		fclose(file);
	used += len + 1;
	return good && n > 0;
}

#define CASES(path, run, setup, teardown)                            \
	int                                                          \
	main(void)                                                   \
	{                                                            \
		return cases_add(path, run) ? tests_run(path, setup, \
		    teardown, NULL, NULL) : 1;                       \
	}

#endif
