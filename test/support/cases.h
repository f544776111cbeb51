/*
 * cases.h - text files of cases, each of which is a test: a line "case NAME", and
 * lines whose meaning is the runner's.  Empty lines and those that begin with # are
 * for readers.  A file without cases fails, and so does what stands before the first.
 */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { CASES_MAX = 200, CASES_BYTES = 1 << 20 };

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

/* The next line of the case, or NULL at its end. */
static inline char *
case_line(struct one_case *c)
{
	char *line;

	while (c->rest != NULL && strncmp(c->rest, "case ", 5) != 0) {
		line = strsep(&c->rest, "\n");
		c->line++;
		if (line[0] != '\0' && line[0] != '#')
			return line;
	}
	return NULL;
}

/*
 * Runs the cases of a file, each with its struct one_case as state, and then other
 * tests.
 */
static inline int
cases_run(const char *path, CMUnitTestFunction run, CMFixtureFunction setup,
    CMFixtureFunction teardown, const struct CMUnitTest *others, size_t nothers)
{
	static struct CMUnitTest tests[2 * CASES_MAX];
	static struct one_case cases[CASES_MAX];
	static char text[CASES_BYTES];
	FILE *file = fopen(path, "r");
	bool good = file != NULL &&
	    fread(text, 1, sizeof(text) - 1, file) > 0 && feof(file);
	unsigned line = 0;
	size_t n = 0;

	for (char *p = text, *end; good && *p != '\0'; p = end) {
		end = strchrnul(p, '\n');
		end += *end == '\n';
		line++;
		if (strncmp(p, "case ", 5) == 0 && n < CASES_MAX) {
			end[-1] = '\0';
			cases[n] = (struct one_case){ path, p + 5, end, line };
			tests[n] = (struct CMUnitTest){ p + 5, run, setup,
				teardown, &cases[n] };
			n++;
		}
		good = n > 0 || *p == '#' || *p == '\n';
	}
	if (!good || n == 0 || n == CASES_MAX || nothers > CASES_MAX) {
		fprintf(stderr, "%s:%u: no cases, or too many; run from the top "
		    "of the tree\n", path, line);
		return 1;
	}
	fclose(file);
	memcpy(tests + n, others, nothers * sizeof(*others));
	return _cmocka_run_group_tests(path, tests, n + nothers, NULL, NULL);
}

#endif
