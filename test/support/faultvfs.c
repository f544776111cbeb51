/*
 * faultvfs.c - see the header.
 *
 * Files are written through, so that everything runs as it always does, but
 * for each file not yet synced there is a list of what its sectors held
 * before.  When the power comes back some of them are put back.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faultvfs.h"

#define SECTOR 512
#define NAMES_MAX 16		/* in all: one database */

/* What one sector was before a write or a truncation. */
struct undo {
	struct undo *next;		/* the one before */
	sqlite3_int64 sector;
	unsigned len;			/* less at the file's end, or 0 */
	unsigned char was[SECTOR];
};

struct disk_file {
	char name[256];
	struct undo *last;
	sqlite3_int64 size;		/* when it was synced last */
};

struct file {
	sqlite3_file base;
	struct disk_file *disk;		/* NULL: a file without a name */
	sqlite3_file *real;
};

static sqlite3_vfs vfs, *real_vfs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct disk_file disk[NAMES_MAX];
static enum fault fault;
static unsigned strike, count;
static int strike_rc;
static bool dead;

#define REAL(f) (((struct file *)(f))->real)

static void
forget(struct disk_file *d)
{
	struct undo *u;

	while ((u = d->last) != NULL) {
		d->last = u->next;
		free(u);
	}
}

static struct disk_file *
disk_find(const char *name)
{
	struct stat sb;

	for (int i = 0; i < NAMES_MAX; i++) {
		if (strcmp(disk[i].name, name) == 0)
			return &disk[i];
	}
	for (int i = 0; i < NAMES_MAX; i++) {
		if (disk[i].name[0] != '\0')
			continue;
		snprintf(disk[i].name, sizeof(disk[i].name), "%s", name);
		disk[i].size = stat(name, &sb) == 0 ? sb.st_size : 0;
		return &disk[i];
	}
	abort();
}

/* Notes the sectors from byte `from` to `to`, as they are now. */
static void
remember(struct disk_file *d, sqlite3_int64 from, sqlite3_int64 to)
{
	int fd = open(d->name, O_RDONLY | O_CLOEXEC);
	struct undo *u;
	ssize_t n;

	for (sqlite3_int64 s = from / SECTOR; s * SECTOR < to; s++) {
		u = calloc(1, sizeof(*u));
		if (u == NULL || fd < 0)
			abort();
		n = pread(fd, u->was, SECTOR, s * SECTOR);
		u->sector = s;
		u->len = n > 0 ? (unsigned)n : 0;
		u->next = d->last;
		d->last = u;
	}
	close(fd);
}

/* What is to become of one operation. */
enum verdict { GO_ON, GO_AND_DIE, FAILS, HALF };

static enum verdict
next_op(void)
{
	count++;
	if (dead)
		return FAILS;
	if (fault == FAULT_NONE || count < strike)
		return GO_ON;
	if (fault == FAULT_FULL)
		return FAILS;
	if (count > strike)
		return GO_ON;
	if (fault == FAULT_POWER) {
		dead = true;
		return GO_AND_DIE;
	}
	return fault == FAULT_TEAR ? HALF : FAILS;
}

static int
f_close(sqlite3_file *f)
{
	return REAL(f)->pMethods->xClose(REAL(f));
}

static int
f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	return dead ? SQLITE_IOERR_READ :
	    REAL(f)->pMethods->xRead(REAL(f), p, n, at);
}

static int
write_some(struct file *f, const void *p, int n, sqlite3_int64 at)
{
	enum verdict v = f->disk != NULL ? next_op() : GO_ON;
	int rc;

	if (v == FAILS)
		return dead ? SQLITE_IOERR_WRITE : strike_rc;
	if (v == HALF)
		n /= 2;
	if (f->disk != NULL)
		remember(f->disk, at, at + n);
	rc = f->real->pMethods->xWrite(f->real, p, n, at);
	if (rc != SQLITE_OK || v == GO_ON)
		return rc;
	return v == HALF ? strike_rc : SQLITE_IOERR_WRITE;
}

static int
f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = write_some((struct file *)f, p, n, at);
	pthread_mutex_unlock(&lock);
	return rc;
}

static int
truncate_some(struct file *f, sqlite3_int64 size)
{
	enum verdict v = f->disk != NULL ? next_op() : GO_ON;
	sqlite3_int64 was = 0;
	int rc;

	if (v == FAILS || v == HALF)
		return dead ? SQLITE_IOERR_TRUNCATE : strike_rc;
	f->real->pMethods->xFileSize(f->real, &was);
	if (f->disk != NULL)
		remember(f->disk, size, was);
	rc = f->real->pMethods->xTruncate(f->real, size);
	return v == GO_AND_DIE ? SQLITE_IOERR_TRUNCATE : rc;
}

static int
f_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = truncate_some((struct file *)f, size);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* The power that goes during a sync has not synced. */
static int
f_sync(sqlite3_file *file, int flags)
{
	struct file *f = (struct file *)file;
	int rc = SQLITE_OK;

	(void)flags;
	if (f->disk == NULL)
		return SQLITE_OK;
	pthread_mutex_lock(&lock);
	if (next_op() == GO_ON) {
		f->real->pMethods->xFileSize(f->real, &f->disk->size);
		forget(f->disk);
	} else {
		rc = dead ? SQLITE_IOERR_FSYNC : strike_rc;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static int
f_size(sqlite3_file *f, sqlite3_int64 *size)
{
	return REAL(f)->pMethods->xFileSize(REAL(f), size);
}

static int
f_lock(sqlite3_file *f, int l)
{
	return REAL(f)->pMethods->xLock(REAL(f), l);
}

static int
f_unlock(sqlite3_file *f, int l)
{
	return REAL(f)->pMethods->xUnlock(REAL(f), l);
}

static int
f_reserved(sqlite3_file *f, int *out)
{
	return REAL(f)->pMethods->xCheckReservedLock(REAL(f), out);
}

static int
f_control(sqlite3_file *f, int op, void *arg)
{
	return REAL(f)->pMethods->xFileControl(REAL(f), op, arg);
}

static int
f_sector(sqlite3_file *f)
{
	return REAL(f)->pMethods->xSectorSize(REAL(f));
}

static int
f_device(sqlite3_file *f)
{
	return REAL(f)->pMethods->xDeviceCharacteristics(REAL(f));
}

static int
f_shm_map(sqlite3_file *f, int page, int size, int extend,
    void volatile **out)
{
	return REAL(f)->pMethods->xShmMap(REAL(f), page, size, extend, out);
}

static int
f_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
	return REAL(f)->pMethods->xShmLock(REAL(f), offset, n, flags);
}

static void
f_shm_barrier(sqlite3_file *f)
{
	REAL(f)->pMethods->xShmBarrier(REAL(f));
}

static int
f_shm_unmap(sqlite3_file *f, int del)
{
	return REAL(f)->pMethods->xShmUnmap(REAL(f), del);
}

/* Version 2: without xFetch, so that all reading comes through here. */
static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = f_close,
	.xRead = f_read,
	.xWrite = f_write,
	.xTruncate = f_truncate,
	.xSync = f_sync,
	.xFileSize = f_size,
	.xLock = f_lock,
	.xUnlock = f_unlock,
	.xCheckReservedLock = f_reserved,
	.xFileControl = f_control,
	.xSectorSize = f_sector,
	.xDeviceCharacteristics = f_device,
	.xShmMap = f_shm_map,
	.xShmLock = f_shm_lock,
	.xShmBarrier = f_shm_barrier,
	.xShmUnmap = f_shm_unmap,
};

static int
v_open(sqlite3_vfs *v, const char *name, sqlite3_file *file, int flags,
    int *out)
{
	struct file *f = (struct file *)file;
	int rc;

	(void)v;
	*f = (struct file){ .real = (sqlite3_file *)(f + 1) };
	if (dead)
		return SQLITE_CANTOPEN;
	rc = real_vfs->xOpen(real_vfs, name, f->real, flags, out);
	if (rc != SQLITE_OK)
		return rc;
	f->base.pMethods = &methods;
	if (name == NULL || (flags & SQLITE_OPEN_DELETEONCLOSE))
		return rc;
	pthread_mutex_lock(&lock);
	f->disk = disk_find(name);
	pthread_mutex_unlock(&lock);
	return rc;
}

static int
v_delete(sqlite3_vfs *v, const char *name, int sync)
{
	enum verdict verdict;
	int rc = SQLITE_IOERR_DELETE;

	(void)v;
	pthread_mutex_lock(&lock);
	verdict = next_op();
	if (verdict == GO_ON) {
		rc = real_vfs->xDelete(real_vfs, name, sync);
		forget(disk_find(name));
		disk_find(name)->size = 0;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

void
faultvfs_register(void)
{
	real_vfs = sqlite3_vfs_find(NULL);
	vfs = *real_vfs;
	vfs.zName = "fault";
	vfs.szOsFile = real_vfs->szOsFile + (int)sizeof(struct file);
	vfs.xOpen = v_open;
	vfs.xDelete = v_delete;
	sqlite3_vfs_register(&vfs, 1);
}

void
faultvfs_set(enum fault f, unsigned n, int rc)
{
	struct stat sb;

	pthread_mutex_lock(&lock);
	fault = f;
	strike = n;
	strike_rc = rc;
	count = 0;
	dead = false;
	/* connections may be open: the names stay */
	for (int i = 0; i < NAMES_MAX; i++) {
		forget(&disk[i]);
		disk[i].size = stat(disk[i].name, &sb) == 0 ? sb.st_size : 0;
	}
	pthread_mutex_unlock(&lock);
}

unsigned
faultvfs_count(void)
{
	return count;
}

int
faultvfs_struck(void)
{
	return count >= strike;
}

static bool
kept(uint32_t *seed)
{
	if (*seed <= 1)
		return *seed == 1;
	*seed = *seed * 1664525u + 1013904223u;
	if (*seed <= 1)
		*seed = 2;
	return *seed >> 31;
}

/* Is there a later write to this sector, of which is decided already? */
static bool
decided(const struct undo *first, const struct undo *u, const bool *keep)
{
	size_t i = 0;

	for (; first != u; first = first->next, i++) {
		if (first->sector == u->sector && keep[i])
			return true;
	}
	return false;
}

static void
lose(struct disk_file *d, uint32_t *seed)
{
	static bool keep[100000];
	int fd = open(d->name, O_RDWR | O_CLOEXEC);
	size_t i = 0;

	if (fd < 0)
		return;
	for (const struct undo *u = d->last; u != NULL; u = u->next, i++) {
		if (i == sizeof(keep))
			abort();
		keep[i] = decided(d->last, u, keep) || kept(seed);
		if (keep[i])
			continue;
		/* past the old end: zeros, as a file system leaves them */
		if (pwrite(fd, u->was, SECTOR, u->sector * SECTOR) != SECTOR)
			abort();
	}
	if (*seed == 0 && ftruncate(fd, d->size) != 0)
		abort();
	close(fd);
}

void
faultvfs_power_on(uint32_t seed)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < NAMES_MAX; i++) {
		if (disk[i].last != NULL)
			lose(&disk[i], &seed);
	}
	pthread_mutex_unlock(&lock);
	faultvfs_set(FAULT_NONE, 0, SQLITE_OK);
}
