/*
 * params.c - decodes a query parameter by parameter, with a table of names, forms
 * and parse functions.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl_socket.h"
#include "text/text.h"
#include "text/timefmt.h"
#include "kprofd/request.h"
#include "export/viewers.h"
#include "report/report.h"
#include "server.h"
#include "stacks/stored/stored_stacks.h"

#define LIMIT_DEFAULT 100
#define OFFSET_MAX 1000000

/* One parameter being read. */
struct param {
	struct web_params *p;
	const char *value;	/* decoded, in p->text */
	kp_wall_ns now;
	void *to;		/* where set_time() and set_text() put it */
	const char *until;	/* as given; it depends on `since` */
};

static bool
set_time(const struct param *a)
{
	return timefmt_parse(a->value, a->now, INT64_MIN, a->to);
}

static bool
set_text(const struct param *a)
{
	*(const char **)a->to = a->value;
	return a->value[0] != '\0';
}

/* It may be repeated: the patterns are joined with blanks, as range.node wants. */
static bool
set_node(const struct param *a)
{
	struct web_params *p = a->p;
	size_t n = strlen(a->value);
	char *end;

	if (n == 0 || strpbrk(a->value, " \t\n") != NULL)
		return false;
	if (p->range.node == NULL) {
		p->range.node = a->value;
		return true;
	}
	/* works only if the text of the previous one is adjacent */
	end = (char *)p->range.node + strlen(p->range.node);
	if (end + 1 != a->value)
		return false;
	*end = ' ';
	return true;
}

static bool
set_identity(const struct param *a)
{
	if (strcmp(a->value, "_total") != 0)
		a->p->range.identity = a->value;
	return a->value[0] != '\0';
}

static bool
set_step(const struct param *a)
{
	return kp_dur_parse(a->value, &a->p->step) &&
	    a->p->step >= KP_NS_PER_S;
}

static bool
number(const char *s, size_t least, size_t most, size_t *out)
{
	char *end;

	if (s[0] < '0' || s[0] > '9' || strlen(s) > 9)
		return false;
	*out = strtoul(s, &end, 10);
	return *end == '\0' && *out >= least && *out <= most;
}

static bool
set_for(const struct param *a)
{
	return kp_dur_parse(a->value, &a->p->time) && a->p->time >= KP_NS_PER_S &&
	    a->p->time <= TRACE_FOR_MAX;
}

static bool
set_events(const struct param *a)
{
	return number(a->value, 1, TRACE_EVENTS_MAX, &a->p->events);
}

static bool
set_limit(const struct param *a)
{
	return number(a->value, 1, WEB_LIMIT_MAX, &a->p->limit);
}

static bool
set_offset(const struct param *a)
{
	return number(a->value, 0, OFFSET_MAX, &a->p->offset);
}

/* Numbers with a point between them, as an answer's `next` gave them. */
static bool
set_cursor(const struct param *a)
{
	const char *s = a->value;
	char *end;

	while (a->p->ncursor < WEB_CURSOR_MAX) {
		if ((s[0] != '-' || s[1] < '0' || s[1] > '9') &&
		    (s[0] < '0' || s[0] > '9'))
			return false;
		errno = 0;
		a->p->cursor[a->p->ncursor++] = strtoll(s, &end, 10);
		if (errno != 0 || *end == '\0')
			return errno == 0;
		if (*end != '.')
			return false;
		s = end + 1;
	}
	return false;
}

/* As kprof slow -outcome. */
static bool
set_outcome(const struct param *a)
{
	uint8_t *to = &a->p->range.outcome;

	if (strcmp(a->value, "raised-inside") == 0) {
		*to = KP_QUERY_RAISED_INSIDE;
		return true;
	}
	for (*to = KP_RETURNED; *to < KP_OUTCOMES; ++*to)
		if (strcmp(a->value, kp_outcome_name(*to)) == 0)
			return true;
	return false;
}

static bool
set_trace(const struct param *a)
{
	a->p->range.trace = a->value;
	return kp_is_trace_id(a->value);
}

static bool
set_by(const struct param *a)
{
	a->p->range.by_node = strcmp(a->value, "node") == 0;
	return a->p->range.by_node || strcmp(a->value, "identity") == 0;
}

/* Sets *to to the number of the name in a list such as "busy,self". */
static bool
choose(const char *value, const char *names, int *to)
{
	size_t n;

	for (*to = 0; *names != '\0'; ++*to, names += n + (names[n] == ',')) {
		n = strcspn(names, ",");
		if (strlen(value) == n && memcmp(value, names, n) == 0)
			return true;
	}
	return false;
}

static bool
set_what(const struct param *a)
{
	return choose(a->value, report_whats, &a->p->what);
}

static bool
set_form(const struct param *a)
{
	return choose(a->value, TRACE_FORMS, &a->p->form);
}

static bool
set_stacks_form(const struct param *a)
{
	return choose(a->value, STACKS_FORMS, &a->p->form);
}

static bool
set_seconds(const struct param *a)
{
	return number(a->value, 1, WEB_SECONDS_MAX, &a->p->seconds);
}

static bool
set_versus(const struct param *a)
{
	return timefmt_parse_range(a->value, a->now, &a->p->versus) == NULL;
}

static bool
set_against(const struct param *a)
{
	bool known = choose(a->value, "nodes,types,durations", &a->p->against);

	a->p->against += STACKS_NODES;
	return known;
}

static bool
set_took(const struct param *a)
{
	return report_parse_took(a->value, &a->p->range) == NULL;
}

static const struct {
	const char *name;
	enum web_param bit;
	bool (*set)(const struct param *a);
	const char *form;
	size_t at;		/* of what is set, in struct web_params */
} params[] = {
#define AT(field) offsetof(struct web_params, field)
	{ "since", PARAM_SINCE, set_time, TIMEFMT_FORMS, AT(range.since) },
	{ "until", PARAM_UNTIL, set_time, TIMEFMT_FORMS, AT(range.until) },
	{ "node", PARAM_NODE, set_node, "a node's name or a glob such as "
	    "web@*; several stand together", 0 },
	{ "identity", PARAM_IDENTITY, set_identity, "the name of one", 0 },
	{ "tier", PARAM_TIER, set_text, "the name of one", AT(tier) },
	{ "step", PARAM_STEP, set_step, "a length of time such as 30s or 5m", 0 },
	{ "for", PARAM_FOR, set_for, "a length of time from 1s to 60s", 0 },
	{ "events", PARAM_EVENTS, set_events, "a number from 1 to 1000000", 0 },
	{ "limit", PARAM_LIMIT, set_limit, "a number from 1 to 5000", 0 },
	{ "cursor", PARAM_CURSOR, set_cursor, "'next' of an answer to the same "
	    "question", 0 },
	{ "offset", PARAM_OFFSET, set_offset, "a number up to 1000000", 0 },
	{ "sort", PARAM_SORT, set_text, "requests, cost, name or a tier; of "
	    "slow requests total or self", AT(sort) },
	{ "trace", PARAM_TRACE, set_trace, "32 hexadecimal digits in lower case", 0 },
	{ "outcome", PARAM_OUTCOME, set_outcome, "returned, raised, unfinished, "
	    "ambiguous, unknown or raised-inside", 0 },
	{ "what", PARAM_WHAT, set_what, "busy, self, total, calls, async, gc or out", 0 },
	{ "form", PARAM_FORM, set_form, "tree, chrome, speedscope or otlp", 0 },
	{ "form", PARAM_STACKS_FORM, set_stacks_form, "json, folded, difffolded "
	    "(with versus or against), speedscope or pprof", 0 },
	{ "seconds", PARAM_SECONDS, set_seconds, "a number from 1 to 600", 0 },
	{ "by", PARAM_BY, set_by, "identity or node", 0 },
	{ "text", PARAM_TEXT, set_text, "that of a mark", AT(mark) },
	{ "versus", PARAM_VERSUS, set_versus, "FROM,TO: two times", 0 },
	{ "against", PARAM_AGAINST, set_against, "nodes, types or durations: the "
	    "other ones", 0 },
	{ "took", PARAM_TOOK, set_took, "FROM,TO: two lengths of time, as 250ms,1s, or "
	    "the first alone", 0 },
#undef AT
};
#define NPARAMS (sizeof(params) / sizeof(params[0]))

/* Decodes n bytes into p->text, with a NUL; NULL: malformed, or a NUL in it. */
static const char *
decode(struct web_params *p, const char *s, size_t n)
{
	char *out = p->text + p->len, *to = out;

	for (size_t i = 0; i < n; i++) {
		int c = s[i];

		if (c == '+')
			c = ' ';
		if (c == '%') {
			if (n - i < 3 || text_hex(s[i + 1]) < 0 || text_hex(s[i + 2]) < 0)
				return NULL;
			c = text_hex(s[i + 1]) << 4 | text_hex(s[i + 2]);
			i += 2;
		}
		if (c == '\0')
			return NULL;
		*to++ = (char)c;
	}
	*to++ = '\0';
	p->len = (size_t)(to - p->text);
	return out;
}

static bool
take(struct web_params *p, const char *name, size_t n, struct param *a,
    unsigned allowed, char *why, size_t nwhy)
{
	for (size_t i = 0; i < NPARAMS; i++) {
		if (strlen(params[i].name) != n ||
		    memcmp(params[i].name, name, n) != 0 ||
		    (allowed & params[i].bit) == 0)
			continue;
		if ((p->given & params[i].bit) != 0 &&
		    params[i].bit != PARAM_NODE) {
			snprintf(why, nwhy, "'%s' is given twice",
			    params[i].name);
			return false;
		}
		p->given |= params[i].bit;
		a->to = (char *)p + params[i].at;
		if (params[i].bit == PARAM_UNTIL)
			a->until = a->value;
		if (a->value != NULL && params[i].set(a))
			return true;
		snprintf(why, nwhy, "'%s' is not understood: it is %s",
		    params[i].name, params[i].form);
		return false;
	}
	snprintf(why, nwhy, "unknown parameter '%.*s' (see openapi.json)",
	    n > 40 ? 40 : (int)n, name);
	return false;
}

bool
web_params_parse(struct web_params *p, const char *query, unsigned allowed,
    kp_wall_ns now, char *why, size_t n)
{
	struct param a = { .p = p, .now = now };
	size_t len, name;

	memset(p, 0, offsetof(struct web_params, text));
	p->len = 0;
	p->range.until = INT64_MAX;
	p->limit = LIMIT_DEFAULT;
	p->seconds = WEB_SECONDS;
	if (query == NULL)
		return true;
	if (strlen(query) > WEB_QUERY_MAX) {
		snprintf(why, n, "the query is too long");
		return false;
	}
	for (; *query != '\0'; query += len + (query[len] == '&')) {
		len = strcspn(query, "&");
		if (len == 0)
			continue;
		name = strcspn(query, "=&");
		a.value = name < len ? decode(p, query + name + 1,
		    len - name - 1) : NULL;
		if (!take(p, query, name, &a, allowed, why, n))
			return false;
	}
	if (a.until != NULL)
		timefmt_parse(a.until, now, p->range.since, &p->range.until);
	if ((p->given & PARAM_AGAINST) != 0 && (p->against == STACKS_DURATIONS ?
	    p->range.took_to == 0 : (p->against == STACKS_NODES ? p->range.node :
	    p->range.identity) == NULL)) {
		snprintf(why, n, "'against' goes with 'node', 'identity' or 'took', "
		    "which it compares with the others");
		return false;
	}
	if ((allowed & PARAM_STACKS_FORM) != 0 && p->form == STACKS_DIFFFOLDED &&
	    (p->given & (PARAM_VERSUS | PARAM_AGAINST)) == 0) {
		snprintf(why, n, "'form=difffolded' needs 'versus' or 'against'");
		return false;
	}
	if (p->range.since >= p->range.until) {
		snprintf(why, n, "'since' is not before 'until'");
		return false;
	}
	return true;
}
