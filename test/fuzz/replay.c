/*
 * replay.c - runs files, or all files of directories, through a fuzz target,
 * so that corpora and old findings are tested without a fuzzer.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

#pragma weak fuzz_replayed

static size_t files, dirs;

static void
fail(const char *path)
{
	perror(path);
	exit(1);
}

static void
run_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	/* exactly its size, so that a sanitizer sees a step beyond */
	uint8_t *p = malloc(size > 0 ? size : 1);

	if (f == NULL || p == NULL || fread(p, 1, size, f) != size)
		fail(path);
	fclose(f);
	LLVMFuzzerTestOneInput(p, size);
	free(p);
	files++;
}

static void
run(const char *path)
{
	struct dirent *e;
	struct stat st;
	char sub[4096];
	DIR *d;

	if (stat(path, &st) != 0)
		fail(path);
	if (!S_ISDIR(st.st_mode)) {
		run_file(path, (size_t)st.st_size);
		return;
	}
	d = opendir(path);
	if (d == NULL)
		fail(path);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		run(sub);
	}
	closedir(d);
	dirs++;
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		run(argv[i]);
	if (dirs > 0 && fuzz_replayed != NULL)
		fuzz_replayed();
	printf("%s: %zu files\n", argv[0], files);
	return files == 0;
}
