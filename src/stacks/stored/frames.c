/*
 * frames.c - splits texts of stacks, and knows modules of Erlang's and Elixir's
 * libraries by name.
 *
 * An application's time is mostly spent below such modules, in lists:foldl/3 or
 * gen:do_call/4; who called them says more.
 */
#include <string.h>

#include "frames.h"
#include "kprofd/config.h"
#include "kprofd/fn_name.h"

/*
 * Modules of erts, kernel, stdlib, crypto, ssl and Elixir that are met on stacks;
 * one that ends with '*' is a prefix.
 */
static const char *const libraries[] = {
	"Access", "Agent", "Agent.*", "Base", "Calendar", "Calendar.*", "Date",
	"DateTime", "DynamicSupervisor", "Enum", "Enumerable", "Enumerable.*",
	"File", "File.*", "GenServer", "IO", "IO.*", "Integer", "Inspect",
	"Inspect.*", "Kernel", "Kernel.*", "Keyword", "List", "Logger",
	"Logger.*", "Map", "MapSet", "Module", "NaiveDateTime", "Process",
	"Protocol", "Range", "Regex", "Registry", "Stream", "Stream.*",
	"String", "String.*", "Supervisor", "System", "Task", "Task.*", "Time",
	"Tuple", "URI",
	"application", "application_controller", "application_master", "array",
	"atomics", "base64", "binary", "calendar", "code", "code_server",
	"counters", "crypto", "dets", "dets_*", "dict", "digraph", "disk_log",
	"disk_log_*", "dtls_*", "erl_*", "erlang", "erpc", "error_logger",
	"erts_internal", "ets", "file", "file_io_server", "file_server",
	"filelib", "filename", "gb_sets", "gb_trees", "gen", "gen_event",
	"gen_fsm", "gen_sctp", "gen_server", "gen_statem", "gen_tcp", "gen_udp",
	"global", "inet", "inet6_*", "inet_*", "init", "io", "io_lib",
	"io_lib_*", "json", "lists", "local_tcp", "local_udp", "logger",
	"logger_*", "maps", "math", "net_kernel", "orddict", "ordsets", "os",
	"persistent_term", "pg", "prim_*", "proc_lib", "proplists",
	"public_key", "queue", "ram_file", "rand", "raw_file_*", "re", "rpc",
	"sets", "socket", "ssl", "ssl_*", "string", "supervisor", "sys",
	"timer", "tls_*", "unicode", "unicode_util", "uri_string", "zlib",
};
#define NLIBRARIES (sizeof(libraries) / sizeof(libraries[0]))

bool
frames_other(const char *frames)
{
	return strcmp(frames, "_other") == 0;
}

bool
frames_unknown(const char *frames)
{
	return frames[0] == '\0' || frames_other(frames) ||
	    strcmp(frames, "_late") == 0;
}

unsigned
frames_count(const char *frames)
{
	unsigned n = frames[0] != '\0';

	for (; *frames != '\0'; frames++)
		n += *frames == ';';
	return n;
}

const char *
frames_next(const char **s, size_t *n)
{
	const char *part = *s;

	if (*part == '\0')
		return NULL;
	*n = strcspn(part, ";");
	*s = part + *n + (part[*n] == ';');
	return part;
}

bool
frames_in_tier(const char *path, const char *tier)
{
	size_t n, len = strlen(tier);
	const char *part;

	while ((part = frames_next(&path, &n)) != NULL)
		if (n >= len && memcmp(part, tier, len) == 0 && (n == len ||
		    strncmp(part + len, KP_PART_SEP, strlen(KP_PART_SEP)) == 0))
			return true;
	return false;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

size_t
frame_fn(const char *frame, size_t n)
{
	size_t at = n;

	while (at > 0 && is_digit(frame[at - 1]))
		at--;
	/* the arity, too, is a number, but behind a slash */
	if (at == n || at < 2 || frame[at - 1] != ':' ||
	    (!is_digit(frame[at - 2]) && frame[at - 2] != ')'))
		return n;
	return at - 1;
}

static bool
matches(const char *library, const char *mod, size_t n)
{
	size_t len = strlen(library);

	if (library[len - 1] == '*')
		return n >= len - 1 && memcmp(library, mod, len - 1) == 0;
	return n == len && memcmp(library, mod, n) == 0;
}

/* Is the frame's module of Erlang's or Elixir's own libraries? */
static bool
is_library(const char *frame, size_t n)
{
	const char *mod = fn_module(frame, &n);

	for (size_t i = 0; i < NLIBRARIES; i++)
		if (matches(libraries[i], mod, n))
			return true;
	return false;
}

const char *
frames_app(const char *frames, size_t *n)
{
	const char *s = frames, *part, *last = NULL, *app = NULL;
	size_t len, last_n = 0;

	while ((part = frames_next(&s, &len)) != NULL) {
		last = part;
		last_n = len;
		if (is_library(part, len))
			continue;
		app = part;
		*n = len;
	}
	if (app == NULL)
		*n = last_n;
	return app != NULL ? app : last;
}
