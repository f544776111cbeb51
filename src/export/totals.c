/*
 * totals.c - arrays of figures by node, tier and identity, allocated when first
 * used, up to a cap.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/sat.h"
#include "totals.h"

#define NAME_BYTES_MAX 1024	/* of a label; an identity's is less */

static const size_t max_of[TOTALS_KINDS] = {
	[TOTALS_NODE] = TOTALS_NODES_MAX,
	[TOTALS_TIER] = TOTALS_TIERS_MAX,
	[TOTALS_IDENTITY] = TOTALS_IDENTITIES_MAX,
};

struct name_of {
	char *text;
	uint32_t hash;
};

struct names_of {
	struct name_of v[TOTALS_NODES_MAX + 2];
	size_t n;
};

/* The identities of one tier on one node. */
struct row {
	struct total *v[TOTALS_IDENTITIES_MAX + 2];
};

struct slo_set {
	size_t n;
	struct {
		char *text, *name;
		bool tier;
		kp_dur_ns limit;
		size_t index;		/* of the name, among its kind */
	} v[];
};

struct totals {
	pthread_mutex_t lock;
	struct slo_set *slo;		/* NULL: none */
	pthread_mutex_t next_lock;	/* of the next, and held for no longer */
	struct slo_set *next;		/* replaces slo; NULL: there is none */
	struct names_of names[TOTALS_KINDS];
	struct row *rows[TOTALS_NODES_MAX + 2][TOTALS_TIERS_MAX + 2];
	struct total_node nodes[TOTALS_NODES_MAX + 2];
	size_t cells, hists;
	kp_wall_ns newest;		/* the latest end of a window */
	uint64_t version;
	uint64_t folded, dropped;
};

/* ---- names ---- */

static uint32_t
hash_of(const char *s)
{
	uint32_t h = UINT32_C(0x811c9dc5);	/* FNV-1a */

	while (*s != '\0')
		h = (h ^ (uint8_t)*s++) * UINT32_C(0x01000193);
	return h;
}

/* Returns valid UTF-8: a scraper drops the whole answer for one bad label. */
static char *
valid_name(const char *raw)
{
	size_t n = strlen(raw), len, at = 0;
	char *s = malloc(3 * n + 1);	/* a bad byte becomes three */

	for (size_t i = 0; s != NULL && i < n; i += len)
		at += utf8_put(s + at, utf8_next(raw + i, n - i, &len));
	if (s != NULL)
		s[at > NAME_BYTES_MAX ? utf8_fit(s, at, NAME_BYTES_MAX) : at] =
		    '\0';
	return s;
}

/* Takes the text.  False: out of memory, or of room. */
static bool
put_name(struct names_of *ns, size_t max, char *text)
{
	if (text == NULL || ns->n == max) {
		free(text);
		return false;
	}
	ns->v[ns->n++] = (struct name_of){ text, hash_of(text) };
	return true;
}

static size_t
find_name(const struct names_of *ns, const char *text)
{
	uint32_t h = hash_of(text);
	size_t i = 0;

	while (i < ns->n && (ns->v[i].hash != h ||
	    strcmp(ns->v[i].text, text) != 0))
		i++;
	return i;
}

/* The name's index, adding it if need be; TOTALS_OTHER when there is no room. */
static size_t
name_index(struct totals *t, enum totals_kind kind, const char *raw)
{
	struct names_of *ns = &t->names[kind];
	size_t fixed = kind == TOTALS_NODE ? 1 : 2;
	size_t i = find_name(ns, raw);
	char *text;

	if (i < ns->n)
		return i;
	/* names that become equal share an index, so that no series is twice */
	text = valid_name(raw);
	i = text != NULL ? find_name(ns, text) : ns->n;
	if (i < ns->n)
		free(text);
	else if (!put_name(ns, fixed + max_of[kind], text))
		i = TOTALS_OTHER;
	return i;
}

struct totals *
totals_new(void)
{
	struct totals *t = calloc(1, sizeof(*t));
	bool ok = t != NULL;

	if (ok) {
		pthread_mutex_init(&t->lock, NULL);
		pthread_mutex_init(&t->next_lock, NULL);
	}
	for (int kind = 0; ok && kind < TOTALS_KINDS; kind++)
		ok = put_name(&t->names[kind], 2, strdup("_other")) &&
		    (kind == TOTALS_NODE ||
		    put_name(&t->names[kind], 2, strdup("_total")));
	if (ok)
		return t;
	totals_free(t);
	return NULL;
}

static void
slo_free(struct slo_set *s)
{
	for (size_t i = 0; s != NULL && i < s->n; i++) {
		free(s->v[i].text);
		free(s->v[i].name);
	}
	free(s);
}

static void
row_free(struct totals *t, struct row *r)
{
	for (size_t i = 0; r != NULL && i < TOTALS_IDENTITIES_MAX + 2; i++) {
		if (r->v[i] == NULL)
			continue;
		t->cells--;
		t->hists -= r->v[i]->hist.len > 0;
		kp_hist_free(&r->v[i]->hist);
		free(r->v[i]->kept);
		free(r->v[i]);
	}
	free(r);
}

void
totals_free(struct totals *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < TOTALS_NODES_MAX + 2; i++) {
		free(t->nodes[i].usage);
		for (size_t k = 0; k < TOTALS_TIERS_MAX + 2; k++)
			row_free(t, t->rows[i][k]);
	}
	for (int kind = 0; kind < TOTALS_KINDS; kind++)
		for (size_t i = 0; i < t->names[kind].n; i++)
			free(t->names[kind].v[i].text);
	slo_free(t->slo);
	slo_free(t->next);
	pthread_mutex_destroy(&t->next_lock);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- figures ---- */

/* The cell, made if need be.  NULL: out of memory, or of room. */
static struct total *
total_get(struct totals *t, size_t node, size_t tier, size_t identity)
{
	struct row **row = &t->rows[node][tier];
	struct total **at;

	if (*row == NULL)
		*row = calloc(1, sizeof(**row));
	if (*row == NULL)
		return NULL;
	at = &(*row)->v[identity];
	if (*at == NULL && t->cells < TOTALS_CELLS_MAX) {
		*at = calloc(1, sizeof(**at));
		t->cells += *at != NULL;
	}
	return *at;
}

static bool
merge_hist(struct totals *t, struct kp_hist *to, const struct kp_hist *from)
{
	bool first = to->len == 0 && from->len > 0;

	if (first && t->hists == TOTALS_HISTS_MAX)
		return false;
	if (kp_hist_merge(to, from) != KP_OK)
		return false;
	t->hists += first;
	return true;
}

/* Requests of an identity, and calls of a tier; see totals.h. */
static bool
has_hist(size_t tier, size_t identity)
{
	return (tier == TOTALS_TOTAL) != (identity == TOTALS_TOTAL);
}

static void
add_cell(struct totals *t, size_t node, const struct kp_cell *c)
{
	size_t tier = name_index(t, TOTALS_TIER, c->tier);
	size_t identity = name_index(t, TOTALS_IDENTITY, c->identity);
	struct total *to = total_get(t, node, tier, identity);

	if (tier == TOTALS_TOTAL && identity == TOTALS_OTHER &&
	    strcmp(c->identity, "_other") != 0)
		t->folded += c->w_calls;
	if (to == NULL || (has_hist(tier, identity) &&
	    !merge_hist(t, &to->hist, &c->hist))) {
		t->dropped++;
		return;
	}
	to->calls += c->w_calls;
	to->raised += kp_cell_raised(c, tier == TOTALS_TOTAL);
	to->unfinished += c->w_unfinished;
	to->ambiguous += c->w_ambiguous;
	to->unknown += c->w_unknown_outcomes;
	if (tier != TOTALS_TOTAL) {
		to->late += c->w_async_calls;
		to->late_raised += c->w_async_raised;
		to->late_unfinished += c->w_async_unfinished;
		to->late_unknown += c->w_async_unknown;
	}
	to->async_calls += c->w_async_calls;
	to->outlasting += c->w_outlasting;
	to->busy = sat_add(to->busy, c->w_share_busy);
	to->self = sat_add(to->self, c->w_self);
	to->async = sat_add(to->async, c->w_async);
	to->time = sat_add(to->time, c->w_total);
}

void
totals_kept(struct totals *t, const struct kp_tree *tree)
{
	size_t node, identity;
	struct row *row;
	struct total *to;

	totals_lock(t);
	node = find_name(&t->names[TOTALS_NODE], tree->node);
	identity = find_name(&t->names[TOTALS_IDENTITY], tree->identity);
	row = node < t->names[TOTALS_NODE].n ? t->rows[node][TOTALS_TOTAL] : NULL;
	to = row != NULL && identity < t->names[TOTALS_IDENTITY].n ? row->v[identity] : NULL;
	/* its histogram has none of weight 0; and an exemplar may not be older than the last */
	if (to != NULL && tree->total >= 0 && tree->weight > 0 && (to->kept != NULL ||
	    (to->kept = calloc(1, sizeof(*to->kept))) != NULL) &&
	    sat_add(tree->start, tree->total) >= to->kept->end) {
		*to->kept = (struct total_kept){ .id = tree->id, .total = tree->total,
			.end = sat_add(tree->start, tree->total) };
		if (tree->traceparent[0] != '\0')
			memcpy(to->kept->trace, tree->traceparent + KP_TRACE_ID_AT,
			    KP_TRACE_ID_LEN);
	}
	totals_unlock(t);
}

/* Moves the last node into its index. */
static void
drop_node(struct totals *t, size_t i)
{
	struct names_of *ns = &t->names[TOTALS_NODE];
	size_t last = --ns->n;

	for (size_t k = 0; k < TOTALS_TIERS_MAX + 2; k++) {
		row_free(t, t->rows[i][k]);
		t->rows[i][k] = t->rows[last][k];
		t->rows[last][k] = NULL;
	}
	free(ns->v[i].text);
	free(t->nodes[i].usage);
	ns->v[i] = ns->v[last];
	t->nodes[i] = t->nodes[last];
	t->nodes[last] = (struct total_node){ 0 };
}

/*
 * Windows of all nodes end together and are added one by one, so nodes are checked
 * when a window with a later end comes, against the end of those before it.
 */
static void
drop_stale(struct totals *t, const struct kp_window *w)
{
	kp_dur_ns stale = 3 * (w->end - w->start);

	if (w->end <= t->newest)
		return;
	if (stale < TOTALS_STALE)
		stale = TOTALS_STALE;
	for (size_t i = t->names[TOTALS_NODE].n - 1; i > TOTALS_OTHER; i--)
		if (t->newest - t->nodes[i].last > stale)
			drop_node(t, i);
	t->newest = w->end;
}

/* Figures of now: those of long ago are none. */
static void
add_usage(struct total_node *n, const struct kp_window *w)
{
	if (w->usage == NULL && w->end - n->seen < TOTALS_STALE)
		return;
	free(n->usage);
	n->usage = w->usage != NULL ? kp_usage_copy(w->usage) : NULL;
	n->seen = w->end;
}

static void
add_window(struct totals *t, const struct kp_window *w)
{
	struct total_node *n;
	size_t node;

	drop_stale(t, w);
	node = name_index(t, TOTALS_NODE, w->node);
	n = &t->nodes[node];
	if (n->windows++ == 0)
		n->first = w->start;
	n->version = ++t->version;
	n->entry_calls += w->entry_calls;
	n->sampled += w->sampled;
	if (w->end > n->last)
		n->last = w->end;
	n->otp = node != TOTALS_OTHER ? w->otp : 0;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		n->lost.n[i] += w->losses.n[i];
	if (node != TOTALS_OTHER)
		add_usage(n, w);
	/* Parts of tiers would count twice in sums over tiers. */
	for (size_t i = 0; i < w->ncells; i++)
		if (strstr(w->cells[i].tier, KP_PART_SEP) == NULL)
			add_cell(t, node, &w->cells[i]);
}

/* Indexes stay: names of tiers and identities are kept. */
static void
take_slo(struct totals *t)
{
	struct slo_set *next;

	pthread_mutex_lock(&t->next_lock);
	next = t->next;
	t->next = NULL;
	pthread_mutex_unlock(&t->next_lock);
	if (next == NULL)
		return;
	slo_free(t->slo);
	t->slo = next;
	for (size_t i = 0; i < next->n; i++)
		next->v[i].index = name_index(t, next->v[i].tier ? TOTALS_TIER :
		    TOTALS_IDENTITY, next->v[i].name);
}

void
totals_lock(struct totals *t)
{
	pthread_mutex_lock(&t->lock);
	take_slo(t);
}

void
totals_slo(struct totals *t, const struct kp_objective *v, size_t n)
{
	struct slo_set *s = calloc(1, sizeof(*s) + n * sizeof(s->v[0])), *old;
	bool ok = s != NULL;

	for (size_t i = 0; ok && i < n; i++) {
		s->n++;
		s->v[i].text = strdup(v[i].text);
		s->v[i].name = strdup(v[i].name);
		s->v[i].tier = v[i].tier;
		s->v[i].limit = v[i].limit;
		ok = s->v[i].text != NULL && s->v[i].name != NULL;
	}
	if (!ok) {
		slo_free(s);
		return;
	}
	pthread_mutex_lock(&t->next_lock);
	old = t->next;
	t->next = s;
	pthread_mutex_unlock(&t->next_lock);
	slo_free(old);
}

void
totals_unlock(struct totals *t)
{
	pthread_mutex_unlock(&t->lock);
}

void
totals_add(struct totals *t, const struct kp_window *w)
{
	totals_lock(t);
	add_window(t, w);
	totals_unlock(t);
}

/* ---- reading ---- */

size_t
totals_count(const struct totals *t, enum totals_kind kind)
{
	return t->names[kind].n;
}

const char *
totals_name(const struct totals *t, enum totals_kind kind, size_t i)
{
	return t->names[kind].v[i].text;
}

const struct total *
totals_at(const struct totals *t, size_t node, size_t tier, size_t identity)
{
	const struct row *row = t->rows[node][tier];

	return row != NULL ? row->v[identity] : NULL;
}

bool
totals_next(const struct totals *t, size_t node, bool tiers, bool identities,
    struct totals_cell *at)
{
	size_t tier, i;

	for (; at->next_tier < t->names[TOTALS_TIER].n; at->next_tier++) {
		tier = at->next_tier;
		if ((tier != TOTALS_TOTAL) != tiers)
			continue;
		while (at->next_identity < t->names[TOTALS_IDENTITY].n) {
			i = at->next_identity++;
			at->c = totals_at(t, node, tier, i);
			if (at->c == NULL || (i != TOTALS_TOTAL) != identities)
				continue;
			at->tier = !tiers ? NULL :
			    totals_name(t, TOTALS_TIER, tier);
			at->identity = !identities ? NULL :
			    totals_name(t, TOTALS_IDENTITY, i);
			return true;
		}
		at->next_identity = 0;
	}
	return false;
}

const struct total_node *
totals_node(const struct totals *t, size_t node)
{
	return t->nodes[node].windows > 0 ? &t->nodes[node] : NULL;
}

int
totals_otp(struct totals *t, const char *name)
{
	int otp = 0;

	totals_lock(t);
	for (size_t i = TOTALS_OTHER + 1; i < totals_count(t, TOTALS_NODE); i++)
		if (strcmp(totals_name(t, TOTALS_NODE, i), name) == 0)
			otp = t->nodes[i].otp;
	totals_unlock(t);
	return otp;
}

static void
add_slo(struct total_slo *s, const struct total *c, kp_dur_ns limit)
{
	uint64_t low, high;

	if (c == NULL)
		return;
	s->requests += c->hist.count;
	s->slow += (double)c->hist.count - kp_hist_within(&c->hist, limit, &low, &high);
}

bool
totals_slo_at(const struct totals *t, size_t node, size_t i, struct total_slo *out)
{
	const struct total *all;
	uint64_t raised, unseen;
	size_t tier, identity;

	if (t->slo == NULL || i >= t->slo->n)
		return false;
	*out = (struct total_slo){ .text = t->slo->v[i].text, .failed = -1 };
	/* there was no room for its name: others are in the same figures */
	if (t->slo->v[i].index == TOTALS_OTHER &&
	    strcmp(t->slo->v[i].name, "_other") != 0)
		return true;
	tier = t->slo->v[i].tier ? t->slo->v[i].index : TOTALS_TOTAL;
	identity = t->slo->v[i].tier ? TOTALS_TOTAL : t->slo->v[i].index;
	all = totals_at(t, node, tier, identity);
	if (has_hist(tier, identity))
		add_slo(out, all, t->slo->v[i].limit);
	else		/* all requests: of each type there is a histogram */
		for (size_t k = 0; k < t->names[TOTALS_IDENTITY].n; k++)
			if (k != TOTALS_TOTAL)
				add_slo(out, totals_at(t, node, tier, k),
				    t->slo->v[i].limit);
	if (all == NULL)
		return true;
	/* within requests, as the histograms are */
	raised = all->raised - all->late_raised;
	unseen = kp_calls_unseen(all->calls, all->unfinished,
	    all->unknown + all->ambiguous);
	if (kp_raised_seen(raised, unseen) != KP_NOT_SEEN)
		out->failed = (double)raised;
	return true;
}

uint64_t
totals_folded(const struct totals *t)
{
	return t->folded;
}

uint64_t
totals_dropped(const struct totals *t)
{
	return t->dropped;
}
