#!/bin/sh
# Plays a newcomer with an application of their own: types each mistake that people
# make before their first report, and compares what the programs answer.
# usage: newcomer.sh BUILD_DIR
set -u

b=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/newcomer.XXXXXX")
node=shop_$$@127.0.0.1
shop= tls= kprofd=
finish_all() {
	[ -z "$kprofd" ] || kill -KILL "$kprofd" 2>/dev/null
	for pid in $shop $tls; do kill "$pid" 2>/dev/null; done
	rm -rf "$dir"
}
trap finish_all EXIT
trap 'exit 1' INT TERM
. "$here/../packaging/lib.sh"

export HOME="$dir" PATH="$b:$PATH"
unset KPROF_DB KPROFD_COOKIE_FILE KPROFD_TLS_OPTFILE ERL_DIST_PORT
cd "$dir" || exit 1
(umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >.erlang.cookie)

# says STATUS PATTERN... -- COMMAND...: the command ends with this status, and prints
# something that each of the patterns matches; "! PATTERN": that it does not.
says() {
	wanted=$1 patterns=
	shift
	: >patterns
	while [ "$1" != -- ]; do
		printf '%s\n' "$1" >>patterns
		shift
	done
	shift
	"$@" >said 2>&1 </dev/null
	got=$?
	[ "$got" = "$wanted" ] || {
		fail "$*: status $got, not $wanted"
		sed 's/^/  /' said >&2
		return
	}
	while read -r pattern; do
		case $pattern in
		'! '*) ! grep -qE -e "${pattern#! }" said ;;
		*) grep -qE -e "$pattern" said ;;
		esac || {
			fail "$*: no match of: $pattern"
			sed 's/^/  /' said >&2
			return
		}
	done <patterns
	passed=$((passed + 1))
}

# tiers TIERS [MORE]: writes tiers.conf, with the handler as the entry
tiers() {
	printf '{tiers, [%s]}.\n%s\n' "$1" "${2-{entry, {shop_handler, init, 2\}\}.}" >tiers.conf
}

# check STATUS PATTERN...: what kprofd -check says of tiers.conf, without a node
check() {
	says "$@" -- kprofd -check -tiers tiers.conf
}

# look STATUS PATTERN...: what it says of it when it looks at the shop
look() {
	says "$@" -- kprofd -check -target "$node" -tiers tiers.conf
}

web='{web, {shop_handler, init, 2}}'

# ---- a tiers.conf with mistakes, without a node

tiers '{web, shop_handler:init/2}'
check 1 '^tiers.conf:1:' '\{shop_handler, init, 2\}'

tiers "$web, {db, {Shop.Repo, :all, 2}}"
check 1 '^tiers.conf:1:' '"Shop.Repo.all/2"'

tiers "$web" '{entry, shop_handler:init/2}.'
check 1 '^tiers.conf:2:' '\{shop_handler, init, 2\}' '! tiers.conf:1'

tiers "$web" '{entry, {shop_handler, init, 2}}.
{identity, fun({shop_handler, init, [R, _]}) -> cowboy_req:method(R) end}.'
check 1 '^tiers.conf:3:' 'method := M'

# What a fun may call, and Elixir names where other names may stand.
tiers "$web, {db, \"Shop.Repo.all/2\"}" '{entry, ["shop_handler:init/2"]}.
{identity, fun({shop_handler, init, [R, S]}) -> {map_get(method, R), length(S)} end}.'
check 0 '^ok'

tiers "$web, {db, [\"Shop.Repo.all/2\", {shop_stock, reserve, 1}]}"
check 0 '^ok'

# One mistake, one message.
printf '{tiers, [%s]}\n{entry, {shop_handler, init, 2}}.\n' "$web" >tiers.conf
check 1 'tiers.conf:'
same 'a missing dot: messages' "$(grep -c ': error: ' said)" 1

# ---- options

tiers "$web"
says 2 '-tiers' -- kprofd -target "$node"
says 2 'cookie-file' -- kprofd -target "$node" -tiers tiers.conf -cookie secret
says 2 'cookie-file' -- kprof count -target "$node" -cookie secret shop
says 1 'no/such' -- kprofd -target "$node" -tiers tiers.conf -db no/such/k.db
says 2 '-forget' '-cluster' -- kprofd -target "$node" -tiers tiers.conf -forget 5s
says 0 'usage: kprof report' -- kprof help report
says 0 'usage: kprof COMMAND' -- kprof help
for command in kprofd kprof 'kprof report' 'kprof count' 'kprof trace'; do
	# shellcheck disable=SC2086
	same "$command -h: lines over 80 columns" "$($command -h | awk 'length > 80')" ''
done
says 1 'nothing.db' -- kprof report --db=nothing.db
says 1 'other.db' -- env KPROF_DB=other.db kprof report

# ---- the shop begins to sell

mkdir ebin
erlc -o ebin "$here"/src/*.erl || exit 1
erl -noinput -pa ebin -name "$node" -s shop main >shop.log 2>&1 &
shop=$!
until_ok 'the shop opens' grep -q ready shop.log || exit 1

says 2 "$node" -- kprofd -target shop -tiers tiers.conf
says 1 "$node" -- kprofd -target "shp_$$@127.0.0.1" -tiers tiers.conf

# ---- the way to a node

says 2 'not a port from 1 to 65535' -- kprofd -target "$node" -tiers tiers.conf -dist-port 0
says 2 'port is not a number' '! epmd lists' -- kprof stacks -target "$node:epmd"
says 2 'app@pod=10.0.0.7' -- kprof count -target "$node" -resolve 10.0.0.7 shop
says 2 'HOST:PORT' -- kprof suggest -target "$node" -epmd 99999
says 1 'port 1:' "that the node's port" -- kprof stacks -target "$node:1" -for 1s
says 1 "ERL_EPMD_PORT says so" -- env ERL_EPMD_PORT=1 kprof stacks -target "$node" -for 1s
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=shop \
    -addext subjectAltName=IP:127.0.0.1 -keyout tls.key -out tls.pem 2>openssl.log || exit 1
chmod 600 tls.key
cat >ssl_dist.conf <<'EOF'
[{server, [{certfile, "tls.pem"}, {keyfile, "tls.key"}]},
 {client, [{cacertfile, "tls.pem"}, {verify, verify_peer}]}].
EOF
erl -noinput -name "tls_$node" -proto_dist inet_tls -ssl_dist_optfile "$dir/ssl_dist.conf" \
    -eval 'io:format("ready~n").' >tls.log 2>&1 &
tls=$!
until_ok 'a node with TLS' grep -q ready tls.log || exit 1
says 1 'uses TLS' '-tls-optfile' -- kprof stacks -target "tls_$node" -for 1s
says 1 'leave out -tls-optfile' -- kprof stacks -target "$node" -tls-ca tls.pem -for 1s
says 2 'nothing is encrypted' -- kprof stacks -target "tls_$node" -tls-verify none
says 2 '-tls-key FILE' -- kprof stacks -target "tls_$node" -tls-cert tls.pem
says 2 '-tls-ca FILE' -- kprof stacks -target "tls_$node" -tls-cert tls.pem -tls-key tls.key
says 1 'no/such.conf' -- kprof stacks -target "tls_$node" -tls-optfile no/such.conf
says 0 "tls_$node" -- kprof stacks -target "tls_$node" -tls-optfile ssl_dist.conf -for 300ms
says 0 "tls_$node" -- env KPROFD_TLS_OPTFILE=ssl_dist.conf kprof stacks -target "tls_$node" -for 300ms

# ---- a tiers.conf that is valid, and wrong

tiers "$web, {db, \"Shop.Repo.all/2\"}, {stock, {shop_stock, reserve, 1}}"
look 0 '^ok, 0 warnings$' 'about [0-9]+ events/s'
tiers "{mail, {shop_mail, loop, 1}}" '{entry, {shop_mail, loop, 1}}.'
look 1 '^tiers.conf:2:.*never returns|calls itself' '! ^ok'
tiers "{price, {shop_price, sum, 2}}" '{entry, {shop_price, sum, 2}}.'
look 1 '^tiers.conf:2:.*calls itself' '! ^ok'
tiers "{report, {shop_report, yearly, 0}}" '{entry, {shop_report, yearly, 0}}.'
look 0 'not called' '^ok, [0-9]+ warning'
tiers "{report, {shop_report, daily, 0}}" '{entry, {shop_report, daily, 0}}.'
look 0 '^ok, 0 warnings$'
tiers "$web, {text, {shop_text, escape, 1}}"
look 1 'shop_text:escape/1'
tiers "$web" '{entry, {shop_handler, init, 2}}.
{identity, fun({shop_handler, init, [#{verb := V}, _]}) -> V; (_) -> undefined end}.'
look 0 '^tiers.conf:3:.*matched none' '-explain' '! GET|POST'
says 0 'method' '! GET|POST' -- kprofd -check -target "$node" -tiers tiers.conf -explain
says 0 'method' 'GET|POST' -- kprofd -check -target "$node" -tiers tiers.conf -explain -values
tiers "{web, {shop_handler, inti, 2}}" '{entry, {shop_handler, inti, 2}}.'
look 1 'shop_handler:init/2'
tiers "$web, {db, {'Shop.Repo', all, 2}}"
look 0 "Elixir.Shop.Repo|\"Shop.Repo" '^ok, [0-9]+ warning'

# ---- the first profile

tiers "$web, {db, \"Shop.Repo.all/2\"}, {stock, {shop_stock, reserve, 1}}" '{entry, {shop_handler, init, 2}}.
{identity, fun({shop_handler, init, [#{method := M, path := P}, _]}) -> {M, P} end}.'
# Windows end with the minute: this one is to run for some time.
until [ "$(($(date +%s) % 60))" -lt 30 ]; do sleep 1; done
kprofd -target "$node" -tiers tiers.conf -http 0 -interval 1m >kprofd.log 2>&1 &
kprofd=$!
until_ok 'a first figure' sh -c 'kprof report | grep -q POST'
says 0 'POST' 'running' -- kprof report
says 0 'running' -- kprof top -refreshes 1
says 1 'profiled already: .*\(-check -control kprofd.db.sock asks it' -- kprofd -check -target "$node" -tiers tiers.conf
says 0 '^ok' -- kprofd -check -target "$node" -tiers tiers.conf -control kprofd.db.sock
kill -TERM "$kprofd"
wait "$kprofd"
kprofd=
says 0 "kprofd: profiling $node \\(OTP [0-9]+\\): 3 functions, entry shop_handler:init/2" \
    'kprofd: writing kprofd.db; first figures in [0-9]+ s. Look: kprof report, kprof top' \
    'kprofd: done: [0-9]+ requests in [0-9]+ s, .*See: kprof report' -- cat kprofd.log
says 0 'GET /articles|GET' 'self' -- kprof report
says 1 "$node" -- kprof status
rm kprofd.db
says 0 -- kprofd -quiet -target="$node" --tiers=tiers.conf --duration=2s
same 'what -quiet prints' "$(cat said)" ''

finish
