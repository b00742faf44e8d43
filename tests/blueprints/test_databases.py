"""The blueprints of databases restore all rows, with real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kanister_py.testing import Stage
from tests.blueprints.servers import PASSWORD, Server, program
from tests.ports import free_port

ROWS = 2000


def test_restore_of_postgresql_has_all_rows(
    blueprint_stage: Stage, blueprints: Path, postgresql: Server, tmp_path: Path
) -> None:
    postgresql.ask(
        f"""
        CREATE TYPE mood AS ENUM ('fine', 'so so');
        CREATE TABLE customers (
            id bigserial PRIMARY KEY, name text NOT NULL, note text, photo bytea,
            settings jsonb, born timestamptz, mood mood, tags text[]);
        CREATE TABLE orders (id serial PRIMARY KEY, customer bigint REFERENCES customers,
            amount numeric(12, 4) CHECK (amount >= 0));
        CREATE VIEW spent AS SELECT customer, sum(amount) FROM orders GROUP BY customer;
        INSERT INTO customers (name, note, photo, settings, born, mood, tags)
            SELECT 'Zoë "' || n || E'"\\t\\\\', CASE WHEN n % 3 > 0 THEN E'a\\nb''' || n END,
                decode(md5(n::text), 'hex'), jsonb_build_object('n', n, 'deep', ARRAY[n, NULL]),
                timestamptz '2020-02-29 23:59:59.123456+01' + n * interval '1 hour 1 microsecond',
                CASE n % 2 WHEN 0 THEN 'fine' ELSE 'so so' END::mood, ARRAY['x', n::text, NULL]
            FROM generate_series(1, {ROWS}) n;
        INSERT INTO orders (customer, amount)
            SELECT 1 + n % {ROWS}, n / 7.0 FROM generate_series(1, {ROWS} * 2) n;
        """
    )
    everything = (
        "COPY (SELECT * FROM customers ORDER BY id) TO STDOUT;"
        "COPY (SELECT * FROM orders ORDER BY id) TO STDOUT;"
        "COPY (SELECT * FROM spent ORDER BY customer) TO STDOUT;"
        "SELECT last_value, is_called FROM customers_id_seq;"
    )
    before = postgresql.ask(everything)
    assert len(before.splitlines()) == ROWS * 4 + 1

    stage = blueprint_stage.use_processes(locations=tmp_path / "stores").given(
        blueprints / "postgresql/objects.yaml"
    )
    options = {"host": "127.0.0.1", "port": str(postgresql.port), "database": "app"}
    blueprint = blueprints / "postgresql/blueprint.yaml"
    action: dict[str, Any] = {
        "object": "StatefulSet/shop/db",
        "profile": "shop/backups",
        "options": options,
    }
    backup = stage.run(blueprint, "backup", **action)
    assert backup.is_complete, backup.error

    postgresql.ask(
        "DROP VIEW spent; DROP TABLE orders; DELETE FROM customers WHERE id % 2 = 0;"
        "UPDATE customers SET note = 'wrong'; CREATE TABLE later (id int);"
    )
    restore = stage.run(blueprint, "restore", artifacts=backup.artifacts, **action)
    assert restore.is_complete, restore.error
    assert postgresql.ask(everything) == before
    # The sequence continues after the restore.
    new = "INSERT INTO customers (name) VALUES ('next') RETURNING id"
    assert postgresql.ask(new).strip() == str(ROWS + 1)

    delete: dict[str, Any] = {"object": "Namespace/shop", "profile": "shop/backups"}
    deleted = stage.run(blueprint, "delete", artifacts=backup.artifacts, **delete)
    assert deleted.is_complete, deleted.error
    again = stage.run(blueprint, "restore", artifacts=backup.artifacts, **action)
    assert again.reason == "CommandFailed"
    # A dump that cannot be restored does not change the database.
    assert postgresql.ask("SELECT count(*) FROM customers").strip() == str(ROWS + 1)


def test_missing_database_fails_the_backup(
    blueprint_stage: Stage, blueprints: Path, postgresql: Server, tmp_path: Path
) -> None:
    stage = blueprint_stage.use_processes(locations=tmp_path / "stores").given(
        blueprints / "postgresql/objects.yaml"
    )
    backup = stage.run(
        blueprints / "postgresql/blueprint.yaml",
        "backup",
        object="StatefulSet/shop/db",
        profile="shop/backups",
        options={"host": "127.0.0.1", "port": str(postgresql.port), "database": "missing"},
    )
    assert backup.reason == "CommandFailed"
    assert 'database "missing" does not exist' in "\n".join(backup.log)
    assert backup.artifacts == {}


def test_restore_of_mariadb_has_all_rows(
    blueprint_stage: Stage, blueprints: Path, mariadb: Server, tmp_path: Path
) -> None:
    mariadb.ask(
        f"""
        CREATE TABLE customers (id bigint AUTO_INCREMENT PRIMARY KEY, name varchar(80) NOT NULL,
            note text, photo varbinary(40), born datetime(6)) CHARACTER SET utf8mb4;
        CREATE TABLE orders (id int AUTO_INCREMENT PRIMARY KEY, customer bigint,
            amount decimal(12, 4), FOREIGN KEY (customer) REFERENCES customers (id));
        INSERT INTO customers (name, note, photo, born)
            SELECT concat('Zoë "', seq, '"\\t\\\\'), if(seq % 3, concat('a\\nb''', seq), NULL),
                unhex(md5(seq)), timestamp '2020-02-29 23:59:59.123456' + INTERVAL seq HOUR
            FROM seq_1_to_{ROWS};
        INSERT INTO orders (customer, amount)
            SELECT 1 + seq % {ROWS}, seq / 7 FROM seq_1_to_{ROWS * 2};
        """
    )
    everything = (
        "SELECT id, name, note, hex(photo), born FROM customers ORDER BY id;"
        "SELECT * FROM orders ORDER BY id;"
    )
    before = mariadb.ask(everything)
    assert len(before.splitlines()) == ROWS * 3

    stage = blueprint_stage.use_processes(locations=tmp_path / "stores").given(
        blueprints / "mariadb/objects.yaml"
    )
    options = {"host": "127.0.0.1", "port": str(mariadb.port), "database": "app"}
    blueprint = blueprints / "mariadb/blueprint.yaml"
    action: dict[str, Any] = {
        "object": "StatefulSet/shop/db",
        "profile": "shop/backups",
        "options": options,
    }
    backup = stage.run(blueprint, "backup", **action)
    assert backup.is_complete, backup.error
    mariadb.ask("DROP TABLE orders; DELETE FROM customers WHERE id % 2 = 0;")
    restore = stage.run(blueprint, "restore", artifacts=backup.artifacts, **action)
    assert restore.is_complete, restore.error
    assert mariadb.ask(everything) == before


# All keys with their values, of any type, and their expiry.
EVERYTHING = """
local found = redis.call('KEYS', '*')
table.sort(found)
local told = {}
for _, key in ipairs(found) do
  local kind = redis.call('TYPE', key).ok
  local value
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then value = redis.call('XRANGE', key, '-', '+')
  elseif kind == 'set' then value = redis.call('SORT', key, 'ALPHA')
  else
    value = {}
    local fields = redis.call('HKEYS', key)
    table.sort(fields)
    for _, each in ipairs(fields) do
      table.insert(value, each)
      table.insert(value, redis.call('HGET', key, each))
    end
  end
  table.insert(told, {key, kind, redis.call('PEXPIRETIME', key), value})
end
return told
"""
FILL = f"""
for n = 1, {ROWS} do
  redis.call('SET', 'text:' .. n, 'Zo\\xc3\\xab \\r\\n\\0' .. n)
  redis.call('HSET', 'hash:' .. n % 50, 'field' .. n, n * 1.5)
  redis.call('RPUSH', 'list', n)
  redis.call('SADD', 'set', n % 700, 'text' .. n % 300)
  redis.call('ZADD', 'ranks', n / 7, 'who' .. n)
  redis.call('XADD', 'stream', n .. '-1', 'n', n)
end
redis.call('SET', 'ends', 'some day', 'PXAT', '4102444800123')
"""


@pytest.mark.usefixtures("mounts")
def test_restore_of_redis_has_all_keys(
    blueprint_stage: Stage, blueprints: Path, tmp_path: Path
) -> None:
    program("redis-server", "redis-server")
    client = program("redis-cli", "redis-tools")
    port = free_port()
    manifests = (blueprints / "redis/objects.yaml").read_text().replace("6379", str(port))
    stage = blueprint_stage.use_processes(locations=tmp_path / "stores").given_text(manifests)
    stage.stand()
    words = [client, "-h", "127.0.0.1", "-p", str(port), "--no-raw", "EVAL"]
    env = {"REDISCLI_AUTH": PASSWORD}

    def evaluate(script: str) -> str:
        return Server(port, [*words, script, "0"], env).ask("")

    evaluate(FILL)
    before = evaluate(EVERYTHING)
    assert before.count("text:") == ROWS

    blueprint = blueprints / "redis/blueprint.yaml"
    action: dict[str, Any] = {"object": "StatefulSet/shop/cache", "profile": "shop/backups"}
    backup = stage.run(blueprint, "backup", options={"port": str(port)}, **action)
    assert backup.is_complete, backup.error
    evaluate("redis.call('FLUSHALL'); redis.call('SET', 'wrong', 'one')")
    assert evaluate(EVERYTHING) != before
    restore = stage.run(blueprint, "restore", artifacts=backup.artifacts, **action)
    assert restore.is_complete, restore.error
    assert evaluate(EVERYTHING) == before

    # A missing dump changes nothing, and the server runs again.
    gone = {"dump": {"keyValue": {"path": "redis/gone.rdb"}}}
    failed = stage.run(blueprint, "restore", artifacts=gone, **action)
    assert (failed.state, failed.reason) == ("failed", "CommandFailed")
    assert evaluate(EVERYTHING) == before
