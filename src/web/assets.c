/*
 * assets.c - finds a built-in file by its path, and its content type by its
 * ending.
 */
#include <string.h>

#include "assets.h"

#include "web_assets.h"		/* web_files[]: see assets.sh */

static const struct {
	const char *end, *type;
} types[] = {
	{ ".html", "text/html; charset=utf-8" },
	{ ".css", "text/css; charset=utf-8" },
	{ ".js", "text/javascript; charset=utf-8" },
	{ ".svg", "image/svg+xml" },
	{ ".json", "application/json" },
};

static const char *
type_of(const char *path)
{
	const char *end = strrchr(path, '.');

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (end != NULL && strcmp(end, types[i].end) == 0)
			return types[i].type;
	return "application/octet-stream";
}

bool
asset_find(const char *path, struct asset *out)
{
	if (strcmp(path, "/") == 0)
		path = "/index.html";
	for (size_t i = 0; i < sizeof(web_files) / sizeof(web_files[0]); i++) {
		if (strcmp(web_files[i].path, path) != 0)
			continue;
		*out = (struct asset){ web_files[i].path, type_of(path),
			web_files[i].p, web_files[i].n };
		return true;
	}
	return false;
}
