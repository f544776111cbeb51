/* known.c - the table of frameworks, and a search in it. */
#include <string.h>

#include "suggest/known.h"

const struct suggest_known suggest_known[] = {
	{ "cowboy", "cowboy", "serves HTTP", "cowboy.conf",
	    "cowboy_stream_h", "request_process", 3,
	    "({cowboy_stream_h, request_process, [#{method := M, path := P}, "
	    "_, _]})\n        when is_binary(M), is_binary(P) -> {M, P}" },
	{ .module = "Elixir.Phoenix.Router", .name = "Phoenix",
	    .does = "serves HTTP", .example = "phoenix.conf" },
	{ "rabbit_channel", "RabbitMQ", "is a message broker",
	    "rabbitmq.conf", "rabbit_channel", "handle_method", 2, NULL },
	{ "ejabberd_c2s", "ejabberd", "is an XMPP server", "ejabberd.conf",
	    "ejabberd_c2s", "handle_authenticated_packet", 2, NULL },
	{ .module = "Elixir.Bandit", .name = "Bandit", .does = "serves HTTP" },
	{ .module = "Elixir.Plug.Conn", .name = "Plug",
	    .does = "has HTTP requests" },
	{ .module = "elli", .name = "elli", .does = "serves HTTP" },
	{ .module = "mochiweb_http", .name = "mochiweb",
	    .does = "serves HTTP" },
	{ .module = "yaws_server", .name = "yaws", .does = "serves HTTP" },
	{ .module = "Elixir.Ecto.Repo", .name = "Ecto",
	    .does = "asks databases" },
	{ .module = "Elixir.DBConnection", .name = "DBConnection",
	    .does = "has pools of database connections" },
	{ .module = "Elixir.Postgrex", .name = "Postgrex",
	    .does = "asks PostgreSQL" },
	{ .module = "epgsql", .name = "epgsql", .does = "asks PostgreSQL" },
	{ .module = "eredis", .name = "eredis", .does = "asks Redis" },
	{ .module = "Elixir.Redix", .name = "Redix", .does = "asks Redis" },
	{ .module = "hackney", .name = "hackney", .does = "asks by HTTP" },
	{ .module = "gun", .name = "gun", .does = "asks by HTTP" },
	{ .module = "Elixir.Finch", .name = "Finch", .does = "asks by HTTP" },
	{ .module = "ibrowse", .name = "ibrowse", .does = "asks by HTTP" },
	{ .module = "httpc", .name = "httpc", .does = "asks by HTTP" },
	{ .module = "poolboy", .name = "poolboy", .does = "has pools" },
	{ .module = "mnesia_tm", .name = "mnesia", .does = "is a database" },
};
const size_t suggest_nknown = sizeof(suggest_known) / sizeof(suggest_known[0]);

const struct suggest_known *
suggest_known_entry(const char *mod, const char *fun, uint32_t arity)
{
	const struct suggest_known *k;

	for (k = suggest_known; k < suggest_known + suggest_nknown; k++)
		if (k->mod != NULL && k->arity == arity &&
		    strcmp(k->mod, mod) == 0 && strcmp(k->fun, fun) == 0)
			return k;
	return NULL;
}
