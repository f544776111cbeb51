/*
 * file_replaced.c - detects that the database file was deleted, moved, replaced
 * or truncated while it is written.
 *
 * SQLite goes on writing to its open file, which has lost its name; and it
 * would apply a WAL under the old name to the next file, and damage that.  So
 * the writer checks before every batch whether the names still lead to the open
 * files.
 *
 * SQLite does not detect that a file was truncated, for example by a log
 * rotation that copies: it goes on in the WAL, later writes pages of it into
 * the empty file, and all other pages are lost.  So the writer checks for that
 * too, and also before each checkpoint, which hides it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/db.h"

/*
 * Returns the name of the file itself, to which db->path may be a symbolic
 * link.  SQLite makes its files beside it.
 */
static const char *
own_name(const struct kp_db *db)
{
	return sqlite3_db_filename(db->conn, "main");
}

/* Returns the inode of the file with this suffix; 0: there is none. */
static ino_t
inode_of(const struct kp_db *db, const char *suffix, dev_t *dev)
{
	struct stat sb;
	char *name;
	ino_t ino = 0;

	if (asprintf(&name, "%s%s", own_name(db), suffix) < 0)
		return 0;
	if (stat(name, &sb) == 0) {
		ino = sb.st_ino;
		*dev = sb.st_dev;
	}
	free(name);
	return ino;
}

void
file_remember(struct kp_db *db)
{
	db->wal = inode_of(db, "-wal", &db->dev);
	db->shm = inode_of(db, "-shm", &db->dev);
	file_note_size(db);
}

void
file_note_size(struct kp_db *db)
{
	struct stat sb;

	if (fstat(db->lock, &sb) == 0)
		db->size = sb.st_size;
}

/* Reads a number in the file's header. */
static uint32_t
big_endian(const uint8_t *p, size_t n)
{
	uint32_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

/*
 * Returns whether the file is smaller than its header says.  A checkpoint of
 * any process cuts off released pages after it has written the header.  Source:
 * sqlite.org/fileformat2.html, 1.3: at 16 the size of a page, where 1 is 65536,
 * at 28 the number of pages.
 */
static bool
is_cut(const struct kp_db *db, off_t size)
{
	uint8_t head[32];
	uint32_t page;

	if (size >= db->size)
		return false;
	if (pread(db->lock, head, sizeof(head), 0) != sizeof(head))
		return true;
	page = big_endian(head + 16, 2);
	if (page == 1)
		page = 65536;
	return (off_t)page * big_endian(head + 28, 4) > size ||
	    memcmp(head, "SQLite format 3", 16) != 0;
}

/* Returns false on a disk error: it does not mean that the file is gone. */
static bool
is_other(const char *path, ino_t ino, dev_t dev)
{
	struct stat sb;

	if (stat(path, &sb) != 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
	return sb.st_ino != ino || sb.st_dev != dev;
}

enum db_file
db_file(const struct kp_db *db)
{
	struct stat mine;
	bool moved;
	char *wal;

	if (fstat(db->lock, &mine) != 0)
		return DB_THERE;
	if (is_other(db->path, mine.st_ino, mine.st_dev))
		return DB_MOVED;
	if (is_cut(db, mine.st_size))
		return DB_TRUNCATED;
	if (db->wal == 0 || asprintf(&wal, "%s-wal", own_name(db)) < 0)
		return DB_THERE;
	moved = is_other(wal, db->wal, db->dev);
	free(wal);
	return moved ? DB_MOVED : DB_THERE;
}

/* Removes a file, unless its name now leads to another one. */
static void
unlink_own(const struct kp_db *db, const char *suffix, ino_t own)
{
	dev_t dev;
	char *name;

	if (own == 0 || inode_of(db, suffix, &dev) != own || dev != db->dev ||
	    asprintf(&name, "%s%s", own_name(db), suffix) < 0)
		return;
	unlink(name);
	free(name);
}

void
file_clear_wal(const struct kp_db *db)
{
	unlink_own(db, "-wal", db->wal);
	unlink_own(db, "-shm", db->shm);
}

void
file_remove(const struct kp_db *db)
{
	struct stat mine;

	if (fstat(db->lock, &mine) == 0 && mine.st_dev == db->dev)
		unlink_own(db, "", mine.st_ino);
}

static bool
rename_own(const struct kp_db *db, const char *suffix, ino_t own)
{
	char *from = NULL, *to = NULL;
	bool done;
	dev_t dev;

	done = own != 0 && inode_of(db, suffix, &dev) == own &&
	    dev == db->dev &&
	    asprintf(&from, "%s%s", own_name(db), suffix) >= 0 &&
	    asprintf(&to, "%s.truncated%s", own_name(db), suffix) >= 0 &&
	    rename(from, to) == 0;
	free(from);
	free(to);
	return done;
}

bool
file_set_aside(const struct kp_db *db)
{
	struct stat mine;
	bool done;

	if (fstat(db->lock, &mine) != 0)
		return false;
	if (mine.st_size == 0) {
		unlink_own(db, "", mine.st_ino);
		return false;
	}
	done = rename_own(db, "", mine.st_ino);
	if (done)
		rename_own(db, "-wal", db->wal);
	return done;
}
