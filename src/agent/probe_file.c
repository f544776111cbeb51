/*
 * probe_file.c - looks for the library beside the program, then in
 * ../lib/kprofd; and reads it, to be sent to a target.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kprofd/etf.h"
#include "agent/probe_file.h"
#include "text/file_why.h"

/* Installed, lib/kprofd is beside bin. */
const char *
probe_file(char *path, size_t n, const char *name)
{
	char dir[4096];

	if (self_path(dir, sizeof(dir), "") == NULL)
		strcpy(dir, "/");	/* and not where kprofd happens to run */
	snprintf(path, n, "%s%s", dir, name);
	if (access(path, R_OK) != 0)
		snprintf(path, n, "%s../lib/kprofd/%s", dir, name);
	return path;
}

static bool
read_all(struct kp_buf *b, const char *path, char *why, size_t n)
{
	uint8_t part[16384];
	FILE *f = fopen(path, "re");
	size_t got;
	bool ok;

	if (f == NULL) {
		snprintf(why, n, "%s", strerror(errno));
		return false;
	}
	while (b->err == KP_OK && (got = fread(part, 1, sizeof(part), f)) > 0)
		kp_buf_put(b, part, got);
	ok = !ferror(f) && b->err == KP_OK;
	if (!ok)
		snprintf(why, n, "%s", b->err == KP_OK ? "it cannot be read" :
		    kp_err_str(b->err));
	fclose(f);
	return ok;
}

/* All machines that have their lowest byte first, and 64 bits. */
static const char *
machine_name(const Elf64_Ehdr *h)
{
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
	    h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_ident[EI_DATA] != ELFDATA2LSB)
		return NULL;
	switch (h->e_machine) {
	case EM_X86_64:
		return "x86_64";
	case EM_AARCH64:
		return "aarch64";
	case EM_PPC64:
		return "powerpc64le";
	case EM_RISCV:
		return "riscv64";
	default:
		return NULL;
	}
}

/* Section headers come last in it. */
static bool
is_whole(const struct kp_buf *b, const Elf64_Ehdr *h)
{
	return h->e_shoff <= b->len && (uint64_t)h->e_shentsize * h->e_shnum <=
	    b->len - h->e_shoff;
}

bool
probe_file_read(struct kp_buf *b, const char **machine, const char *path, char *why,
    size_t n)
{
	Elf64_Ehdr h;

	if (!read_all(b, path, why, n)) {
		kp_buf_reset(b);
		return false;
	}
	*machine = NULL;
	if (b->len >= sizeof(h)) {
		memcpy(&h, b->p, sizeof(h));
		*machine = machine_name(&h);
	}
	if (*machine == NULL) {
		snprintf(why, n, "it is not a library for a machine with 64 "
		    "bits that kprofd knows");
	} else if (!is_whole(b, &h)) {
		snprintf(why, n, "its end is missing");
	} else {
		return true;
	}
	kp_buf_reset(b);
	return false;
}

void
probe_file_put(struct kp_buf *b, const char *path)
{
	size_t n = strlen(path);

	if (n > 3 && strcmp(path + n - 3, ".so") == 0)
		n -= 3;
	kp_etf_binary(b, path, n);
}
