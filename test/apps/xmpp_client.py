#!/usr/bin/python3
"""Two XMPP users for ejabberd_tests: they do what users do, at a bounded rate,
and print how many stanzas of each kind they sent, one kind a line: count kind;
and how many of all were for the room."""
import asyncio
import collections
import sys

import slixmpp

HOST, PORT, ROUNDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ROOM = "room@conference." + HOST
BIND = "urn:ietf:params:xml:ns:xmpp-bind"
STATES = "http://jabber.org/protocol/chatstates"
STANZAS = ("iq", "message", "presence")
counts = collections.Counter()
received = collections.Counter()


def kind(xml):
    """As a reader of the stream would tell it."""
    name = xml.tag.split("}")[-1]
    how = xml.get("type", {"iq": None, "message": "normal", "presence": "available"}[name])
    children = [child.tag[1:].split("}") for child in xml]
    if name == "iq" and children:
        return " ".join((name, how, children[0][0]))
    if name == "message" and "body" not in [tag for _, tag in children]:
        return " ".join((name, how, "bodiless"))
    return " ".join((name, how))


class User(slixmpp.ClientXMPP):
    def __init__(self, name):
        super().__init__("%s@%s/test" % (name, HOST), "secret")
        for plugin in ("xep_0030", "xep_0045", "xep_0054", "xep_0085", "xep_0199", "xep_0313"):
            self.register_plugin(plugin)
        self.started = loop.create_future()
        self.add_event_handler("session_start", lambda _: self.started.set_result(True))
        self.add_event_handler("failed_all_auth", lambda _: self.started.set_exception(SystemExit("auth")))
        self.add_event_handler("message", self.on_message)
        self.add_event_handler("chatstate_composing", self.on_message)
        self.add_filter("out", self.count)

    def count(self, stanza):
        if getattr(stanza, "name", None) in STANZAS:
            which = kind(stanza.xml)
            if not which.endswith(BIND):
                counts[which] += 1
                counts["room"] += stanza.xml.get("to", "").startswith(ROOM)
        return stanza

    def on_message(self, message):
        received[message["type"]] += 1

    async def begin(self):
        if hasattr(self, "enable_plaintext"):       # slixmpp 1.9 and later
            self.enable_plaintext = True
            self.enable_starttls = self.enable_direct_tls = False
            self["feature_mechanisms"].unencrypted_plain = True
            self.connect("127.0.0.1", PORT)
        else:
            self.connect(("127.0.0.1", PORT), disable_starttls=True)
        await self.started
        self.send_presence()
        await self.get_roster()


async def until(what, test):
    for _ in range(400):
        if test():
            return
        await asyncio.sleep(0.05)
    raise SystemExit("waited in vain: " + what)


async def main():
    ann, bob = User("ann"), User("bob")
    await ann.begin()
    await bob.begin()
    await ann["xep_0030"].get_info(jid=HOST)
    await ann["xep_0030"].get_items(jid=HOST)
    await ann["xep_0054"].publish_vcard(vcard=ann["xep_0054"].make_vcard())
    for user, nick in ((ann, "ann"), (bob, "bob")):
        user["xep_0045"].join_muc(ROOM, nick)
        await asyncio.sleep(0.3)
    for n in range(ROUNDS):
        ann.send_message(mto=bob.boundjid, mbody="hello %d" % n, mtype="chat")
        typing = bob.make_message(mto=ann.boundjid, mtype="chat")
        typing["chat_state"] = "composing"
        typing.send()
        await ann["xep_0199"].send_ping(HOST)
        if n % 3 == 0:
            bob.send_message(mto=ROOM, mbody="all %d" % n, mtype="groupchat")
            bob.send_presence(pshow="away" if n % 2 else None)
        if n % 10 == 0:
            ann.send_message(mto="cyd@" + HOST, mbody="later", mtype="chat")
            await ann["xep_0054"].get_vcard(jid="%s@%s" % ("ann", HOST))
            await bob["xep_0199"].send_ping(ann.boundjid)
        await asyncio.sleep(0.01)
    thirds = (ROUNDS + 2) // 3
    await until("groupchat", lambda: received["groupchat"] >= 2 * thirds)
    await until("chat", lambda: received["chat"] >= 2 * ROUNDS)
    await ann["xep_0313"].retrieve(iterator=False, rsm={"max": 20})
    try:
        iq = ann.make_iq_get(queryxmlns="urn:nobody:knows", ito=HOST)
        await iq.send()
    except slixmpp.exceptions.IqError:
        pass
    for user in (ann, bob):
        user.send_presence(ptype="unavailable")
    await ann["xep_0199"].send_ping(HOST)
    await bob["xep_0199"].send_ping(HOST)
    for user in (ann, bob):
        await user.disconnect()
    for which, n in sorted(counts.items()):
        print(n, which)


loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
loop.run_until_complete(main())
