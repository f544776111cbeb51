#!/usr/bin/python3
"""An AMQP client for rabbitmq_tests: works for some rounds, at a bounded rate
or ("flood") as fast as it can, and prints how often it asked for what, and how
many messages it got: name=count."""
import collections
import sys
import time

import pika

PORT, ROUNDS, FLOOD = int(sys.argv[1]), int(sys.argv[2]), "flood" in sys.argv
ROUND_S = 0.03      # at least, of some 15 methods and deliveries
USER = "guest"
counts = collections.Counter()


def connect():
    return pika.BlockingConnection(pika.ConnectionParameters(
        "127.0.0.1", PORT, "/", pika.PlainCredentials(USER, USER)))


def channel(connection):
    counts["channel.open"] += 1
    return connection.channel()


def publish(ch, exchange, key, body, mode):
    counts["basic.publish"] += 1
    ch.basic_publish(exchange, key, body, pika.BasicProperties(delivery_mode=mode))


def declare(ch, queue, **how):
    counts["queue.declare"] += 1
    ch.queue_declare(queue, **how)


def on_message(ch, method, properties, body):
    counts["basic.deliver"] += 1
    if body.startswith(b"no"):
        counts["basic.reject"] += 1
        ch.basic_reject(method.delivery_tag, requeue=False)
    else:
        counts["basic.ack"] += 1
        ch.basic_ack(method.delivery_tag)


def consume(ch, queue):
    counts["basic.qos"] += 1
    ch.basic_qos(prefetch_count=20)
    counts["basic.consume"] += 1
    return ch.basic_consume(queue, on_message)


def get(ch, queue):
    counts["basic.get"] += 1
    method, _, _ = ch.basic_get(queue)
    if method is None:
        counts["get_empty"] += 1
    else:
        counts["basic.ack"] += 1
        ch.basic_ack(method.delivery_tag)


def main():
    consumer = connect()
    producer = connect()
    out, inn = channel(producer), channel(consumer)
    counts["exchange.declare"] += 1
    out.exchange_declare("apps.topic", "topic")
    declare(out, "apps.classic")
    declare(out, "apps.durable", durable=True)
    declare(out, "apps.pull")
    declare(out, "apps.quorum", durable=True, arguments={"x-queue-type": "quorum"})
    for key in ("a.#", "b.*"):
        counts["queue.bind"] += 1
        out.queue_bind("apps.classic", "apps.topic", key)
    tag = consume(inn, "apps.classic")
    consume(inn, "apps.durable")
    consume(inn, "apps.quorum")
    small, large = b"x" * 100, b"y" * 20000
    for n in range(ROUNDS):
        end = time.monotonic() + (0 if FLOOD else ROUND_S)
        publish(out, "apps.topic", "a.b.c", small, 1)
        publish(out, "apps.topic", "b.x", b"no thanks", 1)
        publish(out, "apps.topic", "nobody", small, 1)
        publish(out, "", "apps.durable", large if n % 10 == 0 else small, 2)
        publish(out, "", "apps.pull", small, 1)
        if n % 4 == 0:
            publish(out, "", "apps.quorum", small, 2)
        get(out, "apps.pull")
        get(out, "apps.pull")
        consumer.process_data_events(0)
        while time.monotonic() < end:
            consumer.process_data_events(end - time.monotonic())
        producer.process_data_events(0)
    wanted = 3 * ROUNDS + (ROUNDS + 3) // 4
    deadline = time.monotonic() + 20
    while counts["basic.deliver"] < wanted and time.monotonic() < deadline:
        consumer.process_data_events(0.05)
    # With confirms: each publish waits for its own.
    confirmed = channel(producer)
    counts["confirm.select"] += 1
    confirmed.confirm_delivery()
    for n in range(20):
        publish(confirmed, "", "apps.pull", small, 2)
        time.sleep(0.005)
    counts["queue.purge"] += 1
    out.queue_purge("apps.pull")
    counts["basic.cancel"] += 1
    inn.basic_cancel(tag)
    for queue in ("apps.classic", "apps.durable", "apps.pull", "apps.quorum"):
        counts["queue.delete"] += 1
        out.queue_delete(queue)
    # The broker says that the queues' consumers are gone; until it is heard,
    # closing would cancel them.
    while inn.consumer_tags and time.monotonic() < deadline + 20:
        consumer.process_data_events(0.05)
    counts["exchange.delete"] += 1
    out.exchange_delete("apps.topic")
    for ch in (confirmed, out, inn):
        counts["channel.close"] += 1
        ch.close()
    producer.close()
    consumer.close()
    print(" ".join("%s=%d" % item for item in sorted(counts.items())))


main()
