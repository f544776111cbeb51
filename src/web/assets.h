/* assets.h - the page's files, built into the program. */
#ifndef KP_WEB_ASSETS_H
#define KP_WEB_ASSETS_H

#include <stdbool.h>
#include <stddef.h>

struct asset {
	const char *path;	/* "/app.js", as it is asked for */
	const char *type;	/* of its contents */
	const unsigned char *p;
	size_t n;
};

/* False: there is none of exactly this name. */
bool asset_find(const char *path, struct asset *out);

#endif
