/*
 * faultvfs.h - a disk that fails, under SQLite.
 *
 * A VFS over SQLite's own, the default one after faultvfs_register().  It
 * counts what changes the disk (writes, truncations, syncs, deletions) and at
 * the n-th does what was asked for.  Power loss is the worst that a disk may
 * do: of all that was not synced each sector of 512 bytes is there or is not,
 * by itself, so a write may be torn and a later one be there without an
 * earlier one.  Deleting a file is never undone.
 */
#ifndef KPROFD_TEST_FAULTVFS_H
#define KPROFD_TEST_FAULTVFS_H

#include <stdint.h>

enum fault {
	FAULT_NONE,
	FAULT_FAIL,	/* the n-th does nothing and fails */
	FAULT_TEAR,	/* the n-th, if it is a write, is half done and fails */
	FAULT_FULL,	/* from the n-th on all fail, until there is no fault */
	FAULT_POWER	/* after the n-th nothing works any more */
};

void faultvfs_register(void);
/* Starts to count anew; n from 1; rc: SQLite's code for what fails. */
void faultvfs_set(enum fault fault, unsigned n, int rc);
/* So many operations since then. */
unsigned faultvfs_count(void);
/* Has it come to the n-th? */
int faultvfs_struck(void);
/*
 * After a power loss, with all connections closed: makes the files what the
 * disk kept of them, and works again.  seed: which of the possible disks; 0:
 * nothing that was not synced, 1: everything.
 */
void faultvfs_power_on(uint32_t seed);

#endif
