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

/* A header, the name of a C library, and an end that holds the sections. */
static size_t
library(uint8_t *out, uint16_t machine, const char *libc)
{
	Elf64_Ehdr h = { .e_machine = machine, .e_shoff = 128,
		.e_shentsize = 64, .e_shnum = 2 };

	memset(out, 0, 256);
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(out, &h, sizeof(h));
	memcpy(out + sizeof(h), libc, strlen(libc));
	return 256;
}

static bool
reads(const uint8_t *p, size_t n, struct probe_kind *kind, char *why, size_t len)
{
	FILE *f = fopen(path, "w");
	struct kp_buf b;
	bool ok;

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	kp_buf_init(&b, PROBE_FILE_MAX);
	ok = probe_file_read(&b, kind, path, why, len);
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
		const char *libc, *name, *libc_name;
	} v[] = {
		{ EM_X86_64, "libc.so.6", "x86_64", "gnu" },
		{ EM_AARCH64, "libc.musl-aarch64.so.1", "aarch64", "musl" },
		{ EM_PPC64, "libc.so.6", "powerpc64le", "gnu" },
		{ EM_RISCV, "libc.so.6", "riscv64", "gnu" },
	};
	struct probe_kind kind;
	uint8_t bytes[256];
	char why[200];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		assert_true(reads(bytes, library(bytes, v[i].machine,
		    v[i].libc), &kind, why, sizeof(why)));
		assert_string_equal(kind.machine, v[i].name);
		assert_string_equal(kind.libc, v[i].libc_name);
	}
}

/* Its end is in the last section header. */
TEST(what_is_none_is_not_sent)
{
	struct probe_kind kind;
	uint8_t bytes[256];
	char why[200];
	size_t n;

	n = library(bytes, EM_386, "libc.so.6");
	assert_false(reads(bytes, n, &kind, why, sizeof(why)));
	assert_has(why, "not a library");
	n = library(bytes, EM_X86_64, "libSystem");
	assert_false(reads(bytes, n, &kind, why, sizeof(why)));
	n = library(bytes, EM_X86_64, "libc.so.6");
	bytes[EI_DATA] = ELFDATA2MSB;
	assert_false(reads(bytes, n, &kind, why, sizeof(why)));
	n = library(bytes, EM_X86_64, "libc.so.6");
	for (size_t i = 0; i < n; i++)
		assert_false(reads(bytes, i, &kind, why, sizeof(why)));
	assert_string_equal(why, "its end is missing");
	memset(bytes + 40, 0xff, 8);	/* e_shoff */
	assert_false(reads(bytes, n, &kind, why, sizeof(why)));
	assert_string_equal(why, "its end is missing");
}

TEST(files_that_cannot_be_read_are_named)
{
	struct probe_kind kind;
	struct kp_buf b;
	char why[200];

	kp_buf_init(&b, 100);
	assert_false(probe_file_read(&b, &kind, "/nowhere/x.so", why,
	    sizeof(why)));
	assert_string_equal(why, "No such file or directory");
	assert_false(probe_file_read(&b, &kind, "/tmp", why, sizeof(why)));
	assert_string_equal(why, "it cannot be read");
	/* One byte more than there may be. */
	assert_int_equal(truncate(path, 101), 0);
	assert_false(probe_file_read(&b, &kind, path, why, sizeof(why)));
	assert_int_equal(b.len, 0);
	kp_buf_free(&b);
}

TESTS_ONCE(setup, teardown)
