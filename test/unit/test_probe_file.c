/* test_probe_file.c - which libraries are sent to targets. */
#include <elf.h>
#include <unistd.h>

#include "cases.h"
#include "agent/probe_file.h"

static char path[] = "/tmp/kprofd-test-probe.XXXXXX";

FIXTURE(setup)
{
	int fd = mkstemp(path);

	close(fd);
	return fd < 0;
}

FIXTURE(teardown)
{
	return unlink(path);
}

/* A header, and an end that holds the sections. */
static size_t
library(uint8_t *out, uint16_t machine)
{
	Elf64_Ehdr h = { .e_machine = machine, .e_shoff = 128,
		.e_shentsize = 64, .e_shnum = 2 };

	memset(out, 0, 256);
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(out, &h, sizeof(h));
	return 256;
}

static bool
reads(const uint8_t *p, size_t n, const char **machine, char *why, size_t len)
{
	FILE *f = fopen(path, "w");
	struct kp_buf b;
	bool ok;

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	kp_buf_init(&b, PROBE_FILE_MAX);
	ok = probe_file_read(&b, machine, path, why, len);
	assert_int_equal(b.len, ok ? n : 0);
	if (ok)
		assert_memory_equal(b.p, p, n);
	kp_buf_free(&b);
	return ok;
}

TEST(kinds_have_the_names_that_nodes_use)
{
	static const struct {
		uint16_t machine;
		const char *name;
	} v[] = {
		{ EM_X86_64, "x86_64" }, { EM_AARCH64, "aarch64" },
		{ EM_PPC64, "powerpc64le" }, { EM_RISCV, "riscv64" },
	};
	const char *machine;
	uint8_t bytes[256];
	char why[200];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		assert_true(reads(bytes, library(bytes, v[i].machine), &machine, why,
		    sizeof(why)));
		assert_string_equal(machine, v[i].name);
	}
}

/* Its end is in the last section header. */
TEST(what_is_none_is_not_sent)
{
	const char *machine;
	uint8_t bytes[256];
	char why[200];
	size_t n;

	n = library(bytes, EM_386);
	assert_false(reads(bytes, n, &machine, why, sizeof(why)));
	assert_has(why, "not a library");
	n = library(bytes, EM_X86_64);
	bytes[EI_DATA] = ELFDATA2MSB;
	assert_false(reads(bytes, n, &machine, why, sizeof(why)));
	n = library(bytes, EM_X86_64);
	for (size_t i = 0; i < n; i++)
		assert_false(reads(bytes, i, &machine, why, sizeof(why)));
	assert_string_equal(why, "its end is missing");
	memset(bytes + 40, 0xff, 8);	/* e_shoff */
	assert_false(reads(bytes, n, &machine, why, sizeof(why)));
	assert_string_equal(why, "its end is missing");
}

TEST(files_that_cannot_be_read_are_named)
{
	const char *machine;
	struct kp_buf b;
	char why[200];

	kp_buf_init(&b, 100);
	assert_false(probe_file_read(&b, &machine, "/nowhere/x.so", why,
	    sizeof(why)));
	assert_string_equal(why, "No such file or directory");
	assert_false(probe_file_read(&b, &machine, "/tmp", why, sizeof(why)));
	assert_string_equal(why, "it cannot be read");
	/* One byte more than there may be. */
	assert_int_equal(truncate(path, 101), 0);
	assert_false(probe_file_read(&b, &machine, path, why, sizeof(why)));
	assert_int_equal(b.len, 0);
	kp_buf_free(&b);
}

TESTS_ONCE(setup, teardown)
