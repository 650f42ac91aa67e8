"""A shop in Python whose orders are rows of its own, each with its receipt in one commit (docs/sql.md).

DATABASE is its address, as a role that may call the two functions and write its table, and nothing else. What it saw is printed as
one JSON document, for the test that started it.
"""

import importlib.util
import json
import os
import pathlib
import sys
import threading

import psycopg

# The client's file, taken alone: a service that writes its own SQL needs nothing else of it.
HELPER = pathlib.Path(__file__).parents[2] / "clients/python/src/onceward/fingerprint.py"
SPEC = importlib.util.spec_from_file_location("onceward_fingerprint", HELPER)
onceward_fingerprint = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = onceward_fingerprint
SPEC.loader.exec_module(onceward_fingerprint)

DATABASE = os.environ["DATABASE"]
KEY_ID, KEY = 7, bytes(range(32))
BEGIN = "SELECT * FROM onceward.begin_operation('acme', %s, 'shop-python', 'create_order', %s, %s, %s, %s)"
FINISH = "SELECT onceward.finish_operation('acme', %s, %s, %s)"


def connect():
    return psycopg.connect(DATABASE, row_factory=psycopg.rows.dict_row)


def begin(connection, operation, arguments, version="1", fingerprint=None, key_id=0):
    given = (operation, version, json.dumps(arguments), fingerprint, key_id)
    return connection.execute(BEGIN, given).fetchone()


def order(connection, operation, item, **how):
    """One order, in the transaction that is open on this connection. The caller commits."""
    told = begin(connection, operation, {"item": item}, **how)
    if told["verdict"] != "run":
        return told
    sql = "INSERT INTO orders (operation, item) VALUES (%s, %s) RETURNING id"
    number = connection.execute(sql, (operation, item)).fetchone()["id"]
    answer = json.dumps({"order": str(number)})
    connection.execute(FINISH, (operation, f"O-{number}", answer))
    return {**told, "answer": answer}


def orders(operation):
    with connect() as connection:
        return connection.execute("SELECT count(*) AS n FROM orders WHERE operation = %s", (operation,)).fetchone()["n"]


def lost_reply(rounds=20):
    """COMMIT is sent, and nobody waits for its answer. Whoever repeats the call never makes a second order."""
    verdicts = []
    for number in range(rounds):
        operation = f"py-lost-{number}"
        connection = connect()
        order(connection, operation, "printer")
        connection.pgconn.send_query(b"COMMIT")
        connection.pgconn.flush()
        connection.close()
        with connect() as connection:
            first = order(connection, operation, "printer")
        with connect() as connection:
            second = order(connection, operation, "printer")
        assert second["verdict"] == "replay" and second["answer"] == first["answer"], (first, second)
        assert orders(operation) == 1
        verdicts.append(first["verdict"])
    return verdicts


def known_reply():
    """The commit is answered, and the caller's process dies before it says so."""
    with connect() as connection:
        first = order(connection, "py-known", "printer")
    with connect() as connection:
        again = order(connection, "py-known", "printer")
    return [first["verdict"], again["verdict"], first["answer"] == again["answer"], orders("py-known")]


def rollback_after_our_answer():
    connection = connect()
    first = order(connection, "py-rolled", "printer")
    connection.rollback()
    connection.close()
    left = orders("py-rolled")
    with connect() as connection:
        second = order(connection, "py-rolled", "printer")
    return [first["verdict"], left, second["verdict"], orders("py-rolled")]


def conflict():
    with connect() as connection:
        order(connection, "py-conflict", "printer")
    with connect() as connection:
        return [order(connection, "py-conflict", "scanner")["verdict"], orders("py-conflict")]


def another_version():
    """The tool has a new version since: the call is compared as the operation was made."""
    with connect() as connection:
        order(connection, "py-version", "printer", version="1")
    with connect() as connection:
        told = order(connection, "py-version", "printer", version="2")
        again = order(connection, "py-version", "printer", version=told["made_with_version"])
    return [told["verdict"], told["made_with_version"], again["verdict"]]


def under_a_key():
    made = bytes.fromhex(onceward_fingerprint.fingerprint("create_order", "1", {"item": "printer"}, key=KEY))
    how = {"fingerprint": made, "key_id": KEY_ID}
    with connect() as connection:
        first = order(connection, "py-keyed", "printer", **how)
    with connect() as connection:
        again = order(connection, "py-keyed", "printer", **how)
        without = order(connection, "py-keyed", "printer")
    return [first["verdict"], again["verdict"], without["verdict"], without["made_with_key"]]


def a_helper_that_is_wrong():
    with connect() as connection:
        try:
            begin(connection, "py-wrong", {"item": "printer"}, fingerprint=bytes(32))
        except psycopg.errors.InvalidParameterValue as error:
            return str(error).splitlines()[0]
        finally:
            connection.rollback()
    return "it was taken"


def concurrency(callers=16):
    together = threading.Barrier(callers)
    told = []

    def call():
        with connect() as connection:
            together.wait()
            told.append(order(connection, "py-together", "printer"))

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdicts = sorted(one["verdict"] for one in told)
    return [verdicts.count("run"), verdicts.count("replay"), len({one["answer"] for one in told}), orders("py-together")]


def unfinished():
    connection = connect()
    told = begin(connection, "py-unfinished", {"item": "printer"})
    connection.execute("INSERT INTO orders (operation, item) VALUES ('py-unfinished', 'printer')")
    try:
        connection.commit()
        said = "committed"
    except psycopg.errors.IntegrityConstraintViolation as error:
        said = str(error).splitlines()[0]
    connection.close()
    with connect() as connection:
        again = order(connection, "py-unfinished", "printer")
    return [told["verdict"], said, again["verdict"], orders("py-unfinished")]


def main():
    print(
        json.dumps(
            {
                "lost_reply": lost_reply(),
                "known_reply": known_reply(),
                "rollback": rollback_after_our_answer(),
                "conflict": conflict(),
                "version": another_version(),
                "keyed": under_a_key(),
                "wrong": a_helper_that_is_wrong(),
                "concurrency": concurrency(),
                "unfinished": unfinished(),
            }
        )
    )


if __name__ == "__main__":
    main()
