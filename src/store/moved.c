/*
 * moved.c - a database file that is deleted, moved or replaced while it is
 * written.
 *
 * SQLite goes on writing to the file that it has open, which nobody will find
 * again; and a WAL that stays under the old name would be taken for that of
 * the next file, and damage it.  So the writer looks before every batch
 * whether the names still lead to the files that it has.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db.h"

/* The inode of the file with this suffix; 0: there is none. */
static ino_t
inode_of(const struct kp_db *db, const char *suffix, dev_t *dev)
{
	struct stat sb;
	char *name;
	ino_t ino = 0;

	if (asprintf(&name, "%s%s", db->path, suffix) < 0)
		return 0;
	if (stat(name, &sb) == 0) {
		ino = sb.st_ino;
		*dev = sb.st_dev;
	}
	free(name);
	return ino;
}

void
moved_remember(struct kp_db *db)
{
	db->wal = inode_of(db, "-wal", &db->dev);
	db->shm = inode_of(db, "-shm", &db->dev);
}

/* A disk that cannot say now is not taken for a file that has gone. */
static bool
is_other(const char *path, ino_t ino, dev_t dev)
{
	struct stat sb;

	if (stat(path, &sb) != 0)
		return errno == ENOENT || errno == ENOTDIR;
	return sb.st_ino != ino || sb.st_dev != dev;
}

bool
db_moved(const struct kp_db *db)
{
	struct stat mine;
	bool moved;
	char *wal;

	if (fstat(db->lock, &mine) != 0)
		return false;
	if (is_other(db->path, mine.st_ino, mine.st_dev))
		return true;
	if (db->wal == 0 || asprintf(&wal, "%s-wal", db->path) < 0)
		return false;
	moved = is_other(wal, db->wal, db->dev);
	free(wal);
	return moved;
}

/* Removes a file that is ours, and no other of that name. */
static void
unlink_own(const struct kp_db *db, const char *suffix, ino_t own)
{
	dev_t dev;
	char *name;

	if (own == 0 || inode_of(db, suffix, &dev) != own || dev != db->dev ||
	    asprintf(&name, "%s%s", db->path, suffix) < 0)
		return;
	unlink(name);
	free(name);
}

void
moved_clear(const struct kp_db *db)
{
	unlink_own(db, "-wal", db->wal);
	unlink_own(db, "-shm", db->shm);
}
